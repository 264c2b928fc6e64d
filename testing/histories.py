"""Small recorded histories for tests of checkers. They are sound, and a test may change their rows.

A :class:`History` is one run of a campaign without faults. A producer sends to each partition in
turn, and every record is acknowledged and is in the final log. A tail reader and a member of a
group read every record, and so does a member of a share group if there is one. Rows are
dictionaries by the columns of :mod:`history.schema`. A test plants an anomaly by changing them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ackproof.history.cell import Cell, Value
from ackproof.history.manifest import (
    Manifest,
    PlannedCell,
    PlannedFault,
    PlannedGroup,
    PlannedRun,
    PlannedShareGroup,
    PlannedWriter,
    identity_of,
)
from ackproof.history.names import PARTITIONED
from ackproof.history.schema import TABLES
from ackproof.history.writer import PartitionedWriter, TableWriter

CELL, TOPIC, PRODUCER, READER, MEMBER, GROUP = "c", "t", "producer-1", "reader-1", "member-1", "g"
SHARE_GROUP, SHARE_MEMBER = "t-s", "member-t-s-0"
SHARE_STATE = "__share_group_state"
SETTINGS: Mapping[str, Value] = {
    "acks": "all",
    "min.insync.replicas": 2,
    "replication.factor": 3,
    "enable.idempotence": True,
}
BEGIN_NS = 1_800_000_000_000_000_000
"""The time at which the workload began, in nanoseconds of the Unix epoch."""

_MS = 1_000_000
_SECOND = 1_000_000_000
_NODE = "client-1"
CLIENTS: Mapping[str, Sequence[str]] = {
    PRODUCER: ("sends",),
    READER: ("polls", "assignments"),
    MEMBER: ("polls", "assignments", "commits"),
}
"""The clients, and the tables that each writes."""
_HARNESS_TABLES = (
    *("faults", "phases", "cluster", "servers", "clients", "recovery", "clocks"),
    "log_starts",
)
_STEPS = ("deploy", "ready", "workload", "faults", "heal", "recover", "flush", "final-read")

_CRASH = "crash-client"
_CRASH_PLANNED = PlannedFault(fault_id=1, fault=_CRASH, target="clients", start_ms=0, hold_ms=0)
_CRASH_EVENTS = (
    *(("inject", None), ("injected", None), ("verified", True)),
    *(("heal", None), ("healed", True)),
)

Row = dict[str, Any]


@dataclass(kw_only=True)
class History:
    """One run of one cell, as rows that may be changed before they are written.

    Attributes:
        settings: The settings of the cell.
        partitions: The number of partitions of its topic.
        tables: The rows of each writer: by table, then by writer, each in the order written.
        crashed: The client that a fault crashed (:meth:`crash`), or None if no fault was planned.
        starts: The start of each partition's final log, by number, if it is not 0.
    """

    settings: Mapping[str, Value]
    partitions: int
    tables: dict[tuple[str, str], list[Row]] = field(default_factory=dict)
    crashed: str | None = None
    starts: dict[int, int] = field(default_factory=dict)

    @property
    def share_groups(self) -> tuple[PlannedShareGroup, ...]:
        """The share group, if its member has any row."""
        group = PlannedShareGroup(
            name=SHARE_GROUP, deliveries=5, lock_ms=1_000, members=(SHARE_MEMBER,)
        )
        return (group,) if ("deliveries", SHARE_MEMBER) in self.tables else ()

    @property
    def cell(self) -> Cell:
        """The cell."""
        settings = {**self.settings, "partitions": self.partitions}
        return Cell(name=CELL, topic=TOPIC, settings=settings)

    def rows(
        self, table: str, partition: int | None = None, writer: str | None = None
    ) -> list[Row]:
        """Return the rows of a table, in the order written; each may be changed.

        Args:
            partition: The number of the partition; without it, rows of all partitions are returned.
            writer: The client, for example ``reader-1``; without it, rows of all clients are
                returned.
        """
        return [
            row
            for (name, by), rows in self.tables.items()
            if name == table and writer in (None, by)
            for row in rows
            if partition in (None, row.get("partition"))
        ]

    def remove(self, row: Row) -> None:
        """Remove a row, as if it had never been written."""
        for rows in self.tables.values():
            rows[:] = [one for one in rows if one is not row]

    def crash(self, client: str) -> None:
        """Crash a client. Its last second is then not recorded, and it closed none of its files.
        The last send of a producer has no outcome."""
        own = [rows for (_, writer), rows in self.tables.items() if writer == client]
        mine = [row for rows in own for row in rows]
        crashed = max(row["time"] for row in mine)
        for row in mine:
            if row["time"] >= crashed - _SECOND:
                self.remove(row)
        self.crashed = client
        ended = {"time": crashed, "client": client, "exit_code": -9, "fault_id": 1}
        self.tables["clients", "harness"] = [ended]
        fault = {"fault_id": 1, "fault": _CRASH, "target": "clients", "servers": [_NODE]}
        self.tables["faults", "harness"] = [
            {**fault, "partitions": [], "event": event, "time": crashed + after, "proven": proven}
            for after, (event, proven) in enumerate(_CRASH_EVENTS)
        ]

    def write(self, directory: Path) -> Path:
        """Write the results of a campaign with this run, and return the directory of its tables."""
        run = PlannedRun(
            number=1,
            seed=1,
            session_timeout_ms=3_000,
            replica_lag_ms=4_000,
            recovery_ms=60_000,
            cells=(
                PlannedCell(
                    cell=self.cell,
                    groups=(PlannedGroup(name=GROUP, delivery="at-least-once"),),
                    share_groups=self.share_groups,
                    tombstones=any(row.get("tombstone") for row in self.rows("sends")),
                ),
            ),
            faults=() if self.crashed is None else (_CRASH_PLANNED,),
            writers=tuple(self._writers()),
        )
        directory.mkdir(parents=True, exist_ok=True)
        text = f"name: {directory.name}\nseed: 1\n"
        (directory / "campaign.yaml").write_text(text, encoding="utf-8")
        baseline = self.crashed is None
        Manifest(campaign="made", seed=1, baseline=baseline, runs=(run,)).write(directory)
        history = directory / "runs" / "1" / "history"
        history.mkdir(parents=True)
        for writer in run.writers:
            self._write(history, writer)
        return history

    def _writers(self) -> Iterator[PlannedWriter]:
        places = self.cell.topic_partitions
        share = {SHARE_MEMBER: ("deliveries",)} if self.share_groups else {}
        for client, tables in {**CLIENTS, **share}.items():
            for table in tables:
                yield PlannedWriter(
                    table=table,
                    writer=client,
                    node=_NODE,
                    cell=CELL if table == "sends" else None,
                    client=client,
                    partitions=places if table in PARTITIONED else (),
                )
        yield PlannedWriter(table="log", writer="final-read", node=_NODE, partitions=places)
        yield PlannedWriter(table="reads", writer="final-read", node=_NODE)
        for table in _HARNESS_TABLES:
            yield PlannedWriter(table=table, writer="harness", node="harness")

    def _write(self, history: Path, writer: PlannedWriter) -> None:
        rows = self.tables.get((writer.table, writer.writer), [])
        names = TABLES[writer.table].names
        if writer.table == "reads":
            rows = [self._read(number) for number in range(self.partitions)]
        if writer.table not in PARTITIONED:
            table = TableWriter(history, writer.table, writer.writer)
            for row in rows:
                table.append(tuple(row.get(name) for name in names))
            table.flush()
            if writer.client != self.crashed or self.crashed is None:
                table.close()
            return
        places = self.cell.topic_partitions
        partitioned = PartitionedWriter(history, writer.table, writer.writer, places)
        for row in rows:
            values = tuple(row.get(name) for name in names)
            partitioned.partition(TOPIC, row["partition"]).append(values)
        for number in range(self.partitions):
            partitioned.partition(TOPIC, number).flush()
        if writer.client != self.crashed or self.crashed is None:
            partitioned.close()

    def _read(self, partition: int) -> Row:
        log = self.rows("log", partition)
        end = max((row["offset"] for row in log), default=-1) + 1
        return {
            "topic": TOPIC,
            "partition": partition,
            "log_start_offset": self.starts.get(partition, 0),
            "log_end_offset": end,
            "read_end_offset": end,
            "records": len(log),
            "complete": True,
        }


def sound_history(
    settings: Mapping[str, Value] = SETTINGS,
    *,
    partitions: int = 2,
    records: int = 24,
    share_group: bool = False,
) -> History:
    """Return a history without errors.

    Args:
        settings: The settings of the cell.
        records: The number of records sent to all partitions together, one every 100 ms.
        share_group: Whether a share group reads them, too.
    """
    made = History(settings=dict(settings), partitions=partitions)
    for (table, writer), rows in _harness_rows(partitions).items():
        made.tables[table, writer] = rows
    for sequence in range(records):
        _add_record(made, sequence)
    if share_group:
        entries = made.rows("log")
        made.tables["deliveries", SHARE_MEMBER] = [row for one in entries for row in _shared(one)]
        made.tables["cluster", "harness"].append(_led(SHARE_STATE, 0))
    for client in (READER, MEMBER):
        made.tables["assignments", client] = [
            _assigned(client, number) for number in range(partitions)
        ]
    made.tables["commits", MEMBER] = [
        row for number in range(partitions) for row in _commit(made, number)
    ]
    return made


def _add_record(made: History, sequence: int) -> None:
    """Append one record that is sent, acknowledged 5 ms later, and read 10 ms after that."""
    partition, offset = sequence % made.partitions, sequence // made.partitions
    sent = BEGIN_NS + sequence * 100 * _MS
    record = {
        "cell": CELL,
        "topic": TOPIC,
        "partition": partition,
        "producer": 1,
        "sequence": sequence,
        "offset": offset,
    }
    made.tables.setdefault(("sends", PRODUCER), []).extend(
        [
            {**record, "type": "invoke", "time": sent, "offset": None},
            {**record, "type": "ok", "time": sent + 5 * _MS},
        ]
    )
    entry = {**record, "leader_epoch": 0, "timestamp": sent // _MS}
    made.tables.setdefault(("log", "final-read"), []).append(entry)
    for client in (READER, MEMBER):
        shown = {**record, "client": client, "leader_epoch": 0, "poll": sequence + 1}
        rows = made.tables.setdefault(("polls", client), [])
        rows.append({**shown, "time": sent + 15 * _MS})


def _shared(entry: Row) -> Sequence[Row]:
    """Return the delivery of a record to the share group, and its acceptance."""
    row = {name: entry[name] for name in ("topic", "partition", "offset")}
    row |= {"client": SHARE_MEMBER, "group": SHARE_GROUP}
    shown = entry["timestamp"] * _MS + 15 * _MS
    return (
        {**row, "event": "delivered", "time": shown, "delivery": 1},
        {**row, "event": "invoke", "time": shown + _MS, "acknowledgement": "accept"},
        {**row, "event": "ok", "time": shown + 5 * _MS, "acknowledgement": "accept"},
    )


def _assigned(client: str, partition: int) -> Row:
    return {
        "time": BEGIN_NS - _SECOND,
        "client": client,
        "group": GROUP if client == MEMBER else None,
        "event": "assigned",
        "topic": TOPIC,
        "partition": partition,
        "offset": 0,
        "poll": 0,
    }


def _commit(made: History, partition: int) -> Sequence[Row]:
    """Return the commit of everything that the member read from a partition, with its request and
    answer."""
    shown = made.rows("polls", partition, MEMBER)
    if not shown:
        return ()
    row = {
        "client": MEMBER,
        "group": GROUP,
        "commit": partition + 1,
        "topic": TOPIC,
        "partition": partition,
        "offset": shown[-1]["offset"] + 1,
        "poll": shown[-1]["poll"],
    }
    asked = shown[-1]["time"] + _SECOND
    return (
        {**row, "type": "invoke", "time": asked},
        {**row, "type": "ok", "time": asked + 5 * _MS},
    )


def _harness_rows(partitions: int) -> dict[tuple[str, str], list[Row]]:
    places = [{"topic": TOPIC, "partition": number} for number in range(partitions)]
    whole = {"leader": 1, "isr": [1, 2, 3]}
    steps = [
        {"phase": phase, "event": event, "time": BEGIN_NS + place * 60 * _SECOND}
        for phase in (*_STEPS, "collect", "teardown")
        for place in (phase in ("flush", "final-read", "collect", "teardown"),)
        for event in ("start", "end")
    ]
    steps[0]["detail"] = identity_of(1, 1)
    clock = {"node": _NODE, "time": BEGIN_NS, "offset_ns": 0, "bound_ns": _MS}
    servers = ("broker-1", "broker-2", "broker-3", "zookeeper-1")
    found: dict[str, list[Row]] = {
        "phases": steps,
        "cluster": [_led(TOPIC, number) for number in range(partitions)],
        "servers": [
            {"time": BEGIN_NS - 9 * _SECOND, "server": server, "event": "started"}
            for server in servers
        ],
        "recovery": [
            {**place, **whole, "whole": True, "time": BEGIN_NS + 30 * _SECOND} for place in places
        ],
        "clocks": [{**clock, "moment": moment} for moment in ("start", "end")],
    }
    return {(table, "harness"): rows for table, rows in found.items()}


def _led(topic: str, partition: int) -> Row:
    """Return the observation of the only leader of a partition."""
    state = {"leader": 1, "isr": [1, 2, 3], "leader_epoch": 0, "controller_epoch": 1, "version": 0}
    place = {"kind": "partition", "topic": topic, "partition": partition}
    return {**place, **state, "time": BEGIN_NS - 5 * _SECOND}
