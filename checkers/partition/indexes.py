"""What became of every record of one partition: built once (:mod:`checkers.partition.indexing`),
shared by all rules.

The tables of a partition (``sends``, ``log``) become arrays. Every record that either of them
names, (cell, producer, sequence), gets a dense number, so that reconciling is indexing of arrays:
linear in time, and memory grows with this partition alone. Nothing here judges.

A record that was invoked and has no completion, or ``info``, is INDETERMINATE. Where a damaged
history holds two completions of one record, ``ok`` beats ``fail`` beats ``info``, and the record
is counted as contradictory: no rule blames the cluster for what became of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.cluster.reach import FaultWindows
from ackproof.checkers.evidence.final_read import FinalRead
from ackproof.checkers.partition.overtaking import overtaken, stream_numbers
from ackproof.checkers.raw_logs.sessions import UNTOLD, Written
from ackproof.checkers.timeline.known import Timeline
from ackproof.history.payload import Identity

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
            where they are to tell of all (:mod:`checkers.reconciling.parts`).
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
        """By record number: whose it is, :func:`checkers.partition.overtaking.stream_numbers`."""
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
