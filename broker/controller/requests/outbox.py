"""Effects of one step, in their order."""

from collections.abc import Callable, Iterable
from functools import partial

from ackproof.broker.controller.context import Context
from ackproof.broker.controller.events import Effect, Failed, StateWrite, WriteStates
from ackproof.broker.controller.requests.request_batch import RequestBatch
from ackproof.broker.types import BrokerId, TopicPartition


class Outbox:
    """Collects effects; requests to brokers are batched until :meth:`flush`."""

    def __init__(self, controller_id: BrokerId, inter_broker_listener: str) -> None:
        self.batch = RequestBatch(controller_id, inter_broker_listener)
        self._effects: list[Effect] = []
        self._writes: list[StateWrite] = []

    def put(self, effect: Effect) -> None:
        """Add an effect."""
        self._effects.append(effect)

    def each(self, tps: Iterable[TopicPartition], action: Callable[[TopicPartition], None]) -> None:
        """``action`` for each of ``tps``, whatever becomes of the others.

        A person writes ``{"0": [1, 1]}`` into a topic's node. If that ended the election in the
        middle, the partitions behind it would get no leader, from this controller and the next.
        """
        for tp in tuple(tps):
            self.attempt(str(tp), partial(action, tp))

    def attempt(self, what: str, action: Callable[[], None]) -> None:
        """``action``, or that it failed."""
        try:
            action()
        except Exception as error:  # noqa: BLE001  reported, with what it was about
            self.put(Failed(what=what, error=error))

    def write(self, write: StateWrite) -> None:
        """Add a state write to the step's :class:`WriteStates`, which comes last."""
        self._writes.append(write)

    def flush(self, context: Context) -> None:
        """Turn what the batch holds into effects: what is put later comes after them."""
        self._effects.extend(self.batch.drain(context))

    def take(self, context: Context) -> tuple[Effect, ...]:
        """All effects of the step; the outbox is empty afterwards."""
        self.flush(context)
        if self._writes:
            self._effects.append(WriteStates(writes=tuple(self._writes)))
        effects = tuple(self._effects)
        self._effects, self._writes = [], []
        return effects
