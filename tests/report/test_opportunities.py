"""A campaign without a loss says as much as the faults that could have lost a record allow."""

from collections.abc import Mapping, Sequence

from ackproof.checkers.verdict import CampaignResult, RunResult, Verdict
from ackproof.harness.report.opportunities import Opportunity, in_words, opportunities, risks
from ackproof.harness.report.rows import CellRow, rows
from ackproof.harness.report.timeline import FaultSpan, LeaderChange, Timeline
from tests.support.builders.results import cell_result, guarantee

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


def found(line: Timeline, losses: Sequence[Mapping[str, object]] = ()) -> list[str | None]:
    told = opportunities([CELL], {1: line}, losses)
    assert told is not None
    return [one.fault for one in told]


def lost(label: str, count: int = 5) -> dict[str, object]:
    return {"run": 1, "cell": "c", "fault": label, "lost": count, "duplicated": 0}


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
    told = opportunities(
        [CELL], {1: timeline([fault(1, 10)])}, [lost("kill#1,kill#2"), lost("kill#1")]
    )
    assert told == [Opportunity(run=1, cell="c", fault="kill#1", lost=10)]


def test_records_that_a_fault_wrote_twice_are_no_opportunity_to_lose_one() -> None:
    """A banner that counts them claims more than the campaign has shown."""
    rows = [{**lost("reset#1", 0), "duplicated": 7}, {**lost(None, 0), "duplicated": 2}]
    assert found(timeline([fault(1, 10)]), rows) == []


def test_leader_change_without_a_fault_is_no_fault() -> None:
    assert found(timeline([fault(1, 10)], [change(3)])) == []


def test_history_that_cannot_be_read_leaves_it_unknown() -> None:
    assert opportunities([CELL], {1: "damaged"}, []) is None
    assert opportunities([CELL], {}, []) is None
    assert "unknown" in in_words(None, kept_cells())


def kept_cells(names: Sequence[str] = ("c",)) -> Sequence[CellRow]:
    made = [cell_result(name, topic="t", guarantees=[guarantee()]) for name in names]
    runs = (RunResult(number=1, clock_bound_ns=0, infrastructure_failed=False),)
    return rows(
        CampaignResult(
            verdict=Verdict.PASS, cells=tuple(made), anomalies={}, findings=(), runs=runs
        )
    )


def one(label: str, cell: str = "c", lost: int = 0) -> Opportunity:
    return Opportunity(run=1, cell=cell, fault=label, lost=lost)


def test_faults_count_once_for_all_cells_and_bound_the_risk() -> None:
    every = [one(f"kill#{n}", cell) for n in range(1, 19) for cell in ("c", "d")]
    sentence = in_words(every, kept_cells(["c", "d"]))
    assert "0 losses in 18 faults" in sentence
    assert "at most 16 % (95 % confidence)" in sentence
    assert "17 such campaigns without a loss would bound it by 1 %" in sentence


def test_risk_is_reported_by_fault_class() -> None:
    told = risks([one("kill#1"), one("kill#2", lost=3), one("pause#3")], kept_cells())
    assert [(risk.fault, risk.faults, risk.lossy, risk.campaigns) for risk in told] == [
        ("kill", 2, 1, None),
        ("pause", 1, 0, 299),
        ("all", 3, 1, None),
    ]


def test_campaign_without_opportunities_says_so() -> None:
    assert "says nothing about faults that do" in in_words([], kept_cells())
    assert risks([], kept_cells()) == []
