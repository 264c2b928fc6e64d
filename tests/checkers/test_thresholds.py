"""A threshold is met only by what was measured on complete evidence."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ackproof.checkers.thresholds import (
    MEASURES,
    OPERATORS,
    Evidence,
    Threshold,
    Unit,
    is_consistent,
    judged,
)
from ackproof.checkers.verdict import Latency, Unavailable, Verdict
from ackproof.history.manifest import PlannedThreshold
from ackproof.history.schema import INTERRUPTED
from tests.support.builders.checked_runs import FAIL, INCONCLUSIVE, PASS, WELL, checked, run
from tests.support.builders.consumers import MadeConsumer, seen
from tests.support.builders.consumers import given as assigned
from tests.support.builders.histories import (
    ACKS_0,
    ACKS_1,
    FINISHED,
    at,
    cell,
    losing,
    write_campaign,
)
from tests.support.builders.results import cell_result

WHOLE = Evidence(ended=True, complete=True, acks="all", tail_readers=True)
LATENCY = Latency(
    records=10,
    since_due=True,
    p50_ms=0.5,
    p90_ms=1.0,
    p99_ms=200.0,
    p999_ms=250.5,
    longest_ms=1234.567,
)
MEASURED = cell_result(
    lost=3,
    duplicated=1,
    unavailable=Unavailable(longest_ms=28_041, total_ms=1, traffic_ms=3),
    acks_per_second=99.8,
    ack_latency=LATENCY,
    shown_latency=LATENCY,
)


def planned(text: str) -> PlannedThreshold:
    measure, operator, limit = text.split()
    return PlannedThreshold(measure=measure, operator=operator, limit=float(limit))


def one(text: str, evidence: Evidence = WHOLE, of: Any = MEASURED) -> Threshold:
    (found,) = judged([planned(text)], of, evidence)
    assert is_consistent(found, of)
    return found


@pytest.mark.parametrize(
    ("text", "met", "words"),
    [
        ("lost <= 3", True, "threshold lost <= 3 met: 3"),
        ("lost < 3", False, "threshold lost < 3 not met: 3"),
        ("lost >= 3", True, "threshold lost >= 3 met: 3"),
        ("lost > 3", False, "threshold lost > 3 not met: 3"),
        ("lost.share <= 30", True, "threshold lost.share <= 30 % met: 30 %"),
        ("duplicated.share <= 8", False, "threshold duplicated.share <= 8 % not met: 8.33333 %"),
        ("reordered <= 0", True, "threshold reordered <= 0 met: 0"),
        ("failed <= 0", False, "threshold failed <= 0 not met: 1"),
        ("failed.share <= 10", True, "threshold failed.share <= 10 % met: 8.33333 %"),
        ("indeterminate <= 1", True, "threshold indeterminate <= 1 met: 1"),
        ("indeterminate.share < 1", False, None),
        (
            "unavailable.longest <= 10000",
            False,
            "threshold unavailable.longest <= 10 s not met: 28.041 s",
        ),
        ("unavailable.share <= 50", True, "threshold unavailable.share <= 50 % met: 33.3333 %"),
        ("throughput >= 100", False, "threshold throughput >= 100/s not met: 99.8/s"),
        ("latency.p50 <= 0.5", True, "threshold latency.p50 <= 0.5 ms met: 0.5 ms"),
        ("latency.p99 < 200", False, "threshold latency.p99 < 200 ms not met: 200 ms"),
        ("latency.longest <= 1234.567", True, None),
        ("shown.latency.p999 <= 250", False, None),
    ],
)
def test_measured_value_is_compared_and_named(text: str, met: bool, words: str | None) -> None:
    found = one(text)
    assert found.met is met
    assert found.reason == ""
    assert words is None or found.words == words


@pytest.mark.parametrize("measure", MEASURES)
def test_unmeasured_value_is_never_met(measure: str) -> None:
    nothing = replace(
        MEASURED,
        **dict.fromkeys(("lost", "duplicated", "reordered")),
        sent=0,
        acked=0,
        unavailable=None,
        acks_per_second=None,
        ack_latency=None,
        shown_latency=None,
    )
    thin = replace(WHOLE, complete=False)
    for operator in OPERATORS:
        for limit in (0, 10**6):
            found = one(f"{measure} {operator} {limit}", thin, nothing)
            assert found.met is None
            assert found.reason


@pytest.mark.parametrize("measure", MEASURES)
def test_incomplete_evidence_meets_no_threshold(measure: str) -> None:
    thin = replace(WHOLE, complete=False)
    met = [one(f"{measure} {how} {limit}", thin).met for how in OPERATORS for limit in (0, 10**6)]
    assert True not in met


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("lost <= 2", False),
        ("lost <= 3", None),
        ("lost >= 4", None),
        ("duplicated < 1", False),
        ("unavailable.longest <= 10000", False),
        ("unavailable.share <= 5", None),
        ("latency.p99 <= 100", None),
        ("throughput >= 100", None),
        ("failed <= 0", None),
    ],
)
def test_incomplete_evidence_fails_a_threshold_that_is_already_exceeded(
    text: str, met: bool | None
) -> None:
    found = one(text, replace(WHOLE, complete=False))
    assert found.met is met
    if met is None:
        assert "the evidence of the cell is incomplete" in found.words


@pytest.mark.parametrize(
    ("text", "evidence", "why"),
    [
        ("latency.p99 <= 1000", {"acks": "0"}, "with acks=0 no broker acknowledges a record"),
        ("throughput >= 1", {"acks": "0"}, "with acks=0 no broker acknowledges a record"),
        ("shown.latency.p50 <= 1000", {"tail_readers": False}, "the cell has no tail reader"),
        ("shown.latency.p50 <= 1000", {"shown_min": 11}, "not every record was read by each"),
        ("unavailable.longest <= 1", {"ended": False, "complete": False}, "finish"),
        ("failed <= 5", {"ended": False, "complete": False}, "finish"),
    ],
)
def test_unmeasured_threshold_gives_its_reason(
    text: str, evidence: dict[str, Any], why: str
) -> None:
    found = one(text, replace(WHOLE, **evidence))
    assert (found.measured, found.met, found.status) == (None, None, "undecided")
    assert why in found.reason
    assert "undecided: not measured, " in found.words


def test_lost_records_of_an_interrupted_run_still_count() -> None:
    found = one("lost <= 0", replace(WHOLE, ended=False, complete=False))
    assert (found.measured, found.met) == (3.0, False)


def test_tiny_share_is_never_shown_as_none() -> None:
    found = one("lost.share <= 0", of=replace(MEASURED, lost=1, acked=10**9))
    assert found.words == "threshold lost.share <= 0 % not met: 1e-07 %"


@pytest.mark.parametrize(
    ("unit", "value", "words"),
    [
        (Unit.RECORDS, 10_000, "10,000"),
        (Unit.MILLISECONDS, 999.5, "999.5 ms"),
        (Unit.MILLISECONDS, 10_040, "10.04 s"),
        (Unit.MILLISECONDS, 10_000.5, "10.0005 s"),
        (Unit.PERCENT, 5, "5 %"),
        (Unit.RECORDS_PER_SECOND, 1234.5, "1,234.5/s"),
    ],
)
def test_values_are_shown_exactly(unit: Unit, value: float, words: str) -> None:
    assert unit.words(value) == words


@pytest.mark.parametrize(
    "changes",
    [{"met": True}, {"measured": 2.0}, {"measured": None}, {"measure": "lots"}, {"operator": "="}],
)
def test_edited_threshold_is_inconsistent(changes: dict[str, Any]) -> None:
    assert not is_consistent(replace(one("lost <= 0"), **changes), MEASURED)


def judge(tmp_path: Path, *texts: str, settings: Any = None, **changes: Any) -> Any:
    """Return the result of a campaign of one cell with these thresholds."""
    made = cell(settings) if settings else cell()
    made = made.model_copy(update={"thresholds": tuple(map(planned, texts))})
    return checked(write_campaign(tmp_path, run(cells=(made,), **changes)))


def reader(count: int) -> MadeConsumer:
    """Return a tail reader that was shown so many of the records."""
    log = WELL.log[:count]
    polls = [seen(1, one.offset, one.producer, one.sequence, at(60)) for one in log]
    return MadeConsumer(polls=polls, assigned=[assigned(0, at(0), 0)])


STOPPED = [
    *(row for row in FINISHED if row["phase"] in ("deploy", "ready", "workload", "teardown")),
    {"phase": "faults", "event": "start", "time": at(0)},
    {"phase": "faults", "event": "failed", "time": at(1), "detail": INTERRUPTED},
]


@pytest.mark.parametrize(
    ("texts", "changes", "verdicts", "campaign"),
    [
        (["lost <= 0", "unavailable.longest <= 500"], {}, [True, True], PASS),
        (["latency.p99 <= 1", "throughput > 0"], {}, [True, True], PASS),
        (["lost <= 0", "throughput >= 100000"], {}, [True, False], FAIL),
        (["shown.latency.p99 <= 1000"], {}, [None], INCONCLUSIVE),
        (["shown.latency.p99 <= 100000"], {"consumers": [reader(3)]}, [True], PASS),
        (["shown.latency.p99 <= 100000"], {"consumers": [reader(2)]}, [None], INCONCLUSIVE),
        (["lost <= 0"], {"partitions": {("t", 0): WELL.but(complete=False)}}, [None], INCONCLUSIVE),
        (["lost <= 0"], {"partitions": {}}, [None], INCONCLUSIVE),
        (["unavailable.longest <= 500"], {"phases": STOPPED}, [None], INCONCLUSIVE),
        (["unavailable.longest <= 500"], {"phases": FINISHED[:-1]}, [None], INCONCLUSIVE),
        (["latency.p99 <= 1000"], {"settings": ACKS_0}, [None], INCONCLUSIVE),
        (
            ["lost <= 0"],
            {"settings": ACKS_1, "partitions": {("t", 0): losing(WELL, 1)}},
            [False],
            FAIL,
        ),
    ],
)
def test_thresholds_of_a_checked_run(
    tmp_path: Path,
    texts: list[str],
    changes: dict[str, Any],
    verdicts: list[bool | None],
    campaign: Verdict,
) -> None:
    result = judge(tmp_path, *texts, **changes)
    (found,) = result.cells
    assert [each.met for each in found.thresholds] == verdicts
    assert result.verdict is campaign


def test_threshold_that_is_not_known_is_a_gap(tmp_path: Path) -> None:
    result = judge(tmp_path, "lots <= 0", "lost = 0")
    assert result.verdict is INCONCLUSIVE
    told = " ".join(result.cells[0].reasons)
    assert "expect: lots <= is not a threshold" in told
    assert "expect: lost = is not a threshold" in told


def test_broken_guarantee_wins_over_thresholds_that_are_met(tmp_path: Path) -> None:
    losses = {("t", 0): losing(WELL, 1)}
    result = judge(tmp_path, "unavailable.longest <= 60000", partitions=losses)
    assert result.cells[0].thresholds[0].met
    assert result.verdict is FAIL
    assert [guarantee.name for _, guarantee in result.broken]
