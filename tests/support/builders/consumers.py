"""Consumers made by hand or by chance, and what they left: in memory, and as tables of a run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from ackproof.checkers.checks.check_reads import ConsumerRows
from ackproof.checkers.checks.reads import COLUMNS, Event
from ackproof.history.manifest import PlannedWriter
from ackproof.history.schema import TABLES
from ackproof.history.writer import PartitionedWriter, TableWriter

Key = tuple[str, int]

T0 = 1_700_000_000_000_000_000
"""When the workload of a made run begins, in nanoseconds of the Unix epoch."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A row of ``polls``; without producer: a payload of no client's."""

    poll: int
    offset: int
    producer: int | None = None
    sequence: int | None = None
    time: int = T0
    leader_epoch: int | None = None


@dataclass(frozen=True, kw_only=True)
class Given:
    """A row of ``assignments``."""

    poll: int
    time: int
    offset: int | None = None
    event: str = "assigned"


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A row of ``commits``."""

    type: str
    commit: int
    time: int
    offset: int
    poll: int
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class MadeConsumer:
    """A consumer of one partition. ``group``: None for a tail reader. ``crashed``: it closed
    nothing."""

    client: str = "reader-0"
    group: str | None = None
    polls: Sequence[Seen] = ()
    assigned: Sequence[Given] = ()
    commits: Sequence[Commit] = ()
    partition: Key = ("t", 0)
    of: Sequence[Key] = field(default=(("t", 0),))
    cell: str = "c"
    crashed: bool = False

    def but(self, **changes: Any) -> "MadeConsumer":
        return replace(self, **changes)


def seen(
    poll: int, offset: int, producer: int | None = None, sequence: int | None = None, time: int = T0
) -> Seen:
    return Seen(poll=poll, offset=offset, producer=producer, sequence=sequence, time=time)


def given(poll: int, time: int, offset: int | None = None, event: str = "assigned") -> Given:
    return Given(poll=poll, time=time, offset=offset, event=event)


def commit(
    type_: str, number: int, time: int, offset: int, poll: int, error: str | None = None
) -> Commit:
    return Commit(type=type_, commit=number, time=time, offset=offset, poll=poll, error=error)


def committed_ok(number: int, time: int, offset: int, poll: int) -> list[Commit]:
    """A commit that was answered, a tick after it was asked for."""
    return [
        commit("invoke", number, time, offset, poll),
        commit("ok", number, time + 1, offset, poll),
    ]


def left_by(made: MadeConsumer, **changes: Any) -> ConsumerRows:
    """Return the consumer's tables in the form for :mod:`checkers.checks.check_reads`."""
    cells = [None if one.producer is None else made.cell for one in made.polls]
    rows = {
        "poll": pa.array([one.poll for one in made.polls], pa.int64()),
        "time": pa.array([one.time for one in made.polls], pa.int64()),
        "offset": pa.array([one.offset for one in made.polls], pa.int64()),
        "leader_epoch": pa.array([one.leader_epoch for one in made.polls], pa.int32()),
        "cell": pa.array(cells, pa.string()),
        "producer": pa.array([one.producer for one in made.polls], pa.int32()),
        "sequence": pa.array([one.sequence for one in made.polls], pa.int64()),
    }
    assert tuple(rows) == COLUMNS
    given = {
        "client": made.client,
        "member": made.group is not None,
        "group": made.group,
        "rows": pa.table(rows),
        "events": [Event(**vars(one)) for one in made.assigned],
        "commits": [vars(row) for row in made.commits],
        "rows_whole": True,
        "events_whole": True,
        "commits_whole": True,
        "cut": made.crashed,
    }
    return ConsumerRows(**{**given, **changes})


def writers_of(made: MadeConsumer, node: str) -> Iterator[PlannedWriter]:
    """Yield the writers of the consumer in the manifest."""
    for table in ("polls", "assignments", *(["commits"] if made.group else [])):
        yield PlannedWriter(
            table=table,
            writer=made.client,
            node=node,
            cell=made.cell,
            client=made.client,
            partitions=tuple(made.of) if table == "polls" else (),
        )


def write_consumer(history: Path, made: MadeConsumer, closed: bool) -> None:
    """Its tables, written as a client does."""
    closed = closed and not made.crashed
    polls = PartitionedWriter(history, "polls", made.client, made.of)
    for row in made.polls:
        cell = None if row.producer is None else made.cell
        polls.partition(*made.partition).append(_row("polls", made, {**vars(row), "cell": cell}))
    polls.flush_due(0.0)
    if closed:
        polls.close()
    small: dict[str, Sequence[Any]] = {"assignments": made.assigned}
    if made.group:
        small["commits"] = made.commits
    for table, rows in small.items():
        writer = TableWriter(history, table, made.client)
        for row in rows:
            writer.append(_row(table, made, vars(row)))
        writer.flush()
        if closed:
            writer.close()


def _row(table: str, made: MadeConsumer, columns: Mapping[str, Any]) -> tuple[Any, ...]:
    topic, partition = made.partition
    named = {"client": made.client, "group": made.group, "topic": topic, "partition": partition}
    told = {**named, **columns}
    return tuple(told.get(name) for name in TABLES[table].names)
