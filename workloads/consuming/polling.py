"""The common parts of consumers: polling, and reading to the end when they are asked to stop."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from ackproof.workloads.consuming.consumption import ConsumptionRecorder, ConsumptionTables
from ackproof.workloads.interface import CATCH_UP_S
from ackproof.workloads.polled import NOTHING, Polled, polled
from ackproof.workloads.process import ClientFailed, ProgressFile, note_error
from ackproof.workloads.spec import Config, ConsumerSpec, SpecificationError

# --- positions ------------------------------------------------------------------------------------


class Positions:
    """Offsets by partition, for the partitions that the consumer has.

    Each is the next offset: that of the last record plus one.
    """

    def __init__(self) -> None:
        self._reached: dict[int, int] = {}
        self._shown: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._has: set[int] = set()

    @property
    def partitions(self) -> frozenset[int]:
        """The partitions that the consumer has."""
        return frozenset(self._has)

    def begin(self, partition: int, offset: int | None) -> None:
        """Begin a partition at this offset; None stands for an unknown one."""
        self.forget([partition])
        self._has.add(partition)
        if offset is not None:
            self._reached[partition] = offset

    def forget(self, partitions: Iterable[int]) -> None:
        """Forget partitions that were taken away."""
        for partition in partitions:
            self._has.discard(partition)
            for offsets in (self._reached, self._shown, self._committed):
                offsets.pop(partition, None)

    def shown(self, last: Mapping[int, int]) -> None:
        """Note that records were shown, up to the one at this offset of each partition.

        A record of a partition that was taken away during the same poll says nothing of this
        consumer's position. Committing it would set back the member that has the partition now.
        """
        for partition in last.keys() & self._has:
            self._shown[partition] = self._reached[partition] = last[partition] + 1

    def ended(self, partition: int, offset: int) -> None:
        """Note that there is nothing at ``offset`` and behind it."""
        if partition in self._has:
            self._reached[partition] = offset

    def reached(self, partition: int) -> int | None:
        """Return the offset that is due next, or None where it is unknown."""
        return self._reached.get(partition)

    def have_reached(self, ends: Mapping[int, int]) -> bool:
        """Return whether each partition is read to its end, of which all must be known."""
        return all(
            p in ends and p in self._reached and self._reached[p] >= ends[p] for p in self._has
        )

    def uncommitted(self) -> Mapping[int, int]:
        """Return what was shown and is not known to be committed."""
        return {p: o for p, o in self._shown.items() if self._committed.get(p) != o}

    def committed(self, partition: int, offset: int) -> None:
        """Note that the offset is committed."""
        if partition in self._has:
            self._committed[partition] = offset


# --- polling --------------------------------------------------------------------------------------

BATCH = 500
BATCH_OF_ARRAYS = 8_000
"""The size of a batch where messages come as arrays: the other costs of a poll are then
negligible."""
WAIT_SECONDS = 0.1
"""The time after which a poll returns without a full batch, in seconds."""
ASK_S = 1.0
"""The time limit of one question, in seconds; the next poll waits for the answer."""
LEAVE_S = 5.0
"""The time limit of a member for its callbacks before it closes, in seconds."""

Keep = Callable[[], None]
Consume = Callable[[], Polled]
"""A function that takes what is there, or has come within :data:`WAIT_SECONDS`."""
Bounds = Callable[[int], tuple[int, int] | None]
"""A function that returns log start and high watermark of a partition, or None where they are
unknown."""

_OUT_OF_RANGE = frozenset({"_AUTO_OFFSET_RESET", "_LOG_TRUNCATION", "OFFSET_OUT_OF_RANGE"})
"""The errors of an offset that is out of range.

With ``auto.offset.reset=error`` librdkafka gives the first of these for all of them, and fetches no
more of the partition (``rd_kafka_offset_reset``).
"""


class Poller:
    """A poller of a consumer that records what it is shown.

    Errors from which the client library recovers by itself go to the log.
    """

    def __init__(
        self, consume: Consume, recorder: ConsumptionRecorder, positions: Positions
    ) -> None:
        self._consume = consume
        self._recorder = recorder
        self._positions = positions

    def poll(self) -> Sequence[int]:
        """Take what is there, and return the partitions that are out of range.

        No more records come from such a partition. Raise ClientFailed after a fatal error, once
        everything that came with it is recorded.
        """
        polled = self._consume()
        records = polled.records
        self._recorder.shown(records)
        out_of_range, fatal, begin = [], None, 0
        for failure in polled.failures:
            error = failure.error
            if error.code() == KafkaError._PARTITION_EOF:
                self._positions.shown(records.last(begin, failure.behind))
                begin = failure.behind
                self._positions.ended(failure.partition, failure.offset)
            elif error.name() in _OUT_OF_RANGE:
                out_of_range.append(failure.partition)
            else:
                note_error(error)
                fatal = error if is_fatal(error) else fatal
        self._positions.shown(records.last(begin, len(records)))
        if fatal is not None:
            raise ClientFailed(f"the consumer failed for good: {fatal.str()}")
        return out_of_range


def consume(consumer: Consumer) -> Polled:
    """Return what a consumer of confluent-kafka returns.

    A fatal error is raised here, or comes as a message, whichever is first.
    """
    try:
        messages = consumer.consume(BATCH, WAIT_SECONDS)
    except KafkaException as refusal:
        error = refusal.args[0]
        if is_fatal(error):
            raise ClientFailed(f"the consumer failed for good: {error.str()}") from None
        note_error(error)
        return NOTHING
    return polled(messages, time.time_ns())


def watermarks(consumer: Consumer, topic: str, partition: int) -> tuple[int, int] | None:
    """Return log start and high watermark, or None without an answer within :data:`ASK_S`.

    Only the thread that polls may call it (see :mod:`workloads.consuming.commits`).
    """
    try:
        bounds: tuple[int, int] | None = consumer.get_watermark_offsets(
            TopicPartition(topic, partition), timeout=ASK_S, cached=False
        )
    except KafkaException as refusal:
        note_error(refusal.args[0])
        return None
    return bounds


class CatchUp:
    """The check whether a consumer that was asked to stop has read to the end of what it has.

    It reads to the high watermarks, asked for once from that moment on, or for :data:`CATCH_UP_S`.
    The check ends nothing by itself: what a member of a group has may change while it catches up.
    """

    def __init__(self, bounds: Bounds, positions: Positions) -> None:
        self._bounds = bounds
        self._positions = positions
        self._deadline = time.monotonic() + CATCH_UP_S
        self._ends: dict[int, int] = {}

    def done(self, settled: bool = True) -> bool:
        """Return whether the consumer has caught up.

        ``settled`` says whether its partitions are known and it has nothing else left to do.
        """
        for partition in self._positions.partitions - self._ends.keys():
            if self._is_late():
                break
            bounds = self._bounds(partition)
            if bounds is not None:
                self._ends[partition] = bounds[1]
        return self._is_late() or (settled and self._positions.have_reached(self._ends))

    def _is_late(self) -> bool:
        return time.monotonic() >= self._deadline


def leave(consumer: Consumer, *, is_static: bool) -> None:
    """Leave the group and close the consumer; records that were not polled before are passed over.

    No callback of a rebalance may be waiting when the consumer is closed. librdkafka (2.16) then
    leaves at once, so that its last commit is refused. It ends the group without the callback. The
    callback runs afterwards and waits for ever for an answer, with Python's lock held
    (confluentinc/librdkafka#4884). Two members that stop at the same time are enough: the first one
    to leave makes a rebalance for the other.

    So the callbacks are served first, for up to :data:`LEAVE_S`. Static members only close,
    because they must not leave (KIP-345). A rebalance that begins at that moment still hangs them.
    """
    with suppress(KafkaException):
        consumer.pause(consumer.assignment())
        consumer.consume(BATCH, 0)
        if not is_static:
            consumer.unsubscribe()  # postponed if a rebalance has just begun
            deadline = time.monotonic() + LEAVE_S
            while consumer.assignment() and time.monotonic() < deadline:
                consumer.consume(BATCH, WAIT_SECONDS)
    consumer.close()


@contextmanager
def recording(spec: ConsumerSpec) -> Iterator[tuple[ConsumptionRecorder, Keep]]:
    """Yield a consumer's recorder, and a function that flushes its history and rewrites its
    progress file.

    Call the function several times a second. Both are closed at the end, whatever ended it.
    """
    tables = ConsumptionTables(spec)
    recorder = ConsumptionRecorder(spec, tables, time.time_ns)
    progress = ProgressFile(spec.progress)

    def keep() -> None:
        now = time.monotonic()
        tables.flush_due(now)
        if progress.due(now):
            progress.write(recorder.figures())

    try:
        yield recorder, keep
    finally:
        tables.close()
        progress.write(recorder.figures())


def consumer_of(properties: Config, callbacks: Mapping[str, object]) -> Consumer:
    """Return the client with its ``callbacks``.

    Raise SpecificationError for properties that librdkafka does not take.
    """
    try:
        return Consumer({**properties, **callbacks, "error_cb": note_error})
    except KafkaException as error:
        raise SpecificationError(f"librdkafka refuses: {error.args[0].str()}") from None


def is_fatal(error: KafkaError) -> bool:
    """Return whether an error is fatal; as a message, such an error is _FATAL, which does not call
    itself fatal."""
    return bool(error.fatal() or error.code() == KafkaError._FATAL)
