"""The report of the final read of each partition, and what is missing from it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ackproof.checkers.arrays import Array
from ackproof.checkers.context.faults import Partition
from ackproof.checkers.context.gaps import Gap
from ackproof.history.manifest import PlannedRun


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalRead:
    """The final read of a partition.

    Attributes:
        complete: Whether it covered the log from ``start`` to ``end`` (exclusive).
        start: The log start offset, or None if unknown.
        end: The log end offset, or None if unknown.
        listed: The end that ListOffsets returned, or None if unknown.
        began: The time, by the clients' clocks, before which every ack and every consumer's read
            preceded the start of the final read; in nanoseconds, None if unknown.
    """

    complete: bool
    start: int | None = None
    end: int | None = None
    listed: int | None = None
    began: int | None = None

    def covers(self, times: Array) -> Array:
        """Return which of these times are certainly before the start of the final read, or may be
        if that is unknown."""
        before: Array = np.full(times.shape, True) if self.began is None else times < self.began
        return before


# --- final reads ----------------------------------------------------------------------------------
#
# The final reads of a run: their reports, and what is missing from them.


Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFacts:
    """The final read of a partition, the number of records that it reported, and the reason why it
    stopped early."""

    read: FinalRead
    records: int
    error: str | None


def reads_of(rows: Sequence[Row]) -> dict[Partition, ReadFacts]:
    """Return the final read of each partition from the rows of the table ``reads``."""
    by_partition: dict[Partition, list[Row]] = {}
    for row in rows:
        by_partition.setdefault((row["topic"], row["partition"]), []).append(row)
    return {partition: _read(rows) for partition, rows in by_partition.items()}


def _read(rows: Sequence[Row]) -> ReadFacts:
    """Return the final read of a partition. If it was read in several attempts, it is complete if
    each attempt was complete."""
    starts = [row["log_start_offset"] for row in rows if row["log_start_offset"] is not None]
    listed = [row["log_end_offset"] for row in rows if row["log_end_offset"] is not None]
    met = [row["read_end_offset"] for row in rows if row["read_end_offset"] is not None]
    return ReadFacts(
        read=FinalRead(
            complete=all(row["complete"] for row in rows),
            start=min(starts, default=None),
            # ListOffsets returns a high watermark, which may lag behind or come from a former
            # leader.
            end=max(met or listed, default=None),
            listed=max(listed, default=None),
        ),
        records=sum(row["records"] for row in rows),
        error=next((row["error"] for row in rows if row["error"]), None),
    )


def read_gaps(planned: PlannedRun, reads: Mapping[Partition, ReadFacts]) -> Iterator[Gap]:
    """Yield the partitions without a final read, or with an incomplete one."""
    for cell in (planned_cell.cell for planned_cell in planned.cells):
        for partition in cell.topic_partitions:
            name = f"{partition[0]}-{partition[1]}"
            facts = reads.get(partition)
            if facts is None:
                yield Gap(words=f"{name}: no final read", cells=frozenset({cell.name}))
            elif not facts.read.complete:
                words = f"{name}: final read incomplete ({facts.error or 'no reason is recorded'})"
                yield Gap(words=words, cells=frozenset({cell.name}))


LISTED = "ListOffsets returned the end"
"""The words by which a finding of :func:`ends_not_met` is known."""


def ends_not_met(reads: Mapping[Partition, ReadFacts]) -> Iterator[str]:
    """Yield the partitions whose log did not end where ListOffsets had said.

    An end beyond that offset violates no guarantee by itself. ListOffsets returns the high
    watermark, and records that not all in-sync replicas have yet may be above it for a moment
    (:func:`checkers.checks.acks.watermark_regressed` compares the acks).
    """
    for (topic, number), facts in sorted(reads.items()):
        listed, met = facts.read.listed, facts.read.end
        if listed is not None and met is not None and met != listed:
            yield f"{topic}-{number}: {LISTED} {listed}, but the final read ended at {met}"
