"""Generated deliveries of a share group, by a plain model of KIP-932: in sound ones the checkers
find nothing, and each planted anomaly is found, by its own checker and for its own record."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ackproof.checkers.checks.share_groups import SHARE_CHECKERS
from ackproof.checkers.interface import Examined, RecordedRows
from ackproof.history.cell import Cell
from ackproof.history.manifest import PlannedShareGroup
from ackproof.history.schema import TABLES, decoded
from tests.support.builders.examples import examples

HISTORIES = settings(max_examples=examples(300), deadline=None)
MS, SECOND = 1_000_000, 1_000_000_000
BEGIN = 1_000 * SECOND
LIMIT, LOCK_MS = 6, 5_000
ENOUGH = (2 * LOCK_MS + 10_000) * MS
BOUND = MS
MEMBERS = ("member-t-g-0", "member-t-g-1", "member-t-g-2")
GROUP = PlannedShareGroup(name="t-g", deliveries=LIMIT, lock_ms=LOCK_MS, members=MEMBERS)

Row = dict[str, Any]


@dataclass(kw_only=True)
class SharedRecord:
    """A record as the leader of its partition knows it.

    Attributes:
        count: Its deliveries, as the leader counts them.
        stored: Its deliveries, as another leader would know them.
        holder: The member that has locked it, or None.
        is_done: Whether it was accepted, rejected or archived.
    """

    count: int = 0
    stored: int = 0
    holder: str | None = None
    is_done: bool = False


@dataclass(kw_only=True)
class SharePartition:
    """A partition with the members of its group, and what they record.

    Attributes:
        buffers: The records that a member was sent, with their counts, and has not acknowledged.
    """

    records: Sequence[SharedRecord]
    now: int = BEGIN
    rows: list[Row] = field(default_factory=list)
    buffers: dict[str, list[tuple[int, int]]] = field(
        default_factory=lambda: {member: [] for member in MEMBERS}
    )

    @property
    def start(self) -> int:
        """The offset below which the group is done with everything."""
        done = (place for place, one in enumerate(self.records) if not one.is_done)
        return next(done, len(self.records))

    def send(self, member: str, many: int, *, arrives: bool) -> None:
        """Lock available records for a member, and send them."""
        free = [n for n, one in enumerate(self.records) if one.holder is None and not one.is_done]
        for offset in free[:many]:
            record = self.records[offset]
            record.count, record.holder = record.count + 1, member
            if arrives:
                self.buffers[member].append((offset, record.count))

    def work(self, member: str, how: str, *, is_answered: bool) -> None:
        """Let a member take what it was sent from its buffer, and acknowledge it."""
        buffer, self.buffers[member] = self.buffers[member], []
        for offset, count in buffer:
            self.now += MS
            self.note(member, offset, "delivered", delivery=count)
            self.note(member, offset, "invoke", acknowledgement=how)
            self.now += 5 * MS
            is_confirmed = self._apply(member, offset, how, count)
            outcome = "ok" if is_confirmed and is_answered else "info"
            self.note(member, offset, outcome, acknowledgement=how)

    def _apply(self, member: str, offset: int, how: str, count: int) -> bool:
        """Return whether the leader confirms an acknowledgement. It does so, without any effect,
        for records below the start."""
        record = self.records[offset]
        if offset < self.start:
            return True
        if record.holder != member or record.count != count or record.is_done:
            return False
        record.stored, record.holder = record.count, None
        record.is_done = how != "release" or record.count >= LIMIT
        return True

    def end_locks(self) -> None:
        """Let the time of all locks pass."""
        self.now += 2 * LOCK_MS * MS
        for record in self.records:
            if record.holder is not None:
                record.holder, record.is_done = None, record.count >= LIMIT

    def change_leader(self) -> None:
        """Let another leader start from the stored state. No member may acknowledge records that
        the former leader sent to it."""
        for record in self.records:
            record.holder, record.count = None, record.stored
        self.buffers = {member: [] for member in MEMBERS}

    def drain(self) -> None:
        """Accept everything that is left."""
        for _ in range(LIMIT + 1):
            self.end_locks()
            for member in MEMBERS:
                self.work(member, "accept", is_answered=True)
            self.send(MEMBERS[0], len(self.records), arrives=True)
            self.work(MEMBERS[0], "accept", is_answered=True)

    def note(self, member: str, offset: int, event: str, **columns: object) -> None:
        row = {"client": member, "group": GROUP.name, "topic": "t", "partition": 0}
        row |= {"time": self.now, "event": event, "offset": offset}
        self.rows.append({**dict.fromkeys(TABLES["deliveries"].names), **row, **columns})


def recorded(partition: SharePartition, *, quiet: bool = True) -> RecordedRows:
    """Return the rows of a partition, all of whose records were acknowledged at the beginning."""
    log = [
        {"offset": offset, "producer": 1, "sequence": offset}
        for offset in range(len(partition.records))
    ]
    sends = [{"offset": row["offset"], "type": "ok", "time": BEGIN} for row in log]
    schema = decoded(TABLES["deliveries"])
    periods = {GROUP.name: (partition.now, partition.now + 2 * ENOUGH)} if quiet else {}
    return RecordedRows(
        run=1,
        cell=Cell(name="c", topic="t", settings={"partitions": 1}),
        partition=0,
        tables={
            "deliveries": pa.Table.from_pylist(partition.rows, schema=schema),
            "log": pa.Table.from_pylist(log),
            "sends": pa.Table.from_pylist(sends),
        },
        clock_bound_ns=BOUND,
        share_groups=(GROUP,),
        quiet_periods=periods,
    )


def examined(partition: SharePartition, *, quiet: bool = True) -> Mapping[str, Examined]:
    """Return what each checker finds."""
    rows = recorded(partition, quiet=quiet)
    return {name: one.examine(rows) for name, one in SHARE_CHECKERS.items()}


def found(results: Mapping[str, Examined]) -> Mapping[str, Sequence[int | None]]:
    """Return the offsets of the anomalies, by checker."""
    return {
        name: [anomaly.offset for anomaly in one.anomalies]
        for name, one in results.items()
        if one.anomalies
    }


Step = Callable[[SharePartition], None]


def steps() -> st.SearchStrategy[Step]:
    """Return a strategy for what may happen to a group. Everything here is permitted."""
    member, many = st.sampled_from(MEMBERS), st.integers(1, 4)
    how = st.sampled_from(("accept", "accept", "release", "reject"))
    return st.one_of(
        st.builds(lambda m, n, a: lambda one: one.send(m, n, arrives=a), member, many, often()),
        st.builds(lambda m, h, a: lambda one: one.work(m, h, is_answered=a), member, how, often()),
        st.just(SharePartition.end_locks),
        st.just(SharePartition.change_leader),
    )


def often() -> st.SearchStrategy[bool]:
    return st.sampled_from((True, True, True, False))


@st.composite
def partitions(draw: st.DrawFn) -> SharePartition:
    """Return a partition whose group had an eventful life, and was done with everything."""
    many = draw(st.integers(2, 8))
    made = SharePartition(records=[SharedRecord() for _ in range(many)])
    for step in draw(st.lists(steps(), max_size=30)):
        step(made)
    made.drain()
    return made


@given(partitions())
@HISTORIES
def test_sound_group_has_no_anomaly(partition: SharePartition) -> None:
    results = examined(partition)
    assert found(results) == {}
    assert results["share-over-limit"].examined > 0


@given(partitions(), st.data())
@HISTORIES
def test_planted_anomaly_is_found_by_its_checker_alone(
    partition: SharePartition, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(PLANTS)))
    places = [offset for offset in range(len(partition.records)) if _is_plain(partition, offset)]
    assume(places)
    offset = data.draw(st.sampled_from(places))
    PLANTS[name](partition, offset)
    results = examined(partition)
    assert found(results) == {name: [offset]}
    assert not any(one.lacking for one in results.values())


def _is_plain(partition: SharePartition, offset: int) -> bool:
    """Return whether a record was delivered once, accepted, and confirmed."""
    events = [(one["event"], one["acknowledgement"]) for one in _rows(partition, offset)]
    return events == [("delivered", None), ("invoke", "accept"), ("ok", "accept")]


def _rows(partition: SharePartition, offset: int) -> list[Row]:
    return [row for row in partition.rows if row["offset"] == offset]


def _skip(partition: SharePartition, offset: int) -> None:
    """Let the group never receive a record."""
    partition.rows = [row for row in partition.rows if row["offset"] != offset]


def _drop(partition: SharePartition, offset: int) -> None:
    """Let the group never deliver a record again that was released."""
    for row in _rows(partition, offset):
        row["acknowledgement"] = row["acknowledgement"] and "release"


def _lock_again(partition: SharePartition, offset: int) -> None:
    """Let a leader that has lost the acceptance deliver a record as it did before."""
    first = _rows(partition, offset)[0]
    partition.now += SECOND
    partition.note(MEMBERS[1], offset, "delivered", delivery=first["delivery"])
    partition.note(MEMBERS[1], offset, "invoke", acknowledgement="accept")
    partition.note(MEMBERS[1], offset, "ok", acknowledgement="accept")


def _exceed(partition: SharePartition, offset: int) -> None:
    """Let a leader deliver a record in spite of its limit."""
    _rows(partition, offset)[0]["delivery"] = LIMIT + 1


PLANTS: Mapping[str, Callable[[SharePartition, int], None]] = {
    "share-undelivered": _skip,
    "share-dropped": _drop,
    "share-redelivered": _lock_again,
    "share-over-limit": _exceed,
}


# --- single cases ---------------------------------------------------------------------------------


def _accepted(many: int) -> SharePartition:
    """Return a partition whose records were each delivered once and accepted, 1 s apart."""
    made = SharePartition(records=[SharedRecord() for _ in range(many)])
    for _ in range(many):
        made.now += SECOND
        made.send(MEMBERS[0], 1, arrives=True)
        made.work(MEMBERS[0], "accept", is_answered=True)
    return made


@pytest.mark.parametrize("name", sorted(PLANTS))
def test_planted_anomaly_is_found_in_a_simple_history(name: str) -> None:
    partition = _accepted(5)
    assert not any(one.anomalies or one.lacking for one in examined(partition).values())
    PLANTS[name](partition, 3)
    assert found(examined(partition)) == {name: [3]}


@pytest.mark.parametrize("name", ["share-undelivered", "share-dropped"])
def test_group_that_reads_on_gives_up_a_record_without_a_quiet_period(name: str) -> None:
    partition = _accepted(40)
    PLANTS[name](partition, 3)
    assert found(examined(partition, quiet=False)) == {name: [3]}


@pytest.mark.parametrize("name", ["share-undelivered", "share-dropped"])
def test_record_at_the_end_is_lacking_without_a_quiet_period(name: str) -> None:
    partition = _accepted(40)
    PLANTS[name](partition, 39)
    result = examined(partition, quiet=False)[name]
    assert not result.anomalies
    assert result.lacking


def test_partition_without_any_delivery_is_undelivered() -> None:
    partition = SharePartition(records=[SharedRecord(), SharedRecord()])
    assert found(examined(partition)) == {"share-undelivered": [0, 1]}


def test_record_that_was_archived_at_the_limit_is_no_anomaly() -> None:
    partition = _accepted(2)
    partition.records = [*partition.records, SharedRecord()]
    for _ in range(LIMIT):
        partition.send(MEMBERS[1], 1, arrives=True)
        partition.work(MEMBERS[1], "release", is_answered=True)
    results = examined(partition)
    assert found(results) == {}
    assert not results["share-dropped"].lacking


def test_confirmed_releases_beyond_the_limit_exceed_it_though_their_counts_do_not() -> None:
    partition = _accepted(2)
    for _ in range(LIMIT + 1):
        partition.now += SECOND
        partition.note(MEMBERS[1], 2, "delivered", delivery=1)
        partition.note(MEMBERS[1], 2, "invoke", acknowledgement="release")
        partition.note(MEMBERS[1], 2, "ok", acknowledgement="release")
    assert found(examined(partition)) == {"share-over-limit": [2]}


def test_late_confirmation_of_an_older_lock_is_no_anomaly() -> None:
    """A member hangs with a record in its buffer. Another one accepts it. The first wakes up."""
    partition = SharePartition(records=[SharedRecord(), SharedRecord()])
    partition.send(MEMBERS[0], 1, arrives=True)
    partition.end_locks()
    partition.send(MEMBERS[1], 1, arrives=True)
    partition.work(MEMBERS[1], "accept", is_answered=True)
    partition.now += SECOND
    partition.work(MEMBERS[0], "release", is_answered=True)
    assert [row["event"] for row in partition.rows].count("ok") == 2
    assert "share-redelivered" not in found(examined(partition))
