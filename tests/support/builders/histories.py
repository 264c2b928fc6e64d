"""Histories made by hand or by chance: in memory for the rules, on disk for whole campaigns."""

import pickle
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from ackproof.checkers.context.fault_windows import NO_FAULTS, FaultWindows
from ackproof.checkers.context.final_reads import FinalRead
from ackproof.checkers.context.timeline import UNSEEN, PartitionTimeline
from ackproof.checkers.index.indexing import Unindexed, index
from ackproof.checkers.index.partition_history import PartitionHistory
from ackproof.history import storage
from ackproof.history.cell import Cell, Value
from ackproof.history.manifest import (
    Manifest,
    PlannedCell,
    PlannedFailover,
    PlannedFault,
    PlannedGroup,
    PlannedRun,
    PlannedWriter,
)
from ackproof.history.names import MEASURES
from ackproof.history.schema import TABLES
from ackproof.history.writer import PART_BYTES, PartitionedWriter, TableWriter
from tests.support.builders.consumers import T0, MadeConsumer, write_consumer, writers_of

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
    due: int | None = None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One record of the final log; without producer: a payload of no client's. ``cell``: the one
    that its payload names, if that is another one."""

    offset: int
    producer: int | None = None
    sequence: int | None = None
    leader_epoch: int | None = None
    cell: str | None = None


@dataclass(frozen=True, kw_only=True)
class Made:
    """One partition's history. ``end`` is what ListOffsets told; ``met``: where the final read
    ended, if not there."""

    sends: Sequence[Send]
    log: Sequence[Entry]
    start: int = 0
    end: int
    met: int | None = None
    complete: bool = True

    def but(self, **changes: Any) -> "Made":
        return replace(self, **changes)


def send(
    type_: str,
    producer: int,
    sequence: int,
    time: int,
    offset: int | None = None,
    due: int | None = None,
) -> Send:
    return Send(type=type_, producer=producer, sequence=sequence, time=time, offset=offset, due=due)


def entry(
    offset: int,
    producer: int | None = None,
    sequence: int | None = None,
    leader_epoch: int | None = None,
) -> Entry:
    return Entry(offset=offset, producer=producer, sequence=sequence, leader_epoch=leader_epoch)


def indexed(
    made: Made,
    *,
    sends_whole: bool = True,
    faults: FaultWindows = NO_FAULTS,
    timeline: PartitionTimeline = UNSEEN,
    deleted_before: int = 0,
) -> PartitionHistory:
    """The history as rules are given it."""
    tables = unindexed(
        made,
        sends_whole=sends_whole,
        faults=faults,
        timeline=timeline,
        deleted_before=deleted_before,
    )
    return index([tables])[0]


def unindexed(
    made: Made,
    *,
    sends_whole: bool = True,
    faults: FaultWindows = NO_FAULTS,
    timeline: PartitionTimeline = UNSEEN,
    deleted_before: int = 0,
) -> Unindexed:
    """Its tables."""
    sends = {
        "cell": pa.array([CELL] * len(made.sends), pa.string()),
        "producer": pa.array([s.producer for s in made.sends], pa.int32()),
        "sequence": pa.array([s.sequence for s in made.sends], pa.int64()),
        "type": pa.array([s.type for s in made.sends], pa.string()),
        "time": pa.array([s.time for s in made.sends], pa.int64()),
        "offset": pa.array([s.offset for s in made.sends], pa.int64()),
        "due": pa.array([s.due for s in made.sends], pa.int64()),
    }
    log = {
        "offset": pa.array([e.offset for e in made.log], pa.int64()),
        "leader_epoch": pa.array([e.leader_epoch for e in made.log], pa.int32()),
        "cell": pa.array([_cell(e) for e in made.log], pa.string()),
        "producer": pa.array([e.producer for e in made.log], pa.int32()),
        "sequence": pa.array([e.sequence for e in made.log], pa.int64()),
    }
    return Unindexed(
        cell=CELL,
        topic=TOPIC,
        partition=0,
        sends=pa.table(sends),
        log=pa.table(log),
        read=FinalRead(complete=made.complete, start=made.start, end=made.end),
        sends_whole=sends_whole,
        faults=faults,
        timeline=timeline,
        deleted_before=deleted_before,
    )


def _cell(record: Entry) -> str | None:
    return record.cell or (None if record.producer is None else CELL)


SECOND = 1_000_000_000
SESSION_TIMEOUT_MS = 3_000
REPLICA_LAG_MS = 4_000
RECOVERY_MS = 60_000
CLIENT = "client-1"


def at(seconds: float) -> int:
    """Nanoseconds of the Unix epoch, so long after the workload began."""
    return T0 + int(seconds * SECOND)


def acked(
    *seconds: float,
    offset: int = 0,
    step: int = 1,
    producer: int = 1,
    partition: int = 0,
    partitions: int = 1,
) -> tuple[list[Send], list[Entry]]:
    """Return the records of one producer in one of its partitions, acked at these moments, and
    their log. Each stands ``step`` offsets behind the one before. The producer sends to its
    partitions in turn."""
    sends, log = [], []
    for turn, moment in enumerate(seconds):
        place = offset + turn * step
        number = partition + turn * partitions
        sends.append(send("invoke", producer, number, at(moment) - 5))
        sends.append(send("ok", producer, number, at(moment), place))
        log.append(entry(place, producer, number))
    return sends, log


def kept(*seconds: float) -> Made:
    """A partition whose records, acked at these moments, all stand in the log."""
    sends, log = acked(*seconds)
    return Made(sends=sends, log=log, end=len(log))


def losing(made: Made, *offsets: int) -> Made:
    """Return the same partition with other records at these acknowledged offsets."""
    others = {offset: number for number, offset in enumerate(sorted(offsets))}
    log = [entry(e.offset, 99, others[e.offset]) if e.offset in others else e for e in made.log]
    sends = [send("invoke", 99, number, at(1)) for number in others.values()]
    return made.but(sends=[*made.sends, *sends], log=log)


ALL: Mapping[str, Value] = {
    "acks": "all",
    "min.insync.replicas": 2,
    "replication.factor": 3,
    "enable.idempotence": True,
}
ACKS_1: Mapping[str, Value] = {"acks": "1", "replication.factor": 3}
ACKS_0: Mapping[str, Value] = {"acks": "0", "replication.factor": 3}
UNCLEAN: Mapping[str, Value] = {**ALL, "unclean.leader.election.enable": True}


def cell(
    settings: Mapping[str, Value] = ALL,
    *,
    name: str = CELL,
    topic: str = TOPIC,
    partitions: int = 1,
    acked_min: int = 1,
    expect: str | None = None,
    groups: Mapping[str, str] = MappingProxyType({}),
) -> PlannedCell:
    """A cell of a manifest. ``groups``: delivery by ``group.id``."""
    mine = {**settings, "partitions": partitions}
    made = Cell(name=name, topic=topic, settings=mine)
    planned = tuple(PlannedGroup(name=name, delivery=how) for name, how in groups.items())
    return PlannedCell(cell=made, acked_min=acked_min, expect=expect, groups=planned)


READ = 10_000
"""Seconds: the final read began then, long after all that histories here tell of."""

FINISHED = tuple(
    {"phase": phase, "event": event, "time": at(seconds)}
    for seconds, phases in (
        (0, ("deploy", "ready", "workload", "faults", "heal", "recover", "flush")),
        (READ, ("final-read", "collect", "teardown")),
    )
    for phase in phases
    for event in ("start", "end")
)


def fault_rows(
    *events: tuple[str, float, bool | None],
    fault_id: int = 1,
    fault: str = "kill",
    target: str = "leader(t, 0)",
    servers: Sequence[str] | None = ("broker-1",),
    partitions: Sequence[str] | None = ("t-0",),
    destroys: str | None = None,
) -> list[dict[str, Any]]:
    """Rows of one fault: (event, seconds, proven) each."""
    return [
        {
            "fault_id": fault_id,
            "fault": fault,
            "target": target,
            "servers": servers,
            "partitions": partitions,
            "destroys": destroys,
            "event": event,
            "time": at(seconds),
            "proven": proven,
        }
        for event, seconds, proven in events
    ]


def client_fault(fault: str, since: float = 30, *, healed: bool = True) -> list[dict[str, Any]]:
    """The second fault of a run, on a client alone."""
    undone = (("heal", since, None), ("healed", since + 1, True))
    return fault_rows(
        *(("inject", since, None), ("injected", since, None), ("verified", since, True)),
        *(undone if healed else ()),
        fault_id=2,
        fault=fault,
        target="clients",
        servers=("client-1",),
        partitions=(),
    )


def a_fault(since: float = 10, until: float = 20, **changes: Any) -> list[dict[str, Any]]:
    """A fault that is proven to have bitten and to be healed."""
    return fault_rows(
        ("inject", since, None),
        ("injected", since + 0.1, None),
        ("verified", since + 0.2, True),
        ("heal", until - 0.1, None),
        ("healed", until, True),
        **changes,
    )


KILL = tuple(a_fault())
"""Of the leader of t-0, from 10 to 20 seconds."""

BEFORE, DURING, AFTER = 5, 15, 40
"""Acked then, a record lies before, within and after that fault and its reach."""


def state(
    seconds: float,
    leader: int,
    epoch: int,
    isr: Sequence[int],
    *,
    topic: str = TOPIC,
    partition: int = 0,
    version: int | None = None,
    controller_epoch: int | None = 1,
    elr: Sequence[int] | None = None,
) -> dict[str, Any]:
    """A row of ``cluster`` on a partition."""
    return {
        "time": at(seconds),
        "kind": "partition",
        "topic": topic,
        "partition": partition,
        "leader": leader,
        "leader_epoch": epoch,
        "isr": list(isr),
        "controller_epoch": controller_epoch,
        "version": version,
        "elr": None if elr is None else list(elr),
    }


def office(seconds: float, broker: int) -> dict[str, Any]:
    """A row of ``cluster``: that broker is controller from now on."""
    return {"time": at(seconds), "kind": "controller", "broker": broker, "controller_epoch": 1}


def connection(seconds: float, kind: str) -> dict[str, Any]:
    """A row of ``cluster`` on the observer's own connection."""
    return {"time": at(seconds), "kind": kind}


@dataclass(frozen=True, kw_only=True)
class MadeRun:
    """One run on disk. ``partitions``: by (topic, partition); those of the cells that it lacks were
    never sent to. ``plan``: where it is not the faults that the rows tell of. ``cluster``: where it
    is not three brokers, of which nothing was seen but that the first leads. ``clients``: who ended
    early; ``crashed``: producers that closed nothing; ``instead_of``: whom others, who are there if
    they sent anything, were to come in the place of; ``consumers``: of the cells. ``bounds``: of
    the client's clock, offset and bound in nanoseconds. ``failovers``: those planned;
    ``failed_over``: rows on them; ``named``: what is swept of the cluster; ``replicas``: whether
    their logs must be collected; ``digests``: and their digests recorded, by
    :func:`write_digests`; ``scheduling``: how long servers had to wait for a processor."""

    partitions: Mapping[tuple[str, int], Made]
    cells: Sequence[PlannedCell] = (cell(),)
    faults: Sequence[Mapping[str, Any]] = KILL
    plan: Sequence[PlannedFault] | None = None
    phases: Sequence[Mapping[str, Any]] = FINISHED
    cluster: Sequence[Mapping[str, Any]] | None = None
    servers: Sequence[Mapping[str, Any]] | None = None
    clients: Sequence[Mapping[str, Any]] = ()
    crashed: Collection[int] = ()
    instead_of: Mapping[int, int] = field(default_factory=dict)
    consumers: Sequence[MadeConsumer] = ()
    recovery: Sequence[Mapping[str, Any]] | None = None
    failovers: Sequence[PlannedFailover] = ()
    zookeeper: Sequence[Mapping[str, Any]] | None = None
    failed_over: Sequence[Mapping[str, Any]] = ()
    scheduling: Sequence[Mapping[str, Any]] = ()
    named: Mapping[str, Value] = field(default_factory=dict)
    bounds: tuple[int, int] = (0, 1_000_000)
    reads: bool = True
    closed: bool = True
    replicas: bool = False
    digests: bool = False
    external: bool = False

    @property
    def keys(self) -> list[tuple[str, int]]:
        """All partitions of the cells."""
        return [key for planned in self.cells for key in planned.cell.topic_partitions]


STARTED = tuple(
    {"time": at(-9), "server": server, "event": "started"}
    for server in ("broker-1", "broker-2", "broker-3", "zookeeper-1")
)


def counted(
    moment: str,
    zxid: int,
    watches: int = 0,
    *,
    own: int = 0,
    partitions: int | None = None,
    server: str = "zookeeper-1",
) -> dict[str, Any]:
    """A row of ``zookeeper``."""
    return {
        "moment": moment,
        "partitions": partitions,
        "time": T0,
        "server": server,
        "zxid": zxid,
        "watches": watches,
        "harness_watches": own,
    }


COUNTED = (
    counted("deployed", 100),
    counted("ready", 130, 47, own=7),
    counted("faults", 140),
    counted("recovered", 152),
)


def failed_over(
    partitions: int, partition: int, moved: int, led: float | None, acked: float | None
) -> dict[str, Any]:
    """A row of ``failovers``, whose broker was killed at 100 seconds; ``led`` and ``acked`` in
    seconds after that."""
    return {
        "partitions": partitions,
        "partition": partition,
        "broker": 1,
        "moved": moved,
        "killed": at(100),
        "led": None if led is None else at(100 + led),
        "acked": None if acked is None else at(100 + acked),
    }


def ended(
    seconds: float, server: str, exit_code: int | None, fault_id: int | None = None
) -> dict[str, Any]:
    """A row of ``servers``."""
    return {
        "time": at(seconds),
        "server": server,
        "event": "ended",
        "exit_code": exit_code,
        "fault_id": fault_id,
    }


def recovered(
    topic: str = TOPIC,
    partition: int = 0,
    *,
    leader: int = 1,
    isr: Sequence[int] = (1, 2, 3),
    whole: bool = True,
    seconds: float = 65,
) -> dict[str, Any]:
    """A row of ``recovery``."""
    return {
        "time": at(seconds),
        "topic": topic,
        "partition": partition,
        "leader": leader,
        "isr": list(isr),
        "whole": whole,
    }


def write_campaign(directory: Path, *runs: MadeRun, baseline: bool = False) -> Path:
    """Write a results directory as the harness does, with the harness's writer."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "campaign.yaml").write_text("name: made\nseed: 1\n", encoding="utf-8")
    plan = tuple(_planned(number, run) for number, run in enumerate(runs, start=1))
    Manifest(campaign="made", seed=1, baseline=baseline, runs=plan).write(directory)
    for planned, run in zip(plan, runs, strict=True):
        _write_run(directory / "runs" / str(planned.number) / "history", run)
    return directory


def write_digests(directory: Path, run: int = 1) -> None:
    """Write the digests of the files that a run has collected, as the step collect does."""
    top = history_of(directory, run).parent
    table = TableWriter(history_of(directory, run), "collected", "harness")
    for path in sorted(top.glob("replicas/**/*")) + sorted(top.glob("logs/**/*")):
        if path.is_file():
            table.append((path.relative_to(top).as_posix(), storage.digest(path)))
    table.flush()
    table.close()


def history_of(directory: Path, run: int = 1) -> Path:
    """Return the directory of a run's tables."""
    return directory / "runs" / str(run) / "history"


def _planned(number: int, run: MadeRun) -> PlannedRun:
    return PlannedRun(
        number=number,
        seed=1,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        replica_lag_ms=REPLICA_LAG_MS,
        recovery_ms=RECOVERY_MS,
        cells=tuple(run.cells),
        faults=tuple(_plan(run) if run.plan is None else run.plan),
        cluster=run.named,
        failovers=tuple(run.failovers),
        replicas=run.replicas,
        external=run.external,
        unchecked={},
        writers=tuple(_writers(run)),
    )


def _plan(run: MadeRun) -> list[PlannedFault]:
    told = {row["fault_id"]: row for row in run.faults}
    return [
        PlannedFault(
            fault_id=number, fault=row["fault"], target=row["target"], start_ms=0, hold_ms=0
        )
        for number, row in sorted(told.items())
    ]


def _writers(run: MadeRun) -> Iterator[PlannedWriter]:
    for planned in run.cells:
        for producer in sorted(_producers(run, planned.cell) | run.instead_of.keys()):
            before = run.instead_of.get(producer)
            yield PlannedWriter(
                table="sends",
                writer=f"{planned.cell.name}-{producer}",
                node=CLIENT,
                cell=planned.cell.name,
                client=f"producer-{producer}",
                instead_of=None if before is None else f"producer-{before}",
                partitions=planned.cell.topic_partitions,
            )
    for consumer in run.consumers:
        yield from writers_of(consumer, CLIENT)
    yield PlannedWriter(table="log", writer="final-read", node=CLIENT, partitions=tuple(run.keys))
    yield PlannedWriter(table="reads", writer="final-read", node=CLIENT)
    tables = (
        "faults",
        "phases",
        "cluster",
        "servers",
        "scheduling",
        "clients",
        "recovery",
        "clocks",
    )
    collected = ("collected",) if run.digests else ()
    for table in (*tables, *collected, *sorted(MEASURES)):
        yield PlannedWriter(table=table, writer="harness", node="harness")


def _producers(run: MadeRun, cell: Cell) -> set[int]:
    mine = [run.partitions[key] for key in cell.topic_partitions if key in run.partitions]
    return {event.producer for made in mine for event in made.sends} or {0}


def _write_run(history: Path, run: MadeRun) -> None:
    history.mkdir(parents=True)
    log: _Rows = {}
    for planned in run.cells:
        cell = planned.cell
        made = {key: run.partitions[key] for key in cell.topic_partitions if key in run.partitions}
        for producer in _producers(run, cell):
            sends = {
                key: [
                    _row("sends", key, row, cell.name)
                    for row in one.sends
                    if row.producer == producer
                ]
                for key, one in made.items()
            }
            crashed = producer in run.crashed
            closed = run.closed and not crashed
            writer = f"{cell.name}-{producer}"
            _write_partitions(
                history, "sends", writer, cell.topic_partitions, sends, closed, part_a_row=crashed
            )
        for key, one in made.items():
            ours = cell.name
            log.setdefault(key, []).extend(
                _row("log", key, row, row.cell or (None if row.producer is None else ours))
                for row in one.log
            )
    _write_partitions(history, "log", "final-read", run.keys, log, run.closed)
    for consumer in run.consumers:
        write_consumer(history, consumer, run.closed)
    _small_tables(history, run)


def _row(table: str, key: tuple[str, int], event: object, cell: str | None) -> tuple[Any, ...]:
    told = {"timestamp": 0, **vars(event), "topic": key[0], "partition": key[1], "cell": cell}
    return tuple(told.get(name) for name in TABLES[table].names)


def _small_tables(history: Path, run: MadeRun) -> None:
    kept_in = [("__consumer_offsets", 0)] if any(planned.groups for planned in run.cells) else []
    watched = [*run.keys, *kept_in]
    seen = [state(-5, 1, 0, (1, 2, 3), topic=key[0], partition=key[1]) for key in watched]
    offset, bound = run.bounds
    clocks = [
        {"node": CLIENT, "moment": m, "time": T0, "offset_ns": offset, "bound_ns": bound}
        for m in ("start", "end")
    ]
    whole = [recovered(*key) for key in run.keys]
    tables: dict[str, Sequence[Mapping[str, Any]]] = {
        "faults": run.faults,
        "phases": run.phases,
        "cluster": seen if run.cluster is None else run.cluster,
        "servers": STARTED if run.servers is None else run.servers,
        "scheduling": run.scheduling,
        "clients": run.clients,
        "recovery": whole if run.recovery is None else run.recovery,
        "clocks": clocks,
        "zookeeper": COUNTED if run.zookeeper is None else run.zookeeper,
        "failovers": run.failed_over,
    }
    for table, rows in tables.items():
        _write(history, table, "harness", rows, run.closed)
    nothing = Made(sends=[], log=[], end=0)
    reads = [_read(key, run.partitions.get(key, nothing)) for key in run.keys]
    _write(history, "reads", "final-read", reads if run.reads else [], run.closed)


def _read(key: tuple[str, int], made: Made) -> dict[str, Any]:
    return {
        "topic": key[0],
        "partition": key[1],
        "log_start_offset": made.start,
        "log_end_offset": made.end,
        "read_end_offset": made.end if made.met is None else made.met,
        "records": len(made.log),
        "complete": made.complete,
        "error": None if made.complete else "timed out",
    }


# --- files ----------------------------------------------------------------------------------------
#
# Most histories have the same rows in most of their files. Once the harness's writer has written
# them, they are copied: its work took half of the time of a check.

_Rows = dict[tuple[str, int], list[tuple[Any, ...]]]

_WRITTEN: dict[tuple[object, ...], Mapping[str, bytes]] = {}
"""The files that the writer left, with their names, by what it was given."""
_WRITTEN_MAX = 1_000


def _write(
    history: Path, table: str, writer: str, rows: Sequence[Mapping[str, Any]], closed: bool
) -> None:
    values = [tuple(row.get(name) for name in TABLES[table].names) for row in rows]

    def write() -> None:
        made = TableWriter(history, table, writer)
        for row in values:
            made.append(row)
        made.flush()
        if closed:
            made.close()

    _write_or_copy(history, (table, writer, pickle.dumps(values), closed), write)


def _write_partitions(
    history: Path,
    table: str,
    writer: str,
    partitions: Sequence[tuple[str, int]],
    rows: _Rows,
    closed: bool,
    *,
    part_a_row: bool = False,
) -> None:
    def write() -> None:
        part_bytes = 1 if part_a_row else PART_BYTES
        made = PartitionedWriter(history, table, writer, partitions, part_bytes)
        for key, values in rows.items():
            for row in values:
                made.partition(*key).append(row)
                if part_a_row:
                    made.partition(*key).flush()
        made.flush_due(0.0)
        if closed:
            made.close()

    given = (table, writer, tuple(partitions), pickle.dumps(rows), closed, part_a_row)
    _write_or_copy(history, given, write)


def _write_or_copy(history: Path, given: tuple[object, ...], write: Callable[[], None]) -> None:
    """Write files into the directory, or copy those that were written when the same was given."""
    if given in _WRITTEN:
        for name, content in _WRITTEN[given].items():
            (history / name).write_bytes(content)
        return
    before = set(history.iterdir())
    write()
    if len(_WRITTEN) == _WRITTEN_MAX:
        _WRITTEN.clear()
    new = set(history.iterdir()) - before
    _WRITTEN[given] = {file.name: file.read_bytes() for file in new}
