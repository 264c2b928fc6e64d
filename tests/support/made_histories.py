"""Histories made by hand or by chance: in memory for the rules, on disk for whole campaigns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from checkers.faults import NO_FAULTS, FaultWindows
from checkers.indexes import FinalRead, PartitionHistory, index
from history.schema import TABLES
from history.writer import TableWriter

CELL = "c"
TOPIC = "t"


@dataclass(frozen=True, kw_only=True)
class Send:
    """One event of a send; ``type`` as in the schema."""

    type: str
    producer: int
    sequence: int
    time: int
    offset: int | None = None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One record of the final log; without producer: a payload of no client's."""

    offset: int
    producer: int | None = None
    sequence: int | None = None


@dataclass(frozen=True, kw_only=True)
class Made:
    """One partition's history."""

    sends: Sequence[Send]
    log: Sequence[Entry]
    start: int = 0
    end: int
    complete: bool = True

    def but(self, **changes: Any) -> "Made":
        return replace(self, **changes)


def send(type_: str, producer: int, sequence: int, time: int, offset: int | None = None) -> Send:
    return Send(type=type_, producer=producer, sequence=sequence, time=time, offset=offset)


def entry(offset: int, producer: int | None = None, sequence: int | None = None) -> Entry:
    return Entry(offset=offset, producer=producer, sequence=sequence)


def indexed(
    made: Made, *, sends_whole: bool = True, faults: FaultWindows = NO_FAULTS
) -> PartitionHistory:
    """The history as rules are given it."""
    sends = {
        "cell": pa.array([CELL] * len(made.sends), pa.string()),
        "producer": pa.array([s.producer for s in made.sends], pa.int32()),
        "sequence": pa.array([s.sequence for s in made.sends], pa.int64()),
        "type": pa.array([s.type for s in made.sends], pa.string()),
        "time": pa.array([s.time for s in made.sends], pa.int64()),
        "offset": pa.array([s.offset for s in made.sends], pa.int64()),
    }
    log = {
        "offset": pa.array([e.offset for e in made.log], pa.int64()),
        "cell": pa.array([_cell(e) for e in made.log], pa.string()),
        "producer": pa.array([e.producer for e in made.log], pa.int32()),
        "sequence": pa.array([e.sequence for e in made.log], pa.int64()),
    }
    return index(
        cell=CELL,
        topic=TOPIC,
        partition=0,
        sends=pa.table(sends),
        log=pa.table(log),
        read=FinalRead(complete=made.complete, start=made.start, end=made.end),
        sends_whole=sends_whole,
        faults=faults,
    )


def _cell(record: Entry) -> str | None:
    return None if record.producer is None else CELL


CELL_ROW: Mapping[str, Any] = {
    "cell": CELL,
    "topic": TOPIC,
    "partitions": 1,
    "replication_factor": 3,
    "acks": "all",
    "min_insync_replicas": 2,
    "unclean_leader_election": False,
    "enable_idempotence": True,
    "max_in_flight": 5,
    "minimum_acked": 1,
}
FAULT_ROW: Mapping[str, Any] = {
    "fault_id": 1,
    "fault": "kill",
    "target": "leader(t, 0)",
    "resolved": '{"servers": ["broker-1"]}',
    "proven": None,
}
FINISHED = tuple(
    {"phase": phase, "event": event, "time": 0}
    for phase in ("deploy", "ready", "workload", "faults", "heal", "recover", "flush", "final-read")
    for event in ("start", "end")
)


def fault_rows(*events: tuple[str, int, bool | None], **changes: Any) -> list[dict[str, Any]]:
    """Rows of one fault: (event, time, proven) each."""
    return [
        {**FAULT_ROW, "event": event, "time": time, "proven": proven, **changes}
        for event, time, proven in events
    ]


HEALED_KILL = tuple(
    fault_rows(
        ("inject", 90, None),
        ("injected", 100, None),
        ("verified", 110, True),
        ("heal", 190, None),
        ("healed", 200, True),
    )
)


@dataclass(frozen=True, kw_only=True)
class MadeRun:
    """One run on disk. ``partitions``: by (topic, partition)."""

    partitions: Mapping[tuple[str, int], Made]
    cells: Sequence[Mapping[str, Any]] = (CELL_ROW,)
    faults: Sequence[Mapping[str, Any]] = HEALED_KILL
    phases: Sequence[Mapping[str, Any]] = FINISHED
    reads: bool = True
    closed: bool = True
    without: frozenset[str] = field(default_factory=frozenset)


def write_campaign(directory: Path, *runs: MadeRun, planned: int | None = None) -> Path:
    """Write a results directory as the harness does, with the harness's writer."""
    directory.mkdir(parents=True, exist_ok=True)
    text = f"name: made\nseed: 1\nruns: {planned or len(runs)}\n"
    (directory / "campaign.yaml").write_text(text, encoding="utf-8")
    for number, run in enumerate(runs, start=1):
        _write_run(directory / "runs" / str(number) / "history", run)
    return directory


def _write_run(history: Path, run: MadeRun) -> None:
    history.mkdir(parents=True)
    for table in ("cells", "faults", "phases"):
        _write(history, table, getattr(run, table))
    if run.reads:
        _write(history, "reads", [_read(key, made) for key, made in run.partitions.items()])
    for (topic, partition), made in run.partitions.items():
        cell = next(row["cell"] for row in run.cells if row["topic"] == topic)
        where = {"cell": cell, "topic": topic, "partition": partition}
        sends = [{**where, **vars(row)} for row in made.sends]
        log = [
            {
                **where,
                **vars(row),
                "timestamp": 0,
                "cell": (row.producer is not None and cell) or None,
            }
            for row in made.log
        ]
        for table, rows in (("sends", sends), ("log", log)):
            if table not in run.without:
                _write(history, table, rows, (topic, partition), closed=run.closed)


def _read(key: tuple[str, int], made: Made) -> dict[str, Any]:
    return {
        "topic": key[0],
        "partition": key[1],
        "log_start_offset": made.start,
        "log_end_offset": made.end,
        "records": len(made.log),
        "complete": made.complete,
        "error": None if made.complete else "timed out",
    }


def _write(
    history: Path,
    table: str,
    rows: Sequence[Mapping[str, Any]],
    partition: tuple[str, int] | None = None,
    *,
    closed: bool = True,
) -> None:
    writer = TableWriter(history, table, "w", partition=partition)
    for row in rows:
        writer.append(tuple(row.get(name) for name in TABLES[table].names))
    writer.flush()
    if closed:
        writer.close()
