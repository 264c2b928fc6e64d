"""Anomalies of reads and commits: judged by the guarantees valid at the time, and unknown without
evidence."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ackproof.checkers.check import evidence
from ackproof.checkers.checks import claims
from ackproof.checkers.engine.work_items import work_items
from ackproof.checkers.verdict import CampaignResult, Guarantee, Verdict
from tests.support.builders.checked_runs import (
    FAIL,
    INCONCLUSIVE,
    NOT_GUARANTEED,
    PASS,
    WELL,
    checked,
    reconcile,
    run,
    told,
)
from tests.support.builders.consumers import Commit, MadeConsumer, commit, committed_ok, given, seen
from tests.support.builders.histories import (
    ACKS_1,
    ALL,
    UNCLEAN,
    Made,
    MadeRun,
    a_fault,
    at,
    cell,
    entry,
    fault_rows,
    history_of,
    indexed,
    send,
    state,
    write_campaign,
)

GROUPS = {"t-g": "at-least-once"}
SHOWN = tuple(seen(1 + n, e.offset, e.producer, e.sequence, at(50)) for n, e in enumerate(WELL.log))
READER = MadeConsumer(polls=SHOWN, assigned=[given(0, at(0), 0)])
MEMBER = MadeConsumer(
    client="member-0",
    group="t-g",
    polls=SHOWN,
    assigned=[given(0, at(0))],
    commits=[commit("fetched", 0, at(0), -1, 0), *committed_ok(1, at(51), 3, 3)],
)
READERS = {"reads-stay", "reads-agree", "no-poll-skip", "polls-in-order"}
OF_GROUPS = {"commits-kept", "commits-in-order"}


def guarantees(result: CampaignResult) -> Mapping[str, Guarantee]:
    (found,) = result.cells
    return {one.name: one for one in found.guarantees}


def rows_of(directory: Path) -> list[dict[str, Any]]:
    runs, _ = evidence(directory)
    items = [item for one in runs for item in work_items(one)]
    return [row for item in items for row in reconcile(item)[0].to_pylist()]


@pytest.mark.parametrize(
    ("consumers", "groups", "expected"),
    [
        ((), {}, set()),
        ((READER,), {}, {*READERS, "no-unseen"}),
        ((MEMBER,), GROUPS, {*READERS, *OF_GROUPS, "nothing-skipped-by-commit"}),
        ((MEMBER,), {"t-g": "at-most-once"}, {*READERS, *OF_GROUPS}),
    ],
    ids=["no consumer", "a tail reader", "at-least-once", "at-most-once"],
)
def test_cell_has_only_the_guarantees_of_its_consumers(
    tmp_path: Path, consumers: Any, groups: Mapping[str, str], expected: set[str]
) -> None:
    made = run(consumers=consumers, cells=(cell(groups=groups),))
    result = checked(write_campaign(tmp_path, made))
    assert result.verdict is PASS, told(result)
    every = guarantees(result)
    of_consumers = {*READERS, *OF_GROUPS, "no-unseen", "nothing-skipped-by-commit"}
    assert of_consumers & every.keys() == expected
    assert all(every[name].promised for name in expected)
    # No member was told what is committed after a commit.
    assert {name for name in expected if not every[name].held} == expected & UNLOOKED


UNLOOKED = {"commits-kept", "commits-in-order"}


def with_a_vanished_read(
    tmp_path: Path, *, sent: float = 30, shown: float = 31, **changes: Any
) -> CampaignResult:
    """The reader was shown one more record, with a send of unknown outcome."""
    sends = [*WELL.sends, send("invoke", 1, 3, at(sent))]
    reader = READER.but(polls=[*SHOWN, seen(4, 3, 1, 3, at(shown))])
    partitions = {("t", 0): WELL.but(sends=sends)}
    made = run(**{"consumers": (reader,), "partitions": partitions, **changes})
    return checked(write_campaign(tmp_path, made))


CHANGED = (state(-5, 1, 0, (1, 2, 3)), state(12, 2, 1, (2, 3)), state(25, 2, 1, (1, 2, 3)))
OUTSIDE = (state(-5, 1, 0, (1, 2)), state(32, 3, 1, (3,)), state(35, 3, 1, (1, 2, 3)))
ISR_OF_ONE = (state(-5, 1, 0, (1,)), state(36, 1, 0, (1, 2, 3)))


def damage(**changes: Any) -> list[dict[str, Any]]:
    """Return the rows of damage to broker-1 at 32 seconds."""
    return [*a_fault(), *a_fault(32, 34, fault_id=2, fault="wipe", destroys="all", **changes)]


UNPROVEN = fault_rows(
    *(("inject", 32, None), ("injected", 32, None), ("verified", 33, False)),
    *(("heal", 34, None), ("healed", 34, True)),
    fault_id=2,
    fault="wipe",
    destroys="all",
)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, FAIL),
        ({"cells": [cell(ACKS_1)], "cluster": CHANGED}, FAIL),
        ({"cluster": OUTSIDE}, FAIL),
        ({"cells": [cell(UNCLEAN)]}, FAIL),
        ({"cells": [cell(UNCLEAN)], "cluster": OUTSIDE}, NOT_GUARANTEED),
        ({"cells": [cell(UNCLEAN)], "cluster": OUTSIDE, "shown": 60}, INCONCLUSIVE),
        ({"cells": [cell(UNCLEAN)], "cluster": OUTSIDE, "sent": 60, "shown": 61}, FAIL),
        ({"faults": damage()}, FAIL),
        ({"faults": damage(), "cluster": ISR_OF_ONE}, NOT_GUARANTEED),
        ({"faults": [*a_fault(), *UNPROVEN], "cluster": ISR_OF_ONE}, INCONCLUSIVE),
    ],
    ids=[
        *("quiet", "acks=1, led by another", "forbidden election", "unclean not used", "unclean"),
        *("perhaps read before", "read after", "others had it", "unassigned", "perhaps unassigned"),
    ],
)
def test_vanished_read_is_judged_by_the_guarantee_at_its_time(
    tmp_path: Path, changes: dict[str, Any], expected: Verdict
) -> None:
    result = with_a_vanished_read(tmp_path, **changes)
    assert result.anomalies["vanished-read"] == 1
    assert result.verdict is expected, told(result)
    (counts,) = result.consumption.clients
    assert counts.vanished == 1
    stay = guarantees(result)["reads-stay"]
    assert stay.held is (None if expected is INCONCLUSIVE else False)
    assert stay.broken == (expected is FAIL)
    if expected is FAIL:
        assert "reads-stay: " in told(result)


def test_vanished_read_names_its_reader_and_the_fate_of_the_record(tmp_path: Path) -> None:
    directory = tmp_path / "results"
    with_a_vanished_read(directory)
    (row,) = rows_of(directory)
    assert (row["offset"], row["producer"], row["sequence"], row["time"]) == (3, 1, 3, at(31))
    assert row["detail"] == (
        "read by reader-0: producer 1 sequence 3; truncated: the log ends at 3"
    )


def test_read_below_the_log_start_may_have_been_deleted(tmp_path: Path) -> None:
    kept = WELL.but(start=1, log=WELL.log[1:])
    made = run(consumers=(READER,), partitions={("t", 0): kept})
    result = checked(write_campaign(tmp_path, made))
    assert result.anomalies["vanished-read"] == 0
    (counts,) = result.consumption.clients
    assert counts.vanished == 0
    # What was acked is lost all the same.
    assert result.anomalies["lost"] == 1
    assert result.verdict is FAIL


def test_compacted_log_of_records_without_keys_leaves_vanished_reads_unknown(
    tmp_path: Path,
) -> None:
    compacted = cell({**ALL, "topic.cleanup.policy": "compact"})
    result = with_a_vanished_read(tmp_path, cells=[compacted])
    assert result.anomalies["vanished-read"] == 0
    (counts,) = result.consumption.clients
    assert counts.vanished is None
    assert guarantees(result)["reads-stay"].held is None


def acked_twice(seconds: float) -> Made:
    """Another record was acked at the last offset before; it is lost."""
    events = [send("invoke", 2, 0, at(seconds)), send("ok", 2, 0, at(seconds), 2)]
    return WELL.but(sends=[*WELL.sends, *events])


@pytest.mark.parametrize(
    ("settings", "cluster", "expected"),
    [(ALL, None, FAIL), (ACKS_1, CHANGED, NOT_GUARANTEED)],
    ids=["acks=all", "acks=1"],
)
def test_read_that_overrules_an_ack_is_judged_by_the_guarantee_of_the_ack(
    tmp_path: Path, settings: Any, cluster: Any, expected: Verdict
) -> None:
    made = run(
        consumers=(READER,),
        cells=[cell(settings)],
        partitions={("t", 0): acked_twice(5)},
        cluster=cluster,
    )
    result = checked(write_campaign(tmp_path, made))
    assert (result.anomalies["inconsistent-read"], result.anomalies["lost"]) == (1, 1)
    assert result.verdict is expected, told(result)
    details = [row["detail"] for row in rows_of(tmp_path) if row["anomaly"] == "inconsistent-read"]
    assert details == ["acked: producer 2 sequence 0; the final log holds producer 1 sequence 2"]


LOST = WELL.but(
    sends=[*WELL.sends, send("invoke", 1, 3, at(30)), send("ok", 1, 3, at(31), 3)],
)
"""The last record is gone."""
SEEN = seen(4, 3, 1, 3, at(32))


@pytest.mark.parametrize(
    ("consumers", "expected"),
    [
        ((), None),
        ((READER,), False),
        ((READER.but(polls=[*SHOWN, SEEN]),), True),
        ((READER, MEMBER.but(polls=[*SHOWN, SEEN])), True),
    ],
    ids=["no reads", "unread", "read by a reader", "read by a member"],
)
def test_lost_record_reports_whether_a_consumer_read_it(
    tmp_path: Path, consumers: Any, expected: bool | None
) -> None:
    made = run(consumers=consumers, partitions={("t", 0): LOST}, cells=[cell(groups=GROUPS)])
    directory = write_campaign(tmp_path, made)
    (row,) = (row for row in rows_of(directory) if row["anomaly"] == "lost")
    assert row["seen"] is expected


def test_missing_polls_leave_unknown_whether_a_lost_record_was_read(tmp_path: Path) -> None:
    made = run(consumers=(READER, MEMBER), partitions={("t", 0): LOST}, cells=[cell(groups=GROUPS)])
    directory = write_campaign(tmp_path, made)
    (path,) = history_of(directory).glob("polls.*member-0.parquet")
    path.unlink()
    (row,) = (row for row in rows_of(directory) if row["anomaly"] == "lost")
    assert row["seen"] is None


def test_missing_polls_leave_reader_guarantees_open(tmp_path: Path) -> None:
    made = run(consumers=(READER, MEMBER), cells=[cell(groups=GROUPS)])
    directory = write_campaign(tmp_path, made)
    (path,) = history_of(directory).glob("polls.*member-0.parquet")
    path.unlink()
    result = checked(directory)
    assert result.verdict is PASS, told(result)
    found = guarantees(result)
    # What is judged by versions in ZooKeeper, by files of the brokers, or by a time of peace at the
    # end, has none here.
    unwatched = {"replicas-agree", "min-isr-kept", "one-leader-an-epoch", "groups-recover"}
    unwatched |= UNLOOKED
    unknown = {*READERS, "nothing-skipped-by-commit"} | unwatched
    assert {name for name in found if found[name].held is None} == unknown


def coordinated(
    tmp_path: Path,
    *commits: Commit,
    offsets: Sequence[dict[str, Any]] | None = None,
    **changes: Any,
) -> CampaignResult:
    """Return the result for commits that were read back. ``offsets``: the observed states of the
    partition that stores them; no other partition but the cell's is observed."""
    watched = None
    if offsets is not None:
        watched = [state(-5, 1, 0, (1, 2, 3)), *offsets]
    member = MEMBER.but(commits=[*MEMBER.commits, *commits])
    made = MadeRun(
        **{
            "partitions": {("t", 0): WELL},
            "consumers": (member,),
            "cells": (cell(groups=GROUPS),),
            "cluster": watched,
            **changes,
        }
    )
    return checked(write_campaign(tmp_path, made))


def kept_by(
    seconds: float, leader: int, epoch: int, isr: Sequence[int], partition: int = 0
) -> dict[str, Any]:
    return state(seconds, leader, epoch, isr, topic="__consumer_offsets", partition=partition)


WATCHED = kept_by(-5, 1, 0, (1, 2, 3))
FORGOTTEN = commit("fetched", 1, at(57), -1, 3)
OLDER = [*committed_ok(2, at(52), 1, 3), *committed_ok(3, at(53), 3, 3)]
"""Offsets 3, 1 and 3 were committed in that order."""
UNANSWERED = [commit("invoke", 2, at(54), 1, 3), commit("info", 2, at(56), 1, 3, "_TIMED_OUT")]
"""Behind 3, of which it may have been stored, and may be yet, without a known answer."""


@pytest.mark.parametrize(
    ("commits", "anomaly"),
    [
        ([FORGOTTEN], "commit-lost"),
        ([*OLDER, commit("fetched", 3, at(60), 1, 3)], "commit-regressed"),
        ([commit("fetched", 1, at(60), 2, 3)], "commit-regressed"),
        ([*OLDER, commit("fetched", 3, at(60), 3, 3)], None),
        ([commit("fetched", 1, at(60), 3, 3)], None),
        ([commit("fetched", 1, at(50), -1, 3)], None),
        ([*UNANSWERED, commit("fetched", 2, at(60), 3, 3)], None),
        ([*UNANSWERED, commit("fetched", 2, at(60), 1, 3)], None),
        ([*UNANSWERED, commit("fetched", 2, at(60), 2, 3)], "commit-regressed"),
        ([*UNANSWERED, commit("fetched", 2, at(60), -1, 3)], "commit-lost"),
        ([commit("looked", 1, at(60), -1, 3)], "commit-lost"),
        ([*OLDER, commit("looked", 3, at(60), 1, 3)], "commit-regressed"),
        ([commit("looked", 1, at(49), 1, 3), *OLDER], None),
        ([*OLDER, *committed_ok(4, at(58), 2, 3), commit("looked", 3, at(57), 2, 3)], None),
    ],
    ids=[
        *(
            "nothing",
            "an older one",
            "an unknown one",
            "the last",
            "the only one",
            "before the answer",
        ),
        *("not the unanswered", "the unanswered", "neither of them", "none of them"),
        *("a look at nothing", "at an older one", "before the answer", "paused meanwhile"),
    ],
)
def test_an_answered_commit_is_known_later(
    tmp_path: Path, commits: Sequence[Commit], anomaly: str | None
) -> None:
    result = coordinated(tmp_path, *commits)
    kinds = ("commit-lost", "commit-regressed")
    assert {kind for kind in kinds if result.anomalies[kind]} == ({anomaly} if anomaly else set())
    assert result.verdict is (FAIL if anomaly else PASS), told(result)


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ([WATCHED], FAIL),
        ([], INCONCLUSIVE),
        # Another coordinates the group, long before, or while it is being told.
        ([WATCHED, kept_by(12, 2, 1, (2, 3))], FAIL),
        ([WATCHED, kept_by(51.5, 2, 1, (2, 3))], INCONCLUSIVE),
        ([WATCHED, kept_by(56, 2, 1, (2, 3))], FAIL),
        # What it had committed before is forgotten all the same.
        ([WATCHED, kept_by(56, 4, 1, (4,))], FAIL),
    ],
    ids=["watched", "not watched", "long before", "meanwhile", "after", "unclean"],
)
def test_deposed_coordinator_may_report_remembered_commits(
    tmp_path: Path, offsets: Sequence[dict[str, Any]], expected: Verdict
) -> None:
    result = coordinated(tmp_path, FORGOTTEN, offsets=offsets)
    assert result.anomalies["commit-lost"] == 1
    assert result.verdict is expected, told(result)


@pytest.mark.parametrize(("changed", "expected"), [(51.5, FAIL), (52.5, INCONCLUSIVE)])
def test_deposed_coordinator_tells_no_offset_that_its_successor_was_asked_to_keep(
    tmp_path: Path, changed: float, expected: Verdict
) -> None:
    """Offset 1 was asked for at 52 s, and 3 at 53 s; who is assigned at 57 s is told 1."""
    offsets = [WATCHED, kept_by(changed, 2, 1, (2, 3))]
    told_1 = commit("fetched", 3, at(57), 1, 3)
    result = coordinated(tmp_path, *OLDER, told_1, offsets=offsets)
    assert result.anomalies["commit-regressed"] == 1
    assert result.verdict is expected, told(result)
    if expected is INCONCLUSIVE:
        words = (
            "1 answers may come from a former coordinator that had not yet learned of its successor"
        )
        assert f"it is unknown whether the guarantee applied: {words}" in told(result)


@pytest.mark.parametrize(
    ("servers", "expected"), [(("broker-3",), FAIL), (("broker-1",), INCONCLUSIVE)]
)
def test_deposed_coordinator_is_excused_only_by_a_fault_that_keeps_it_from_hearing(
    tmp_path: Path, servers: tuple[str, ...], expected: Verdict
) -> None:
    """1 is deposed at 45 s, and must have heard by 52 s, unless a fault on it lasts until 60 s."""
    paused = a_fault(44, 60, fault_id=2, fault="pause", servers=servers)
    on_offsets = [{**row, "partitions": ["__consumer_offsets-0"]} for row in paused]
    offsets = [WATCHED, kept_by(45, 2, 1, (2, 3))]
    result = coordinated(tmp_path, FORGOTTEN, offsets=offsets, faults=[*a_fault(), *on_offsets])
    assert result.verdict is expected, told(result)


def test_commit_that_went_with_all_disks_is_not_promised_whichever_coordinator_tells(
    tmp_path: Path,
) -> None:
    every = ("broker-1", "broker-2", "broker-3")
    destroyed = a_fault(
        54, 55, fault_id=2, fault="wipe", destroys="all", servers=every, partitions=()
    )
    on_offsets = [{**row, "partitions": ["__consumer_offsets-0"]} for row in destroyed]
    offsets = [WATCHED, kept_by(51.5, 2, 1, (2, 3))]
    result = coordinated(tmp_path, FORGOTTEN, offsets=offsets, faults=[*a_fault(), *on_offsets])
    kept = guarantees(result)["commits-kept"]
    assert (kept.promised, kept.held, kept.broken) == (False, False, 0)
    assert result.verdict is PASS, told(result)


@pytest.mark.parametrize(("partition", "excused"), [(4, True), (3, False)])
def test_commits_go_with_the_disks_that_kept_them(
    tmp_path: Path, partition: int, excused: bool
) -> None:
    """Java's hash of ``t-g`` is 112974: of five partitions the last keeps what it commits."""
    name = f"__consumer_offsets-{partition}"
    destroyed = a_fault(54, 56, fault_id=2, fault="wipe", destroys="all", partitions=(name,))
    alone = [kept_by(-5, 1, 0, (1,), number) for number in range(5)]
    result = coordinated(tmp_path, FORGOTTEN, offsets=alone, faults=[*a_fault(), *destroyed])
    kept = guarantees(result)["commits-kept"]
    assert (kept.promised, kept.held, kept.broken) == (not excused, False, int(not excused))
    assert ("took data from the last members of the ISR" in kept.reason) is excused


def test_commit_beyond_an_unread_record_is_skipped_by_commit(tmp_path: Path) -> None:
    shown = MEMBER.but(polls=[SHOWN[0], SHOWN[2]], assigned=[given(0, at(0)), given(1, at(40), 2)])
    for name, groups in (("all", GROUPS), ("some", {"t-g": "at-most-once"})):
        made = run(consumers=(shown,), cells=[cell(groups=groups)])
        result = checked(write_campaign(tmp_path / name, made))
        skipped = int(groups is GROUPS)
        assert result.anomalies["skipped-by-commit"] == skipped
        assert result.verdict is (FAIL if skipped else PASS), told(result)
        (group,) = result.consumption.groups
        assert group.skipped_by_commit == (1 if skipped else None)


def test_acks_alone_neither_vanish_nor_overrule_each_other() -> None:
    """So that no question is asked without a consumer; of each the log holds nothing, or
    another."""
    sends = [send("invoke", 0, number, number) for number in range(3)]
    sends += [send("ok", 0, number, 5 + number, place) for number, place in enumerate((5, 5, 0))]
    history = indexed(Made(sends=sends, log=[entry(0, 0, 1)], end=1))
    contested = claims.contested_acks(history)
    assert contested.record.tolist() == [2, 0, 1]
    assert len(claims.overruled(contested, history)) == 0
    assert len(claims.vanished(contested, history)) == 0
