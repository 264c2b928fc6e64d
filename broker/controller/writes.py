"""What comes of state writes: they are announced, or decided again where they met a conflict."""

from ackproof.broker.controller.context import Context
from ackproof.broker.controller.events import StatesWritten
from ackproof.broker.controller.partitions import Partitions
from ackproof.broker.controller.reassignment import Reassignments
from ackproof.broker.controller.requests.outbox import Outbox
from ackproof.broker.types import TopicPartition


class Writes:
    """The outcomes of :class:`~broker.controller.events.WriteStates`."""

    def __init__(
        self,
        context: Context,
        outbox: Outbox,
        partitions: Partitions,
        reassignments: Reassignments,
    ) -> None:
        self._context = context
        self._outbox = outbox
        self._partitions = partitions
        self._reassignments = reassignments

    def take(self, event: StatesWritten) -> tuple[TopicPartition, ...]:
        """Take in outcomes; the partitions whose reassignment is thereby done."""
        untold: list[TopicPartition] = []
        moved: list[TopicPartition] = []

        def written(tp: TopicPartition) -> None:
            before = self._context.states.get(tp)
            write = self._partitions.written(tp, event.written[tp])
            if write is None:
                return
            if self._reassignments.finish(tp):
                moved.append(tp)
            if self._partitions.keep_suspects(write):
                untold.append(tp)
            else:
                self._partitions.announce(tp, before)

        def conflict(tp: TopicPartition) -> None:
            if self._partitions.read_again(tp, event.conflicts[tp]):
                untold.append(tp)

        def tell(tp: TopicPartition) -> None:
            if tp in self._context.states and tp not in self._context.writing:
                self._partitions.announce(tp, None)

        self._outbox.each(event.written, written)
        self._outbox.each(event.conflicts, conflict)
        self._partitions.reconsider([*event.written, *untold])
        self._outbox.each(untold, tell)
        return tuple(moved)
