"""The record of what a producer did, as rows of ``sends``.

This module owns the sequence numbers, the records that have no outcome yet, and the counts. An
``invoke`` row is in the writer's memory before the client library sees the record. So no record is
in the log without one, unless the process is killed within a second of sending it.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ackproof.history.names import SendType
from ackproof.history.payload import Encoder, tombstones_of
from ackproof.history.sessions import LIBRARY
from ackproof.history.writer import Many, PartitionedWriter
from ackproof.workloads.process import ProgressFile
from ackproof.workloads.spec import ProducerSpec, SpecificationError
from ackproof.workloads.unresolved import FEW, Unresolved

# --- rows of sends --------------------------------------------------------------------------------

_NS_PER_S = 1_000_000_000
_INVOKE = SendType.INVOKE
_COLUMNS = ("partition", "sequence", "type", "time", "offset", "error", "due", "key", "tombstone")
_COUNTED_AS = {SendType.OK: "acked", SendType.FAIL: "failed", SendType.INFO: "indeterminate"}


class SendRecorder:
    """A recorder of the sends of one producer.

    Args:
        clock: Returns nanoseconds of the Unix epoch.
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
        """The number of records of each partition without an outcome yet."""
        return self._unresolved.waiting

    def is_waiting(self, sequence: int) -> bool:
        """Return whether this record was sent, and has no outcome yet."""
        return sequence in self._unresolved

    @property
    def unresolved(self) -> int:
        """The number of records without an outcome yet."""
        return self._unresolved.count

    def partitions_of(self, sequences: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the partition to which each of these records was sent.

        It is negative for a record that has an outcome, or was never sent.
        """
        return self._unresolved.partitions_of(sequences)

    def begin_session(self, number: int, why: str) -> None:
        """Begin another session, of that ``number``, to which records belong from now on.

        ``why`` is what ended the one before: a fatal error or one of ``LIBRARY``.
        """
        self._begin(number)
        self._counts["sessions_ended"] += 1
        if why not in LIBRARY or not self._fatal:
            # A reader that looks seldom gets only the last reason, so a real error stays.
            self._fatal = why
        self._new = set(range(self._spec.partitions))

    def invoke(
        self,
        partitions: ArrayLike,
        late_s: ArrayLike | None = None,
        keys: NDArray[np.int64] | None = None,
        tombstones: NDArray[np.bool_] | None = None,
    ) -> range:
        """Record that records are about to be handed to the client library, and return their
        sequence numbers.

        ``late_s`` says how many seconds ago each was due, or None without a schedule. ``keys`` has
        the number of each record's key, or is None for records without keys. ``tombstones`` has
        whether each is one, or is None for a producer that sends none. The records are handed over
        one right after the other. The time of their rows is that before the first. It is some
        milliseconds before the last of a thousand is handed over, and never behind that.
        """
        now = self._clock()
        to = np.asarray(partitions, np.int32)
        sequences = self._unresolved.add(to)
        self._counts["sent"] += len(to)
        dues = None
        if late_s is not None:
            dues = now - np.rint(np.asarray(late_s) * _NS_PER_S).astype(np.int64)
        if len(to) <= FEW:
            each = [None] * len(to) if dues is None else dues.tolist()
            named = [None] * len(to) if keys is None else keys.tolist()
            deletes = [None] * len(to) if tombstones is None else tombstones.tolist()
            for partition, number, due, key, tombstone in zip(
                to.tolist(), sequences, each, named, deletes, strict=True
            ):
                self._append(partition, number, _INVOKE, now, None, None, due, key, tombstone)
        else:
            numbers = np.arange(sequences.start, sequences.stop)
            narrow = None if keys is None else keys.astype(np.int32)
            self._add(len(to), to, numbers, _INVOKE, now, None, None, dues, narrow, tombstones)
        if self._new and not self._new.isdisjoint(to.tolist()):
            # If the producer were killed within a second, it would leave records of a session
            # without any row, and the checkers take those for phantoms.
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
        """Record the outcome of a record; a second one is not recorded.

        ``time`` is when it became known, in nanoseconds of the Unix epoch, or None for now. For few
        records this costs less than :meth:`resolve_all`, which is for many.
        """
        partition = self._unresolved.take(sequence)
        if partition is None:
            return
        known = self._clock() if time is None else time
        self._append(partition, sequence, outcome, known, offset, error, None, None, None)
        self._counts[_COUNTED_AS[outcome]] += 1

    def resolve_all(
        self,
        sequences: ArrayLike,
        outcomes: SendType | Sequence[SendType],
        times: int | Many,
        offsets: Many | None,
        errors: str | Sequence[str | None] | None,
    ) -> None:
        """Record the outcomes of records, in the order in which they became known.

        A second outcome is not recorded. ``times`` are in nanoseconds of the Unix epoch. A single
        value in place of a sequence is that of all records.
        """
        numbers = np.asarray(sequences, np.int64)
        which, partitions = self._unresolved.take_all(numbers)
        columns = (numbers, outcomes, times, offsets, errors)
        if len(which) < len(numbers):
            numbers, outcomes, times, offsets, errors = (_those(which, one) for one in columns)
        outcome_columns = (partitions, numbers, outcomes, times, offsets, errors)
        self._add(len(which), *outcome_columns, None, None, None)
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
        """The last error that ended a session, else why another session began; empty while none
        did."""
        return self._fatal

    def figures(self) -> Mapping[str, int]:
        """Return the figures for the progress file.

        They are ``sent``, ``acked``, ``failed``, ``indeterminate`` and ``sessions_ended`` so far,
        and ``time`` in nanoseconds of the Unix epoch.
        """
        return {**self._counts, "time": self._clock()}

    def _begin(self, producer: int) -> None:
        spec = self._spec
        same = {"cell": spec.cell, "producer": producer}
        self._rows = self._writer.columns(spec.topic, spec.partitions, same)
        self._appended = [self._rows[name] for name in _COLUMNS]

    def _append(self, *row: object) -> None:
        """Append a row, in the order of :data:`_COLUMNS`."""
        for values, value in zip(self._appended, row, strict=True):
            values.append(value)

    def _add(self, many: int, *columns: object) -> None:
        """Append rows, as columns in the order of :data:`_COLUMNS`."""
        if many:
            self._rows.extend(many, **dict(zip(_COLUMNS, columns, strict=True)))


def _those(which: NDArray[np.int64], values: object) -> Any:
    """Return those of many values, or a single value as it is."""
    if isinstance(values, np.ndarray):
        return values[which]
    if isinstance(values, list | tuple):
        return [values[place] for place in which.tolist()]
    return values


# --- values and files of a producer ---------------------------------------------------------------

Keep = Callable[[float], None]
"""A function that flushes the history and reports progress. It must be called several times a
second, with the time of a clock that only goes forward, in seconds."""


def encoder(spec: ProducerSpec, number: int | None = None) -> Encoder:
    """Return the encoder of its records' values.

    ``number`` is that of its session, where that is not its first. Raise SpecificationError when
    the values are too small.
    """
    producer = spec.producer if number is None else number
    try:
        return Encoder(spec.cell, producer, spec.record_bytes, spec.record_bytes_max)
    except ValueError as error:
        raise SpecificationError(str(error)) from None


def tombstone_encoder(spec: ProducerSpec, number: int) -> Encoder | None:
    """Return the encoder of the identities of its tombstones in the session of that number, or None
    if it sends none."""
    return tombstones_of(spec.cell, number) if spec.tombstones else None


@contextmanager
def recording(spec: ProducerSpec) -> Iterator[tuple[Sequence[SendRecorder], Keep]]:
    """Yield the recorders of its sends, one a topic, and close their history at the end."""
    each = spec.of_each_topic
    history = [PartitionedWriter(spec.history, "sends", one.client) for one in each]
    pairs = zip(each, history, strict=True)
    recorders = [SendRecorder(one, writer, time.time_ns) for one, writer in pairs]
    progress = ProgressFile(spec.progress)

    def tell() -> None:
        figures = Counter(recorders[0].figures())
        for one in recorders[1:]:
            # A session that ends is that of all, and the time is the same for all.
            counts = one.figures()
            figures.update({name: counts[name] for name in ("sent", *_COUNTED_AS.values())})
        progress.write({**figures, "fatal": recorders[0].fatal})

    def keep(now: float) -> None:
        for one in history:
            one.flush_due(now)
        if progress.due(now):
            tell()

    try:
        yield recorders, keep
    finally:
        for one in history:
            one.close()
        tell()
