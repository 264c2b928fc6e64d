"""What a producer did, as rows of ``sends``.

Owns the sequence numbers, the records that have no outcome yet, and the counts. An ``invoke`` row
is in the writer's memory before the client library sees the record, so that no record can be in
the log without one, short of the process being killed within a second of sending it.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import Any

from history.schema import SendType
from history.sessions import LIBRARY
from history.writer import PartitionedWriter
from workloads.spec import ProducerSpec

_NS_PER_S = 1_000_000_000
_UNKNOWN = -1
_INVOKE = SendType.INVOKE
_COLUMNS = ("partition", "sequence", "type", "time", "offset", "error", "due")
_COUNTED_AS = {SendType.OK: "acked", SendType.FAIL: "failed", SendType.INFO: "indeterminate"}


class SendRecorder:
    """Records the sends of one producer.

    Args:
        clock: Nanoseconds of the Unix epoch.
    """

    def __init__(
        self, spec: ProducerSpec, writer: PartitionedWriter, clock: Callable[[], int]
    ) -> None:
        self._spec = spec
        self._writer = writer
        self._clock = clock
        self._unresolved: dict[int, int] = {}
        self._waiting = [0] * spec.partitions
        self._counts = dict.fromkeys(("sent", "sessions_ended", *_COUNTED_AS.values()), 0)
        self._fatal = ""
        self._new: set[int] = set()
        self._begin(spec.producer)

    @property
    def waiting(self) -> Sequence[int]:
        """How many records of each partition have no outcome yet."""
        return self._waiting

    def is_waiting(self, sequence: int) -> bool:
        """Whether this record was sent, and has no outcome yet."""
        return sequence in self._unresolved

    @property
    def unresolved(self) -> int:
        """How many records have no outcome yet."""
        return len(self._unresolved)

    def begin_session(self, number: int, why: str) -> None:
        """From now on records are those of another session, of that ``number``. ``why``: what
        ended the one before, a fatal error or one of ``LIBRARY``."""
        self._begin(number)
        self._counts["sessions_ended"] += 1
        if why not in LIBRARY or not self._fatal:
            # Whoever looks seldom is told of several by the last: an error, which weighs more.
            self._fatal = why
        self._new = set(range(self._spec.partitions))

    def invoke(self, partitions: Sequence[int], late_s: Sequence[float | None]) -> range:
        """Records are about to be handed to the client library, one right after the other; their
        sequence numbers. ``late_s``: how many seconds ago each was due, None for one that no
        schedule had.

        The time of their rows is that before the first: some milliseconds before the last of a
        thousand is handed over, and never behind that."""
        now = self._clock()
        many = len(partitions)
        sequences = range(self._counts["sent"], self._counts["sent"] + many)
        self._counts["sent"] += many
        self._unresolved.update(zip(sequences, partitions, strict=True))
        waiting = self._waiting
        for partition in partitions:
            waiting[partition] += 1
        dues = [None if late is None else now - round(late * _NS_PER_S) for late in late_s]
        nothing = [None] * many
        self._add(partitions, sequences, [_INVOKE] * many, [now] * many, nothing, nothing, dues)
        if not self._new.isdisjoint(partitions):
            # Killed within a second of it, the producer would leave records of a session of which
            # no row tells, and the checkers take those for phantoms.
            self._new.difference_update(partitions)
            self._writer.flush()
        return sequences

    def resolve(
        self,
        sequence: int,
        outcome: SendType,
        offset: int | None = None,
        error: str | None = None,
    ) -> None:
        """The outcome of a record; a second one is not recorded. For one at a time this costs less
        than :meth:`resolve_all`, which is for many."""
        partition = self._unresolved.pop(sequence, None)
        if partition is None:
            return
        row = (partition, sequence, outcome, self._clock(), offset, error, None)
        for values, value in zip(self._columns, row, strict=True):
            values.append(value)
        self._waiting[partition] -= 1
        self._counts[_COUNTED_AS[outcome]] += 1

    def resolve_all(
        self,
        sequences: Sequence[int],
        outcomes: Sequence[SendType],
        times: Sequence[int],
        offsets: Sequence[int | None],
        errors: Sequence[str | None],
    ) -> None:
        """The outcomes of records, in the order in which they became known; a second one is not
        recorded. ``times``: when, in nanoseconds of the Unix epoch."""
        partitions = [self._unresolved.pop(sequence, _UNKNOWN) for sequence in sequences]
        dues = [None] * len(times)
        rows: tuple[Sequence[Any], ...]
        rows = (partitions, sequences, outcomes, times, offsets, errors, dues)
        if _UNKNOWN in partitions:
            known = [partition != _UNKNOWN for partition in partitions]
            rows = tuple(list(compress(values, known)) for values in rows)
        self._add(*rows)
        waiting = self._waiting
        for partition in rows[0]:
            waiting[partition] -= 1
        for outcome, many in Counter(rows[2]).items():
            self._counts[_COUNTED_AS[outcome]] += many

    def abandon(self, error: str) -> None:
        """Make every record without an outcome an ``info``."""
        left, now = list(self._unresolved), self._clock()
        many = len(left)
        infos = [SendType.INFO] * many
        self.resolve_all(left, infos, [now] * many, [None] * many, [error] * many)

    @property
    def fatal(self) -> str:
        """The error that ended the last of its sessions that ended by one, else why another began
        at all; empty while none did."""
        return self._fatal

    def figures(self) -> Mapping[str, int]:
        """For the progress file: ``sent``, ``acked``, ``failed``, ``indeterminate`` and
        ``sessions_ended`` so far, and ``time`` in nanoseconds of the Unix epoch."""
        return {**self._counts, "time": self._clock()}

    def _begin(self, producer: int) -> None:
        spec = self._spec
        same = {"cell": spec.cell, "producer": producer}
        rows = self._writer.columns(spec.topic, spec.partitions, same)
        self._columns = [rows[name] for name in _COLUMNS]

    def _add(self, *columns: Sequence[object]) -> None:
        """Rows, as columns in the order of :data:`_COLUMNS`."""
        for values, more in zip(self._columns, columns, strict=True):
            values.extend(more)
