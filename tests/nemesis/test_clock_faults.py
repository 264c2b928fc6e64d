"""Clocks that are wrong: what the servers themselves say proves it, and that it is over."""

from dataclasses import replace

import pytest
from pydantic import ValidationError

from ackproof.infra.api.interface import Capability, InfraError
from ackproof.nemesis import FAULTS
from ackproof.nemesis.clock import CLOCKS, SetClock
from ackproof.nemesis.execution import OpenFault
from ackproof.nemesis.interface import Look, Proof
from ackproof.nemesis.proofs import prove
from ackproof.testing.faults import Nemesis
from ackproof.testing.memory.cluster import Once
from ackproof.testing.memory.servers import BETWEEN_MS, MemoryClock


def clock(nemesis: Nemesis, number: int = 1) -> MemoryClock:
    return nemesis.memory.system.brokers[number - 1].clock


def looks(nemesis: Nemesis, entry: OpenFault) -> list[Look]:
    return [*entry.fault.bitten(nemesis.executor.injection(entry))]


def proof(taken: list[Look]) -> Proof:
    return prove(taken, Once(), 0.0, by_itself=True)


@pytest.mark.parametrize("fault", CLOCKS)
def test_clock_faults_need_fake_clocks_and_destroy_nothing(fault) -> None:
    assert fault.needs == {Capability.FAKE_CLOCKS}
    assert fault.destroys is None


class TestStep:
    def test_observed_clock_offset_is_recorded(self, nemesis: Nemesis) -> None:
        entry = nemesis.strike("step-clock", "broker-1", offset_ms=-3_000)
        assert nemesis.bitten(entry).observations == {
            "clock off": {"broker-1": "-3000.0 ms, give or take 1.0"}
        }

    def test_of_another_size_is_not_proven(self, nemesis: Nemesis) -> None:
        entry = nemesis.strike("step-clock", "broker-1", offset_ms=3_000)
        clock(nemesis).offset_ms = 2_998
        assert not nemesis.bitten(entry).proven

    def test_inexact_answer_proves_no_clock_step(self, nemesis: Nemesis) -> None:
        """Neither that it is wrong nor that it is right: the server took too long to answer."""
        entry = nemesis.strike("step-clock", "broker-1", offset_ms=1_000)
        clock(nemesis).bound_ms = 501
        assert not nemesis.bitten(entry).proven
        nemesis.executor.heal(entry)
        assert not nemesis.healed(entry).proven
        clock(nemesis).bound_ms = 499
        assert nemesis.healed(entry).proven

    def test_scrambled(self, nemesis: Nemesis) -> None:
        entry = nemesis.strike("step-clock", "all + zookeeper", offset_ms=-9_000, scramble=True)
        offsets = [e.offset_ms for e in entry.plan.effects if isinstance(e, SetClock)]
        assert len(set(offsets)) == 4
        assert all(4_500 <= abs(offset) <= 9_000 for offset in offsets)
        assert {offset > 0 for offset in offsets} == {True, False}
        assert nemesis.bitten(entry).proven
        again = nemesis.aim("step-clock", "all + zookeeper", offset_ms=-9_000, scramble=True)
        assert again.plan == entry.plan
        other = nemesis.aim("step-clock", "all", seed=2, offset_ms=-9_000, scramble=True)
        assert other.plan.effects[0] != again.plan.effects[0]


@pytest.mark.parametrize("rate", [2.0, 0.5])
class TestPace:
    def test_bites_and_heals(self, nemesis: Nemesis, rate: float) -> None:
        entry = nemesis.strike("fast-clock", "broker-1 + zookeeper", rate=rate)
        taken = looks(nemesis, entry)
        assert not proof(taken).proven, "nothing is known of a pace at first"
        assert proof(taken).proven
        assert not nemesis.healed(entry).proven
        nemesis.executor.heal(entry)
        assert nemesis.healed(entry).proven
        assert clock(nemesis).runs == [(0, rate), (0, 1.0)]

    def test_a_clock_at_the_true_pace_is_not_proven(self, nemesis: Nemesis, rate: float) -> None:
        """Test also a clock that jumped once, at the injection."""
        clock(nemesis).deaf = True
        entry = nemesis.strike("fast-clock", "broker-1", rate=rate)
        clock(nemesis).offset_ms = 60_000
        taken = looks(nemesis, entry)
        assert not any(proof(taken).proven for _ in range(5))

    def test_another_pace_is_not_proven(self, nemesis: Nemesis, rate: float) -> None:
        entry = nemesis.strike("fast-clock", "broker-1", rate=rate)
        clock(nemesis).rate = 1 + (rate - 1) * 2
        taken = looks(nemesis, entry)
        assert not any(proof(taken).proven for _ in range(5))

    def test_clock_pace_is_proven_once_answers_are_exact_enough(
        self, nemesis: Nemesis, rate: float
    ) -> None:
        entry = nemesis.strike("fast-clock", "broker-1", rate=rate)
        gain_ms = abs(rate - 1) * BETWEEN_MS
        clock(nemesis).bound_ms = gain_ms / 4
        taken = looks(nemesis, entry)
        assert [proof(taken).proven for _ in range(3)] == [False, False, True]


class TestStrobe:
    def test_must_be_seen_to_come_and_go(self, nemesis: Nemesis) -> None:
        entry = _still(nemesis)
        nemesis.executor.inject(entry)
        taken = looks(nemesis, entry)
        seen = []
        for offset_ms in (0, 300, 300, 0, 0, 300):
            clock(nemesis).run(offset_ms)
            seen.append(proof(taken).proven)
        assert seen == [False, False, False, False, False, True]
        nemesis.executor.heal(entry)
        assert nemesis.healed(entry).proven

    def test_a_step_is_no_strobe(self, nemesis: Nemesis) -> None:
        entry = _still(nemesis)
        nemesis.executor.inject(entry)
        taken = looks(nemesis, entry)
        assert not any(proof(taken).proven for _ in range(5))
        assert not nemesis.healed(entry).proven

    def test_its_rhythm(self, nemesis: Nemesis) -> None:
        entry = nemesis.aim("strobe-clock", "broker-1", delta_ms=300, period_ms=80)
        rhythm = entry.plan.rhythm
        assert rhythm is not None
        beats = rhythm.beats()
        assert [next(beats) for _ in range(3)] == [(80, 80)] * 3


def _still(nemesis: Nemesis) -> OpenFault:
    """A strobe whose beats are the test's own."""
    entry = nemesis.aim("strobe-clock", "broker-1", delta_ms=300)
    return replace(entry, plan=replace(entry.plan, rhythm=None))


@pytest.mark.parametrize("name", [fault.name for fault in CLOCKS])
class TestOverlapping:
    def test_the_last_one_sets_it_right(self, nemesis: Nemesis, name: str) -> None:
        first = nemesis.strike("step-clock", "broker-1", offset_ms=5_000)
        second = nemesis.strike(name, "broker-1")
        assert not nemesis.bitten(second).proven
        nemesis.executor.heal(second)
        assert nemesis.healed(second).proven, "step-clock#1 is active"
        nemesis.executor.heal(first)
        assert (clock(nemesis).offset_ms, clock(nemesis).rate) == (0, 1.0)
        nemesis.ledger.close(second.fault_id)
        assert nemesis.healed(first).proven

    def test_clock_of_a_stopped_server_is_not_queried(self, nemesis: Nemesis, name: str) -> None:
        killed = nemesis.strike("kill", "broker-1")
        entry = nemesis.strike(name, "broker-1 + broker-2")
        left_out = nemesis.bitten(entry).observations["not observed"]
        assert "kill#1 is active" in str(left_out)
        nemesis.executor.heal(killed)
        nemesis.executor.heal(entry)
        assert nemesis.healed(entry).proven

    def test_server_that_ended_by_itself_proves_nothing(self, nemesis: Nemesis, name: str) -> None:
        entry = nemesis.strike(name, "broker-1")
        nemesis.memory.system.brokers[0].process.signal(9)
        assert nemesis.ledger.holding("broker-1") is None
        taken = looks(nemesis, entry)
        assert not any(proof(taken).proven for _ in range(3))
        nemesis.executor.heal(entry)
        assert not nemesis.healed(entry).proven


def test_the_node_s_clock_is_set_right_though_the_server_is_down(nemesis: Nemesis) -> None:
    entry = nemesis.strike("step-clock", "broker-1")
    nemesis.strike("kill", "broker-1")
    nemesis.executor.heal(entry)
    assert clock(nemesis).offset_ms == 0


def test_a_server_that_goes_by_the_true_time_cannot_be_struck(nemesis: Nemesis) -> None:
    nemesis.memory.system.brokers[0].clock = None  # type: ignore[assignment]
    with pytest.raises(InfraError, match="broker-1 was not started with a clock"):
        nemesis.strike("step-clock", "broker-1")


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("step-clock", {"offset_ms": 99}),
        ("step-clock", {"offset_ms": 0}),
        ("step-clock", {"offset_ms": 150, "scramble": True}),
        ("step-clock", {"offset_ms": 86_400_000}),
        ("fast-clock", {"rate": 1.0}),
        ("fast-clock", {"rate": 0.0}),
        ("strobe-clock", {"delta_ms": -50}),
        ("strobe-clock", {"period_ms": 1}),
    ],
)
def test_unprovable_clock_change_is_refused(name: str, own: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        FAULTS[name].parameters.model_validate(own)
