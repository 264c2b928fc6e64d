"""Each step of a group is held against what its members may count on, as in the simulator."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ackproof.broker.groups.events import Stored
from ackproof.broker.groups.groups import Groups
from simulation.mutations.swap import Mutation, Swap
from simulation.observer.groups import watch
from simulation.observer.groups.failing_stores import FailingStores
from simulation.observer.groups.imagined import Imagined


@contextmanager
def looked_at() -> Iterator[None]:
    """Within, a step that does what it must not raises Violation."""
    decide, failing_stores, imagined = Groups.step, FailingStores(), Imagined()

    def checked(self: Groups, event: Any) -> Any:
        if isinstance(event, Stored):
            failing_stores.before(self, event)
        known = watch.before(self, event)
        effects = decide(self, event)
        watch.check(self, event, effects, known)
        imagined.after(self, event, decide)
        return effects

    with Mutation(Swap(Groups, "step", checked)).active():
        yield
