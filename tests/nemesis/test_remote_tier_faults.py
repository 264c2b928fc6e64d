"""Faults on the remote tier, in a cluster in memory."""

from pathlib import Path

import pytest

from ackproof.infra.api.capabilities import TierProblem
from ackproof.testing.faults import Nemesis
from ackproof.testing.memory.cluster import memory_cluster

FAULT = "disturb-remote-tier"


@pytest.fixture
def nemesis(tmp_path: Path) -> Nemesis:
    return Nemesis(memory_cluster(), tmp_path / "ledger.jsonl")


@pytest.mark.parametrize("problem", TierProblem)
def test_fault_is_proven_by_operations_that_it_struck(
    nemesis: Nemesis, problem: TierProblem
) -> None:
    entry = nemesis.strike(FAULT, "broker-1", problem=problem.value)
    proof = nemesis.bitten(entry)
    assert proof.proven
    assert proof.observations["operations refused or delayed"] == {"broker-1": "1 operations"}
    nemesis.executor.heal(entry)
    healed = nemesis.healed(entry)
    assert healed.proven
    seen = "1 operations since the last one refused or delayed"
    assert healed.observations["operations pass"] == {"broker-1": seen}


def test_fault_that_strikes_no_operation_is_not_proven(nemesis: Nemesis) -> None:
    nemesis.memory.system.remote_tier.deaf = True
    assert not nemesis.bitten(nemesis.strike(FAULT, "broker-1")).proven


def test_tier_that_is_still_disturbed_is_not_healed(nemesis: Nemesis) -> None:
    entry = nemesis.strike(FAULT, "broker-1", problem="read-only")
    nemesis.memory.system.remote_tier.deaf = True
    nemesis.executor.heal(entry)
    proof = nemesis.healed(entry)
    assert not proof.proven
    assert proof.observations["operations pass"] == {"broker-1": "it is read-only"}


def test_tier_stays_disturbed_until_both_faults_on_it_end(nemesis: Nemesis) -> None:
    first = nemesis.strike(FAULT, "broker-1", problem="slow")
    second = nemesis.strike(FAULT, "broker-1", problem="slow")
    assert not nemesis.bitten(second).proven
    nemesis.executor.heal(first)
    assert nemesis.memory.system.remote_tier.problems == {1: TierProblem.SLOW}
    nemesis.executor.heal(second)
    assert nemesis.memory.system.remote_tier.problems == {}
