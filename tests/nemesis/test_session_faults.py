"""Faults on sessions, and on the ensemble that keeps them: proven when it was so, and not when it
was not."""

from pathlib import Path

import pytest

from ackproof.infra.api.interface import ProcessState, ViewUnavailable
from ackproof.nemesis import FAULTS
from ackproof.nemesis.interface import Members, Target, Unplannable
from ackproof.nemesis.targets.expressions import parse, problems
from ackproof.testing.faults import Nemesis
from ackproof.testing.memory.cluster import memory_cluster

MEMBERS = Members(brokers=("broker-1",), zookeepers=("zookeeper-1",))
NAMES = ("expire-session", "conflicted-node")


@pytest.mark.parametrize("name", NAMES)
class TestOfBrokersAlone:
    @pytest.mark.parametrize("who", ["zookeeper", "zookeeper-1", "zk-leader", "all + zookeeper-1"])
    def test_zookeeper_is_refused(self, name: str, who: str) -> None:
        found = list(problems(parse(who), FAULTS[name].aim, MEMBERS, {}))
        assert any("the fault targets brokers" in line for line in found)

    def test_zookeeper_is_refused_when_it_strikes(self, name: str) -> None:
        target = Target(expression="x", nodes=(), servers=("broker-1", "zookeeper-1"))
        fault = FAULTS[name]
        with pytest.raises(Unplannable, match=f"{name} is for brokers, not for zookeeper-1"):
            fault.plan(MEMBERS, target, fault.parameters(), None)  # type: ignore[arg-type]

    def test_with_kraft_it_is_refused(self, name: str) -> None:
        members = Members(brokers=("broker-1",), zookeepers=("controller-1",))
        target = Target(expression="broker-1", nodes=("broker-1",), servers=("broker-1",))
        fault = FAULTS[name]
        with pytest.raises(Unplannable, match="which KRaft does not have; to have a broker fenced"):
            fault.plan(members, target, fault.parameters(), None)  # type: ignore[arg-type]

    def test_session_fault_needs_no_capability(self, name: str) -> None:
        assert not FAULTS[name].needs


@pytest.mark.parametrize("name", NAMES)
class TestBoth:
    def test_a_broker_without_a_registration_is_left_alone(
        self, nemesis: Nemesis, name: str
    ) -> None:
        nemesis.memory.system.brokers[0].process.signal(9)
        entry = nemesis.strike(name, "broker-1")
        assert not nemesis.ledger.done(entry.fault_id)
        assert not nemesis.bitten(entry).proven

    def test_a_broker_that_ended_of_it_was_not_struck_by_it_alone(
        self, nemesis: Nemesis, name: str
    ) -> None:
        entry = nemesis.strike(name, "broker-1")
        assert nemesis.bitten(entry).proven
        nemesis.memory.system.brokers[0].process.signal(9)
        assert not nemesis.bitten(entry).proven
        nemesis.executor.heal(entry)
        assert nemesis.memory.system.brokers[0].starts == 0, "it was not this fault that ended it"
        assert not nemesis.healed(entry).proven


class TestExpireSession:
    @pytest.mark.parametrize("who", ["leader(orders, 0)", "minority", "all"])
    def test_bites_and_is_over(self, nemesis: Nemesis, who: str) -> None:
        entry = nemesis.strike("expire-session", who, hold_ms=0)
        proof = nemesis.bitten(entry)
        assert proof.proven, proof.observations
        sessions = entry.target.facts["sessions"]
        assert proof.observations["session ended"] == {
            name: sessions[name[-1]]  # type: ignore[index]
            for name in entry.target.nodes
        }
        nemesis.executor.heal(entry)
        assert nemesis.healed(entry).proven

    def test_session_expiry_affects_no_other_broker(self, nemesis: Nemesis) -> None:
        before = nemesis.memory.system.view().brokers
        nemesis.strike("expire-session", "broker-2")
        after = nemesis.memory.system.view().brokers
        assert [broker for broker in before if before[broker] != after[broker]] == [2]

    def test_that_did_nothing_is_not_proven(self, nemesis: Nemesis) -> None:
        nemesis.memory.deafen()
        entry = nemesis.strike("expire-session", "broker-1")
        proof = nemesis.bitten(entry)
        assert not proof.proven
        assert proof.observations["session ended"] == {"broker-1": "goes on, 0x1"}
        assert not nemesis.healed(entry).proven, "by the same session as before"

    def test_a_registration_of_ours_is_left_alone(self, nemesis: Nemesis) -> None:
        nemesis.strike("conflicted-node", "broker-1")
        entry = nemesis.strike("expire-session", "broker-1")
        assert 1 in nemesis.memory.system.ensemble.occupying
        assert not nemesis.bitten(entry).proven

    def test_while_zookeeper_is_silent_it_cannot_strike(self, nemesis: Nemesis) -> None:
        entry = nemesis.aim("expire-session", "broker-1")
        nemesis.strike("pause", "zookeeper")
        with pytest.raises(ViewUnavailable):
            nemesis.executor.inject(entry)
        nemesis.executor.heal(entry)


class TestConflictedNode:
    def test_registration_by_the_harness_is_not_healed(self, nemesis: Nemesis) -> None:
        entry = nemesis.strike("conflicted-node", "broker-1")
        proof = nemesis.healed(entry)
        assert not proof.proven
        assert proof.observations["registered"] == {"broker-1": "by a session of the harness's"}

    def test_conflicted_node_is_not_healed_without_a_registration(self, nemesis: Nemesis) -> None:
        entry = nemesis.strike("conflicted-node", "broker-1")
        nemesis.executor.heal(entry)
        assert nemesis.healed(entry).proven
        nemesis.memory.system.brokers[0].process.signal(19)
        assert not nemesis.healed(entry).proven

    def test_broker_that_registered_by_itself_has_no_conflict(self, nemesis: Nemesis) -> None:
        """Our session has expired under the fault, and the broker was free to register."""
        entry = nemesis.strike("conflicted-node", "broker-1")
        nemesis.memory.system.ensemble.occupying.clear()
        proof = nemesis.bitten(entry)
        assert not proof.proven
        assert "the broker's" in str(proof.observations["registered by another session"])

    def test_a_kill_meanwhile_does_not_wait_for_the_registration(self, nemesis: Nemesis) -> None:
        nemesis.strike("conflicted-node", "broker-1")
        killed = nemesis.strike("kill", "broker-1")
        proof = nemesis.bitten(killed)
        assert proof.proven
        assert proof.observations["not observed"] == {
            "registration expired": {"broker-1": "conflicted-node#1 is active"}
        }
        nemesis.executor.heal(killed)
        assert nemesis.healed(killed).proven


class TestQuorum:
    @pytest.fixture
    def nemesis(self, tmp_path: Path) -> Nemesis:
        return Nemesis(memory_cluster(zookeepers=3), tmp_path / "ledger.jsonl")

    @pytest.mark.parametrize("name", ["kill", "pause", "terminate"])
    @pytest.mark.parametrize(
        ("who", "silent"),
        [
            ("zk-leader", False),
            ("minority(zookeeper)", False),
            ("majority(zookeeper)", True),
            ("zookeeper", True),
        ],
    )
    def test_without_it_zookeeper_is_silent(
        self, nemesis: Nemesis, name: str, who: str, silent: bool
    ) -> None:
        entry = nemesis.strike(name, who)
        proof = nemesis.bitten(entry)
        assert proof.proven, proof.observations
        assert ("ZooKeeper" in proof.observations) == silent
        nemesis.executor.heal(entry)
        assert nemesis.healed(entry).proven

    def test_ensemble_with_a_leader_is_not_silent(self, nemesis: Nemesis) -> None:
        """Ours was a connection to a server that is stopped; the others have not noticed yet."""
        entry = nemesis.strike("pause", "majority(zookeeper)")
        servers = nemesis.memory.system.zookeepers
        (left,) = [server for server in servers if server.name not in entry.target.nodes]
        nemesis.memory.system.believes = left
        proof = nemesis.bitten(entry)
        assert not proof.proven
        assert proof.observations["ZooKeeper"] == {"ensemble": f"{left.name} leads"}

    def test_a_server_that_has_no_place_in_it_is_not_healed(self, nemesis: Nemesis) -> None:
        entry = nemesis.strike("kill", "zookeeper-2")
        nemesis.executor.heal(entry)
        assert nemesis.healed(entry).proven
        nemesis.memory.system.zookeepers[1].process.current = ProcessState.STOPPED
        proof = nemesis.healed(entry)
        assert proof.observations["serving"] == {"zookeeper-2": "does not serve"}
        assert not proof.proven

    def test_which_majority_is_drawn_by_the_seed(self, nemesis: Nemesis) -> None:
        drawn = {
            nemesis.aim("pause", "majority(zookeeper)", seed=seed).target.nodes
            for seed in range(40)
        }
        assert {len(nodes) for nodes in drawn} == {2}
        assert len({frozenset(nodes) for nodes in drawn}) == 3
