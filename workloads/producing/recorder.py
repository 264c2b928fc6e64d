"""What a producer did, as rows of ``sends``.

Owns the sequence numbers, the records that have no outcome yet, and the counts. An ``invoke`` row
is in the writer's memory before the client library sees the record, so that no record can be in
the log without one, short of the process being killed within a second of sending it.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ackproof.history.columns import Many
from ackproof.history.payload import Encoder
from ackproof.history.schema import SendType
from ackproof.history.sessions import LIBRARY
from ackproof.history.writer import PartitionedWriter
from ackproof.workloads.process import Progress
from ackproof.workloads.spec import ProducerSpec, SpecificationError
from ackproof.workloads.unresolved import FEW, Unresolved

# --- rows of sends --------------------------------------------------------------------------------

_NS_PER_S = 1_000_000_000
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
        self._unresolved = Unresolved(spec.partitions)
        self._counts = dict.fromkeys(("sent", "sessions_ended", *_COUNTED_AS.values()), 0)
        self._fatal = ""
        self._new: set[int] = set()
        self._begin(spec.producer)

    @property
    def waiting(self) -> NDArray[np.int64]:
        """How many records of each partition have no outcome yet."""
        return self._unresolved.waiting

    def is_waiting(self, sequence: int) -> bool:
        """Whether this record was sent, and has no outcome yet."""
        return sequence in self._unresolved

    @property
    def unresolved(self) -> int:
        """How many records have no outcome yet."""
        return self._unresolved.count

    def partitions_of(self, sequences: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the partition to which each of these records was sent; negative for one that has
        an outcome, or was never sent."""
        return self._unresolved.partitions_of(sequences)

    def begin_session(self, number: int, why: str) -> None:
        """From now on records are those of another session, of that ``number``. ``why``: what
        ended the one before, a fatal error or one of ``LIBRARY``."""
        self._begin(number)
        self._counts["sessions_ended"] += 1
        if why not in LIBRARY or not self._fatal:
            # Whoever looks seldom is told of several by the last: an error, which weighs more.
            self._fatal = why
        self._new = set(range(self._spec.partitions))

    def invoke(self, partitions: ArrayLike, late_s: ArrayLike | None = None) -> range:
        """Records are about to be handed to the client library, one right after the other; their
        sequence numbers. ``late_s``: how many seconds ago each was due, None where no schedule had
        them.

        The time of their rows is that before the first: some milliseconds before the last of a
        thousand is handed over, and never behind that."""
        now = self._clock()
        to = np.asarray(partitions, np.int32)
        sequences = self._unresolved.add(to)
        self._counts["sent"] += len(to)
        dues = None
        if late_s is not None:
            dues = now - np.rint(np.asarray(late_s) * _NS_PER_S).astype(np.int64)
        if len(to) <= FEW:
            each = [None] * len(to) if dues is None else dues.tolist()
            for partition, number, due in zip(to.tolist(), sequences, each, strict=True):
                self._append(partition, number, _INVOKE, now, None, None, due)
        else:
            numbers = np.arange(sequences.start, sequences.stop)
            self._add(len(to), to, numbers, _INVOKE, now, None, None, dues)
        if self._new and not self._new.isdisjoint(to.tolist()):
            # Killed within a second of it, the producer would leave records of a session of which
            # no row tells, and the checkers take those for phantoms.
            self._new.difference_update(to.tolist())
            self._writer.flush()
        return sequences

    def resolve(
        self,
        sequence: int,
        outcome: SendType,
        offset: int | None = None,
        error: str | None = None,
        time: int | None = None,
    ) -> None:
        """The outcome of a record; a second one is not recorded. ``time``: when it became known, in
        nanoseconds of the Unix epoch; None for now. For few this costs less than
        :meth:`resolve_all`, which is for many."""
        partition = self._unresolved.take(sequence)
        if partition is None:
            return
        known = self._clock() if time is None else time
        self._append(partition, sequence, outcome, known, offset, error, None)
        self._counts[_COUNTED_AS[outcome]] += 1

    def resolve_all(
        self,
        sequences: ArrayLike,
        outcomes: SendType | Sequence[SendType],
        times: int | Many,
        offsets: Many | None,
        errors: str | Sequence[str | None] | None,
    ) -> None:
        """The outcomes of records, in the order in which they became known; a second one is not
        recorded. ``times``: when, in nanoseconds of the Unix epoch. What is one value, and no
        sequence, is that of them all."""
        numbers = np.asarray(sequences, np.int64)
        which, partitions = self._unresolved.take_all(numbers)
        columns = (numbers, outcomes, times, offsets, errors)
        if len(which) < len(numbers):
            numbers, outcomes, times, offsets, errors = (_those(which, one) for one in columns)
        self._add(len(which), partitions, numbers, outcomes, times, offsets, errors, None)
        if isinstance(outcomes, SendType):
            self._counts[_COUNTED_AS[outcomes]] += len(which)
        else:
            for outcome, many in Counter(outcomes).items():
                self._counts[_COUNTED_AS[outcome]] += many

    def abandon(self, error: str) -> None:
        """Make every record without an outcome an ``info``."""
        self.resolve_all(self._unresolved.left(), SendType.INFO, self._clock(), None, error)

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
        self._rows = self._writer.columns(spec.topic, spec.partitions, same)
        self._appended = [self._rows[name] for name in _COLUMNS]

    def _append(self, *row: object) -> None:
        """A row, in the order of :data:`_COLUMNS`."""
        for values, value in zip(self._appended, row, strict=True):
            values.append(value)

    def _add(self, many: int, *columns: object) -> None:
        """Rows, as columns in the order of :data:`_COLUMNS`."""
        if many:
            self._rows.extend(many, **dict(zip(_COLUMNS, columns, strict=True)))


def _those(which: NDArray[np.int64], values: object) -> Any:
    """Those of many; what is one value stays that."""
    if isinstance(values, np.ndarray):
        return values[which]
    if isinstance(values, list | tuple):
        return [values[place] for place in which.tolist()]
    return values


# --- values and files of a producer ---------------------------------------------------------------

Keep = Callable[[float], None]
"""To be called several times a second, with the time of a clock that only goes forward, in seconds:
flushes the history and tells how far it is."""


def encoder(spec: ProducerSpec, number: int | None = None) -> Encoder:
    """Makes the values of its records. ``number``: of its session, where that is not its first.
    Raises SpecificationError when these are too small."""
    producer = spec.producer if number is None else number
    try:
        return Encoder(spec.cell, producer, spec.record_bytes, spec.record_bytes_max)
    except ValueError as error:
        raise SpecificationError(str(error)) from None


@contextmanager
def recording(spec: ProducerSpec) -> Iterator[tuple[SendRecorder, Keep]]:
    """The recorder of its sends, whose history is closed in the end."""
    history = PartitionedWriter(spec.history, "sends", spec.client)
    recorder = SendRecorder(spec, history, time.time_ns)
    progress = Progress(spec.progress)

    def tell() -> None:
        progress.write({**recorder.figures(), "fatal": recorder.fatal})

    def keep(now: float) -> None:
        history.flush_due(now)
        if progress.due(now):
            tell()

    try:
        yield recorder, keep
    finally:
        history.close()
        tell()
