"""The final reads of a run: their reports, and what is missing of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ackproof.checkers.cluster.faults import Partition
from ackproof.checkers.evidence.final_read import FinalRead
from ackproof.checkers.evidence.gaps import Gap
from ackproof.history.manifest import PlannedRun

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFacts:
    """The final read of a partition, how many records it reported, and why it broke off."""

    read: FinalRead
    records: int
    error: str | None


def reads_of(rows: Sequence[Row]) -> dict[Partition, ReadFacts]:
    """Return what the final read reports, by partition, from the rows of the table ``reads``."""
    by_partition: dict[Partition, list[Row]] = {}
    for row in rows:
        by_partition.setdefault((row["topic"], row["partition"]), []).append(row)
    return {partition: _read(rows) for partition, rows in by_partition.items()}


def _read(rows: Sequence[Row]) -> ReadFacts:
    """A partition that was read in several goes was read completely if each go was complete."""
    starts = [row["log_start_offset"] for row in rows if row["log_start_offset"] is not None]
    listed = [row["log_end_offset"] for row in rows if row["log_end_offset"] is not None]
    met = [row["read_end_offset"] for row in rows if row["read_end_offset"] is not None]
    return ReadFacts(
        read=FinalRead(
            complete=all(row["complete"] for row in rows),
            start=min(starts, default=None),
            # ListOffsets tells a high watermark that may lag behind, or be of a leader before.
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
                words = f"{name}: final read incomplete ({facts.error or 'no reason'})"
                yield Gap(words=words, cells=frozenset({cell.name}))


def ends_not_met(reads: Mapping[Partition, ReadFacts]) -> Iterator[str]:
    """Yield where a log that was read to its end did not end where ListOffsets had told.

    To end behind that breaks no promise by itself: what is told is the high watermark, and what was
    appended and not acknowledged by all in sync may be above it for a moment still
    (:func:`checkers.rules.acks.watermark_regressed` asks the acks)."""
    for (topic, number), facts in sorted(reads.items()):
        listed, met = facts.read.listed, facts.read.end
        if listed is not None and met is not None and met != listed:
            told = f"ListOffsets told the end {listed}"
            yield f"{topic}-{number}: {told}, the final read met it at {met}"
