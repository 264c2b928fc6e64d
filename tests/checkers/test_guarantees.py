"""The table of promises and the table of verdicts."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from checkers.guarantees import NO_LOSS, Configuration, Facts, campaign_verdict, guarantees, verdict
from checkers.verdict import Guarantee, Verdict

SAFE = Configuration(
    acks="all",
    replication_factor=3,
    min_insync_replicas=2,
    unclean_leader_election=False,
    enable_idempotence=True,
    max_in_flight=5,
)
CLEAN = Facts(
    configuration=SAFE,
    disks_lost=0,
    anomalies={},
    reordered_acked=0,
    crashed=frozenset(),
    gaps=(),
)
LOSS = {NO_LOSS, "acked-offset-kept"}
PRODUCER = {"no-duplicates", "no-reordering"}
ALWAYS = {"no-phantom", "failed-records-absent", "no-offset-gap"}
PASS, FAIL, NOT_GUARANTEED, INCONCLUSIVE = Verdict


def facts(configuration: dict[str, Any] | None = None, **changes: Any) -> Facts:
    return replace(CLEAN, configuration=replace(SAFE, **(configuration or {})), **changes)


def judged(facts: Facts) -> Verdict:
    return verdict(facts, guarantees(facts))[0]


def named(facts: Facts, name: str) -> Guarantee:
    return next(guarantee for guarantee in guarantees(facts) if guarantee.name == name)


@pytest.mark.parametrize(
    ("configuration", "disks_lost", "promised"),
    [
        ({}, 0, LOSS | PRODUCER),
        ({}, 1, LOSS | PRODUCER),
        ({}, 2, set()),
        ({"min_insync_replicas": 1}, 0, LOSS | PRODUCER),
        ({"min_insync_replicas": 1}, 1, set()),
        ({"min_insync_replicas": 3}, 2, LOSS | PRODUCER),
        ({"unclean_leader_election": True}, 0, set()),
        ({"enable_idempotence": False}, 0, LOSS),
        ({"enable_idempotence": False, "max_in_flight": 1}, 0, LOSS | {"no-reordering"}),
        ({"enable_idempotence": False, "acks": "1"}, 0, set()),
        ({"enable_idempotence": False, "acks": "1", "max_in_flight": 1}, 0, set()),
        ({"enable_idempotence": False, "acks": "0"}, 0, set()),
    ],
)
def test_what_a_configuration_promises(
    configuration: dict[str, Any], disks_lost: int, promised: set[str]
) -> None:
    given = guarantees(facts(configuration, disks_lost=disks_lost))
    assert {guarantee.name for guarantee in given if guarantee.promised} == promised | ALWAYS
    assert all(guarantee.reason for guarantee in given)


ACKS_1 = {"acks": "1", "enable_idempotence": False}


@pytest.mark.parametrize(
    ("configuration", "anomalies", "gaps", "expected"),
    [
        ({}, {}, (), PASS),
        ({}, {}, ("a gap",), INCONCLUSIVE),
        ({}, {"lost": 1}, (), FAIL),
        ({}, {"lost": 1}, ("a gap",), FAIL),
        ({}, {"offset-mismatch": 1}, (), FAIL),
        ({}, {"duplicated": 1}, (), FAIL),
        ({}, {"reordered": 1}, (), FAIL),
        ({"enable_idempotence": False}, {"duplicated": 3, "reordered": 3}, (), PASS),
        (ACKS_1, {}, (), NOT_GUARANTEED),
        (ACKS_1, {"lost": 9, "offset-mismatch": 1}, (), NOT_GUARANTEED),
        (ACKS_1, {"lost": 9}, ("a gap",), INCONCLUSIVE),
        (ACKS_1, {"phantom": 1}, (), FAIL),
        (ACKS_1, {"failed-but-present": 1}, (), FAIL),
        (ACKS_1, {"offset-gap": 1}, ("a gap",), FAIL),
        ({"acks": "0", "enable_idempotence": False}, {"lost": 9}, (), NOT_GUARANTEED),
        ({"unclean_leader_election": True}, {"lost": 9, "duplicated": 1}, (), NOT_GUARANTEED),
    ],
)
def test_the_verdict_of_a_cell(
    configuration: dict[str, Any],
    anomalies: dict[str, int],
    gaps: tuple[str, ...],
    expected: Verdict,
) -> None:
    given = facts(configuration, anomalies=anomalies, gaps=gaps)
    conclusion, reasons = verdict(given, guarantees(given))
    assert conclusion is expected
    assert bool(reasons) == (expected is not PASS)
    assert set(gaps) <= set(reasons)


def test_max_in_flight_1_promises_the_order_of_acked_records_alone() -> None:
    one = {"enable_idempotence": False, "max_in_flight": 1}
    assert judged(facts(one, anomalies={"reordered": 2}, reordered_acked=0)) is PASS
    assert judged(facts(one, anomalies={"reordered": 2}, reordered_acked=1)) is FAIL


@pytest.mark.parametrize("anomaly", ["lost", "duplicated", "phantom"])
def test_a_checker_that_threw_leaves_its_guarantee_open(anomaly: str) -> None:
    given = facts(crashed=frozenset({anomaly}))
    assert judged(given) is INCONCLUSIVE
    assert [g.held for g in guarantees(given)].count(None) == 1


def test_a_broken_guarantee_is_told_before_the_lack_of_evidence() -> None:
    given = facts(anomalies={"lost": 3}, gaps=("too little",))
    _, reasons = verdict(given, guarantees(given))
    assert reasons[0].startswith(f"{NO_LOSS}: ")
    assert reasons[0].endswith("3 lost")
    assert reasons[1] == "too little"


def test_held_is_what_was_seen_promised_or_not() -> None:
    assert named(facts(ACKS_1, anomalies={"lost": 1}), NO_LOSS).held is False
    assert named(facts(ACKS_1), NO_LOSS).held is True
    assert named(facts(ACKS_1, gaps=("a gap",)), NO_LOSS).held is None


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
