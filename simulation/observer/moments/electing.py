"""**OfficeIsKnown**: whoever has tried to be elected controller and holds the office knows that he
does.

The answer to the transaction that elected him may be lost with the connection. Asked again, he
meets his own node: taken for another's, it keeps everybody from the office, himself included, for
as long as his session lasts. Whether that is seen in the end depends on whether another election
comes first.

**ControllersAreRegistered**: whoever takes the office is registered, in the very session that holds
it. One that is not takes itself for dead as soon as it looks, and has its partitions led by others,
or by nobody, until somebody looks again.
"""

from simulation.violation import Violation


def gave_up(broker: int, session: int | None, held_by: int) -> None:
    """In its ``session`` the broker was not elected, as far as it knows; ``held_by`` is the session
    that holds the office. Raises Violation."""
    if session == held_by:
        raise Violation(
            "OfficeIsKnown", f"broker {broker} holds the office, and knows nothing of it"
        )


def took_office(broker: int, session: int, registered_by: int) -> None:
    """The office is held in this ``session``, and the broker's registration in that; 0: it has
    none. Raises Violation."""
    if session != registered_by:
        what = f"broker {broker} takes the office of controller"
        raise Violation("ControllersAreRegistered", f"{what}, and is not registered in its session")
