"""The history of one partition: its records, each with its number and what became of it, and the
final log, as columns. All rules share it; nothing here judges."""

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
from ackproof.checkers.context.timeline import Timeline
from ackproof.checkers.index.raw_logs import UNTOLD, Written
from ackproof.history.payload import Identity

ADDRESSES_A_ROW = 4
"""Of so many no more than one need be in use. A quarter is not rare: the rows are of sends and of
the log, and half of the partitions' records may be recorded elsewhere."""
_BLOCK = 1 << 16
_FEW = 1_024
_SAMPLE = 4_096
_FAR = 2**62


def record_numbers(cell_of: Array, producer: Array, sequence: Array) -> tuple[Array, Array]:
    """Of each row the number of its record, and of each record its first row. Numbers are dense and
    in the order of these. Exact whatever the values are."""
    stream, streams = dense(streams_of(cell_of, producer))
    addressed = addresses(stream, len(streams), sequence)
    if addressed is not None:
        return _by_appearance(*addressed)
    return hashed(stream, sequence)


def part_by_part(
    numbers: Array, first: Array, begins: Sequence[Sequence[int]]
) -> tuple[Array, Array, list[int]]:
    """What :func:`record_numbers` tells of rows of several partitions, none of which names a record
    of another one, numbered so that each one's records follow those of the one before; and from
    which number on they are its own. ``begins``: the rows are so many tables, one behind the other,
    in each of which partitions begin there, and the last one ends."""
    count = len(begins[0]) - 1
    if count == 1:
        return numbers, first, [0, len(first)]
    places = np.tile(np.arange(count), len(begins))
    whose = np.repeat(places, np.concatenate([np.diff(one) for one in begins]))[first]
    # Mostly so as it is: who is in a log was sent, and all that was sent comes first.
    if (whose[1:] < whose[:-1]).any():
        order = np.argsort(whose, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        numbers, first, whose = place[numbers], first[order], whose[order]
    return numbers, first, np.searchsorted(whose, np.arange(count + 1)).tolist()


def streams_of(cell_of: Array, producer: Array) -> Array:
    """A number for cell and producer of each row, the same for the same alone, and small where
    these are. Cells are numbered from 0, and a producer's number has 32 bits."""
    if not cell_of.any():
        return producer
    cells, producers = cell_of.astype(np.int64), producer.astype(np.int64)
    least = int(producers.min())
    streams: Array = cells * (int(producers.max()) - least + 1) + (producers - least)
    return streams


def hashed(stream: Array, sequence: Array) -> tuple[Array, Array]:
    """As :func:`record_numbers`, of rows whose ``stream`` is a number for cell and producer."""
    place, _ = dense(sequence)
    # Two numbers below 2**31 fit one int64.
    numbers, found = dense(stream.astype(np.int64) << 32 | place)
    return numbers.astype(np.int64, copy=False), first_positions(numbers, len(found))


def addresses(stream: Array, streams: int, sequence: Array) -> tuple[Array, int] | None:
    """An address for each row, the same for the same record alone, and how many addresses there
    are; None where there would be too many."""
    if not len(sequence):
        return sequence, 0
    least, greatest = _bounds(stream, streams, sequence)
    if max(map(int, greatest)) - min(map(int, least)) > _FAR:
        return None
    # Where the stride of the first ones is not that of all, that of all.
    for some in (slice(_SAMPLE), slice(None)):
        stride = max(int(np.gcd.reduce(sequence[some] - least[stream[some]])), 1)
        ends = np.cumsum((greatest - least) // stride + 1)
        if ends[-1] > ADDRESSES_A_ROW * len(sequence) + _FEW:
            return None
        address = _strided(stream, sequence, (least, np.append(0, ends[:-1])), stride)
        if address is not None:
            return address, int(ends[-1])
    return None


def _bounds(stream: Array, streams: int, sequence: Array) -> tuple[Array, Array]:
    """The least and the greatest sequence number of each stream."""
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
    """An address for each row; None where one is not a multiple of the stride away from where its
    stream begins. ``begins``: by stream, its first sequence number, and the address of that."""
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
    """Position of the first occurrence of each number; -1 of those that do not occur. Of the
    numbers, -1 is none."""
    return _first_positions(numbers, count, np.int64)


def _first_positions(numbers: Array, count: int, kind: type[np.signedinteger[Any]]) -> Array:
    first = np.full(count + 1, -1, dtype=kind)  # the last place takes those
    # From the end, so that whoever comes first is written last.
    for block in reversed([*_blocks(len(numbers))]):
        first[numbers[block][::-1]] = np.arange(block.stop - 1, block.start - 1, -1)
    return first[:count]


def _blocks(rows: int) -> Iterator[slice]:
    for begin in range(0, rows, _BLOCK):
        yield slice(begin, min(begin + _BLOCK, rows))


def _by_appearance(address: Array, size: int) -> tuple[Array, Array]:
    """As :func:`record_numbers`, of rows with these addresses, whose place the numbers take."""
    number = _first_positions(address, size, np.int32)  # a task has less than 2**31 rows
    first = np.zeros(len(address), dtype=bool)
    first[number[number >= 0]] = True
    begins = np.flatnonzero(first)
    number[address[begins]] = np.arange(len(begins))
    for block in _blocks(len(address)):
        address[block] = number[address[block]]
    return address, begins


def dense(values: Array) -> tuple[Array, Array]:
    """A number for each value, the same for the same alone; and the values, by these numbers."""
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
# Which records come behind one that their producer sent later.


_NARROW = 2**15


def stream_numbers(cell_of: Array, producer: Array) -> Array:
    """Of each record a number for its cell and producer, as narrow as can be, for
    :func:`overtaken`."""
    codes, streams = dense(streams_of(cell_of, producer))
    rank = np.argsort(np.argsort(streams))
    # What is that narrow NumPy sorts by counting, in linear time.
    return rank.astype(np.int16 if len(streams) < _NARROW else np.int64)[codes]


def overtaken(stream: Array, rank: Array) -> tuple[Array, Array]:
    """Of records in some order: producer by producer, the places of those that rank lower than one
    of the same producer before them, and for each the place of the one before it that ranks
    highest. ``stream``: :func:`stream_numbers` of them."""
    by_stream = np.argsort(stream, kind="stable")
    least, greatest = (int(rank.min()), int(rank.max())) if len(rank) else (0, 0)
    span = greatest - least + 1
    last = int(stream[by_stream[-1]]) if len(stream) else 0
    if span * (last + 1) > _FAR:
        return one_by_one(stream, rank, by_stream)
    # Whoever comes later in this order ranks above all of the producers before, so that one running
    # maximum is each producer's own.
    above = (rank[by_stream] - least) + stream[by_stream].astype(np.int64) * span
    return _of_one(by_stream, above)


def one_by_one(stream: Array, rank: Array, by_stream: Array) -> tuple[Array, Array]:
    """Likewise whatever the ranks are. ``by_stream``: the places in the order of streams."""
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
# What became of every record of one partition: built once (:mod:`checkers.index.indexing`),
# shared by all rules.
#
# The tables of a partition (``sends``, ``log``) become arrays. Every record that either of them
# names, (cell, producer, sequence), gets a dense number, so that reconciling is indexing of arrays:
# linear in time, and memory grows with this partition alone. Nothing here judges.
#
# A record that was invoked and has no completion, or ``info``, is INDETERMINATE. Where a damaged
# history holds two completions of one record, ``ok`` beats ``fail`` beats ``info``, and the record
# is counted as contradictory: no rule blames the cluster for what became of it.


SEND_COLUMNS = ("cell", "producer", "sequence", "type", "time", "offset", "due")
LOG_COLUMNS = ("offset", "leader_epoch", "cell", "producer", "sequence")


class Fate(IntEnum):
    """What the client knows of a record in the end."""

    NEVER_SENT = 0
    INDETERMINATE = 1
    FAILED = 2
    ACKED = 3


@dataclass(frozen=True, kw_only=True)
class PartitionHistory:
    """One partition of one run.

    Attributes:
        cell: The cell whose topic this is.
        read: The final read.
        sends_whole: Whether every send to this partition is known to be recorded.
        faults: The faults of the run, to label anomalies with.
        cell_names: Name by cell number.
        cell_of, producer, sequence: Identity by record number.
        fate: :class:`Fate` by record number.
        acked_offset: By record number, NONE where the ack told none or there is no ack.
        time: By record number: of the ack, else of the invoke, else NONE; nanoseconds.
        asked: By record number: of the invoke, NONE where there is none; nanoseconds.
        answered: By record number: of the completion, likewise.
        due: By record number: when its producer's schedule had it sent, NONE where it has none.
        begun: The earliest time of a send, NONE where nothing was sent.
        untold: By record number: whether its producer was crashed, and may have sent it after the
            last that it recorded.
        crashed: The numbers of the producers that were crashed.
        contradicted: By record number: invoked or completed twice, completed and never invoked, or
            completed before it was invoked. Such a record tells nothing of the cluster.
        log_offset: The final log, in offset order.
        log_epoch: The leader epoch in which each of these was appended, NONE where it is not told.
        log_record: Record number at each of these, NONE where the payload is none of ours.
        first: By record number: position in the log arrays of its first copy, or NONE.
        timeline: What is known of its leaders, epochs and ISR, and of the clock of its acks.
        seen: By record number, of those that are lost: 1 where a consumer was shown it, 0 where
            none was, NONE where nobody knows; None where nobody looked.
        transactional: Whether it was written in transactions, whose markers take offsets.
        visible: By position in the log arrays: whether its consumers are to be shown it; None where
            they are to be shown all.
        deleted_before: The offset below which records were deleted by order.
        rare: By record number: whether :attr:`lost` and :attr:`repeated` are to tell of it; None
            where they are to tell of all (:mod:`checkers.engine.reconcile`).
        written: By offset, what raw logs say of how a record was written that stands in the log
            more than once; empty where that is not told.
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
    timeline: Timeline
    crashed: frozenset[int] = frozenset()
    seen: Array | None = None
    transactional: bool = False
    visible: Array | None = None
    deleted_before: int = 0
    rare: Array | None = None
    written: Mapping[int, Written] = field(default_factory=lambda: UNTOLD)

    @property
    def contradictory(self) -> int:
        """How many records have contradictory events."""
        return int(np.count_nonzero(self.contradicted))

    @property
    def contested(self) -> int:
        """Return at how many offsets of the final log another record stands than the one before:
        a log has one record at an offset, so that one of the two was never read there."""
        return int(np.count_nonzero(np.diff(self.log_offset) == 0))

    @cached_property
    def named_acks(self) -> Array:
        """The numbers of the records whose acks name an offset, and are not contradicted."""
        named = (self.fate == Fate.ACKED) & (self.acked_offset != NONE) & ~self.contradicted
        return np.flatnonzero(named)

    @cached_property
    def absent(self) -> Array:
        """The numbers of the acked records that are absent from the final log, ascending; none
        where it was not read completely, or where events of the record contradict each other."""
        acked = (self.fate == Fate.ACKED) & ~self.contradicted
        return np.flatnonzero(acked & (self.first == NONE) & self.read.complete)

    @cached_property
    def gone(self) -> Array:
        """The numbers of those of them that were acked before the final read began."""
        return self.absent[self.read.covers(self.time[self.absent])]

    @cached_property
    def unread(self) -> Array:
        """The numbers of the others: what became of them the final read does not tell."""
        return self.absent[~self.read.covers(self.time[self.absent])]

    @cached_property
    def lost(self) -> Array:
        """Those of them that were not deleted by order. Of one that was acked without an offset
        nobody can tell, where records were deleted (:attr:`lost_or_deleted`)."""
        gone = self.gone
        if self.deleted_before:
            # NONE is below every offset.
            gone = gone[self.acked_offset[gone] >= self.deleted_before]
        return gone if self.rare is None else gone[self.rare[gone]]

    @property
    def lost_or_deleted(self) -> int:
        """How many of them are the one or the other, and nobody can tell which."""
        if not self.deleted_before:
            return 0
        return int(np.count_nonzero(self.acked_offset[self.gone] == NONE))

    @cached_property
    def stream(self) -> Array:
        """By record number: whose it is,
        :func:`checkers.index.partition_history.stream_numbers`."""
        return stream_numbers(self.cell_of, self.producer)

    @cached_property
    def out_of_order(self) -> tuple[Array, Array]:
        """Numbers of the records that stand behind one that their producer sent later, in log
        order, and for each of the latest-sent one of its producer that stands before it. First
        copies count."""
        first = np.zeros(len(self.log_record), dtype=bool)
        first[self.first[(self.first != NONE) & (self.fate != Fate.NEVER_SENT)]] = True
        records = self.log_record[first]
        behind, ahead = overtaken(self.stream[records], self.sequence[records])
        in_log_order = np.argsort(behind)
        return records[behind[in_log_order]], records[ahead[in_log_order]]

    @cached_property
    def repeated(self) -> Array:
        """The numbers of the sent records that stand in the log more than once, ascending."""
        ours = self.log_record[self.log_record != NONE]
        often = np.bincount(ours, minlength=len(self.fate))
        repeated = np.flatnonzero((often > 1) & (self.fate != Fate.NEVER_SENT))
        return repeated if self.rare is None else repeated[self.rare[repeated]]

    @cached_property
    def copies(self) -> Mapping[int, Sequence[int]]:
        """The offsets of :attr:`repeated`, by record number."""
        if not len(self.repeated):
            return {}
        repeated = np.zeros(len(self.fate) + 1, dtype=bool)  # the last place is NONE's
        repeated[self.repeated] = True
        positions = np.flatnonzero(repeated[self.log_record])
        offsets_by_record: dict[int, list[int]] = {}
        for position in positions:
            offsets = offsets_by_record.setdefault(int(self.log_record[position]), [])
            offsets.append(int(self.log_offset[position]))
        return offsets_by_record

    def shown_to_consumers(self, positions: Array) -> Array:
        """Those of these positions in the log arrays that its consumers are to be shown."""
        shown: Array = positions if self.visible is None else positions[self.visible[positions]]
        return shown

    def identity(self, record: int) -> Identity:
        """Return whose a record is, as its payload says it."""
        return Identity(
            cell=self.cell_names[self.cell_of[record]],
            producer=int(self.producer[record]),
            sequence=int(self.sequence[record]),
        )

    def name(self, record: int) -> str:
        """A record in words, e.g. ``producer 3 sequence 17``."""
        words = f"producer {self.producer[record]} sequence {self.sequence[record]}"
        cell = self.cell_names[self.cell_of[record]]
        return words if cell == self.cell else f"cell {cell} {words}"

    def standing_at(self, offset: int) -> str:
        """What the final log holds at an offset, in words."""
        position = int(np.searchsorted(self.log_offset, offset))
        if position == len(self.log_offset) or self.log_offset[position] != offset:
            return "no record"
        record = self.log_record[position]
        return "a payload of no client" if record == NONE else self.name(record)

    def epoch_at(self, offsets: Sequence[int] | Array) -> Array:
        """The leader epoch of what the final log holds at each offset; NONE for nothing, and where
        that is not told."""
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
        """By record number: the position in the log arrays at which it stands at the offset of its
        ack, or NONE."""
        found = np.full(len(self.fate), NONE, dtype=np.int64)
        ours = np.flatnonzero(self.log_record != NONE)
        records = self.log_record[ours]
        kept = self.log_offset[ours] == self.acked_offset[records]
        found[records[kept]] = ours[kept]
        return found

    def first_offset(self, records: Array) -> Array:
        """Offset of the first copy of records that stand in the log."""
        return self.log_offset[self.first[records]]
