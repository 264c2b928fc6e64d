"""**LiveAreAsked**: without a controller, each new leadership learns who is live; until it does,
the broker is about to read that, in the session that it has.

Who has not learned it waits for nobody in particular, and so for all of ``KeepInSyncTime`` before
it serves: clients get their answers a little later, as they do when a follower is away.
"""

from weakref import WeakKeyDictionary

from ackproof.broker.coordination.coordinator import Coordinator
from ackproof.broker.coordination.events import (
    BrokersRead,
    Effect,
    Event,
    ReadBrokers,
    SessionStarted,
)
from simulation.violation import Violation


class Asking:
    """All coordinators, each in its session."""

    def __init__(self) -> None:
        self._reading: WeakKeyDictionary[Coordinator, bool] = WeakKeyDictionary()

    def stepped(self, coordinator: Coordinator, event: Event, effects: tuple[Effect, ...]) -> None:
        """Raises Violation."""
        reading = self._reading.get(coordinator, False)
        reading = reading and type(event) not in (BrokersRead, SessionStarted)
        reading = reading or any(type(effect) is ReadBrokers for effect in effects)
        self._reading[coordinator] = reading
        # The printed variant leads on in another session, and asks nobody anew.
        if reading or not coordinator._context.variant.resigns_with_its_session:
            return
        for tp, hosted in coordinator._hosted.items():
            if hosted.leading is not None and hosted.leading._live is None:
                what = f"a leader of {tp} waits to learn who is live"
                raise Violation("LiveAreAsked", f"{what}, and nobody is about to read that")
