"""The conformance kit finds what a fault does wrong, and nothing wrong with a sound one."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest

from ackproof.infra.api.interface import Timings
from ackproof.nemesis import FAULTS
from ackproof.nemesis.effects import ProcessKill, ProcessStop
from ackproof.nemesis.interface import (
    Aim,
    Cluster,
    Fault,
    Injection,
    Look,
    Members,
    Observation,
    Parameters,
    Plan,
    Target,
)
from ackproof.nemesis.process.servers import KILL, PAUSE
from ackproof.testing.faults import NotConforming, check_fault


class Changed:
    """The fault ``kill`` with one thing changed."""

    name = "changed"
    summary = "kill -9, but for one thing"
    aim = Aim.SERVERS
    parameters = Parameters
    needs = KILL.needs
    destroys = None

    def plan(
        self, members: Members, target: Target, parameters: Parameters, rng: random.Random
    ) -> Plan:
        return KILL.plan(members, target, parameters, rng)

    def bitten(self, injection: Injection) -> Sequence[Look]:
        return KILL.bitten(injection)

    def healed(self, injection: Injection) -> Sequence[Look]:
        return KILL.healed(injection)

    def hold_ms_min(self, timings: Timings) -> int:
        return KILL.hold_ms_min(timings)


@dataclass(frozen=True, slots=True)
class KillForGood(ProcessKill):
    """It is never undone."""

    def undo(self, cluster: Cluster) -> None: ...


@dataclass(frozen=True, slots=True)
class StopAndForget(ProcessStop):
    """It stops the server beside the target's, too, and lets that one stand."""

    def apply(self, cluster: Cluster) -> bool:
        ProcessStop("broker-3").apply(cluster)
        return ProcessStop.apply(self, cluster)


def always(claim: str) -> Look:
    return lambda: Observation(claim=claim, seen={"broker-1": True})


class WithoutEffects(Changed):
    def plan(self, *_: object) -> Plan:
        return Plan(effects=())


class DrawnByChance(Changed):
    def plan(
        self, members: Members, target: Target, parameters: Parameters, rng: random.Random
    ) -> Plan:
        del parameters, rng
        return Plan(effects=(ProcessKill(next(self._servers(members, target))),))

    def __init__(self) -> None:
        drawn = random.Random(1)
        self._servers = lambda members, _: iter([drawn.choice(members.brokers)])


class SureOfItself(Changed):
    """It believes itself to have taken effect, whatever is seen."""

    def bitten(self, injection: Injection) -> Sequence[Look]:
        done = [str(effect) for effect in injection.done()]
        return [lambda: Observation(claim="done", seen=dict.fromkeys(done, True))]


class Everlasting(Changed):
    def bitten(self, injection: Injection) -> Sequence[Look]:
        del injection
        return [always("ended")]


class Unproven(Changed):
    def bitten(self, injection: Injection) -> Sequence[Look]:
        del injection
        return []


class HealedUnseen(Changed):
    def healed(self, injection: Injection) -> Sequence[Look]:
        del injection
        return []


class HealedAtOnce(Changed):
    def healed(self, injection: Injection) -> Sequence[Look]:
        del injection
        return [always("running")]


class NeverHealed(Changed):
    def plan(
        self, members: Members, target: Target, parameters: Parameters, rng: random.Random
    ) -> Plan:
        del members, parameters, rng
        return Plan(effects=tuple(KillForGood(server) for server in target.servers))


class LeavesAServerStopped(Changed):
    def plan(
        self, members: Members, target: Target, parameters: Parameters, rng: random.Random
    ) -> Plan:
        del members, parameters, rng
        return Plan(effects=tuple(StopAndForget(server) for server in target.servers))

    def bitten(self, injection: Injection) -> Sequence[Look]:
        cluster = injection.cluster

        def look() -> Observation:
            states = {s: cluster.server(s).process.state().value for s in injection.target.servers}
            missing = tuple(server for server, state in states.items() if state != "stopped")
            return Observation(claim="stopped", seen=states, missing=missing)

        return [look]

    def healed(self, injection: Injection) -> Sequence[Look]:
        return PAUSE.healed(injection)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (WithoutEffects, "its plan has no effects"),
        (DrawnByChance, "its plan differs though the seed is the same"),
        (Everlasting, "it is proven to have taken effect before its injection"),
        (SureOfItself, "healed, it is still proven to be in effect"),
        (Unproven, "it is not proven to have taken effect"),
        (HealedAtOnce, "it is proven to be healed while it is on"),
        (HealedUnseen, "it names nothing that proves that it is healed"),
        (NeverHealed, "it is not proven to be healed; seen:"),
        (LeavesAServerStopped, "healed, it leaves behind: broker-3 is stopped"),
    ],
)
def test_fault_that_breaks_its_contract_does_not_conform(
    make: Callable[[], Fault], problem: str
) -> None:
    with pytest.raises(NotConforming) as refusal:
        check_fault(make(), "broker-1")
    told = str(refusal.value)
    assert told.startswith("changed on broker-1, held for its full effect: ")
    assert problem in told


def test_fault_that_believes_its_own_orders_does_not_conform() -> None:
    """Test that orders prove nothing where nothing has any effect."""
    with pytest.raises(NotConforming, match="taken effect where nothing has any"):
        check_fault(SureOfItself(), "broker-1", lasts=True)


def test_fault_that_no_table_accepts_does_not_conform() -> None:
    with pytest.raises(NotConforming, match="kill: its summary must be one line of text"):
        check_fault(replace(KILL, summary=""), "broker-1")


def test_sound_fault_conforms() -> None:
    check_fault(Changed(), "leader(orders, 0)")
    check_fault(FAULTS["restart"], "all", {"signal": "terminate"})
