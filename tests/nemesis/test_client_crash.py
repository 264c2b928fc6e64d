"""A client of the workload that crashes: whose end it is, and that it is proven."""

import pytest

from ackproof.nemesis import FAULTS
from ackproof.nemesis.interface import Members
from ackproof.nemesis.targets.expressions import parse, problems
from ackproof.testing.faults import Nemesis
from ackproof.testing.memory.cluster import Memory


def ended(memory: Memory) -> list[str]:
    return [process.name for process in memory.workload if process.code == -9]


def test_crashed_client_is_drawn_by_the_seed(nemesis: Nemesis) -> None:
    drawn = set()
    for seed in range(20):
        (effect,) = nemesis.aim("crash-client", "clients", seed=seed).plan.effects
        drawn.add(effect.ends)
    assert drawn == {"producer-orders", "producer-payments"}
    entry = nemesis.strike("crash-client", "clients")
    (crashed,) = ended(nemesis.memory)
    assert nemesis.bitten(entry).observations == {"ended by signal 9": {crashed: -9}}


def test_all_of_them(nemesis: Nemesis) -> None:
    entry = nemesis.strike("crash-client", "client-1", clients="all")
    assert nemesis.bitten(entry).proven
    assert ended(nemesis.memory) == ["producer-orders", "producer-payments"]


def test_crash_stays_attributed_to_the_fault_after_its_heal(nemesis: Nemesis) -> None:
    """They do not come back: long after it is healed, their end is still accounted for."""
    entry = nemesis.strike("crash-client", "clients", clients="all")
    nemesis.executor.heal(entry)
    assert nemesis.healed(entry).proven
    nemesis.ledger.close(entry.fault_id)
    assert nemesis.ledger.ending("producer-orders") == {entry.fault_id}
    assert nemesis.ledger.ending("producer-others") == frozenset()


def test_replacement_client_starts_once_and_at_the_end(nemesis: Nemesis) -> None:
    came: list[str] = []
    object.__setattr__(nemesis.memory.cluster, "bring_back", came.append)
    entry = nemesis.strike("crash-client", "clients", clients="all", comes_back=True)
    assert nemesis.bitten(entry).proven
    assert came == []
    nemesis.executor.heal(entry)
    nemesis.executor.heal(entry)
    assert sorted(came) == ["producer-orders", "producer-payments"]
    assert nemesis.healed(entry).observations["missing"] == {
        "come back": ["producer-orders", "producer-payments"]
    }


def test_client_that_had_already_ended_gets_no_replacement(nemesis: Nemesis) -> None:
    nemesis.memory.workload[0].signal(15)
    entry = nemesis.aim("crash-client", "clients", clients="all", comes_back=True)
    nemesis.memory.workload[1].signal(15)
    nemesis.executor.inject(entry)
    nemesis.executor.heal(entry)  # which would raise: here no client can come back
    assert nemesis.healed(entry).proven


def test_client_that_ended_before_is_not_attributed_to_the_fault(nemesis: Nemesis) -> None:
    entry = nemesis.aim("crash-client", "clients", clients="all")
    nemesis.memory.workload[0].signal(15)
    nemesis.executor.inject(entry)
    assert nemesis.bitten(entry).observations == {
        "ended by signal 9": {"producer-payments": -9},
        "not observed": {"ended by signal 9": {"producer-orders": "had already ended"}},
    }
    assert nemesis.ledger.ending("producer-orders") == frozenset()


def test_only_those_that_run_are_drawn(nemesis: Nemesis) -> None:
    nemesis.memory.workload[0].signal(9)
    for seed in range(10):
        (effect,) = nemesis.aim("crash-client", "clients", seed=seed).plan.effects
        assert effect.ends == "producer-payments"


@pytest.mark.parametrize("clients", ["one", "all"])
def test_crash_without_running_clients_is_not_proven(nemesis: Nemesis, clients: str) -> None:
    for process in nemesis.memory.workload:
        process.signal(9)
    assert not nemesis.bitten(nemesis.strike("crash-client", "clients", clients=clients)).proven


def test_crash_without_effect_is_not_proven(nemesis: Nemesis) -> None:
    for process in nemesis.memory.workload:
        process.deaf = True
    proof = nemesis.bitten(nemesis.strike("crash-client", "clients", clients="all"))
    assert proof.observations["missing"] == {
        "ended by signal 9": ["producer-orders", "producer-payments"]
    }


@pytest.mark.parametrize(
    ("who", "fits"),
    [("clients", True), ("client-1", True), ("one(clients)", True), ("all", False),
     ("broker-1", False), ("zookeeper", False), ("clients + broker-1", False)],
)  # fmt: skip
def test_client_crash_accepts_client_targets_only(who: str, fits: bool) -> None:
    members = Members(brokers=("broker-1",), zookeepers=("zookeeper-1",), clients=("client-1",))
    found = list(problems(parse(who), FAULTS["crash-client"].aim, members, {}))
    assert not found if fits else "targets clients" in found[0]
