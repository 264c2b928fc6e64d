"""From counts to verdicts: what fails, what is open, what a campaign comes to."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.checkers.checks.catalogue import (
    COMMIT_LOST,
    COMMIT_REGRESSED,
    DIVERGENT,
    INCONSISTENT,
    NONMONOTONIC,
    SKIPPED,
    SKIPPED_BY_COMMIT,
    UNSEEN,
    VANISHED,
)
from ackproof.checkers.checks.partition_rules import CHECKERS
from ackproof.checkers.context.status import (
    COORDINATED,
    READABLE,
    GuaranteeStatus,
    count_name,
    examined,
    looked,
)
from ackproof.checkers.guarantees.decisions import campaign_verdict, judged, verdict
from ackproof.checkers.guarantees.facts import Facts, Readers
from ackproof.checkers.guarantees.liveness import LivenessResult
from ackproof.checkers.guarantees.table import NO_LOSS
from ackproof.checkers.verdict import Guarantee, Verdict
from tests.support.builders.histories import ACKS_0, ACKS_1, ALL, UNCLEAN, cell
from tests.support.builders.results import cell_result

SHOWN = (VANISHED, INCONSISTENT, SKIPPED, NONMONOTONIC, UNSEEN)
SHOWN += (COMMIT_LOST, COMMIT_REGRESSED, SKIPPED_BY_COMMIT)
PASS, FAIL, NOT_GUARANTEED, INCONCLUSIVE = Verdict
LOOKED_AT = {
    "replicas compared": 1,
    "partitions watched": 1,
    "partitions watched by version": 1,
    "partitions spoken of": 1,
}
EXAMINED = {examined(checker): 9 for checker in (*CHECKERS, DIVERGENT)}
KEPT = {"acked": 9, "acked promised": 9, "partitions promised": 1, **LOOKED_AT, **EXAMINED}
VOIDED = {"acked": 9, "acked promised": 4, "acked unpromised": 5, "partitions unpromised": 1}
VOIDED |= EXAMINED
LIVE = LivenessResult(examined=1)
CLEAN = Facts(cell=cell(ALL).cell, counts=KEPT, recovers=LIVE, stays_up=LIVE)


def facts(settings: Any = ALL, counts: Any = KEPT, **changes: Any) -> Facts:
    return replace(CLEAN, cell=cell(settings).cell, counts=counts, **changes)


def concluded(given: Facts) -> tuple[Verdict, tuple[str, ...]]:
    return verdict(given, *judged(given))


def named(given: Facts, name: str) -> Guarantee:
    return next(guarantee for guarantee in judged(given)[0] if guarantee.name == name)


LOST = {"lost": 2, "lost promised": 2}


@pytest.mark.parametrize(
    ("given", "expected", "reason"),
    [
        (facts(), PASS, "none of 9 acked records lost"),
        (facts(gaps=("a gap",)), INCONCLUSIVE, "a gap"),
        (facts(counts=KEPT | LOST), FAIL, "2 of 9 acked records lost"),
        (facts(counts=KEPT | LOST, gaps=("a gap",)), FAIL, "2 of 9 acked records lost"),
        (
            facts(counts=VOIDED | {"lost": 3, "lost unpromised": 3}),
            NOT_GUARANTEED,
            "3 of 9 acked records lost",
        ),
        (facts(counts=VOIDED), NOT_GUARANTEED, "5 of 9 acked records are not promised"),
        (
            facts(counts=VOIDED | {"lost": 3, "lost unpromised": 3}),
            NOT_GUARANTEED,
            "3 of 9 acked records lost; no lost record was promised",
        ),
        (facts(counts=VOIDED, gaps=("a gap",)), INCONCLUSIVE, "a gap"),
        (facts(counts=VOIDED | {"lost": 3, "lost promised": 1}), FAIL, "1 of 9 acked"),
        (
            facts(counts=KEPT | {"lost": 1, "lost unknown": 1}),
            INCONCLUSIVE,
            "1 lost, but it is unknown whether the guarantee applied",
        ),
        (facts(ACKS_0, counts=VOIDED), NOT_GUARANTEED, "acks=0"),
        (facts(ACKS_1), PASS, "acks=1: none of 9"),
        (facts(recovers=LivenessResult(broken=("t-0 has no leader",))), FAIL, "t-0 has no leader"),
        (
            facts(recovers=LivenessResult(missing_evidence=("its recovery was not checked",))),
            INCONCLUSIVE,
            "its recovery was not checked",
        ),
        (
            facts(stays_up=LivenessResult(broken=("broker-1 ended",))),
            FAIL,
            "broker-1 ended: 1 broken",
        ),
        (facts(crashed=frozenset({"lost"})), INCONCLUSIVE, "the checker lost failed"),
    ],
)
def test_the_verdict_of_a_cell_and_its_first_reason(
    given: Facts, expected: Verdict, reason: str
) -> None:
    conclusion, reasons = concluded(given)
    assert conclusion is expected
    assert reason in reasons[0]
    assert all(each.startswith("c: ") for each in reasons)
    assert {f"c: {gap}" for gap in given.gaps} <= set(reasons)


@pytest.mark.parametrize("anomaly", ["lost", "duplicated", "phantom"])
def test_a_checker_that_threw_leaves_its_guarantee_open(anomaly: str) -> None:
    given = facts(crashed=frozenset({anomaly}))
    assert concluded(given)[0] is INCONCLUSIVE
    assert [g.held for g in judged(given)[0]].count(None) == 1


def test_held_reports_the_observation_whether_guaranteed_or_not() -> None:
    lost = facts(ACKS_0, counts=VOIDED | {"lost": 1, "lost unpromised": 1})
    assert (named(lost, NO_LOSS).promised, named(lost, NO_LOSS).held) == (False, False)
    assert named(facts(ACKS_0, counts=VOIDED), NO_LOSS).held is True
    assert named(facts(ACKS_0, counts=VOIDED, gaps=("a gap",)), NO_LOSS).held is None


def test_a_promise_that_was_broken_was_one() -> None:
    """Four were promised of nine, and one of the four is lost."""
    given = named(facts(counts=VOIDED | {"lost": 3, "lost promised": 1}), NO_LOSS)
    assert (given.promised, given.held, given.broken) == (True, False, 1)


def test_suspended_guarantee_is_not_guaranteed() -> None:
    recovers = named(
        facts(recovers=LivenessResult(suspended=("kill#1 is not healed",))), "recovers"
    )
    assert (recovers.promised, recovers.broken) == (False, 0)
    assert "kill#1 is not healed" in recovers.reason


@pytest.mark.parametrize(
    ("cells", "gaps", "expected"),
    [
        ([], (), INCONCLUSIVE),
        ([PASS], (), PASS),
        ([PASS, NOT_GUARANTEED], (), PASS),
        ([NOT_GUARANTEED, NOT_GUARANTEED], (), NOT_GUARANTEED),
        ([PASS, INCONCLUSIVE], (), INCONCLUSIVE),
        ([NOT_GUARANTEED], ("a run is missing",), INCONCLUSIVE),
        ([PASS], ("a run is missing",), INCONCLUSIVE),
        ([FAIL], ("a run is missing",), FAIL),
    ],
)
def test_the_verdict_of_a_campaign(
    cells: list[Verdict], gaps: tuple[str, ...], expected: Verdict
) -> None:
    assert campaign_verdict(cells, gaps) is expected


@pytest.mark.parametrize("others", list(product(Verdict, repeat=2)))
def test_fail_beats_everything(others: tuple[Verdict, ...]) -> None:
    assert campaign_verdict([*others, FAIL], ()) is FAIL


@pytest.mark.parametrize(("actual", "expected"), list(product(Verdict, repeat=2)))
def test_expected_verdict_passes_if_it_occurs_and_fails_otherwise(
    actual: Verdict, expected: Verdict
) -> None:
    found = cell_result(verdict=actual, expected=(expected,))
    came = PASS if actual is expected else FAIL
    assert found.counts_as is (INCONCLUSIVE if actual is INCONCLUSIVE else came)
    assert replace(found, expected=()).counts_as is actual


@pytest.mark.parametrize("checker", [*CHECKERS, DIVERGENT])
def test_guarantee_holds_of_nothing_that_was_not_looked_at(checker: str) -> None:
    every = {**ALL, "topic.retention.ms": 60_000}
    unlooked = facts(every, counts={**KEPT, examined(checker): 0}, tombstones=True)
    concerned = [one for one in judged(unlooked)[0] if one.anomaly == checker]
    assert concerned
    assert {(one.held, one.checked) for one in concerned} == {(None, False)}
    looked = facts(every, tombstones=True)
    assert {one.held for one in judged(looked)[0] if one.anomaly == checker} == {True}


def test_living_guarantee_holds_of_nothing_that_was_not_looked_at() -> None:
    assert named(facts(recovers=LivenessResult()), "recovers").held is None
    assert named(facts(stays_up=LivenessResult()), "servers-stay-up").held is None


def test_offence_that_is_not_promised_breaks_no_promise_that_was_kept() -> None:
    """With max.in.flight=1 acked records stand in order, and one of unknown outcome need not."""
    settings = {**ACKS_1, "max.in.flight.requests.per.connection": 1}
    given = facts(settings, counts=KEPT | {"reordered": 1, "reordered promised": 1})
    guarantee = named(given, "no-reordering")
    assert (guarantee.promised, guarantee.held, guarantee.broken) == (True, True, 0)
    assert "held; 1 reordered where the guarantee does not apply" in guarantee.reason
    assert not guarantee.is_broken
    assert concluded(given)[0] is PASS


WORDS = [*CHECKERS, DIVERGENT, *SHOWN, "reordered acked", "acked", "partitions", "replicas"]
COUNTS = [
    *(count_name(word, standing) for word in WORDS for standing in GuaranteeStatus),
    *(word for word in WORDS),
    *(examined(word) for word in WORDS),
    *(looked(word) for word in WORDS),
    *(
        count_name(word, standing)
        for word in (READABLE, COORDINATED)
        for standing in GuaranteeStatus
    ),
    *LOOKED_AT,
]
SETTINGS = [ALL, ACKS_1, ACKS_0, UNCLEAN, {**ACKS_1, "max.in.flight.requests.per.connection": 1}]


@given(
    counts=st.dictionaries(st.sampled_from(COUNTS), st.integers(0, 2)),
    settings=st.sampled_from(SETTINGS),
    gaps=st.sampled_from([(), ("a gap",)]),
    crashed=st.sets(st.sampled_from(WORDS), max_size=2),
)
def test_no_cell_contradicts_itself(
    counts: dict[str, int], settings: Any, gaps: tuple[str, ...], crashed: set[str]
) -> None:
    readers = Readers(any=True, tail=True, groups=True, at_least_once=True)
    found = facts(settings, counts, gaps=gaps, crashed=frozenset(crashed), readers=readers)
    guarantees, doubtful = judged(found)
    conclusion, _ = verdict(found, guarantees, doubtful)
    for one in guarantees:
        assert one.is_broken == (one.broken > 0)
        assert one.broken == 0 or one.promised
        assert (one.promised and one.held is False) == one.is_broken
        assert one.held is None or one.checked
        if one.held:
            assert found.examined(one.anomaly or "") or one.anomaly is None
    assert (conclusion is FAIL) == any(one.is_broken for one in guarantees)
    if conclusion in (PASS, NOT_GUARANTEED):
        assert not gaps
        assert not doubtful
