"""What a producer did, as rows of ``sends``.

Owns the sequence numbers, the records that have no outcome yet, and the counts. An ``invoke`` row
is in the writer's memory before the client library sees the record, so that no record can be in
the log without one, short of the process being killed within a second of sending it.
"""

from collections.abc import Callable, Mapping

from history.schema import SendType
from history.writer import PartitionedWriter
from workloads.spec import ProducerSpec

_NS_PER_S = 1_000_000_000
_COUNTED_AS = {SendType.OK: "acked", SendType.FAIL: "failed", SendType.INFO: "indeterminate"}


class SendRecorder:
    """Records the sends of one producer.

    Args:
        clock: Nanoseconds of the Unix epoch.
    """

    def __init__(
        self, spec: ProducerSpec, writer: PartitionedWriter, clock: Callable[[], int]
    ) -> None:
        self._cell = spec.cell
        self._topic = spec.topic
        self._producer = spec.producer
        self._clock = clock
        self._tables = [writer.partition(spec.topic, p) for p in range(spec.partitions)]
        self._unresolved: dict[int, int] = {}
        self._waiting = [0] * spec.partitions
        self._counts = dict.fromkeys(("sent", "sessions_ended", *_COUNTED_AS.values()), 0)
        self._fatal = ""
        self._new: set[int] = set()

    def waiting(self, partition: int) -> int:
        """How many records of a partition have no outcome yet."""
        return self._waiting[partition]

    def is_waiting(self, sequence: int) -> bool:
        """Whether this record was sent, and has no outcome yet."""
        return sequence in self._unresolved

    @property
    def unresolved(self) -> int:
        """How many records have no outcome yet."""
        return len(self._unresolved)

    def begin_session(self, number: int, why: str) -> None:
        """From now on records are those of another session, of that ``number``. ``why``: the fatal
        error that ended the one before."""
        self._producer = number
        self._counts["sessions_ended"] += 1
        self._fatal = why
        self._new = set(range(len(self._tables)))

    def invoke(self, partition: int, late_s: float | None = None) -> int:
        """A record is about to be handed to the client library; its sequence number. ``late_s``:
        how many seconds ago it was due, None for one that no schedule had."""
        sequence = self._counts["sent"]
        self._counts["sent"] += 1
        self._unresolved[sequence] = partition
        self._waiting[partition] += 1
        now = self._clock()
        due = None if late_s is None else now - round(late_s * _NS_PER_S)
        self._append(partition, sequence, SendType.INVOKE, now, None, None, due)
        if partition in self._new:
            # Killed within a second of it, the producer would leave records of a session of which
            # no row tells, and the checkers take those for phantoms.
            self._new.remove(partition)
            self._tables[partition].flush()
        return sequence

    def resolve(
        self, sequence: int, outcome: SendType, *, offset: int | None, error: str | None
    ) -> None:
        """The outcome of a record; a second one is not recorded."""
        partition = self._unresolved.pop(sequence, None)
        if partition is None:
            return
        self._waiting[partition] -= 1
        self._counts[_COUNTED_AS[outcome]] += 1
        self._append(partition, sequence, outcome, self._clock(), offset, error, None)

    def abandon(self, error: str) -> None:
        """Make every record without an outcome an ``info``."""
        for sequence in tuple(self._unresolved):
            self.resolve(sequence, SendType.INFO, offset=None, error=error)

    @property
    def fatal(self) -> str:
        """The error that ended the last of its sessions that have ended; empty for none."""
        return self._fatal

    def figures(self) -> Mapping[str, int]:
        """For the progress file: ``sent``, ``acked``, ``failed``, ``indeterminate`` and
        ``sessions_ended`` so far, and ``time`` in nanoseconds of the Unix epoch."""
        return {**self._counts, "time": self._clock()}

    def _append(
        self,
        partition: int,
        sequence: int,
        kind: SendType,
        time: int,
        offset: int | None,
        error: str | None,
        due: int | None,
    ) -> None:
        self._tables[partition].append(
            (
                self._cell,
                self._topic,
                partition,
                self._producer,
                sequence,
                kind,
                time,
                offset,
                error,
                due,
            )
        )
