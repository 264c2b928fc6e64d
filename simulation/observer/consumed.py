"""What consumers and producers are told while all goes on, held against what is committed."""

from collections.abc import Callable

from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.batch import RecordBatch
from simulation.observer.history import Sent
from simulation.observer.observer import Observer
from simulation.partition.invariants import Partition
from simulation.partition.shadow import Extent
from simulation.violation import Violation


class Consumed:
    """Judges each answer when it has come.

    * **ReadIsCommitted**: a consumer sees nothing but what is committed, and that stays.
    * **EndNeverBack**: a consumer that asks for the end is told none that lies before what has been
      read (KIP-207).
    * **IdsAreNew**: a producer's id is nobody else's, ever: two with one would shut each other out,
      or have what they send taken for the other's repetition (KIP-98).
    * **SequenceKept**: a producer whose batches were acked is not told that one is missing.

    Args:
        fail: ends the run with this violation.
    """

    def __init__(self, observer: Observer, fail: Callable[[BaseException], None]) -> None:
        self._observer = observer
        self._fail = fail
        self._ids: set[int] = set()

    def given(self, producer: int) -> None:
        """A producer was given this id."""
        if producer in self._ids:
            self._fail(Violation("IdsAreNew", f"producer id {producer} is given to a second one"))
        self._ids.add(producer)

    def read(self, tp: TopicPartition, batch: RecordBatch) -> None:
        """A consumer was given this batch."""
        partition = self._promised(tp)
        if partition is None:
            return
        read = Extent.of(batch)
        right = partition.committed.get(read.base)
        if read.base >= partition.given_up and right != read:
            self._fail(Violation("ReadIsCommitted", f"{tp}: {read} was read, committed is {right}"))
        partition.read_end = max(partition.read_end, read.next)

    def read_end(self, tp: TopicPartition) -> int:
        """Up to where consumers have read; 0 where nothing is promised."""
        partition = self._promised(tp)
        return 0 if partition is None else partition.read_end

    def told_end(
        self, tp: TopicPartition, leader: int, epoch: int, end: int, read_end: int
    ) -> None:
        """``leader`` says that ``tp`` ends there, in that epoch; asked when ``read_end`` was so.
        One that was deposed and has not heard of it may be behind."""
        partition = self._promised(tp)
        if partition is None or not _leads(partition, leader) or end >= read_end:
            return
        assert partition.state is not None
        if partition.state.leader_epoch == epoch:
            what = f"{tp}: consumers have read up to {read_end}, and leader {leader} says {end}"
            self._fail(Violation("EndNeverBack", what))

    def asked(self, sent: Sent) -> None:
        """It is about to be sent to ``sent.asked``."""
        sent.asked_epoch = self._observer.epoch_led_by(sent.asked, sent.tp)

    def sequence_refused(self, sent: Sent) -> None:
        """Of a batch whose producer's batches before were all acked. What was deleted takes with
        it what a log remembers of a producer."""
        partition, epoch = self._promised(sent.tp), sent.asked_epoch
        if partition is None or partition.given_up or epoch is None:
            return
        if self._observer.epoch_led_by(sent.asked, sent.tp) != epoch:
            return
        if self._observer.topics[sent.tp.topic].topic_id == sent.topic_id:
            what = f"{sent.tp}: leader {sent.asked} misses what comes before {sent.sequence}"
            self._fail(Violation("SequenceKept", f"{what} of producer {sent.producer}"))

    def _promised(self, tp: TopicPartition) -> Partition | None:
        """None: nothing is promised, or not all of it any more."""
        partition = self._observer.find(tp)
        if partition is None or partition.unpromised or not partition.checks_data:
            return None
        return partition


def _leads(partition: Partition, broker: int) -> bool:
    return partition.state is not None and partition.state.leader == broker
