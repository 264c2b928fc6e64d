"""**OfficeIsKnown**: whoever has tried to be elected controller and holds the office knows that he
does.

The answer to the transaction that elected him may be lost with the connection. Asked again, he
meets his own node: taken for another's, it keeps everybody from the office, himself included, for
as long as his session lasts. Whether that is seen in the end depends on whether another election
comes first.

**RegisteredContest**: whoever contests the office has registered in that session. One that has not
takes itself for dead as soon as it is elected, and its partitions are led by others, or by nobody,
until it looks again. Most register before their election is through; that they did not wait for it
shows when they ask to be elected.
"""

from collections.abc import Container

from simulation.violation import Violation


def gave_up(broker: int, session: int | None, held_by: int) -> None:
    """In its ``session`` the broker was not elected, as far as it knows; ``held_by`` is the session
    that holds the office. Raises Violation."""
    if session == held_by:
        raise Violation(
            "OfficeIsKnown", f"broker {broker} holds the office, and knows nothing of it"
        )


def contests(broker: int, session: int | None, registered_in: Container[int]) -> None:
    """The broker is about to, in this ``session``; ``registered_in`` are those in which brokers
    ever registered. Raises Violation."""
    if session is not None and session not in registered_in:
        what = f"broker {broker} contests the office of controller"
        raise Violation("RegisteredContest", f"{what}, and is not registered in its session")
