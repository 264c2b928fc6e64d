"""What a run's small tables tell: its cells, faults, final reads, and whether it went to its end.

What cannot be read counts as lacking evidence: a gap, and a finding for the reader. Nothing in
here raises because of what a history holds or lacks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from checkers.faults import FaultFacts, faults_of
from checkers.indexes import FinalRead
from history import reader
from history.errors import DamagedFiles

NEEDED_STEPS = ("flush", "final-read")
"""Steps that must have ended: the clients closed their histories, every partition was read."""

DECISIVE_STEPS = frozenset({"deploy", "ready", "workload", "faults", "heal", *NEEDED_STEPS})
"""Steps whose failure leaves the experiment incomplete. Others (recover, collect, teardown) come
too late to change what was acked and what was read: their failure is a finding alone."""

SMALL_TABLES = ("cells", "reads", "faults", "phases")

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvidence:
    """One run.

    Attributes:
        number: The run's number.
        history: Directory of its tables.
        cells: Rows of the ``cells`` table, by cell.
        reads: The final reads and how many records each got, by (topic, partition).
        faults: The faults.
        flushed: Whether the clients are known to have closed their histories.
        gaps: What the evidence of every cell of this run lacks.
        findings: What else a reader must know.
    """

    number: int
    history: Path
    cells: Mapping[str, Row]
    reads: Mapping[tuple[str, int], "ReadFacts"]
    faults: tuple[FaultFacts, ...]
    flushed: bool
    gaps: tuple[str, ...]
    findings: tuple[str, ...]

    def disks_lost(self, replication_factor: int) -> int:
        """How many distinct servers lost data from their disks; a fault of which the history does
        not tell whom it hit counts for all replicas."""
        losing = [fault for fault in self.faults if fault.loses_disk]
        if any(fault.servers is None for fault in losing):
            return replication_factor
        return len({server for fault in losing for server in fault.servers or ()})

    def unread_partitions(self, cell: Row) -> Iterator[str]:
        """The partitions of a cell without a complete final read, a sentence each."""
        for partition in range(cell["partitions"]):
            read = self.reads.get((cell["topic"], partition))
            if read is None:
                yield f"partition {partition}: no final read"
            elif not read.read.complete:
                yield f"partition {partition}: final read incomplete ({read.error or 'no reason'})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFacts:
    """The final read of a partition, how many records it reported, and why it broke off."""

    read: FinalRead
    records: int
    error: str | None


def gather(directory: Path, number: int) -> RunEvidence:
    """The evidence of one run from ``runs/<number>/history``."""
    tables, damaged = _tables(directory)
    faults = faults_of(tables["faults"])
    steps = tables["phases"].to_pylist()
    cells = {row["cell"]: row for row in tables["cells"].to_pylist()}
    doubts = tuple(_fault_gaps(faults))
    failures = tuple(_failures(steps))
    nothing = () if cells else ("no cells recorded",)
    ended = _ended(steps)
    return RunEvidence(
        number=number,
        history=directory,
        cells=cells,
        reads=_reads(tables["reads"].to_pylist()),
        faults=faults,
        flushed="flush" in ended,
        gaps=damaged + nothing + doubts + tuple(_step_gaps(steps)),
        findings=damaged + nothing + doubts + failures,
    )


def _tables(directory: Path) -> tuple[dict[str, pa.Table], tuple[str, ...]]:
    tables, damaged = {}, []
    for name in SMALL_TABLES:
        try:
            tables[name] = reader.read(directory, name)
        except DamagedFiles as error:
            tables[name] = reader.decoded_schema(name).empty_table()
            damaged.append(f"table {name}: {error}")
    return tables, tuple(damaged)


def _reads(rows: Sequence[Row]) -> dict[tuple[str, int], ReadFacts]:
    by_partition: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        by_partition.setdefault((row["topic"], row["partition"]), []).append(row)
    return {partition: _read(rows) for partition, rows in by_partition.items()}


def _read(rows: Sequence[Row]) -> ReadFacts:
    """A partition that was read in several goes was read completely if each go was complete."""
    starts = [row["log_start_offset"] for row in rows if row["log_start_offset"] is not None]
    ends = [row["log_end_offset"] for row in rows if row["log_end_offset"] is not None]
    complete = all(row["complete"] for row in rows)
    return ReadFacts(
        read=FinalRead(
            complete=complete,
            start=min(starts, default=None),
            end=max(ends, default=None),
        ),
        records=sum(row["records"] for row in rows),
        error=next((row["error"] for row in rows if row["error"]), None),
    )


def _fault_gaps(faults: Sequence[FaultFacts]) -> Iterator[str]:
    for fault in faults:
        if not fault.bit:
            yield f"{fault.label} on {fault.target} is not proven to have bitten"
        if fault.end is None:
            yield f"{fault.label} on {fault.target} is not proven healed"


def _ended(steps: Sequence[Row]) -> set[str]:
    return {row["phase"] for row in steps if row["event"] == "end"}


def _failures(steps: Sequence[Row]) -> Iterator[str]:
    for row in steps:
        if row["event"] == "failed":
            yield f"the step {row['phase']} failed: {row['detail'] or 'no detail'}"


def _step_gaps(steps: Sequence[Row]) -> Iterator[str]:
    yield from _failures([row for row in steps if row["phase"] in DECISIVE_STEPS])
    failed = {row["phase"] for row in steps if row["event"] == "failed"}
    for step in NEEDED_STEPS:
        if step not in _ended(steps) | failed:
            yield f"the step {step} did not end"
