"""With combined KRaft the servers that keep the metadata are brokers: a fault of one role
affects the other, and is neither counted twice nor left out."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.infra.api.interface import ProcessState
from ackproof.nemesis import FAULTS
from ackproof.nemesis.interface import Aim, Link, Members
from ackproof.nemesis.network.grudge import apart, keeps_quorum, without_zookeeper
from ackproof.nemesis.targets.expressions import parse, problems
from ackproof.nemesis.targets.resolution import (
    Count,
    TargetUnavailable,
    most,
    planned_view,
    resolve,
    resolve_planned,
)
from ackproof.testing.faults import Nemesis
from ackproof.testing.memory.cluster import memory_cluster


def members(brokers: int = 4, keepers: int = 3) -> Members:
    named = tuple(f"broker-{number}" for number in range(1, brokers + 1))
    return Members(brokers=named, zookeepers=named[:keepers], clients=("client-1",))


def nemesis_of(tmp_path: Path, keepers: int) -> Nemesis:
    """Return a nemesis of three brokers, of which so many keep the metadata."""
    return Nemesis(memory_cluster(3, keepers, combined=True), tmp_path / "ledger.jsonl")


class TestTargets:
    def test_each_server_is_there_once(self) -> None:
        assert members().servers == ("broker-1", "broker-2", "broker-3", "broker-4")
        assert members().by_id == {number: f"broker-{number}" for number in range(1, 5)}
        assert members().kraft

    @pytest.mark.parametrize(
        ("expression", "nodes"),
        [
            ("controller", ["broker-1"]),
            ("quorum", ["broker-1", "broker-2", "broker-3"]),
            ("all - quorum", ["broker-4"]),
            ("quorum + leader(orders, 0)", ["broker-1", "broker-2", "broker-3"]),
            ("broker-3", ["broker-3"]),
        ],
    )
    @pytest.mark.parametrize("aim", [Aim.SERVERS, Aim.BROKERS])
    def test_role_expression_resolves_to_its_nodes(
        self, expression: str, nodes: list[str], aim: Aim
    ) -> None:
        view = planned_view(members(), {"orders": (range(3), 3)})
        target = parse(expression)
        assert list(problems(target, aim, members(), {"orders": 3})) == []
        assert list(resolve_planned(target, members(), view, 0, aim).nodes) == nodes

    @pytest.mark.parametrize(
        ("expression", "says"),
        [
            ("controller-1", "there is no controller-1; there are broker-1, broker-2"),
            ("zookeeper", "with KRaft there is no ZooKeeper; quorum"),
        ],
    )
    def test_role_without_a_node_is_a_problem(self, expression: str, says: str) -> None:
        (found,) = problems(parse(expression), Aim.SERVERS, members(), {})
        assert says in found

    @pytest.mark.parametrize(
        ("expression", "affected"),
        [
            ("broker-1", 4),  # the active controller
            ("broker-3", 4),  # keeps the metadata of all
            ("broker-4", 2),
            ("broker-2 <-> broker-3", 4),
            ("broker-3 <-> broker-4", 3),  # the other one's link
        ],
    )
    def test_target_of_metadata_keepers_affects_all_partitions(
        self, expression: str, affected: int
    ) -> None:
        view = planned_view(members(), {"orders": (range(4), 2)})
        resolved = resolve_planned(parse(expression), members(), view, 0, Aim.NODES)
        assert resolved.partitions is not None
        assert len(resolved.partitions) == affected


class TestBounds:
    @pytest.mark.parametrize(
        ("target", "expected"),
        [
            ("quorum", Count(3, 3)),
            ("controller", Count(1, 1)),
            ("minority(quorum)", Count(1, 1)),
            ("majority(quorum)", Count(2, 2)),
            ("leader(orders, 0)", Count(1, 1)),
            ("isr(orders, 0) - leader(orders, 0)", Count(2, 2)),
            ("broker-2", Count(1, 1)),
            ("broker-5", Count(1, 0)),
            ("all", Count(5, 3)),
            ("minority", Count(2, 2)),
            ("leader(orders, 0) + broker-5", Count(2, 1)),
        ],
    )
    def test_node_with_two_roles_counts_for_both(self, target: str, expected: Count) -> None:
        assert most(parse(target), members(brokers=5), {"orders": 3}) == expected

    @given(
        target=st.sampled_from(
            [
                *("quorum - controller", "all - leader(orders, 0)", "one(quorum)", "broker-2"),
                *("minority(quorum + broker-3)", "majority(isr(orders, 1))", "most-leaders"),
                *("(all - quorum) + quorum-leader", "follower(orders, any)", "majority(all)"),
            ]
        ),
        brokers=st.integers(3, 6),
        keepers=st.integers(1, 3),
        seed=st.integers(0, 9),
    )
    def test_bound_is_never_less_than_the_resolved_target(
        self, target: str, brokers: int, keepers: int, seed: int
    ) -> None:
        memory = memory_cluster(brokers, keepers, combined=True)
        known = memory.cluster.members
        bound = most(parse(target), known, {"orders": brokers})
        try:
            found = set(resolve(parse(target), memory.cluster, seed).servers)
        except TargetUnavailable:
            return
        assert Count(len(found), len(found & set(known.zookeepers))).within(bound)


class TestGrudges:
    def test_metadata_keeper_suffices_alone_only_with_a_majority(self) -> None:
        three, one = members(3, 3), members(3, 1)
        alone = apart(["broker-1"], ["broker-2", "broker-3"])
        assert without_zookeeper(alone, three) == ("broker-1",)
        assert without_zookeeper(alone, one) == ("broker-2", "broker-3")
        assert without_zookeeper(frozenset({Link("broker-1", "broker-2")}), three) == ()
        assert keeps_quorum(alone, three.zookeepers)


class TestProofs:
    @pytest.mark.parametrize(
        ("keepers", "target", "claim"),
        [
            (1, "broker-1", "controllers"),
            (1, "broker-2", "registration expired"),
            (3, "broker-1", "registration expired"),
            (3, "majority(quorum)", "controllers"),
        ],
    )
    @pytest.mark.parametrize("fault", ["kill", "pause", "power-failure", "replace"])
    def test_session_loss_is_not_observed_without_the_quorum(
        self, tmp_path: Path, fault: str, keepers: int, target: str, claim: str
    ) -> None:
        nemesis = nemesis_of(tmp_path, keepers)
        entry = nemesis.strike(fault, target)
        proof = nemesis.bitten(entry)
        assert proof.proven, proof.observations
        assert {"controllers", "registration expired"} & proof.observations.keys() == {claim}
        nemesis.executor.heal(entry)
        healed = nemesis.healed(entry)
        assert healed.proven, healed.observations
        by_broker = healed.observations["registered"]
        assert isinstance(by_broker, dict)
        # It was everybody's session with those who keep the metadata.
        everybody = {"broker-1", "broker-2", "broker-3"}
        assert by_broker.keys() == (everybody if keepers == 3 or target == "broker-1" else {target})

    @pytest.mark.parametrize(
        ("keepers", "expired"),
        [(1, {"broker-2", "broker-3"}), (3, {"broker-1"})],
    )
    def test_node_isolated_with_the_only_controller_keeps_its_session(
        self, tmp_path: Path, keepers: int, expired: set[str]
    ) -> None:
        nemesis = nemesis_of(tmp_path, keepers)
        proof = nemesis.bitten(nemesis.strike("isolate", "broker-1"))
        assert proof.proven, proof.observations
        told = proof.observations["registration expired"]
        assert isinstance(told, dict)
        assert told.keys() == expired

    def test_at_the_brokers_listeners_nothing_of_the_metadata_is_cut(self, tmp_path: Path) -> None:
        nemesis = nemesis_of(tmp_path, 3)
        entry = nemesis.strike("isolate", "broker-1", service="broker")
        assert len(entry.plan.effects) == 4, "to both others, and back"
        proof = nemesis.bitten(entry)
        assert proof.proven, proof.observations
        assert "registration expired" not in proof.observations
        assert len(nemesis.memory.system.view().brokers) == 3

    def test_at_the_controllers_listeners_it_is(self, tmp_path: Path) -> None:
        nemesis = nemesis_of(tmp_path, 3)
        proof = nemesis.bitten(nemesis.strike("isolate", "broker-1", service="quorum"))
        assert proof.proven, proof.observations
        assert proof.observations["registration expired"] == {"broker-1": True}
        assert nemesis.memory.system.brokers[0].process.state() is ProcessState.RUNNING

    @pytest.mark.parametrize("name", ["expire-session", "conflicted-node"])
    def test_sessions_of_zookeeper_s_there_are_none(self, name: str) -> None:
        view = planned_view(members(), {"orders": (range(1), 3)})
        target = resolve_planned(parse("broker-4"), members(), view, 0, Aim.BROKERS)
        fault = FAULTS[name]
        with pytest.raises(ValueError, match="which KRaft does not have"):
            fault.plan(members(), target, fault.parameters(), None)  # type: ignore[arg-type]
