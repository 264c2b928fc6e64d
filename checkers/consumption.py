"""Counting what consumers were shown of one partition and committed of it: facts, no verdict.

What each count is stands in :mod:`checkers.shown` (of a client) and :mod:`checkers.commits` (of a
group). Here the files of one partition are read, one client at a time, next to its reconciliation.
What cannot be read is told, and what it would have told is None.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from checkers import commits, shown
from checkers.commits import Committed
from checkers.indexes import PartitionHistory
from checkers.shown import Assigned, Counts, Shown
from history import reader
from history.errors import DamagedFiles

ASSIGNED_COLUMNS = ("time", "group", "event", "topic", "partition", "offset", "poll")
COMMITTED_COLUMNS = (*commits.COLUMNS, "topic", "partition")

CONSUMERS = pa.list_(
    pa.struct(
        [
            ("client", pa.string()),
            ("member", pa.bool_()),
            ("polls", pa.list_(pa.string())),
            ("assignments", pa.list_(pa.string())),
            ("commits", pa.list_(pa.string())),
            ("polls_whole", pa.bool_()),
            ("assignments_whole", pa.bool_()),
            ("commits_whole", pa.bool_()),
            ("cut", pa.bool_()),
        ]
    )
)

COUNTED = pa.list_(
    pa.struct(
        [
            ("client", pa.string()),
            ("group", pa.string()),
            ("counts", pa.list_(pa.struct([("name", pa.string()), ("count", pa.int64())]))),
        ]
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A client that was to read a partition, and the files that it left: ``polls`` of this
    partition, ``assignments`` and ``commits`` of all. ``..._whole``: whether that is all that was
    written, but for the last moments of who was crashed (``cut``). ``member``: of a group; else it
    is a tail reader."""

    client: str
    member: bool
    polls: list[str]
    assignments: list[str]
    commits: list[str]
    polls_whole: bool
    assignments_whole: bool
    commits_whole: bool
    cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What was counted of one partition: of a client, or where that is None of a group. ``group``
    is None for a tail reader, and where nothing tells the group of a member."""

    client: str | None
    group: str | None
    counts: Counts

    def row(self) -> dict[str, Any]:
        """As an element of COUNTED."""
        told = [{"name": name, "count": count} for name, count in self.counts.items()]
        return {"client": self.client, "group": self.group, "counts": told}

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Counted":
        """Back from that."""
        told = {count["name"]: count["count"] for count in row["counts"]}
        return cls(client=row["client"], group=row["group"], counts=told)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Left:
    """What a consumer left of the partition, as far as it can be read."""

    group: str | None
    shown: Shown
    committed: Committed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    """What is kept of a member until its group is counted. ``told``: whether what it left would
    tell its group, if it had ever been of one."""

    group: str | None
    committed: Committed
    told: bool


def counted(
    consumers: Sequence[Consumer], history: PartitionHistory
) -> tuple[list[Counted], list[str]]:
    """What was counted of the partition, by client, then by group; and what could not be read."""
    problems: list[str] = []
    found: list[Counted] = []
    members: list[_Member] = []
    for consumer in consumers:
        left = _left(consumer, history, problems)
        of_client = shown.counts(left.shown, history)
        found.append(Counted(client=consumer.client, group=left.group, counts=of_client))
        if consumer.member:
            told = left.committed.whole and left.shown.assigned is not None
            members.append(_Member(group=left.group, committed=left.committed, told=told))
    found += _groups(members)
    return found, problems


def _groups(members: Sequence[_Member]) -> Iterator[Counted]:
    # A member of which nothing tells the group may be of any.
    whole = all(one.told for one in members if one.group is None)
    for group in sorted({one.group for one in members if one.group is not None}):
        mine = [one.committed for one in members if one.group == group]
        of_group = commits.counts(mine, whole=whole)
        yield Counted(client=None, group=group, counts=of_group)


def _left(consumer: Consumer, history: PartitionHistory, problems: list[str]) -> _Left:
    polls, polls_whole = _read("polls", consumer.polls, shown.COLUMNS, problems)
    events, events_whole = _read("assignments", consumer.assignments, ASSIGNED_COLUMNS, problems)
    kept, kept_whole = _read("commits", consumer.commits, COMMITTED_COLUMNS, problems)
    assigned = [
        Assigned(poll=row["poll"], offset=row["offset"], time=row["time"])
        for row in _of(events, history)
        if row["event"] == "assigned"
    ]
    known = events_whole and consumer.assignments_whole
    whole = polls_whole and consumer.polls_whole
    return _Left(
        group=_group(events, kept),
        shown=Shown(
            rows=polls,
            assigned=assigned if known else None,
            whole=whole,
            cut=consumer.cut,
            all_of_it=not consumer.member,
        ),
        committed=Committed(
            rows=_of(kept, history),
            whole=kept_whole and consumer.commits_whole,
            polls=polls["poll"].to_numpy(),
            offsets=polls["offset"].to_numpy(),
            assigned=assigned,
            shown_whole=whole and known,
            cut=consumer.cut,
        ),
    )


def _read(
    table: str, files: Sequence[str], columns: tuple[str, ...], problems: list[str]
) -> tuple[pa.Table, bool]:
    """What can be read, and whether that is all of it."""
    tables = [reader.read_files(table, [], columns)]
    whole = True
    for file in map(Path, files):
        try:
            tables.append(reader.read_files(table, [file], columns))
        except DamagedFiles as error:
            problems.append(str(error))
            whole = False
    return pa.concat_tables(tables), whole


def _of(rows: pa.Table, history: PartitionHistory) -> list[dict[str, Any]]:
    """Those on this partition."""
    mine = pc.and_(
        pc.equal(rows["topic"], history.topic), pc.equal(rows["partition"], history.partition)
    )
    told: list[dict[str, Any]] = rows.filter(mine).to_pylist()
    return told


def _group(*tables: pa.Table) -> str | None:
    names = (name for rows in tables for name in pc.unique(rows["group"]).to_pylist())
    return next((name for name in names if name is not None), None)
