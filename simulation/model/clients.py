"""The answers to clients during a run, compared with what is committed.

- **Fetch/uncommitted-record-read**: a consumer reads only records that are committed and stay.
- **ListOffsets/end-went-back**: no consumer gets an end that lies before what has been read
  (KIP-207).
- **ProducerIds/id-given-twice**: no producer id is given twice. Of two producers with one id, each
  would fence the other, or have its batches taken for the other's retries (KIP-98).
"""

from collections.abc import Callable

from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.batch import RecordBatch
from simulation.model.log import BatchExtent
from simulation.model.observer import ClusterObserver
from simulation.model.partition import PartitionModel
from simulation.violation import Violation

Fail = Callable[[BaseException], None]
"""A function that ends the run with a violation."""


class AnswersModel:
    """Judges each answer to producers and consumers when it comes."""

    def __init__(self, observer: ClusterObserver, fail: Fail) -> None:
        self._observer = observer
        self._fail = fail
        self._ids: set[int] = set()

    def id_given(self, producer: int) -> None:
        """Judge an id that a producer was given."""
        if producer in self._ids:
            what = f"producer id {producer} is given twice"
            self._fail(Violation("ProducerIds/id-given-twice", what))
        self._ids.add(producer)

    def read(self, tp: TopicPartition, batch: RecordBatch) -> None:
        """Judge a batch that a consumer has read."""
        partition = self._guaranteed(tp)
        if partition is None:
            return
        read = BatchExtent.of(batch)
        right = partition.committed.get(read.base)
        if read.base >= partition.deleted_below and right != read:
            self._fail(
                Violation(
                    "Fetch/uncommitted-record-read", f"{tp}: {read} was read, committed is {right}"
                )
            )
        partition.read_end = max(partition.read_end, read.next)

    def read_end(self, tp: TopicPartition) -> int:
        """Return the end of what consumers have read; 0 where nothing is guaranteed."""
        partition = self._guaranteed(tp)
        return 0 if partition is None else partition.read_end

    def end_answered(
        self, tp: TopicPartition, leader: int, epoch: int, end: int, read_end: int
    ) -> None:
        """Judge the ``end`` of ``tp`` in a leader's answer, of that epoch.

        ``read_end``: the end of what had been read when the consumer asked. A leader that was
        deposed without its knowledge may be behind.
        """
        partition = self._guaranteed(tp)
        if partition is None or not _leads(partition, leader) or end >= read_end:
            return
        assert partition.state is not None
        if partition.state.leader_epoch == epoch:
            what = f"{tp}: consumers have read up to {read_end}, and leader {leader} says {end}"
            self._fail(Violation("ListOffsets/end-went-back", what))

    def _guaranteed(self, tp: TopicPartition) -> PartitionModel | None:
        """Return the partition, or None if nothing is guaranteed, or not everything any more."""
        partition = self._observer.find(tp)
        if partition is None or partition.ended_guarantees or not partition.checks_data:
            return None
        return partition


def _leads(partition: PartitionModel, broker: int) -> bool:
    return partition.state is not None and partition.state.leader == broker
