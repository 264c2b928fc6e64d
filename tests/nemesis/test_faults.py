"""Every fault is proven when it bit and when it healed, and not proven when it did not."""

import random
from pathlib import Path

import pytest

from ackproof.infra.agent.impairments import CUT, Impairment
from ackproof.infra.api.interface import ProcessState
from ackproof.nemesis import FAULTS
from ackproof.nemesis.admin.topics import CHURN
from ackproof.nemesis.effects import ProcessKill
from ackproof.nemesis.interface import Aim, Fault, Link, Members, Parameters, Target, Unplannable
from ackproof.nemesis.network.effects import OnLink, ResetLink
from ackproof.nemesis.process.clients import CLIENTS
from ackproof.nemesis.process.commands import COMMAND
from ackproof.nemesis.process.migration import MIGRATION
from ackproof.nemesis.process.rolling import UPGRADES
from ackproof.nemesis.process.voters import REMOVE_VOTER
from ackproof.nemesis.proofs import expiry_ms
from ackproof.nemesis.storage import STORAGE
from ackproof.nemesis.targets.expressions import parse
from ackproof.nemesis.targets.resolution import resolve
from ackproof.testing.faults import Nemesis, check_fault
from ackproof.testing.memory.cluster import Memory, memory_cluster
from ackproof.testing.memory.servers import MemoryNode, MemoryServer
from tests.support.fakes.remote_probe import put_into_pods
from tests.support.faults.own_commands import by_file

CASES = [
    ("kill", "leader(orders, 0)"),
    ("kill", "majority"),
    ("kill", "zookeeper"),
    ("pause", "controller"),
    ("pause", "zookeeper"),
    ("isolate", "leader(orders, 1)"),
    ("isolate", "minority"),
    ("isolate", "all"),
    ("isolate", "zookeeper"),
    ("cut", "leader(orders, 0) -> zookeeper"),
    ("cut", "leader(orders, 0) <-> clients"),
    ("minority", "all + zookeeper"),
    ("halves", "all + zookeeper"),
    ("majorities-ring", "all"),
    ("bridge", "all + zookeeper + clients"),
    ("power-failure", "leader(orders, 0)"),
    ("power-failure", "all"),
    ("disk-full", "broker-1"),
    ("disk-failure", "isr(orders, 0)"),
    ("read-only", "broker-2"),
    ("slow-disk", "broker-3"),
    ("step-clock", "all"),
    ("step-clock", "zookeeper"),
    ("conflicted-node", "leader(orders, 0)"),
    ("conflicted-node", "all"),
    ("bad-certificate", "leader(orders, 0)"),
    ("disturb-remote-tier", "leader(orders, 0)"),
]


def servers(memory: Memory) -> list[MemoryServer]:
    return [*memory.system.brokers, *memory.system.zookeepers]


@pytest.mark.parametrize(("name", "expression"), CASES)
def test_built_in_fault_passes_the_conformance_kit(name: str, expression: str) -> None:
    check_fault(FAULTS[name], expression)


def test_kill_proof_lists_its_observations(nemesis: Nemesis) -> None:
    killed = nemesis.bitten(nemesis.strike("kill", "broker-2"))
    assert killed.observations == {
        "ended by signal 9": {"broker-2": -9},
        "registration expired": {"broker-2": True},
    }


class TestShorterThanTheSession:
    """Tests of holds too short for an effect: that effect is not required."""

    def test_kill_proves_the_kill(self, nemesis: Nemesis) -> None:
        nemesis.memory.system.lingering = {2}
        assert not nemesis.bitten(nemesis.strike("kill", "broker-2")).proven
        entry = nemesis.strike("kill", "broker-3", hold_ms=500)
        nemesis.memory.system.lingering = {3}
        proof = nemesis.bitten(entry)
        assert proof.proven
        assert proof.observations == {"ended by signal 9": {"broker-3": -9}}

    def test_isolate_proves_the_cut(self, nemesis: Nemesis) -> None:
        nemesis.memory.system.lingering = {2}
        proof = nemesis.bitten(nemesis.strike("isolate", "broker-2", hold_ms=500))
        assert proof.proven
        assert set(proof.observations) == {"links closed", "packets dropped", "still connected"}

    def test_a_registration_of_the_dead_is_no_return(self, nemesis: Nemesis) -> None:
        entry = nemesis.strike("kill", "broker-2", hold_ms=500)
        nemesis.memory.system.lingering = {2}
        nemesis.executor.heal(entry)
        proof = nemesis.healed(entry)
        assert not proof.proven
        assert proof.observations["registered"] == {"broker-2": "by the session that died"}
        assert proof.owed, "it runs again, and it is for the broker to register"
        nemesis.memory.system.lingering = set()
        assert nemesis.healed(entry).proven
        assert not nemesis.healed(entry).owed

    def test_leftover_of_a_fault_is_not_owed_by_the_system(self, nemesis: Nemesis) -> None:
        proof = nemesis.healed(nemesis.strike("kill", "broker-2"))
        assert set(proof.observations["missing"]) == {"running", "registered"}
        assert not proof.owed

    def test_nothing_is_owed_while_zookeeper_does_not_answer(self, nemesis: Nemesis) -> None:
        entry = nemesis.strike("kill", "broker-2", hold_ms=500)
        nemesis.executor.heal(entry)
        nemesis.memory.system.zookeepers[0].process.current = ProcessState.EXITED
        proof = nemesis.healed(entry)
        assert not proof.proven
        assert not proof.owed


class TestIsolation:
    def test_not_proven_when_clients_are_cut_off_too(self, nemesis: Nemesis) -> None:
        entry = nemesis.strike("isolate", "leader(orders, 0)")
        broker = nemesis.memory.cluster.node("broker-1")
        nemesis.memory.backend.cut(nemesis.memory.cluster.clients[0], broker)
        assert nemesis.bitten(entry).observations["missing"] == {
            "still connected": ["client-1->broker-1"]
        }

    def test_not_proven_when_the_process_died(self, nemesis: Nemesis) -> None:
        entry = nemesis.strike("isolate", "leader(orders, 0)")
        nemesis.memory.system.brokers[0].process.signal(9)
        assert not nemesis.bitten(entry).proven

    @pytest.mark.parametrize(
        ("direction", "expected"),
        [("in", "broker-1->broker-2"), ("out", "broker-2->broker-1")],
    )
    def test_isolation_in_one_direction_cuts_that_direction(
        self, nemesis: Nemesis, direction: str, expected: str
    ) -> None:
        entry = nemesis.strike("isolate", "broker-2", direction=direction)
        cut = [str(e.link) for e in entry.plan.effects if isinstance(e, OnLink)]
        assert len(cut) == 3
        assert expected in cut
        assert nemesis.bitten(entry).proven

    def test_of_clients_leaves_other_clients_the_cluster(self, nemesis: Nemesis) -> None:
        nemesis.memory.cluster.clients.append(MemoryNode("client-2", "client-2"))
        entry = nemesis.strike("isolate", "client-1")
        assert nemesis.bitten(entry).observations["still connected"] == {
            "client-2->broker-1": "open"
        }
        cut = {str(effect.link) for effect in entry.plan.effects if isinstance(effect, OnLink)}
        assert {link.partition("->")[0] for link in cut} >= {"client-1", "zookeeper-1", "broker-3"}
        assert not any("client-2" in link for link in cut)
        assert (entry.target.servers, entry.target.clients) == ((), ("client-1",))
        nemesis.executor.heal(entry)
        assert nemesis.healed(entry).proven

    def test_isolation_of_all_clients_has_no_spare_observer(self, nemesis: Nemesis) -> None:
        entry = nemesis.strike("isolate", "clients")
        assert entry.plan.spares == ()
        assert nemesis.bitten(entry).proven

    def test_isolation_of_one_of_three_zookeepers_expires_no_session(self, tmp_path: Path) -> None:
        nemesis = Nemesis(memory_cluster(zookeepers=3), tmp_path / "ledger.jsonl")
        proof = nemesis.bitten(nemesis.strike("isolate", "zookeeper-2"))
        assert proof.proven
        assert "registration expired" not in proof.observations

    def test_of_all_zookeepers_silences_them(self, tmp_path: Path) -> None:
        nemesis = Nemesis(memory_cluster(zookeepers=3), tmp_path / "ledger.jsonl")
        entry = nemesis.strike("isolate", "zookeeper")
        assert "no answer" in str(nemesis.bitten(entry).observations["ZooKeeper"])
        nemesis.executor.heal(entry)
        assert nemesis.healed(entry).proven


def test_pause_records_the_lost_sessions(nemesis: Nemesis) -> None:
    entry = nemesis.strike("pause", "zookeeper")
    nemesis.memory.system.sessions[2] = 0xBEEF
    nemesis.executor.heal(entry)
    assert nemesis.healed(entry).observations["sessions lost"] == {"broker-2": True}


def test_kill_starts_only_the_servers_that_it_killed(nemesis: Nemesis) -> None:
    brokers = nemesis.memory.system.brokers
    brokers[2].process.current, brokers[2].process.code = ProcessState.EXITED, 70
    entry = nemesis.strike("kill", "broker-1 + broker-3")
    assert nemesis.bitten(entry).observations["not observed"] == {
        "ended by signal 9": {"broker-3": "was already down"}
    }
    nemesis.executor.heal(entry)
    assert [broker.starts for broker in brokers] == [1, 0, 0]
    assert not nemesis.healed(entry).proven


def test_server_that_dies_of_a_pause_is_not_started_again(nemesis: Nemesis) -> None:
    entry = nemesis.strike("pause", "broker-1")
    nemesis.memory.system.brokers[0].process.signal(9)
    assert nemesis.ledger.holding("broker-1") is None
    nemesis.executor.heal(entry)
    assert nemesis.memory.system.brokers[0].starts == 0
    assert not nemesis.healed(entry).proven


class TestOverlapping:
    """A proof is not upset by another fault that is on, and says what it did not look at."""

    def test_a_kill_while_another_broker_is_down(self, nemesis: Nemesis) -> None:
        first = nemesis.strike("kill", "broker-1")
        second = nemesis.strike("kill", "broker-2")
        assert nemesis.bitten(first).proven
        assert nemesis.bitten(second).proven
        nemesis.executor.heal(first)
        assert nemesis.healed(first).proven

    def test_an_isolation_while_clients_are_cut_off(self, nemesis: Nemesis) -> None:
        isolated = nemesis.strike("isolate", "broker-1")
        cut = nemesis.strike("cut", "clients -> broker-1")
        proof = nemesis.bitten(isolated)
        assert proof.proven
        assert proof.observations["not observed"] == {
            "still connected": {"client-1->broker-1": "cut#2 is active"},
        }
        nemesis.executor.heal(isolated)
        assert nemesis.healed(isolated).proven
        assert nemesis.bitten(cut).proven

    def test_links_to_a_broker_that_is_down_prove_nothing(self, nemesis: Nemesis) -> None:
        nemesis.strike("kill", "broker-2")
        nemesis.memory.backend.leaky = True
        entry = nemesis.strike("cut", "broker-1 <-> broker-2")
        proof = nemesis.bitten(entry)
        assert not proof.proven
        assert "links closed" in proof.observations["not observed"]  # type: ignore[operator]

    def test_links_to_a_broker_that_died_by_itself_prove_nothing(self, nemesis: Nemesis) -> None:
        nemesis.memory.system.brokers[1].process.signal(9)
        nemesis.memory.backend.leaky = True
        proof = nemesis.bitten(nemesis.strike("cut", "broker-1 -> broker-2"))
        assert not proof.proven
        assert "broker-2 is down" in str(proof.observations)

    def test_a_broker_on_its_way_back_is_still_the_kill_s(self, nemesis: Nemesis) -> None:
        killed = nemesis.strike("kill", "broker-2")
        bridge = nemesis.strike("bridge", "all")
        nemesis.executor.heal(killed)
        nemesis.memory.system.brokers[1].process.signal(9)  # not listening yet
        proof = nemesis.bitten(bridge)
        assert "kill#1 is active" in str(proof.observations["not observed"])
        assert "missing" not in proof.observations

    def test_a_second_kill_of_the_same_broker_shows_nothing(self, nemesis: Nemesis) -> None:
        nemesis.strike("kill", "broker-1")
        assert not nemesis.bitten(nemesis.strike("kill", "broker-1")).proven

    def test_a_kill_while_zookeeper_is_stopped(self, nemesis: Nemesis) -> None:
        nemesis.strike("pause", "zookeeper")
        nemesis.memory.system.lingering = {1}
        killed = nemesis.strike("kill", "broker-1")
        proof = nemesis.bitten(killed)
        assert proof.proven
        assert proof.observations["not observed"] == {
            "registration expired": {"broker-1": "pause#1 is active"}
        }

    def test_zookeeper_is_back_though_a_broker_is_down(self, nemesis: Nemesis) -> None:
        paused = nemesis.strike("pause", "zookeeper")
        nemesis.strike("kill", "broker-1")
        nemesis.executor.heal(paused)
        proof = nemesis.healed(paused)
        assert proof.proven
        assert proof.observations["registered"] == {"broker-2": True, "broker-3": True}


SHAPES = {
    "bridge": 12,
    "halves": 4,
    "majorities-ring": 3,
    "minority": 4,
    **dict.fromkeys(CLIENTS, 2),
    "reassign": 2,
    "add-broker": 2,
    **dict.fromkeys(("power-failure", "disk-full", "disk-failure", "read-only"), 50),
    **dict.fromkeys(("bit-flip", "corrupt-index"), 50),
    **dict.fromkeys((fault.name for fault in CHURN), 50),
}
"""How many plans fifty seeds make; one, where it is not told."""
AIMED_AT = {
    Aim.BROKERS: "broker-1",
    Aim.KUBERNETES_NODES: "broker-1",
    Aim.PODS: "broker-1",
    Aim.CLIENTS: "clients",
    Aim.PARTITIONS: "partition(orders, 0)",
    Aim.TOPICS: "topic(orders)",
    Aim.REPLICAS: "partition(orders, 0)",
    Aim.PLACES: "all",
}


ONLY = {
    **{one.name: "all" for one in (*UPGRADES, *MIGRATION, *STORAGE)},
    REMOVE_VOTER.name: "zookeeper-1",
}
"""The target of each fault that cannot have all servers as its target."""


@pytest.mark.parametrize("name", sorted(n for n, f in FAULTS.items() if f.aim is not Aim.LINKS))
def test_plans_are_pure(memory: Memory, name: str) -> None:
    if name == REMOVE_VOTER.name:  # another voter must be left
        memory = memory_cluster(zookeepers=3)
    if FAULTS[name].aim in (Aim.KUBERNETES_NODES, Aim.PODS):
        put_into_pods(memory, 2, 2)
    fault, members = FAULTS[name], memory.cluster.members
    who = AIMED_AT.get(fault.aim, ONLY.get(name, "all + zookeeper"))
    memory.system.replicas = {0: [1, 2], 1: [2, 3], 2: [3, 1]}
    target = resolve(parse(who), memory.cluster, 3, fault.aim)

    def planned(seed: int) -> str:
        given = fault.parameters.model_validate(by_file() if name == COMMAND else {})
        return repr(fault.plan(members, target, given, random.Random(seed)))

    assert planned(1) == planned(1)
    shapes = len({planned(seed) for seed in range(50)})
    assert shapes == SHAPES.get(name, 1)
    assert not memory.backend.calls


def test_effects_are_in_the_same_order_each_time(memory: Memory) -> None:
    """A set of links has none: with hashes of another seed, another order."""
    plan = FAULTS["isolate"].plan(
        memory.cluster.members,
        resolve(parse("broker-1"), memory.cluster, 0),
        FAULTS["isolate"].parameters(),
        random.Random(0),
    )
    links = [effect.link for effect in plan.effects if isinstance(effect, OnLink)]
    assert links == sorted(links)


def test_a_shape_needs_nodes_enough() -> None:
    members = Members(brokers=("b1", "b2"), zookeepers=("z1",))
    target = Target(expression="all", nodes=("b1", "b2"), servers=("b1", "b2"))
    for name in ("halves", "majorities-ring", "bridge"):
        with pytest.raises(Unplannable, match=f"{name} needs 3 nodes or more"):
            FAULTS[name].plan(members, target, Parameters(), random.Random(0))


def test_an_isolation_that_cuts_nothing() -> None:
    members = Members(brokers=("b1",), zookeepers=())
    target = Target(expression="all", nodes=("b1",), servers=("b1",))
    with pytest.raises(Unplannable, match="no link to cut"):
        FAULTS["isolate"].plan(members, target, FAULTS["isolate"].parameters(), random.Random(0))


OVER_AT_ONCE = (
    *("restart", "crash-client", "expire-session", "elect-unclean", "advance-log-start"),
    *("upgrade", "downgrade", "migrate", "migrate-back", "rotate-certificates", "operator-roll"),
)
LASTING = {name: fault for name, fault in FAULTS.items() if name not in {*OVER_AT_ONCE, *CLIENTS}}
"""All but those on clients, which have limits of their own."""


@pytest.mark.parametrize("fault", LASTING.values(), ids=LASTING)
def test_waits_are_derived_from_the_cluster(memory: Memory, fault: Fault) -> None:
    short = fault.hold_ms_min(memory.system)
    memory.system.zookeeper_session_timeout_ms *= 10
    assert short >= expiry_ms(memory.system) / 10
    assert fault.hold_ms_min(memory.system) >= 10 * short


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_every_parameter_has_a_default_and_a_description(fault: Fault) -> None:
    """The commands of a command fault have none: each of them breaks something else."""
    if fault.name != COMMAND:
        fault.parameters()
    assert all(field.description for field in fault.parameters.model_fields.values())


def test_effects_have_descriptions() -> None:
    link = Link("b1", "z1")
    words = {
        ProcessKill("b1"): "kill b1",
        OnLink(link, CUT): "cut b1->z1",
        OnLink(link, CUT, "quorum"): "cut b1->z1 (quorum)",
        OnLink(link, Impairment("loss", 30)): "lose 30 % of b1->z1",
        ResetLink(link, Impairment("reset"), "broker"): "reset b1->z1 (broker)",
        ResetLink(link, Impairment("reset-open")): "reset open connections of b1->z1",
        OnLink(link, Impairment("narrow", 500)): "narrow b1->z1 to 500 kbit/s",
        OnLink(link, Impairment("slow", 100)): "slow b1->z1 by 100 ms",
    }
    assert {effect: str(effect) for effect in words} == words
