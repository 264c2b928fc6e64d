"""The member of a group whose client is a program: what it records of one that does as it should,
and of one that does not."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ackproof.history.reader import read
from ackproof.infra.machine.waiting import wait_until
from tests.support.processes.deadlines import PATIENCE_S

pytestmark = pytest.mark.integration

TINY_MEMBER = Path(__file__).parents[1] / "support" / "fakes" / "tiny_member.py"
RECORDS = 30
"""The number of records in the partition of the program."""


@pytest.fixture
def member(client) -> Callable:
    def start(manner: str, delivery: str = "at-least-once", **changed):
        return client(
            "ackproof.workloads.foreign.member",
            {
                "client": "member-t-g-0",
                "topic": "t",
                "partitions": 1,
                "bootstrap_servers": "nowhere:1",
                "group": "t-g",
                "delivery": delivery,
                "instance": None,
                "library": "java",
                "program": [sys.executable, str(TINY_MEMBER), manner],
                **changed,
            },
        )

    return start


def rows(member, table: str, *columns: str) -> Sequence[tuple[Any, ...]]:
    found = read(member.history, table).to_pylist()
    return [tuple(row[one] for one in columns) for row in found]


def wait_until_shown(member, many: int) -> None:
    def shown() -> bool:
        assert member.process.poll() is None, member.log()
        return member.figures()["shown"] >= many

    wait_until(shown, PATIENCE_S, f"{many} records of {member.figures()}")


@pytest.mark.parametrize("delivery", ["at-least-once", "at-most-once"])
def test_records_and_commits_of_a_member_are_recorded(member, delivery: str) -> None:
    one = member("correct", delivery)
    wait_until_shown(one, RECORDS)
    assert one.terminate() == 0, one.log()
    polls = rows(one, "polls", "poll", "offset", "leader_epoch")
    assert polls == [(1 + offset // 3, offset, 4) for offset in range(RECORDS)]
    commits = [row for row in rows(one, "commits", "type", "offset", "poll") if row[0] != "looked"]
    assert commits[0] == ("fetched", -1, 0)
    expected = [(kind, 3 * poll, poll) for poll in range(1, 11) for kind in ("invoke", "ok")]
    assert commits[1:] == expected
    assert rows(one, "assignments", "event", "offset") == [("assigned", None), ("revoked", None)]
    assert (one.figures()["shown"], one.figures()["committed"]) == (RECORDS, 10)


def test_program_receives_group_and_properties(member) -> None:
    one = member("correct", consumer_config={"max.poll.records": 5}, instance="i")
    wait_until_shown(one, RECORDS)
    assert one.terminate() == 0, one.log()
    told = {line[6:] for line in one.log().splitlines() if line.startswith("told: ")}
    assert told == {
        "protocol 1",
        "topic t",
        "property auto.offset.reset earliest",
        "property bootstrap.servers nowhere:1",
        "property client.id member-t-g-0",
        "property enable.auto.commit false",
        "property group.id t-g",
        "property group.instance.id i",
        "property isolation.level read_uncommitted",
        "property max.poll.records 5",
        "property session.timeout.ms 10000",
    }


def test_tombstones_of_a_member_are_recorded_with_their_identities(member) -> None:
    one = member("correct", tombstones=True)
    wait_until_shown(one, RECORDS)
    assert one.terminate() == 0, one.log()
    assert rows(one, "polls", "offset") == [(offset,) for offset in range(RECORDS)]


def test_member_without_version_2_is_refused_for_tombstones(member) -> None:
    one = member("unaware", library="/own", tombstones=True)
    assert one.wait() == 1
    assert "was told protocol 2, and answered in version 1; records with keys or" in one.log()


def test_failed_commit_is_unknown_and_asked_for_again(member) -> None:
    one = member("refuses")
    wait_until_shown(one, RECORDS)
    assert one.terminate() == 0, one.log()
    answers = [row for row in rows(one, "commits", "type", "offset", "error") if row[0] == "info"]
    assert answers == [("info", 3 * poll, "TimeoutException") for poll in range(1, 6)]


def test_committed_offset_is_asked_for_again_until_it_is_known(member) -> None:
    one = member("forgets")
    wait_until_shown(one, RECORDS)
    assert one.terminate() == 0, one.log()
    fetched = [row for row in rows(one, "commits", "type", "offset") if row[0] == "fetched"]
    assert fetched == [("fetched", -1)]


def test_partition_given_again_is_read_on_from_its_committed_offset(member) -> None:
    one = member("rebalances")
    wait_until_shown(one, RECORDS)
    assert one.terminate() == 0, one.log()
    events = rows(one, "assignments", "event", "offset")
    expected = [("assigned", None), ("revoked", None), ("assigned", 15), ("revoked", None)]
    assert events == expected
    assert [offset for (offset,) in rows(one, "polls", "offset")] == list(range(RECORDS))


def test_lost_partition_is_not_committed(member) -> None:
    one = member("loses", "at-most-once")
    wait_until_shown(one, RECORDS)
    assert one.terminate() == 0, one.log()
    assert [event for (event,) in rows(one, "assignments", "event")][:2] == ["assigned", "lost"]
    assert [offset for (offset,) in rows(one, "polls", "offset")] == list(range(RECORDS))


@pytest.mark.parametrize(
    ("manner", "reason"),
    [
        ("fatal", "the library has failed for good"),
        ("malformed", "the program said what is no line: 'record 0 zero - QQ=='"),
        ("quits", "the program ended with status 7"),
    ],
)
def test_program_that_breaks_a_rule_ends_with_its_client(member, manner, reason) -> None:
    one = member(manner)
    assert one.wait() != 0
    assert reason in one.log()
    assert [offset for (offset,) in rows(one, "polls", "offset")] == list(range(15))
