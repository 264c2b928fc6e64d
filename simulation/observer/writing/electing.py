"""**OfficeIsKnown**: whoever has tried to be elected controller and holds the office knows that he
does.

The answer to the transaction that elected him may be lost with the connection. Asked again, he
meets his own node: taken for another's, it keeps everybody from the office, himself included, for
as long as his session lasts. Whether that is seen in the end depends on whether another election
comes first.

**RegisteredContest**: whoever has another session may not contest the office in it before it has
registered. One that has not takes itself for dead as soon as it is elected, and its partitions are
led by others, or by nobody, until it looks again. Mostly it is registered by the time that it is
elected: that it would not have waited for that shows when the session begins.
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


def begins_session(
    broker: int, session: int | None, registered_in: Container[int], *, contests: bool
) -> None:
    """The broker has this ``session`` from now on; ``registered_in`` are those in which brokers
    ever registered. ``contests``: whether it would go on to. Raises Violation."""
    if contests and session not in registered_in:
        what = f"broker {broker} would contest the office of controller"
        raise Violation("RegisteredContest", f"{what}, and is not registered in its new session")
