"""Rows of a consumer's reads, assignments and commits."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Message

from ackproof.history.errors import HistoryError
from ackproof.history.names import SendType
from ackproof.history.payload import Encoder
from ackproof.history.reader import partitions, read, read_files
from ackproof.workloads.consuming.consumption import ConsumptionRecorder, ConsumptionTables
from ackproof.workloads.interface import Delivery
from ackproof.workloads.polled import Records, polled
from ackproof.workloads.spec import ConsumerSpec, GroupMemberSpec

VALUE = Encoder("c", 4, 100).encode(7)


def shown(*records: tuple[int, int, int | None, bytes | None], time: int = 99) -> Records:
    """Return records of these partitions, offsets, leader epochs and values, and of this time."""
    messages = [
        Message(partition=partition, offset=offset, value=value, **of_epoch(epoch))
        for partition, offset, epoch, value in records
    ]
    return polled(messages, time).records


def of_epoch(epoch: int | None) -> dict[str, int]:
    return {} if epoch is None else {"leader_epoch": epoch}


def spec_of(directory: Path) -> GroupMemberSpec:
    return GroupMemberSpec(
        client="member-t-g-0",
        topic="t",
        partitions=2,
        bootstrap_servers="b:1",
        history=directory,
        progress=directory / "progress.json",
        group="t-g",
        delivery=Delivery.AT_LEAST_ONCE,
    )


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., ConsumptionRecorder]:
    """Lets a recorder of a member record, and closes its tables."""

    def until_closed(does: Callable[[ConsumptionRecorder], object]) -> ConsumptionRecorder:
        spec = spec_of(tmp_path)
        tables = ConsumptionTables(spec)
        recorder = ConsumptionRecorder(spec, tables, count(100).__next__)
        does(recorder)
        tables.close()
        return recorder

    return until_closed


def rows(table: str, directory: Path, *columns: str) -> list[tuple]:
    return [tuple(row.values()) for row in read(directory, table, columns).to_pylist()]


def test_a_poll_has_one_number_over_all_partitions_and_keeps_times(record, tmp_path: Path) -> None:
    def polls(recorder: ConsumptionRecorder) -> None:
        recorder.shown(shown((0, 5, 1, VALUE), (1, 3, None, b"x"), (0, 6, 1, VALUE), time=100))
        recorder.shown(shown())
        recorder.shown(shown((0, 7, 2, None), time=101))

    recorder = record(polls)
    files = partitions(tmp_path)
    columns = ["poll", "time", "offset", "leader_epoch", "cell", "producer", "sequence"]
    found = {
        number: [
            tuple(row.values())
            for row in read_files("polls", files["t", number]["polls"], columns).to_pylist()
        ]
        for number in (0, 1)
    }
    assert found == {
        0: [
            (1, 100, 5, 1, "c", 4, 7),
            (1, 100, 6, 1, "c", 4, 7),
            (2, 101, 7, 2, None, None, None),
        ],
        1: [(1, 100, 3, None, None, None, None)],
    }
    figures = recorder.figures()
    assert (figures["polls"], figures["shown"]) == (2, 4)


def test_assignments_record_partitions_and_starting_offsets(record, tmp_path: Path) -> None:
    def is_given(recorder: ConsumptionRecorder) -> None:
        recorder.assigned({1: None, 0: 4})
        assert recorder.figures()["assigned"] == 2
        recorder.shown(shown((0, 4, 0, VALUE)))
        recorder.revoked([1])
        recorder.out_of_range(0, 9)
        recorder.lost([0])
        assert recorder.figures()["assigned"] == 0
        recorder.assigned({})

    record(is_given)
    assert rows("assignments", tmp_path, "group", "event", "partition", "offset", "poll") == [
        ("t-g", "assigned", 0, 4, 0),
        ("t-g", "assigned", 1, None, 0),
        ("t-g", "revoked", 1, None, 1),
        ("t-g", "out-of-range", 0, 9, 1),
        ("t-g", "lost", 0, None, 1),
        ("t-g", "assigned", None, None, 1),
    ]


def test_commits_are_numbered_and_answered_by_partition(record, tmp_path: Path) -> None:
    def commits(recorder: ConsumptionRecorder) -> None:
        recorder.fetched({0: 4, 1: None})
        recorder.shown(shown((0, 4, 0, VALUE)))
        first = recorder.commit({0: 5, 1: 1})
        recorder.answered(first, SendType.OK, 0, 5, None)
        recorder.answered(first, SendType.INFO, 1, 1, "_TIMED_OUT")
        by_itself = recorder.commit({})
        recorder.answered(by_itself, SendType.OK, 0, 6, None)
        recorder.looked(recorder.now(), {0: 6})

    recorder = record(commits)
    columns = ("commit", "type", "partition", "offset", "poll", "error")
    assert rows("commits", tmp_path, *columns) == [
        (0, "fetched", 0, 4, 0, None),
        (0, "fetched", 1, -1, 0, None),
        (1, "invoke", 0, 5, 1, None),
        (1, "invoke", 1, 1, 1, None),
        (1, "ok", 0, 5, 1, None),
        (1, "info", 1, 1, 1, "_TIMED_OUT"),
        (2, "ok", 0, 6, 1, None),
        (2, "looked", 0, 6, 1, None),
    ]
    assert recorder.figures()["committed"] == 2


def test_a_tail_reader_is_in_no_group_and_has_no_commits(tmp_path: Path) -> None:
    of_member = spec_of(tmp_path).model_dump()
    spec = ConsumerSpec(**{name: of_member[name] for name in ConsumerSpec.model_fields})
    tables = ConsumptionTables(spec)
    recorder = ConsumptionRecorder(spec, tables, count(100).__next__)
    recorder.assigned({0: 0, 1: 0})
    with pytest.raises(AssertionError, match="no group"):
        recorder.commit({0: 1})
    tables.close()
    assert rows("assignments", tmp_path, "group", "offset") == [(None, 0), (None, 0)]


def test_every_table_says_at_its_close_how_much_it_wrote(record, tmp_path: Path) -> None:
    record(lambda recorder: recorder.assigned({}))
    written = rows("closings", tmp_path, "table", "writer", "topic", "partition", "rows")
    assert sorted(written, key=str) == [
        ("assignments", "member-t-g-0", None, None, 1),
        ("commits", "member-t-g-0", None, None, 0),
        ("polls", "member-t-g-0", "t", 0, 0),
        ("polls", "member-t-g-0", "t", 1, 0),
    ]


def test_unclosable_table_keeps_no_other_open(tmp_path: Path) -> None:
    tables = ConsumptionTables(spec_of(tmp_path))
    assert tables.commits is not None
    tables.commits.append(("no", "row"))
    with pytest.raises(HistoryError):
        tables.close()
    assert {row[0] for row in rows("closings", tmp_path, "table")} == {"polls", "assignments"}
