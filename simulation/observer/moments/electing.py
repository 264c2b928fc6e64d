"""**OfficeIsKnown**: whoever has tried to be elected controller and holds the office knows that he
does.

The answer to the transaction that elected him may be lost with the connection. Asked again, he
meets his own node: taken for another's, it keeps everybody from the office, himself included, for
as long as his session lasts. Whether that is seen in the end depends on whether another election
comes first.
"""

from simulation.violation import Violation


def gave_up(broker: int, session: int | None, held_by: int) -> None:
    """In its ``session`` the broker was not elected, as far as it knows; ``held_by`` is the session
    that holds the office. Raises Violation."""
    if session == held_by:
        raise Violation(
            "OfficeIsKnown", f"broker {broker} holds the office, and knows nothing of it"
        )
