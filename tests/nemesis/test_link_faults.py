"""Faults on links and on single ports: proven where they bite, not proven where they do not."""

import random
from itertools import islice
from pathlib import Path

import pytest
from pydantic import ValidationError

from ackproof.infra.agent.impairments import Impairment
from ackproof.nemesis import FAULTS
from ackproof.nemesis.clock import CLOCKS
from ackproof.nemesis.examples import EXAMPLES, Example
from ackproof.nemesis.interface import Rhythm, Unplannable
from ackproof.nemesis.network.links import beats_within
from ackproof.nemesis.network.observations import plausible, tries_needed
from ackproof.nemesis.targets.expressions import parse, problems
from ackproof.nemesis.targets.resolution import resolve
from ackproof.testing.faults import Nemesis
from ackproof.testing.memory.cluster import Memory, memory_cluster

LINK_FAULTS = ("flap", "lossy", "narrow", "reset", "slow")
BOTH_WAYS = "leader(orders, 0) <-> partition(orders, 0) - leader(orders, 0)"


@pytest.fixture
def memory() -> Memory:
    return memory_cluster(zookeepers=3)


def named(example: Example) -> str:
    return f"{example.fault}: {example.what}"


ON_THE_NETWORK = [one for one in EXAMPLES if FAULTS[one.fault] not in CLOCKS]


@pytest.mark.parametrize("example", ON_THE_NETWORK, ids=named)
class TestEveryExample:
    def test_example_target_is_valid(self, memory: Memory, example: Example) -> None:
        fault, members = FAULTS[example.fault], memory.cluster.members
        found = problems(parse(example.target), fault.aim, members, {"orders": 3})
        assert list(found) == []

    def test_bites_and_heals(self, nemesis: Nemesis, example: Example) -> None:
        entry = nemesis.strike(example.fault, example.target, **example.parameters)
        proof = nemesis.bitten(entry)
        assert proof.proven, proof
        nemesis.executor.heal(entry)
        assert nemesis.healed(entry).proven
        over_for_good = example.fault == "expire-session"
        assert nemesis.bitten(entry).proven == over_for_good
        assert not nemesis.memory.backend.links_cut
        assert not nemesis.memory.backend.links.on

    def test_that_does_nothing_is_not_proven(self, nemesis: Nemesis, example: Example) -> None:
        nemesis.memory.deafen()
        entry = nemesis.strike(example.fault, example.target, **example.parameters)
        proof = nemesis.bitten(entry)
        assert not proof.proven
        assert "missing" in proof.observations
        nemesis.executor.heal(entry)


@pytest.mark.parametrize("name", LINK_FAULTS)
class TestEveryLinkFault:
    def test_both_ways(self, nemesis: Nemesis, name: str) -> None:
        entry = nemesis.strike(name, BOTH_WAYS)
        assert nemesis.bitten(entry).proven
        nemesis.executor.heal(entry)
        assert nemesis.healed(entry).proven

    def test_active_link_fault_is_not_healed(self, nemesis: Nemesis, name: str) -> None:
        entry = nemesis.strike(name, BOTH_WAYS)
        assert not nemesis.healed(entry).proven or name == "flap"
        nemesis.executor.heal(entry)

    def test_does_not_take_another_s(self, nemesis: Nemesis, name: str) -> None:
        """Lossy and cut at once: each is there for itself."""
        first = nemesis.strike(name, "broker-1 -> broker-2")
        cut = nemesis.strike("cut", "broker-1 <-> broker-2")
        nemesis.executor.heal(first)
        assert len(nemesis.memory.backend.links_cut) == 2
        nemesis.ledger.close(first.fault_id)
        assert nemesis.bitten(cut).proven
        again = nemesis.strike(name, "broker-1 -> broker-2")
        nemesis.executor.heal(cut)
        nemesis.ledger.close(cut.fault_id)
        assert nemesis.healed(cut).proven
        proof = nemesis.bitten(again)
        # What was open before: nothing could be opened while the link was cut.
        assert proof.proven or name == "reset"
        nemesis.executor.heal(again)
        assert not nemesis.memory.backend.links.on

    def test_same_impairment_is_shared_by_faults(self, nemesis: Nemesis, name: str) -> None:
        first = nemesis.strike(name, "broker-1 -> broker-2")
        second = nemesis.strike(name, "broker-1 -> broker-2")
        nemesis.executor.heal(first)
        backend = nemesis.memory.backend
        assert {*backend.links.on, *backend.links_cut}
        nemesis.executor.heal(second)
        assert not {*backend.links.on, *backend.links_cut}


class TestOnePort:
    def test_only_its_packets(self, nemesis: Nemesis) -> None:
        entry = nemesis.strike("cut", "zookeeper-1 <-> zookeeper-2", service="quorum")
        (impairment,) = {one[2] for one in nemesis.memory.backend.links.on}
        assert impairment == Impairment(kind="loss", amount=100, ports=(2888, 3888))
        proof = nemesis.bitten(entry)
        assert proof.proven
        assert proof.observations["other ports open"] == {
            "zookeeper-1->zookeeper-2": "open",
            "zookeeper-2->zookeeper-1": "open",
        }

    def test_cut_of_all_ports_does_not_prove_a_cut_of_one(self, nemesis: Nemesis) -> None:
        entry = nemesis.strike("cut", "zookeeper-1 -> zookeeper-2", service="quorum")
        nodes = [nemesis.memory.cluster.node(f"zookeeper-{n}") for n in (1, 2)]
        nemesis.memory.backend.cut(*nodes)
        assert "other ports open" in nemesis.bitten(entry).observations["missing"]  # type: ignore[operator]

    def test_of_links_that_carry_it_alone(self, nemesis: Nemesis) -> None:
        effects = nemesis.aim("isolate", "broker-1", service="broker").plan.effects
        assert {str(effect) for effect in effects} == {
            f"cut {a}->{b} (broker)"
            for other in ("broker-2", "broker-3")
            for a, b in (("broker-1", other), (other, "broker-1"))
        }

    def test_where_nothing_of_it_goes(self, nemesis: Nemesis) -> None:
        with pytest.raises(Unplannable, match="the service quorum uses none of the links"):
            nemesis.aim("cut", "broker-1 <-> zookeeper", service="quorum")

    def test_with_one_zookeeper_there_is_no_quorum(self, tmp_path: Path) -> None:
        alone = Nemesis(memory_cluster(), tmp_path / "ledger.jsonl")
        with pytest.raises(Unplannable):
            alone.aim("isolate", "zookeeper", service="quorum")


class TestReset:
    def test_reset_of_open_connections_leaves_new_ones_alone(self, nemesis: Nemesis) -> None:
        proof = nemesis.bitten(nemesis.strike("reset", "clients -> broker-1", refuse=False))
        assert proof.observations["new connections"] == {"client-1->broker-1": "open"}

    def test_of_all_refuses_them(self, nemesis: Nemesis) -> None:
        proof = nemesis.bitten(nemesis.strike("reset", "clients -> broker-1"))
        assert proof.observations["links closed"] == {"client-1->broker-1": "closed"}
        assert "new connections" not in proof.observations

    def test_where_nothing_could_be_opened_before(self, nemesis: Nemesis) -> None:
        nemesis.memory.system.brokers[0].process.signal(9)
        assert not nemesis.bitten(nemesis.strike("reset", "clients -> broker-1")).proven


class TestMeasured:
    def test_a_busy_machine_is_no_slow_link(self, nemesis: Nemesis) -> None:
        nemesis.memory.backend.links.busy_ms = 500
        assert not nemesis.bitten(nemesis.strike("slow", "broker-1 -> broker-2")).proven

    def test_link_that_loses_every_packet_is_not_lossy(self, nemesis: Nemesis) -> None:
        entry = nemesis.strike("lossy", "broker-1 -> broker-2")
        nodes = [nemesis.memory.cluster.node(f"broker-{n}") for n in (1, 2)]
        nemesis.memory.backend.cut(*nodes)
        proof = nemesis.bitten(entry)
        assert not proof.proven
        assert proof.observations["connections lost"] == {
            "broker-1->broker-2": "26 of 26; 0 of 0 packets"
        }

    def test_connections_that_fail_of_themselves_are_no_loss(self, nemesis: Nemesis) -> None:
        """Test failures at the expected rate without a dropped packet in the kernel: the machine is
        busy."""
        entry = nemesis.strike("lossy", "broker-1 -> broker-2", percent=30)
        ends = ("broker-1", "broker-2")
        links = nemesis.memory.backend.links
        links.on = {(*ends, Impairment(kind="loss", amount=29))}
        assert "8 of 26" in str(nemesis.bitten(entry).observations)
        assert not nemesis.bitten(entry).proven

    @pytest.mark.parametrize("percent", [1, 10, 30, 50, 80])
    def test_enough_tries_to_tell(self, percent: int) -> None:
        """At the rate itself, and neither with nothing lost nor with everything."""
        lost = percent / 100
        count = tries_needed(lost)
        assert plausible(round(lost * count), count, lost)
        assert not plausible(0, count, lost)
        assert not plausible(count, count, lost)

    def test_by_chance_as_often_as_it_says(self) -> None:
        lost = 0.3
        rng, count = random.Random(7), tries_needed(0.3)
        tries = 20_000
        refused = sum(
            not plausible(sum(rng.random() < lost for _ in range(count)), count, lost)
            for _ in range(tries)
        )
        assert refused / tries < 4e-4


class TestRhythm:
    def test_the_seed_says_when(self) -> None:
        def beats(seed: int) -> list[tuple[int, int]]:
            return list(islice(Rhythm(seed=seed, on_ms=(1, 50), off_ms=(60, 99)).beats(), 20))

        assert beats(1) == beats(1) != beats(2)
        assert all(1 <= on <= 50 and 60 <= off <= 99 for on, off in beats(3))

    def test_a_flapping_link_s_is_drawn(self, nemesis: Nemesis) -> None:
        def rhythm(seed: int) -> Rhythm | None:
            return nemesis.aim("flap", "broker-1 -> broker-2", seed=seed).plan.rhythm

        assert rhythm(1) == rhythm(1) != rhythm(2)

    @pytest.mark.parametrize(("hold_ms", "beats"), [(0, 1), (99, 1), (100, 1), (200, 2), (900, 2)])
    def test_no_more_is_asked_than_the_hold_has(self, hold_ms: int, beats: int) -> None:
        assert beats_within(Rhythm(seed=1, on_ms=(50, 50), off_ms=(50, 50)), hold_ms) == beats

    def test_shortest_and_longest(self) -> None:
        with pytest.raises(ValidationError, match="the shortest time is longer than the longest"):
            FAULTS["flap"].parameters.model_validate({"on_ms_min": 3_000})


def test_a_minority_stays_together(nemesis: Nemesis) -> None:
    entry = nemesis.aim("minority", "all + zookeeper", seed=3)
    cut = {frozenset((e.link.source, e.link.target)) for e in entry.plan.effects}  # type: ignore[attr-defined]
    members = nemesis.memory.cluster.members
    sides = [one for one in members.servers if sum(one in pair for pair in cut) == 4]
    assert len(sides) == 2
    assert frozenset(sides) not in cut
    assert len(cut) == 8


def test_every_link_fault_names_its_target(memory: Memory) -> None:
    for name in LINK_FAULTS:
        target = resolve(parse("clients -> broker-1"), memory.cluster, 1)
        fault = FAULTS[name]
        plan = fault.plan(memory.cluster.members, target, fault.parameters(), random.Random(1))
        assert "client-1->broker-1" in str(plan.effects[0])
