"""Tables of consumers: counts by client and group over all partitions. Missing parts are reported
and give no reason for a verdict."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ackproof.checkers.verdict import CampaignResult, ClientCounts, GroupCounts
from ackproof.history.writer import TableWriter
from tests.support.builders.checked_runs import INCONCLUSIVE, PASS, WELL, checked, run, told
from tests.support.builders.consumers import MadeConsumer, commit, committed_ok, given, seen
from tests.support.builders.histories import (
    AFTER,
    KILL,
    MadeRun,
    a_fault,
    at,
    cell,
    fault_rows,
    history_of,
    write_campaign,
)

ALL_OF_IT = tuple(seen(1 + e.offset // 2, e.offset, e.producer, e.sequence) for e in WELL.log)
READER = MadeConsumer(polls=ALL_OF_IT, assigned=[given(0, at(0), 0)])
MEMBER = MadeConsumer(
    client="member-0",
    group="t-g",
    polls=ALL_OF_IT,
    assigned=[given(0, at(0), 0)],
    commits=[
        commit("fetched", 0, at(0), -1, 0),
        *committed_ok(1, at(7), 2, 1),
        *committed_ok(2, at(50), 3, 2),
    ],
)

NONE_OF = ("again", "nonmonotonic", "skipped", "foreign", "inconsistent", "vanished")
CLEAN = dict.fromkeys(NONE_OF, 0) | {"shown": 3, "distinct": 3}
READ = ClientCounts(
    run=1, cell="c", client="reader-0", member=False, group=None, **CLEAN, unseen=0, unread=0
)
TAKEN = ClientCounts(
    run=1, cell="c", client="member-0", member=True, group="t-g", **CLEAN, unseen=None, unread=None
)
KEPT = GroupCounts(
    run=1,
    cell="c",
    group="t-g",
    committed=2,
    commit_errors=0,
    commits_lost=0,
    commits_regressed=0,
    skipped_by_commit=0,
)
GROUPS = {"t-g": "at-least-once"}


def consumed(*consumers: MadeConsumer, **changes: Any) -> MadeRun:
    cells = (cell(groups=GROUPS),)
    return run(**{"consumers": consumers or (READER, MEMBER), "cells": cells, **changes})


def clients(result: CampaignResult) -> dict[str, ClientCounts]:
    return {one.client: one for one in result.consumption.clients}


def unknown(counts: ClientCounts | GroupCounts) -> set[str]:
    names = set(counts.__dataclass_fields__) - {"group"}
    return {name for name in names if getattr(counts, name) is None}


def test_all_is_well(tmp_path: Path) -> None:
    result = checked(write_campaign(tmp_path, consumed()))
    assert result.verdict is PASS, told(result)
    assert result.findings == ()
    assert result.consumption.clients == (TAKEN, READ)
    assert result.consumption.groups == (KEPT,)


def test_partitions_are_added_up(tmp_path: Path) -> None:
    keys = (("t", 0), ("t", 1))
    made = consumed(
        READER.but(of=keys),
        MEMBER.but(of=keys),
        MEMBER.but(client="member-1", of=keys, partition=("t", 1)),
        cells=(cell(partitions=2, groups=GROUPS),),
        partitions=dict.fromkeys(keys, WELL),
        faults=a_fault(partitions=("t-0", "t-1")),
    )
    result = checked(write_campaign(tmp_path, made))
    assert result.findings == ()
    assert {name: one.shown for name, one in clients(result).items()} == {
        "member-0": 3,
        "member-1": 3,
        "reader-0": 3,
    }
    # Of the other partition the reader was shown nothing.
    assert clients(result)["reader-0"].unread == 3
    (group,) = result.consumption.groups
    assert group.committed == 4


def test_consumption_without_consumers_is_empty(tmp_path: Path) -> None:
    result = checked(write_campaign(tmp_path, run()))
    assert result.consumption.clients == result.consumption.groups == ()


def test_incomplete_final_read_leaves_dependent_results_unknown(tmp_path: Path) -> None:
    made = consumed(partitions={("t", 0): WELL.but(complete=False, log=WELL.log[:2])})
    result = checked(write_campaign(tmp_path, made))
    assert result.verdict is INCONCLUSIVE
    assert unknown(clients(result)["reader-0"]) == {
        *("skipped", "inconsistent", "vanished", "unseen", "unread")
    }
    assert unknown(result.consumption.groups[0]) == {"skipped_by_commit"}


RESTS_ON = {
    "polls": {"shown", "skipped"},
    "assignments": {"again", "nonmonotonic", "skipped"},
    "commits": set(),
}
"""What is not known without a table, of a member."""


def halved(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize("table", sorted(RESTS_ON))
@pytest.mark.parametrize("spoil", [Path.unlink, halved, lambda path: path.write_bytes(b"")])
def test_missing_or_damaged_consumer_table_is_a_finding_and_keeps_the_verdict(
    tmp_path: Path, table: str, spoil: Callable[[Path], object]
) -> None:
    directory = write_campaign(tmp_path, consumed())
    (path,) = history_of(directory).glob(f"{table}.*member-0.parquet")
    spoil(path)
    result = checked(directory)
    assert result.verdict is PASS, told(result)
    findings = "\n".join(result.findings)
    assert f"{table} " in findings or path.name in findings
    assert RESTS_ON[table] <= unknown(clients(result)["member-0"])
    # A member that committed nothing of which it is known is in no group of which that is known.
    assert "skipped_by_commit" in unknown(result.consumption.groups[0])
    assert clients(result)["reader-0"] == READ


def test_missing_closing_is_a_finding(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, consumed())
    (path,) = history_of(directory).glob("closings.polls-reader-0*")
    path.unlink()
    result = checked(directory)
    assert result.verdict is PASS, told(result)
    (finding,) = result.findings
    assert "polls.t.0.reader-0.parquet: is closed, but no closing says" in finding
    assert clients(result)["reader-0"].shown is None
    assert unknown(clients(result)["reader-0"]) >= {"vanished", "skipped", "unseen", "unread"}


def test_unplanned_consumer_files_are_findings(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, consumed())
    history = history_of(directory)
    stray = TableWriter(history, "polls", "stranger", partition=("t", 0))
    stray.append(("stranger", "t", 0, 1, at(1), 0, None, None, None, None))
    stray.close()
    (history / "commits.a.b.parquet").write_bytes(b"")
    result = checked(directory)
    assert result.verdict is PASS, told(result)
    assert "run 1: polls of t-0 by stranger: the manifest plans no such writer" in result.findings
    assert any("commits.a.b.parquet" in finding for finding in result.findings)
    assert set(clients(result)) == {"member-0", "reader-0"}


def crash(since: float = 30) -> list[dict[str, Any]]:
    return fault_rows(
        *(("inject", since, None), ("injected", since, None), ("verified", since, True)),
        *(("heal", since, None), ("healed", since + 1, True)),
        fault_id=2,
        fault="crash-client",
        target="clients",
        servers=("client-1",),
        partitions=(),
    )


CRASH = crash()


def killed(*names: str) -> list[dict[str, Any]]:
    return [{"time": at(30), "client": name, "exit_code": -9, "fault_id": 2} for name in names]


def test_a_consumer_that_was_crashed_counts_as_far_as_it_recorded(tmp_path: Path) -> None:
    """It committed what it was shown in a poll that it could not record."""
    unrecorded = committed_ok(3, at(60), 9, 7)
    made = consumed(
        READER.but(polls=ALL_OF_IT[:2], crashed=True),
        MEMBER.but(crashed=True, commits=[*MEMBER.commits, *unrecorded]),
        faults=[*KILL, *CRASH],
        clients=killed("reader-0", "member-0"),
    )
    result = checked(write_campaign(tmp_path, made))
    assert result.verdict is PASS, told(result)
    assert any(
        finding.startswith(
            "run 1: recorded until crash-client#2 crashed its client: polls by reader-0"
        )
        for finding in result.findings
    )
    assert not any("did not close it" in finding for finding in result.findings)
    reader = clients(result)["reader-0"]
    assert (reader.shown, reader.skipped, reader.unseen, reader.unread) == (2, 0, 0, None)
    (group,) = result.consumption.groups
    assert (group.committed, group.commits_lost) == (3, 0)
    # Its last reads and commits are unknown.
    assert unknown(group) == {"commits_regressed", "skipped_by_commit"}


def test_a_member_that_was_crashed_before_it_had_anything_lacks_nothing(tmp_path: Path) -> None:
    idle = MadeConsumer(client="member-1", group="t-g", crashed=True)
    made = consumed(MEMBER, idle, faults=[*KILL, *CRASH], clients=killed("member-1"))
    result = checked(write_campaign(tmp_path, made))
    assert result.verdict is PASS, told(result)
    assert not any("recorded nothing" in finding for finding in result.findings)
    assert result.consumption.groups == (KEPT,)


def test_a_client_that_ended_by_itself_takes_only_its_own_evidence_with_it(tmp_path: Path) -> None:
    """Test that a producer's end affects its cell and a reader's end affects no verdict."""
    how = {"time": at(30), "exit_code": 1, "fault_id": None, "detail": "ended by itself, status 1"}
    for client, verdict in (("reader-0", PASS), ("producer-1", INCONCLUSIVE)):
        made = consumed(READER, clients=[{**how, "client": client}])
        result = checked(write_campaign(tmp_path / client, made))
        assert result.verdict is verdict, told(result)
        words = f"the client {client} ended by itself, status 1"
        assert f"run 1: {words}" in result.findings
        assert (words in "\n".join(result.cells[0].reasons)) is (verdict is INCONCLUSIVE)


LATE = AFTER + 10
"""Nothing is sent any more."""


def test_a_consumer_that_was_crashed_after_the_last_ack_costs_no_verdict(tmp_path: Path) -> None:
    gone = READER.but(crashed=True)
    faults = [*KILL, *crash(LATE)]
    result = checked(
        write_campaign(tmp_path / "a", consumed(gone, faults=faults, clients=killed("reader-0")))
    )
    assert result.verdict is PASS, told(result)

    # Whom it crashed is not told: it may have been the only one who sent.
    result = checked(write_campaign(tmp_path / "b", consumed(READER, faults=faults)))
    assert result.verdict is INCONCLUSIVE
    assert "no ack after crash-client#2" in told(result)


def test_a_consumer_that_was_crashed_is_no_fault_that_a_cell_has_lived_through(
    tmp_path: Path,
) -> None:
    gone = READER.but(crashed=True)
    result = checked(
        write_campaign(tmp_path, consumed(gone, faults=CRASH, clients=killed("reader-0")))
    )
    assert result.verdict is INCONCLUSIVE
    assert "no fault that is proven to have taken effect touched a partition of this cell" in told(
        result
    )


def test_a_crash_of_producers_and_consumers_is_asked_for_acks(tmp_path: Path) -> None:
    gone = READER.but(crashed=True)
    named = killed("reader-0", "producer-1")
    made = consumed(gone, faults=[*KILL, *crash(LATE)], clients=named)
    result = checked(write_campaign(tmp_path, made))
    assert "no ack after crash-client#2" in told(result)
