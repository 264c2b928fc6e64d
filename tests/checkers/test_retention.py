"""Retention in whole checks: what it deleted is neither lost nor green, and what only may be right
is not a pass."""

from pathlib import Path

import numpy as np
import pytest

from ackproof.checkers.context.retention import (
    Growth,
    ObservedStarts,
    RetentionEvidence,
    RetentionPolicy,
    deletions,
    retention_of,
)
from ackproof.checkers.root_cause.kinds import CauseKind
from ackproof.checkers.verdict import CellResult
from ackproof.history.cell import Cell
from ackproof.testing.histories import (
    BEGIN_NS,
    MEMBER,
    READER,
    SETTINGS,
    TOPIC,
    History,
    sound_history,
)
from tests.support.builders.checked_runs import FAIL, INCONCLUSIVE, PASS, checked

SECOND = 1_000_000_000


def deleted(seconds: float, below: int = 5) -> History:
    """Return a history of one partition whose records below an offset, sent in its first half
    second, were deleted at a time. The start of the log was observed every second."""
    history = sound_history({**SETTINGS, "topic.retention.ms": 10_000}, partitions=1)
    for row in history.rows("log"):
        if row["offset"] < below:
            history.remove(row)
    history.starts[0] = below
    times = [BEGIN_NS + second * SECOND for second in range(50)]
    history.tables["log_starts", "harness"] = [
        {
            "topic": TOPIC,
            "partition": 0,
            "asked": time,
            "time": time + SECOND // 100,
            "log_start_offset": below if time >= BEGIN_NS + seconds * SECOND else 0,
        }
        for time in times
    ]
    return history


def cell_of(history: History, directory: Path) -> CellResult:
    history.write(directory)
    (cell,) = checked(directory).cells
    return cell


def test_expired_records_differ_from_kept_ones(tmp_path: Path) -> None:
    cell = cell_of(deleted(12), tmp_path / "r")
    assert cell.verdict is PASS
    assert "none of 19 acked records lost; 5 more were removed by cleanup.policy" in cell.reasons[0]
    found = {one.name: one for one in cell.guarantees}
    assert found["kept-until-retention"].held is True


def test_record_that_was_deleted_before_anybody_read_it_leaves_its_loss_open(
    tmp_path: Path,
) -> None:
    history = deleted(12)
    for client in (READER, MEMBER):
        first = history.rows("polls", writer=client)[0]
        history.remove(first)
        history.rows("assignments", writer=client)[0]["offset"] = 1
    cell = cell_of(history, tmp_path / "r")
    assert cell.verdict is INCONCLUSIVE
    assert "cleanup.policy removed 1 acked records that no consumer is known" in " ".join(
        cell.reasons
    )


def test_records_that_were_deleted_too_early_are_lost(tmp_path: Path) -> None:
    deleted(5).write(tmp_path / "r")
    found = checked(tmp_path / "r")
    (cell,) = found.cells
    assert cell.verdict is FAIL
    assert cell.lost == 5
    broken = {one.name: one.broken for one in cell.guarantees if one.broken}
    assert broken == {"no-acked-record-lost": 5, "kept-until-retention": 1}
    causes = [one for one in found.causes if one.anomaly == "lost"]
    assert [(one.kind, one.records) for one in causes] == [(CauseKind.DELETED_TOO_EARLY, 5)]


def test_unobserved_deletion_is_inconclusive(tmp_path: Path) -> None:
    history = deleted(12)
    history.tables["log_starts", "harness"].clear()
    cell = cell_of(history, tmp_path / "r")
    assert cell.verdict is INCONCLUSIVE
    assert "5 acked records may have been deleted too early" in " ".join(cell.reasons)


def compacted() -> History:
    """Return a history of one partition with two records of each key, of which the second one of
    key 0 is a tombstone. Compaction has removed the first records."""
    settings = {"topic.cleanup.policy": "compact", "topic.delete.retention.ms": 86_400_000}
    history = sound_history({**SETTINGS, **settings}, partitions=1)
    half = len(history.rows("log")) // 2
    for row in history.rows("sends"):
        if row["type"] == "invoke":
            row |= {"key": row["sequence"] % half, "tombstone": row["sequence"] == half}
    for row in history.rows("log")[:half]:
        history.remove(row)
    return history


def test_deleted_key_that_stays_deleted_is_a_pass(tmp_path: Path) -> None:
    cell = cell_of(compacted(), tmp_path / "r")
    assert cell.verdict is PASS, cell.reasons
    found = {one.name: one.held for one in cell.guarantees}
    names = ("tombstones-kept", "deleted-keys-stay-deleted", "deletions-read")
    assert [found[name] for name in names] == [True] * 3


def test_value_that_comes_back_when_its_tombstone_is_lost_fails(tmp_path: Path) -> None:
    whole, history = sound_history(SETTINGS, partitions=1), compacted()
    tombstone = history.rows("log")[0]
    history.remove(tombstone)
    history.tables["log", "final-read"].insert(0, whole.rows("log")[0])
    cell = cell_of(history, tmp_path / "r")
    assert cell.verdict is FAIL
    broken = {one.name: one.broken for one in cell.guarantees if one.broken}
    assert broken["no-acked-record-lost"] == broken["deleted-keys-stay-deleted"] == 1
    assert "tombstones-kept" not in broken


def judged(evidence: RetentionEvidence, asked: list[int]) -> list[str]:
    """Return the judgement of records with offsets from 0, acked as they were sent."""
    sent = np.array(asked) * SECOND
    offsets = np.arange(len(asked))
    found = deletions(evidence, offsets, sent, sent, Growth.of(sent, sent, offsets))
    words = np.where(found.early, "early", np.where(found.undetermined, "undetermined", "right"))
    return list(words)


def evidence(policy: RetentionPolicy, gone: int, **changes: object) -> RetentionEvidence:
    """Return the evidence that all records went in the second before ``gone``."""
    starts = ObservedStarts(
        asked=((gone - 1) * SECOND, gone * SECOND),
        answered=((gone - 1) * SECOND, gone * SECOND),
        offsets=(0, 9),
    )
    known = {"starts": starts, "value_bytes": (920, 920), "clock_bound_ns": 0}
    return RetentionEvidence(policy=policy, **{**known, **changes})


SIZED = {"topic.retention.bytes": 5}
BY_AGE, BY_SIZE = RetentionPolicy(ms=10_000), RetentionPolicy(size=2_000)


def test_record_above_one_that_was_deleted_too_early_was_deleted_too_early() -> None:
    assert judged(evidence(BY_AGE, 12), [1, 7, 1]) == ["right", "early", "early"]


@pytest.mark.parametrize("changes", [{"clocks_changed": True}, {"clock_bound_ns": None}])
def test_age_by_an_unknown_clock_is_undetermined(changes) -> None:
    assert judged(evidence(BY_AGE, 12, **changes), [1, 7]) == ["undetermined"] * 2


@pytest.mark.parametrize(
    ("policy", "changes"),
    [
        (BY_SIZE, {"value_bytes": None}),
        (RetentionPolicy(size=2_000, compressed=True), {}),
        (RetentionPolicy(size=600), {"value_bytes": (100, 100)}),
    ],
)
def test_deletion_by_an_unknown_size_is_undetermined(policy, changes) -> None:
    assert judged(evidence(policy, 12, **changes), [1, 2, 3, 4])[0] == "undetermined"


def test_long_gap_between_answers_is_judged_by_the_size_at_the_first() -> None:
    """At 5 s two records follow the first one: less than retention.bytes by less than a tenth."""
    times = (5 * SECOND, 12 * SECOND)
    gap = evidence(BY_SIZE, 12, starts=ObservedStarts(asked=times, answered=times, offsets=(0, 9)))
    words = ["right", "undetermined", "undetermined", "early", "early"]
    assert judged(gap, [1, 2, 3, 7, 8]) == words
    assert judged(gap, [1, 6, 7, 8, 9])[0] == "undetermined"


def test_record_is_kept_while_fewer_bytes_than_retention_bytes_follow() -> None:
    assert judged(evidence(BY_SIZE, 12), [1, 2, 3, 4]) == ["right", "right", "early", "early"]


@pytest.mark.parametrize(
    ("settings", "policy"),
    [
        ({}, None),
        ({"topic.retention.ms": -1}, None),
        ({"topic.retention.ms": "60000"}, RetentionPolicy(ms=60_000)),
        ({"topic.retention.ms": 5, "topic.cleanup.policy": "compact"}, None),
        ({**SIZED, "topic.cleanup.policy": "compact,delete"}, RetentionPolicy(size=5)),
        ({**SIZED, "producer.compression.type": "zstd"}, RetentionPolicy(size=5, compressed=True)),
        ({**SIZED, "topic.compression.type": "lz4"}, RetentionPolicy(size=5, compressed=True)),
    ],
)
def test_policy_is_that_of_the_topic(settings, policy) -> None:
    assert retention_of(Cell(name="c", topic="t", settings=settings)) == policy
