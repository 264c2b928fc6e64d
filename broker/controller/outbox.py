"""Effects of one step, in their order."""

from broker.controller.context import Context
from broker.controller.events import Effect, StateWrite, WriteStates
from broker.controller.request_batch import RequestBatch
from broker.types import BrokerId


class Outbox:
    """Collects effects; requests to brokers are batched until :meth:`flush`."""

    def __init__(self, controller_id: BrokerId, inter_broker_listener: str) -> None:
        self.batch = RequestBatch(controller_id, inter_broker_listener)
        self._effects: list[Effect] = []
        self._writes: list[StateWrite] = []

    def put(self, effect: Effect) -> None:
        """Add an effect."""
        self._effects.append(effect)

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
