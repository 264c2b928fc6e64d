"""The history of one partition: its records, each with its number and outcome, and the final log,
as columns. All rules share it. Nothing here judges records that the log still has."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.context.fault_windows import FaultWindows
from ackproof.checkers.context.final_reads import FinalRead
from ackproof.checkers.context.retention import (
    Deletions,
    Growth,
    RetentionEvidence,
    TombstoneEvidence,
    deletions,
)
from ackproof.checkers.context.timeline import PartitionTimeline
from ackproof.checkers.index.raw_logs import NO_POSITIONS, ProducerPosition
from ackproof.history.payload import Identity

ADDRESSES_A_ROW = 4
"""The number of possible addresses for each row. At most one in so many may be unused. A quarter in
use is not rare, because the rows are those of sends and of the log, and half of the partition's
records may be recorded elsewhere."""
_BLOCK = 1 << 16
_FEW = 1_024
_SAMPLE = 4_096
_FAR = 2**62


def record_numbers(cell_of: Array, producer: Array, sequence: Array) -> tuple[Array, Array]:
    """Return the record number of each row, and the first row of each record. The numbers are dense
    and in the order of first rows. The result is exact for any values."""
    stream, streams = dense(streams_of(cell_of, producer))
    addressed = addresses(stream, len(streams), sequence)
    if addressed is not None:
        return _by_appearance(*addressed)
    return hashed(stream, sequence)


def part_by_part(
    numbers: Array, first: Array, begins: Sequence[Sequence[int]]
) -> tuple[Array, Array, list[int]]:
    """Divide the result of :func:`record_numbers` for several partitions that share no record.
    Renumber the records so that those of each partition follow those of the one before. Return the
    numbers, the first rows, and the first number of each partition.

    The rows are those of several tables, one after the other. For each table, ``begins`` has the
    place where each partition begins and the end of the last one.
    """
    count = len(begins[0]) - 1
    if count == 1:
        return numbers, first, [0, len(first)]
    places = np.tile(np.arange(count), len(begins))
    whose = np.repeat(places, np.concatenate([np.diff(one) for one in begins]))[first]
    # This is usually the case already, because records in the log were also sent, and all sends
    # come first.
    if (whose[1:] < whose[:-1]).any():
        order = np.argsort(whose, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        numbers, first, whose = place[numbers], first[order], whose[order]
    return numbers, first, np.searchsorted(whose, np.arange(count + 1)).tolist()


def streams_of(cell_of: Array, producer: Array) -> Array:
    """Return a distinct number for the cell and producer of each row, which is small if these are
    small. Cells are numbered from 0, and a producer's number has 32 bits."""
    if not cell_of.any():
        return producer
    cells, producers = cell_of.astype(np.int64), producer.astype(np.int64)
    least = int(producers.min())
    streams: Array = cells * (int(producers.max()) - least + 1) + (producers - least)
    return streams


def hashed(stream: Array, sequence: Array) -> tuple[Array, Array]:
    """Return the same as :func:`record_numbers` for rows whose ``stream`` is a number for cell and
    producer."""
    place, _ = dense(sequence)
    # Two numbers below 2**31 fit one int64.
    numbers, found = dense(stream.astype(np.int64) << 32 | place)
    return numbers.astype(np.int64, copy=False), first_positions(numbers, len(found))


def addresses(stream: Array, streams: int, sequence: Array) -> tuple[Array, int] | None:
    """Return a distinct address for each record, by row, and the number of addresses. Return None
    if there would be too many."""
    if not len(sequence):
        return sequence, 0
    least, greatest = _bounds(stream, streams, sequence)
    if max(map(int, greatest)) - min(map(int, least)) > _FAR:
        return None
    # The stride of the first rows is tried before that of all rows.
    for some in (slice(_SAMPLE), slice(None)):
        stride = max(int(np.gcd.reduce(sequence[some] - least[stream[some]])), 1)
        sizes = (greatest - least) // stride + 1
        most = ADDRESSES_A_ROW * len(sequence) + _FEW
        # The sum of two sizes of 2**62 would overflow, so that each is compared first.
        if sizes.max() > most or sizes.sum() > most:
            return None
        ends = np.cumsum(sizes)
        address = _strided(stream, sequence, (least, np.append(0, ends[:-1])), stride)
        if address is not None:
            return address, int(ends[-1])
    return None


def _bounds(stream: Array, streams: int, sequence: Array) -> tuple[Array, Array]:
    """Return the lowest and the highest sequence number of each stream."""
    int64 = np.iinfo(np.int64)
    least, greatest = np.full(streams, int64.max), np.full(streams, int64.min)
    for block in _blocks(len(sequence)):
        codes = stream[block].astype(np.intp)
        np.minimum.at(least, codes, sequence[block])
        np.maximum.at(greatest, codes, sequence[block])
    return least, greatest


def _strided(
    stream: Array, sequence: Array, begins: tuple[Array, Array], stride: int
) -> Array | None:
    """Return an address for each row, or None if the distance of a row from the beginning of its
    stream is not a multiple of the stride. ``begins`` has the first sequence number of each stream,
    and its address."""
    address = np.empty(len(sequence), dtype=np.int64)
    for block in _blocks(len(sequence)):
        first, first_address = (of[stream[block]] for of in begins)
        steps = sequence[block] - first
        places = steps // stride if stride > 1 else steps
        if stride > 1 and not np.array_equal(places * stride, steps):
            return None
        np.add(places, first_address, out=address[block])
    return address


def first_positions(numbers: Array, count: int) -> Array:
    """Return the position of the first occurrence of each number, or -1 if it does not occur. A -1
    among the numbers is ignored."""
    return _first_positions(numbers, count, np.int64)


def _first_positions(numbers: Array, count: int, kind: type[np.signedinteger[Any]]) -> Array:
    first = np.full(count + 1, -1, dtype=kind)  # the last place takes those
    # The blocks are taken from the end, so that the first occurrence is written last.
    for block in reversed([*_blocks(len(numbers))]):
        first[numbers[block][::-1]] = np.arange(block.stop - 1, block.start - 1, -1)
    return first[:count]


def _blocks(rows: int) -> Iterator[slice]:
    for begin in range(0, rows, _BLOCK):
        yield slice(begin, min(begin + _BLOCK, rows))


def _by_appearance(address: Array, size: int) -> tuple[Array, Array]:
    """Return the same as :func:`record_numbers` for rows with these addresses. The numbers
    overwrite the addresses."""
    number = _first_positions(address, size, np.int32)  # a task has less than 2**31 rows
    first = np.zeros(len(address), dtype=bool)
    first[number[number >= 0]] = True
    begins = np.flatnonzero(first)
    number[address[begins]] = np.arange(len(begins))
    for block in _blocks(len(address)):
        address[block] = number[address[block]]
    return address, begins


def dense(values: Array) -> tuple[Array, Array]:
    """Return a dense number for each value, and the values by these numbers."""
    least, greatest = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if greatest - least < _FEW:
        seen = np.zeros(greatest - least + 1, dtype=bool)
        for block in _blocks(len(values)):
            seen[values[block] - least] = True
        code = (np.cumsum(seen) - 1).astype(np.int16)
        codes = np.empty(len(values), dtype=np.int16)
        for block in _blocks(len(values)):
            codes[block] = code[values[block] - least]
        return codes, np.flatnonzero(seen) + least
    encoded = pa.array(values).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_numpy()


# --- overtaking -----------------------------------------------------------------------------------
#
# Records that come after one that their producer sent later.


_NARROW = 2**15


def stream_numbers(cell_of: Array, producer: Array) -> Array:
    """Return a number for the cell and producer of each record, in the narrowest possible type, for
    :func:`overtaken`."""
    codes, streams = dense(streams_of(cell_of, producer))
    rank = np.argsort(np.argsort(streams))
    # NumPy sorts such narrow integers by counting, in linear time.
    return rank.astype(np.int16 if len(streams) < _NARROW else np.int64)[codes]


def overtaken(stream: Array, rank: Array) -> tuple[Array, Array]:
    """Return the places of records that rank lower than an earlier record of the same producer, and
    for each of them the place of the highest-ranking earlier one, producer by producer. ``stream``
    has the :func:`stream_numbers` of the records."""
    by_stream = np.argsort(stream, kind="stable")
    least, greatest = (int(rank.min()), int(rank.max())) if len(rank) else (0, 0)
    span = greatest - least + 1
    last = int(stream[by_stream[-1]]) if len(stream) else 0
    if span * (last + 1) > _FAR:
        return one_by_one(stream, rank, by_stream)
    # A producer that comes later in this order ranks above all producers before it. One running
    # maximum therefore serves each of them.
    above = (rank[by_stream] - least) + stream[by_stream].astype(np.int64) * span
    return _of_one(by_stream, above)


def one_by_one(stream: Array, rank: Array, by_stream: Array) -> tuple[Array, Array]:
    """Return the same for ranks of any size. ``by_stream`` has the places in the order of
    streams."""
    ends = np.flatnonzero(np.diff(stream[by_stream])) + 1
    pairs = [_of_one(group, rank[group]) for group in np.split(by_stream, ends)]
    return np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs])


def _of_one(places: Array, rank: Array) -> tuple[Array, Array]:
    highest = np.maximum.accumulate(rank) if len(rank) else rank
    behind = np.flatnonzero(rank < highest)
    if not len(behind):
        return behind, behind
    holds_it = np.where(rank == highest, np.arange(len(rank)), 0)
    ahead = np.maximum.accumulate(holds_it)[behind]
    return places[behind], places[ahead]


# --- the history ----------------------------------------------------------------------------------
#
# The outcome of every record of one partition. It is built once (:mod:`checkers.index.indexing`)
# and shared by all rules.
#
# The tables of a partition (``sends``, ``log``) become arrays. Every record that one of them names
# by (cell, producer, sequence) gets a dense number, so that reconciling is the indexing of arrays.
# This takes linear time, and memory grows with this partition alone. Nothing here judges.
#
# A record that was invoked and has no completion, or ``info``, is INDETERMINATE. If a damaged
# history has two completions of one record, ``ok`` prevails over ``fail``, and ``fail`` over
# ``info``. The record then counts as contradictory, and no rule blames the cluster for its outcome.


SEND_COLUMNS = ("cell", "producer", "sequence", "type", "time", "offset", "due")
LOG_COLUMNS = ("offset", "leader_epoch", "cell", "producer", "sequence")


class Fate(IntEnum):
    """The outcome of a record as its client knows it."""

    NEVER_SENT = 0
    INDETERMINATE = 1
    FAILED = 2
    ACKED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """The outcomes of the transactions of a compacted log, by record number. A record that is
    neither committed nor aborted is *undecided*: its client never learned the outcome, and the
    final log does not show it.

    Attributes:
        committed: Whether each record was certainly committed.
        aborted: Whether the client of each record knows that it was not committed.
    """

    committed: Array
    aborted: Array


@dataclass(frozen=True, kw_only=True)
class PartitionHistory:
    """The history of one partition of one run.

    Attributes:
        cell: The cell of this topic.
        topic, partition: The partition.
        read: The final read.
        sends_whole: Whether every send to this partition is known to be recorded.
        faults: The faults of the run, to which anomalies are attributed.
        cell_names: The name of each cell by its number.
        cell_of, producer, sequence: The identity of each record by its number.
        fate: The :class:`Fate` by record number.
        acked_offset: The offset of the ack by record number, or NONE if there is no ack or it has
            no offset.
        time: The time of the ack, or else of the invoke, or else NONE, by record number;
            nanoseconds.
        asked: The time of the invoke by record number, or NONE; nanoseconds.
        answered: The time of the completion by record number, or NONE; nanoseconds.
        due: The time at which the producer's schedule had the record sent, by record number, or
            NONE without a schedule.
        begun: The earliest time of a send, or NONE if nothing was sent.
        untold: Whether the record's producer was crashed and may have sent it after its last
            recorded send, by record number.
        crashed: The numbers of the producers that were crashed.
        contradicted: Whether the record was invoked or completed twice, completed without an
            invoke, or completed before its invoke, by record number. Such a record says nothing
            about the cluster.
        log_offset: The offsets of the final log, in order.
        log_epoch: The leader epoch in which each of these was appended, or NONE if unknown.
        log_record: The record number at each of these, or NONE if no client wrote the payload.
        first: The position of the record's first copy in the log arrays by record number, or NONE.
        timeline: The observations of its leaders, epochs and ISR, and the clock bound of its acks.
        seen: For the lost records by number: 1 if a consumer read it, 0 if none did, NONE if that
            is unknown. None if it was not examined.
        transactional: Whether it was written in transactions, whose markers take offsets.
        visible: Whether consumers may read the record at each position of the log arrays. None if
            they may read all.
        deleted_before: The offset below which records were deleted by an administrator's order.
        retention: What is known of deletions by retention, or None if the topic sets no retention.
        keys: The number of each record's key by record number, or NONE if it has none or it is
            unknown. None if the log is not compacted.
        decisions: The outcomes of the records' transactions. None if the log is not compacted, or
            not written in transactions, so that every record counts as committed.
        deletes: Whether each record is a tombstone, by record number. None if no tombstones are
            sent.
        tombstones: What is known of the removal of tombstones, or None if none are sent.
        selected: Whether :attr:`lost` and :attr:`repeated` include the record, by record number.
            None if they include all (:mod:`checkers.engine.reconcile`).
        written: The session and number with which a repeated record was written, by offset, from
            raw logs. Empty if unknown.
    """

    cell: str
    topic: str
    partition: int
    read: FinalRead
    sends_whole: bool
    faults: FaultWindows
    cell_names: tuple[str, ...]
    cell_of: Array
    producer: Array
    sequence: Array
    fate: Array
    acked_offset: Array
    time: Array
    asked: Array
    answered: Array
    due: Array
    untold: Array
    begun: int
    contradicted: Array
    log_offset: Array
    log_epoch: Array
    log_record: Array
    first: Array
    timeline: PartitionTimeline
    crashed: frozenset[int] = frozenset()
    seen: Array | None = None
    transactional: bool = False
    visible: Array | None = None
    deleted_before: int = 0
    retention: RetentionEvidence | None = None
    keys: Array | None = None
    decisions: Decisions | None = None
    deletes: Array | None = None
    tombstones: TombstoneEvidence | None = None
    selected: Array | None = None
    written: Mapping[int, ProducerPosition] = field(default_factory=lambda: NO_POSITIONS)

    @property
    def contradictory(self) -> int:
        """The number of records with contradictory events."""
        return int(np.count_nonzero(self.contradicted))

    @property
    def contested(self) -> int:
        """The number of offsets of the final log at which there is another record than at the place
        before. A log has one record at an offset, so one of the two was never read there."""
        return int(np.count_nonzero(np.diff(self.log_offset) == 0))

    @cached_property
    def named_acks(self) -> Array:
        """The numbers of the records whose acks have an offset and are not contradicted."""
        named = (self.fate == Fate.ACKED) & (self.acked_offset != NONE) & ~self.contradicted
        return np.flatnonzero(named)

    @cached_property
    def absent(self) -> Array:
        """The numbers of the acked records that are absent from the final log, ascending. Empty if
        the log was not read completely. Records with contradictory events are left out."""
        acked = (self.fate == Fate.ACKED) & ~self.contradicted
        return np.flatnonzero(acked & (self.first == NONE) & self.read.complete)

    @cached_property
    def gone(self) -> Array:
        """The numbers of those absent records that were acked before the final read began."""
        return self.absent[self.read.covers(self.time[self.absent])]

    @cached_property
    def unread(self) -> Array:
        """The numbers of the other absent records. The final read does not show whether they were
        kept."""
        return self.absent[~self.read.covers(self.time[self.absent])]

    @cached_property
    def lost(self) -> Array:
        """The numbers of the absent records that were not deleted by order and are not
        :attr:`forgotten`. Where records were deleted, it is unknown for one that was acked without
        an offset (:attr:`lost_or_deleted`)."""
        gone = self.gone
        if self.moved_from:
            # NONE is below every offset.
            gone = gone[self.acked_offset[gone] >= self.deleted_before]
        gone = np.setdiff1d(gone, self.forgotten)
        return gone if self.selected is None else gone[self.selected[gone]]

    @property
    def lost_or_deleted(self) -> int:
        """The number of absent records that were either lost or deleted."""
        if not self.moved_from:
            return 0
        return int(np.count_nonzero(self.acked_offset[self.gone] == NONE))

    @property
    def moved_from(self) -> int:
        """The offset below which an acked record may have been deleted, by order or by
        retention."""
        start = 0 if self.retention is None else self.read.start or 0
        return max(start, self.deleted_before)

    @cached_property
    def expired(self) -> Array:
        """The numbers of the absent records below the start of the final log that neither an order
        nor compaction removed, ascending by offset. Empty if the topic sets no retention."""
        if self.retention is None or self.read.start is None:
            return self.gone[:0]
        left = np.setdiff1d(self.gone, self.compacted)
        offsets = self.acked_offset[left]
        below = (offsets >= self.deleted_before) & (offsets < self.read.start)
        below &= offsets != NONE
        expired: Array = left[below][np.argsort(offsets[below], kind="stable")]
        return expired

    @cached_property
    def deletions(self) -> Deletions | None:
        """The judgement of the :attr:`expired` records, or None if the topic sets no retention."""
        if self.retention is None:
            return None
        place = np.append(self.log_offset, NONE)[self.first]
        place = np.where(place == NONE, self.acked_offset, place)
        sent, acked = self.asked != NONE, np.where(self.acked_offset == NONE, NONE, self.answered)
        return deletions(
            self.retention,
            self.acked_offset[self.expired],
            self.asked[self.expired],
            self.answered[self.expired],
            Growth.of(self.asked[sent], acked[sent], place[sent]),
        )

    @property
    def forgotten(self) -> Array:
        """The numbers of the acked records that the topic's cleanup policy may rightly have
        removed, ascending. No rule says whether they were lost before that."""
        deleted = self.expired if self.deletions is None else self.expired[~self.deletions.early]
        forgotten: Array = np.union1d(self.compacted, deleted).astype(np.int64)
        return forgotten

    @cached_property
    def compacted(self) -> Array:
        """The numbers of the absent records that compaction may have removed, ascending: those that
        :meth:`may_be_removed`, and undecided ones, which were discarded if their transaction was
        aborted. Where the key or the offset of an absent record is unknown, that is unknown
        (:attr:`unkeyed`), and it is one of them. Empty if the log is not compacted."""
        if self.keys is None:
            return self.gone[:0]
        gone = self.gone[(self.acked_offset[self.gone] >= self.deleted_before)]
        removable = self.may_be_removed(gone, self.acked_offset[gone]) | self.is_undecided(gone)
        nameless = (self.keys[self.gone] == NONE) | (self.acked_offset[self.gone] == NONE)
        found: Array = np.union1d(gone[removable], self.gone[nameless]).astype(np.int64)
        return found

    @property
    def unkeyed(self) -> int:
        """The number of absent records of a compacted log whose key or offset is unknown."""
        if self.keys is None:
            return 0
        nameless = (self.keys[self.gone] == NONE) | (self.acked_offset[self.gone] == NONE)
        return int(np.count_nonzero(nameless))

    @property
    def is_keyless(self) -> bool:
        """Whether the log is compacted and the key of some record is unknown, so that it is unknown
        whether a read of that record may have been compacted away. An aborted record needs no
        key."""
        if self.keys is None:
            return False
        keyless = self.keys == NONE
        return bool(
            (keyless if self.decisions is None else keyless & ~self.decisions.aborted).any()
        )

    @cached_property
    def _last_of_keys(self) -> Array:
        """The highest offset of an ack or of the final log for each key, or NONE; the last place is
        for records without a key. Only committed records count."""
        assert self.keys is not None
        last = np.full(int(self.keys.max(initial=NONE)) + 2, NONE, dtype=np.int64)
        ours, acked = np.flatnonzero(self.log_record != NONE), self.named_acks
        ours = ours[self.is_committed(self.log_record[ours])]
        acked = acked[self.is_committed(acked)]
        np.maximum.at(last, self.keys[self.log_record[ours]], self.log_offset[ours])
        np.maximum.at(last, self.keys[acked], self.acked_offset[acked])
        last[-1] = NONE
        return last

    def is_superseded(self, records: Array, offsets: Array) -> Array:
        """Return, for each of these records at an offset, whether the log is compacted and a
        committed record of its key is behind it, or was acked there. The record NONE has no key.

        Kafka's cleaner never lets an aborted record supersede another one
        (``CleanedTransactionMetadata``), and cleans nothing above the last stable offset.

        1. Offset 5 has a committed value of a key, and offset 9 a value of an aborted transaction.
        2. A cleaner that kept offset 9 as the newest would remove offset 5.
        3. Offset 9 is shown to no reader of committed records, so that the key would be gone.

        An undecided record supersedes nothing, either: if it was committed, it or a later one of
        its key stands, and what stands among the committed records is not undecided.
        """
        if self.keys is None:
            return np.zeros(len(records), dtype=bool)
        later: Array = self._last_of_keys[np.append(self.keys, NONE)[records]] > offsets
        return later

    def may_be_removed(self, records: Array, offsets: Array) -> Array:
        """Return, for each of these records at an offset, whether compaction may have removed it
        before the end of the final read: it is not the last of its key, its transaction was
        aborted, it is a tombstone of sufficient age, or a tombstone of unknown outcome may have
        deleted it (:attr:`perhaps_deleted`). An undecided record counts as a committed one. The
        record NONE has no key."""
        superseded = self.is_superseded(records, offsets) | self._is_aborted(records)
        if self.deletes is None or self.tombstones is None:
            return superseded
        removable: Array = superseded | self._is_expired(records, offsets)
        return removable | self._is_perhaps_deleted(records, offsets)

    def is_committed(self, records: Array) -> Array:
        """Return whether each of these records counts as committed. Without transactions, each
        does."""
        if self.decisions is None:
            return np.ones(len(records), dtype=bool)
        committed: Array = self.decisions.committed[records]
        return committed

    def is_undecided(self, records: Array) -> Array:
        """Return whether each of these records may have been committed or aborted. The record NONE
        is not."""
        if self.decisions is None:
            return np.zeros(len(records), dtype=bool)
        settled = np.append(self.decisions.committed | self.decisions.aborted, True)
        undecided: Array = ~settled[records]
        return undecided

    def _is_aborted(self, records: Array) -> Array:
        if self.decisions is None:
            return np.zeros(len(records), dtype=bool)
        aborted: Array = np.append(self.decisions.aborted, False)[records]
        return aborted

    @property
    def tombstones_acked(self) -> int:
        """The number of acked tombstones."""
        if self.deletes is None:
            return 0
        return int(np.count_nonzero(self.deletes & (self.fate == Fate.ACKED)))

    @property
    def perhaps_deleted(self) -> int:
        """The number of absent records for whose removal only a tombstone can account that was not
        acked, is undecided, or is not recorded."""
        if self.deletes is None:
            return 0
        records, offsets = self.compacted, self.acked_offset[self.compacted]
        certain = self.is_superseded(records, offsets) | self._is_expired(records, offsets)
        certain |= ~self.is_committed(records)
        return int(np.count_nonzero(~certain & self._is_perhaps_deleted(records, offsets)))

    @cached_property
    def tombstones_unseen(self) -> bool:
        """Whether a replica may have been out of the ISR for ``delete.retention.ms``, or the final
        read have lasted so long. A value may then be there without its tombstone."""
        if self.tombstones is None:
            return False
        unseen, over = self.tombstones.unseen_ns, self.tombstones.read_over
        return bool(self.tombstones.has_passed(max(over - unseen, self.begun), over))

    def is_first_of_key(self, records: Array, offsets: Array) -> Array:
        """Return, for each of these records at an offset, whether the final log has no older record
        of its key. A cleaner that removes a tombstone has removed these before."""
        assert self.keys is not None
        alone: Array = self._first_of_keys[np.append(self.keys, NONE)[records]] >= offsets
        return alone

    @cached_property
    def _first_of_keys(self) -> Array:
        """The lowest offset in the final log for each key, or a high one; the last place is for
        records without a key."""
        assert self.keys is not None
        first = np.full(int(self.keys.max(initial=NONE)) + 2, _FAR, dtype=np.int64)
        ours = self.log_record != NONE
        np.minimum.at(first, self.keys[self.log_record[ours]], self.log_offset[ours])
        first[-1] = NONE
        return first

    def _is_expired(self, records: Array, offsets: Array) -> Array:
        """Return whether each of these records is a tombstone that may be gone by its age. While an
        older record of its key is in the log, no cleaner has passed it, unless it was missed
        (:attr:`tombstones_unseen`)."""
        assert self.deletes is not None
        assert self.tombstones is not None
        sent = np.append(self.asked, NONE)[records]
        aged = self.tombstones.has_passed(sent, self.tombstones.read_over)
        aged &= np.append(self.deletes, False)[records]
        found: Array = aged & (self.is_first_of_key(records, offsets) | self.tombstones_unseen)
        return found

    def _is_perhaps_deleted(self, records: Array, offsets: Array) -> Array:
        """Return whether a tombstone of unknown outcome may have deleted each of these records, and
        may be gone itself. It was then appended behind the record, and so is not older."""
        assert self.keys is not None
        assert self.tombstones is not None
        perhaps = self._perhaps_deleted_keys[np.append(self.keys, NONE)[records]]
        sent = np.append(self.asked, NONE)[records]
        perhaps &= self.tombstones.has_passed(sent, self.tombstones.read_over)
        found: Array = perhaps & self.is_first_of_key(records, offsets)
        return found

    @cached_property
    def _perhaps_deleted_keys(self) -> Array:
        """Whether a tombstone of each key may be gone whose outcome is unknown: one without an ack,
        an undecided one, or one that is not recorded; the last place is for records without a
        key."""
        assert self.keys is not None
        assert self.deletes is not None
        assert self.tombstones is not None
        has_passed, over = self.tombstones.has_passed, self.tombstones.read_over
        deleted = np.zeros(int(self.keys.max(initial=NONE)) + 2, dtype=bool)
        # A client records the sends of a transaction before it requests the commit, so that a crash
        # leaves only aborted records unrecorded.
        if not self.sends_whole or (self.crashed and self.decisions is None):
            deleted[:] = has_passed(self.begun, over)
        every = np.arange(len(self.fate))
        unknown = (self.fate == Fate.INDETERMINATE) | self.is_undecided(every)
        unknown &= self.deletes & (self.first == NONE) & ~self._is_aborted(every)
        deleted[self.keys[unknown & has_passed(self.asked, over)]] = True
        deleted[-1] = False
        return deleted

    @cached_property
    def stream(self) -> Array:
        """The stream number of each record,
        :func:`checkers.index.partition_history.stream_numbers`."""
        return stream_numbers(self.cell_of, self.producer)

    @cached_property
    def out_of_order(self) -> tuple[Array, Array]:
        """The numbers of the records that follow in the log a record that their producer sent
        later, in log order, and for each of them the latest-sent record of its producer that
        precedes it. First copies count."""
        first = np.zeros(len(self.log_record), dtype=bool)
        first[self.first[(self.first != NONE) & (self.fate != Fate.NEVER_SENT)]] = True
        records = self.log_record[first]
        behind, ahead = overtaken(self.stream[records], self.sequence[records])
        in_log_order = np.argsort(behind)
        return records[behind[in_log_order]], records[ahead[in_log_order]]

    @cached_property
    def repeated(self) -> Array:
        """The numbers of the sent records that are in the log more than once, ascending."""
        ours = self.log_record[self.log_record != NONE]
        often = np.bincount(ours, minlength=len(self.fate))
        repeated = np.flatnonzero((often > 1) & (self.fate != Fate.NEVER_SENT))
        return repeated if self.selected is None else repeated[self.selected[repeated]]

    @cached_property
    def copies(self) -> Mapping[int, Sequence[int]]:
        """The offsets of the repeated records, by record number."""
        if not len(self.repeated):
            return {}
        repeated = np.zeros(len(self.fate) + 1, dtype=bool)  # the last place is for NONE
        repeated[self.repeated] = True
        positions = np.flatnonzero(repeated[self.log_record])
        offsets_by_record: dict[int, list[int]] = {}
        for position in positions:
            offsets = offsets_by_record.setdefault(int(self.log_record[position]), [])
            offsets.append(int(self.log_offset[position]))
        return offsets_by_record

    def shown_to_consumers(self, positions: Array) -> Array:
        """Return those of these positions in the log arrays that consumers may read."""
        shown: Array = positions if self.visible is None else positions[self.visible[positions]]
        return shown

    def identity(self, record: int) -> Identity:
        """Return the identity of a record, as its payload has it."""
        return Identity(
            cell=self.cell_names[self.cell_of[record]],
            producer=int(self.producer[record]),
            sequence=int(self.sequence[record]),
        )

    def name(self, record: int) -> str:
        """Return the name of a record, for example ``producer 3 sequence 17``."""
        words = f"producer {self.producer[record]} sequence {self.sequence[record]}"
        cell = self.cell_names[self.cell_of[record]]
        return words if cell == self.cell else f"cell {cell} {words}"

    def standing_at(self, offset: int) -> str:
        """Return a description of what the final log holds at an offset."""
        position = int(np.searchsorted(self.log_offset, offset))
        if position == len(self.log_offset) or self.log_offset[position] != offset:
            return "no record"
        record = self.log_record[position]
        return "a payload that no client sent" if record == NONE else self.name(record)

    def epoch_at(self, offsets: Sequence[int] | Array) -> Array:
        """Return the leader epoch of the record at each offset of the final log, or NONE if there
        is none or it is unknown."""
        offsets = np.asarray(offsets, dtype=np.int64)
        found = np.full(len(offsets), NONE, dtype=np.int64)
        if len(self.log_offset):
            places = np.searchsorted(self.log_offset, offsets)
            within = np.minimum(places, len(self.log_offset) - 1)
            there = (places < len(self.log_offset)) & (self.log_offset[within] == offsets)
            found[there] = self.log_epoch[within[there]]
        return found

    @cached_property
    def at_acked_offset(self) -> Array:
        """For each record by number, the position in the log arrays at which it is at the offset of
        its ack, or NONE."""
        found = np.full(len(self.fate), NONE, dtype=np.int64)
        ours = np.flatnonzero(self.log_record != NONE)
        records = self.log_record[ours]
        kept = self.log_offset[ours] == self.acked_offset[records]
        found[records[kept]] = ours[kept]
        return found

    def first_offset(self, records: Array) -> Array:
        """Return the offset of the first copy of each of these records, which must be in the
        log."""
        return self.log_offset[self.first[records]]
