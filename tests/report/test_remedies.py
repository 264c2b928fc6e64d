"""Reports advise a setting that the cell does not have, or none, against each root cause."""

from itertools import product

import pytest

from ackproof.checkers.checks.catalogue import BREAKS
from ackproof.checkers.root_cause.kinds import CauseKind
from ackproof.harness.report.causes import WHAT
from ackproof.harness.report.remedies import REMEDIES, RULES, advice_against, remedies, remedy

NOT_KNOWN = {CauseKind.UNEXPLAINED, CauseKind.UNKNOWN}
CELLS = [
    {"acks": acks, "min.insync.replicas": least, "unclean.leader.election.enable": unclean}
    for acks, least, unclean in product(("0", "1", "all"), (1, 2, 3), (True, False))
]
ALL = {"acks": "all", "min.insync.replicas": 2}
ONE = {**ALL, "acks": "1"}


def test_remedies_are_given_for_every_kind_of_root_cause() -> None:
    assert REMEDIES.keys() == set(CauseKind)


@pytest.mark.parametrize("kind", CauseKind)
def test_remedy_is_given_in_every_cell_unless_the_cause_is_unknown_with_acks_all(
    kind: CauseKind,
) -> None:
    for cell in CELLS:
        advised = kind not in NOT_KNOWN or cell["acks"] != "all"
        assert bool(remedy(kind, cell, ["kill#1"])) == advised


@pytest.mark.parametrize("kind", CauseKind)
def test_remedy_names_no_value_that_the_cell_has_already(kind: CauseKind) -> None:
    for cell in CELLS:
        advice = remedy(kind, cell, [])
        begins = advice.partition(":")[0]
        if begins.startswith("No setting") or kind is CauseKind.UNANSWERED:
            continue
        if cell["acks"] == "all":
            assert "acks=all" not in begins, advice
        if cell["min.insync.replicas"] != 1:
            assert not begins.startswith("min.insync.replicas=2"), advice
        if not cell["unclean.leader.election.enable"]:
            assert "unclean.leader.election.enable=false" not in begins, advice


def test_remedy_of_a_broken_promise_names_no_setting() -> None:
    assert remedy(CauseKind.NOT_REPLICATED, ONE, []).startswith("acks=all with ")
    for kind in (
        CauseKind.DEPOSED_LEADER,
        CauseKind.UNCLEAN_ELECTION,
        CauseKind.NOT_REPLICATED,
        CauseKind.TRUNCATED_BEFORE_LEADING,
        CauseKind.TWO_LEADERS,
    ):
        assert remedy(kind, ALL, ["kill#1"]).startswith("No setting: this is a defect. "), kind


def test_remedy_of_an_ordered_unclean_election_is_not_to_order_it() -> None:
    advice = remedy(CauseKind.UNCLEAN_ELECTION, ALL, ["kill#1", "elect-unclean#2"])
    assert advice.startswith("No unclean election by an administrator")


def test_election_after_a_power_failure_is_no_defect_by_itself() -> None:
    """With eligible leader replicas, the last leader may be elected while the ISR is empty."""
    advice = remedy(CauseKind.UNCLEAN_ELECTION, ALL, ["kill#1", "power-failure#2"])
    assert advice.startswith("flush.messages=1: ")


def test_remedies_of_cells_are_given_once_each() -> None:
    found = remedies(CauseKind.LOST_FROM_DISK, [ONE, ALL, ONE, {}], [])
    assert [advice.partition(":")[0] for advice in found[:1]] == [
        "acks=all with min.insync.replicas=2"
    ]
    assert len(found) == 2
    assert remedies("more", [ONE], []) == ()


def test_rule_is_given_for_every_anomaly_that_breaks_a_guarantee_without_a_root_cause() -> None:
    assert RULES.keys() == BREAKS.keys() - WHAT.keys()


def test_commit_lost_of_an_aiokafka_group_blames_the_library_as_well_as_the_coordinator() -> None:
    coordinator = advice_against("commit-lost", ["java"])
    assert coordinator == advice_against("commit-lost")
    assert coordinator[0].startswith("No setting: this is a defect. A coordinator")
    both = advice_against("commit-lost", ["aiokafka", "java"])
    assert both[:1] == coordinator
    assert "aiokafka 0.14 ignores the error" in both[1]
    assert advice_against("commit-regressed", ["aiokafka"]) == advice_against("commit-regressed")
