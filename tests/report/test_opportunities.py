"""A campaign without a loss says as much as the faults that could have lost a record allow."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest

from ackproof.harness.report import chance
from ackproof.harness.report.opportunities import (
    ANY,
    Exposure,
    ExposureKind,
    Opportunity,
    Risk,
    exposures,
    in_words,
    opportunities,
    summary,
)
from ackproof.harness.report.timeline import FaultSpan, LeaderChange, Timeline

SECOND = 1_000_000_000
CELL = (1, "c", "t")


def fault(number: int, start: int, name: str = "kill", took_from: Sequence[str] = ()) -> FaultSpan:
    return FaultSpan(
        fault_id=number,
        fault=name,
        target="any",
        servers=("broker-1",),
        start=start * SECOND,
        end=(start + 5) * SECOND,
        injected=True,
        proven=True,
        evidence={},
        healing={},
        took_from=frozenset(took_from),
    )


def change(at: int, partition: int = 0, topic: str = "t") -> LeaderChange:
    return LeaderChange(
        time=at * SECOND, topic=topic, partition=partition, leader=2, leader_epoch=at
    )


def timeline(
    faults: Sequence[FaultSpan],
    changes: Sequence[LeaderChange] = (),
    acks: Sequence[int] = range(100),
) -> Timeline:
    return Timeline(
        acks={"c": dict.fromkeys(acks, 9)}, faults=tuple(faults), leader_changes=tuple(changes)
    )


Lost = Mapping[tuple[int, str, str | None, str], int]
KINDS = ExposureKind


def found(line: Timeline, losses: Lost | None = None) -> list[str | None]:
    told = exposures([CELL], {1: line}, losses or {})
    assert told is not None
    return [one.fault for one in opportunities(told)]


def events(line: Timeline, losses: Lost | None = None) -> list[tuple[object, ...]]:
    told = exposures([CELL], {1: line}, losses or {})
    assert told is not None
    return [(one.kind, one.fault, one.events, one.lost) for one in told]


def lost(label: str | None, count: int = 5, anomaly: str = "lost") -> Lost:
    return {(1, "c", label, anomaly): count}


def test_fault_is_one_opportunity_however_many_partitions_it_takes() -> None:
    changes = [change(11, partition) for partition in range(12)]
    assert found(timeline([fault(1, 10)], changes)) == ["kill#1"]


def test_leader_that_comes_back_after_the_heal_is_the_same_opportunity() -> None:
    changes = [change(11), change(18), change(31)]
    assert found(timeline([fault(1, 10), fault(2, 30)], changes)) == ["kill#1", "kill#2"]


def test_fault_without_leader_change_is_none() -> None:
    assert found(timeline([fault(1, 10)])) == []
    assert found(timeline([fault(1, 10)], [change(11, topic="other")])) == []


def test_fault_without_acks_in_its_window_is_none() -> None:
    assert found(timeline([fault(1, 10)], [change(11)], acks=[1, 2, 40])) == []


def test_destroyed_data_of_the_topic_is_one() -> None:
    assert found(timeline([fault(1, 10, "lose-disk", ["t-0", "t-1"])])) == ["lose-disk#1"]
    assert found(timeline([fault(1, 10, "lose-disk", ["t-x-0"])])) == []


def test_loss_is_one_whatever_else_was_seen_and_counts_by_its_first_fault() -> None:
    losses = {**lost("kill#1,kill#2"), **lost("kill#1")}
    told = exposures([CELL], {1: timeline([fault(1, 10)])}, losses)
    assert told is not None
    assert opportunities(told) == [Opportunity(run=1, cell="c", fault="kill#1", lost=10)]
    assert [one.kind for one in told] == [KINDS.NONE_SEEN]


def test_records_that_a_fault_wrote_twice_are_no_opportunity_to_lose_one() -> None:
    """A banner that counts them claims more than the campaign has shown."""
    rows = {**lost("reset#1", 7, "duplicated"), **lost(None, 2, "duplicated")}
    assert found(timeline([fault(1, 10)]), rows) == []


def test_events_are_counted_by_kind_with_their_losses() -> None:
    line = replace(
        timeline(
            [fault(1, 10, took_from=["t-0"])],
            [change(11), change(12, 1), change(13, topic="__consumer_offsets")],
        ),
        commits={"t": {11}},
        fencings={"c": [12 * SECOND, 5 * SECOND]},
        truncations={"t": [11 * SECOND] * 3, "other": [11 * SECOND]},
    )
    losses = {**lost("kill#1,pause#2"), **lost("kill#1", 2, "commit-lost")}
    assert events(line, losses) == [
        (KINDS.LEADER_CHANGES, "kill#1", 2, 5),
        (KINDS.LOST_DISKS, "kill#1", 1, 5),
        (KINDS.TRUNCATIONS, "kill#1", 3, 5),
        (KINDS.COORDINATOR_CHANGES, "kill#1", 1, 2),
        (KINDS.FENCED_PRODUCERS, "kill#1", 1, 0),
    ]


def test_disk_is_at_risk_for_half_a_minute_after_the_last_ack() -> None:
    took = [fault(1, 50, "power-failure", ["t-0"])]
    assert found(timeline(took, acks=[25])) == ["power-failure#1"]
    assert found(timeline(took, acks=[19])) == []


def test_coordinator_change_without_a_commit_is_no_exposure() -> None:
    line = timeline([fault(1, 10)], [change(11, topic="__consumer_offsets")])
    assert events(line) == []


def test_truncations_without_logs_are_unknown_and_not_none() -> None:
    line = replace(timeline([fault(1, 10)], [change(11)]), truncations=None)
    told = exposures([CELL], {1: line}, {})
    assert told is not None
    whole = summary([told], [{(1, "c")}])
    assert whole.unknown == ["truncations"]
    assert [risk.what for risk in whole.lines] == [ANY, "leader changes"]
    assert list(whole.absent) == ["lost disks", "coordinator changes", "fenced producers"]


def test_leader_change_without_a_fault_is_no_fault() -> None:
    assert found(timeline([fault(1, 10)], [change(3)])) == []


def test_history_that_cannot_be_read_leaves_it_unknown() -> None:
    assert exposures([CELL], {1: "damaged"}, {}) is None
    assert exposures([CELL], {}, {}) is None
    assert "unknown" in in_words(None, {(1, "c")})


def one(label: str, cell: str = "c", lost: int = 0, events: int = 2) -> Exposure:
    kind = KINDS.LEADER_CHANGES
    return Exposure(run=1, cell=cell, kind=kind, fault=label, events=events, lost=lost)


def figures(risk: Risk) -> tuple[object, ...]:
    return risk.what, risk.events, risk.faults, risk.lossy, risk.more_nights


def test_faults_count_once_for_all_cells_and_bound_the_risk() -> None:
    every = [one(f"kill#{n}", cell) for n in range(1, 19) for cell in ("c", "d")]
    sentence = in_words(every, {(1, "c"), (1, "d")})
    assert "0 losses in 18 faults" in sentence
    assert "at most 16 % (95 % confidence)" in sentence
    assert "16 more such campaigns without a loss would bound it by 1 %" in sentence


def test_risk_is_reported_by_kind_and_by_fault_class() -> None:
    told = summary([[one("kill#1"), one("kill#2", lost=3), one("pause#3")]], [{(1, "c")}])
    assert list(map(figures, told.lines)) == [
        (ANY, 0, 3, 1, None),
        ("leader changes", 6, 3, 1, None),
    ]
    assert list(map(figures, told.faults["leader changes"])) == [
        ("kill", 4, 2, 1, None),
        ("pause", 2, 1, 0, 298),
    ]


def test_exposure_accumulates_over_nights() -> None:
    nights = [[one("kill#1"), one("kill#2")], [one("kill#1")]]
    told = summary(nights, [{(1, "c")}] * 2).total
    assert told is not None
    # 296 more faults at 1.5 a night
    assert (told.faults, told.nights, told.more_nights) == (3, 2, 198)


def test_changes_of_a_shared_coordinator_count_once_for_all_cells() -> None:
    every = [replace(one("kill#1", cell), kind=KINDS.COORDINATOR_CHANGES) for cell in ("c", "d")]
    (risk,) = summary([every], [{(1, "c"), (1, "d")}]).lines
    assert figures(risk) == ("coordinator changes", 2, 1, 0, 298)


def test_campaign_without_opportunities_says_so() -> None:
    assert "says nothing about faults that do" in in_words([], {(1, "c")})
    assert summary([[]], [{(1, "c")}]).lines == []


def planted_night(random: Random, probability: float) -> list[Exposure]:
    """Return the exposure of a night in which each leader change loses records with this
    probability."""
    faults = [fault(n, 10 * n) for n in range(1, random.randint(40, 80))]
    changes = [change(10 * one.fault_id + 1) for one in faults]
    lossy = [one.label for one in faults if random.random() < probability]
    losses = {(1, "c", label, "lost"): 1_000 for label in lossy}
    told = exposures([CELL], {1: timeline(faults, changes, range(0, 1_000, 10))}, losses)
    assert told is not None
    return told


@pytest.mark.long
def test_interval_covers_a_planted_probability_as_often_as_it_says() -> None:
    random, planted, covered = Random(47), 0.03, 0
    for _ in range(200):
        nights = [planted_night(random, planted) for _ in range(10)]
        risk = summary(nights, [{(1, "c")}] * len(nights)).total
        assert risk is not None
        low, high = chance.bounds(risk.lossy, risk.faults)
        covered += low <= planted <= high
    assert 0.93 <= covered / 200 <= 0.97
