"""Processes that are terminated or restarted, and machines that are replaced: proven when it was
so, and not when it was not."""

import signal

import pytest

from ackproof.infra.api.interface import ProcessState
from ackproof.nemesis import FAULTS
from ackproof.nemesis.execution import HealingBegun
from ackproof.nemesis.interface import Members, Target, Unplannable
from ackproof.nemesis.proofs import expiry_ms
from ackproof.nemesis.targets.expressions import parse, problems
from ackproof.testing.faults import Nemesis
from ackproof.testing.memory.servers import MemoryServer

CASES = [
    ("terminate", "leader(orders, 0)", {}),
    ("terminate", "all", {}),
    ("terminate", "partition(orders, 1)", {}),
    ("terminate", "zookeeper", {}),
    ("restart", "controller", {}),
    ("restart", "all", {"signal": "terminate"}),
    ("restart", "zookeeper", {"signal": "kill"}),
    ("replace", "follower(orders, 0)", {}),
    ("replace", "all", {}),
]
HOLDS = [None, 0]


def brokers(nemesis: Nemesis) -> "list[MemoryServer]":
    return list(nemesis.memory.system.brokers)


@pytest.mark.parametrize(("name", "expression", "own"), CASES)
@pytest.mark.parametrize("hold_ms", HOLDS)
def test_process_fault_takes_effect_and_heals(
    nemesis: Nemesis, name: str, expression: str, own: dict[str, object], hold_ms: int | None
) -> None:
    entry = nemesis.through(name, expression, hold_ms=hold_ms, **own)
    struck = [s for s in servers(nemesis) if s.name in entry.target.servers]
    assert [server.starts for server in struck] == [1] * len(struck)


def servers(nemesis: Nemesis) -> "list[MemoryServer]":
    return [*nemesis.memory.system.zookeepers, *brokers(nemesis)]


@pytest.mark.parametrize(("name", "own"), [("terminate", {}), ("restart", {"signal": "terminate"})])
@pytest.mark.parametrize("hold_ms", HOLDS)
def test_server_that_does_not_end_was_not_terminated(
    nemesis: Nemesis, name: str, own: dict[str, object], hold_ms: int | None
) -> None:
    brokers(nemesis)[0].process.stubborn = True
    entry = nemesis.strike(name, "broker-1", hold_ms=hold_ms, **own)
    proof = nemesis.bitten(entry)
    assert not proof.proven
    assert proof.observations["ended by itself after SIGTERM, status"] == {"broker-1": "runs on"}
    nemesis.executor.heal(entry)
    assert brokers(nemesis)[0].starts == 1, "it would have ended after the fault"
    assert nemesis.healed(entry).proven


def test_server_that_was_killed_meanwhile_was_not_terminated(nemesis: Nemesis) -> None:
    broker = brokers(nemesis)[0]
    broker.process.stubborn = True
    entry = nemesis.strike("terminate", "broker-1", hold_ms=0)
    broker.process.signal(signal.SIGKILL)
    proof = nemesis.bitten(entry)
    assert not proof.proven
    assert proof.observations["session closed"] == {"broker-1": "expired"}


def test_a_session_that_is_held_was_not_closed(nemesis: Nemesis) -> None:
    nemesis.memory.system.lingering = {1}
    proof = nemesis.bitten(nemesis.strike("terminate", "broker-1"))
    assert not proof.proven
    assert proof.observations["missing"] == {"session closed": ["broker-1"]}


def test_a_restart_is_over_at_once(nemesis: Nemesis) -> None:
    fault = FAULTS["restart"]
    assert fault.hold_ms_min(nemesis.memory.system) == 0
    nemesis.memory.system.lingering = {1}
    entry = nemesis.strike("restart", "broker-1", hold_ms=expiry_ms(nemesis.memory.system))
    assert nemesis.bitten(entry).proven, "it asks for nothing that takes a session"
    nemesis.executor.heal(entry)
    assert not nemesis.healed(entry).proven, "by the session that died"
    nemesis.memory.system.lingering = set()
    assert nemesis.healed(entry).proven


@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_restarts_in_a_row(nemesis: Nemesis, how: str) -> None:
    for _ in range(3):
        entry = nemesis.strike("restart", "leader(orders, 0)", hold_ms=0, signal=how)
        assert nemesis.bitten(entry).proven
        nemesis.executor.heal(entry)
        assert nemesis.healed(entry).proven
        nemesis.ledger.close(entry.fault_id)
    assert brokers(nemesis)[0].starts == 3


def test_a_restart_of_one_that_is_on_its_way_back(nemesis: Nemesis) -> None:
    """Overlapping: the first is not proven to be healed yet, and the second strikes."""
    first = nemesis.strike("restart", "broker-1", hold_ms=0)
    nemesis.executor.heal(first)
    second = nemesis.strike("restart", "broker-1", hold_ms=0)
    assert nemesis.bitten(second).proven
    assert brokers(nemesis)[0].process.state() is ProcessState.EXITED
    nemesis.executor.heal(first)
    assert brokers(nemesis)[0].starts == 1, "the second one holds it"
    nemesis.executor.heal(second)
    assert brokers(nemesis)[0].starts == 2
    assert nemesis.healed(first).proven
    assert nemesis.healed(second).proven


def test_a_terminated_one_that_another_killed_is_started_once(nemesis: Nemesis) -> None:
    """The undo of the termination comes last, and finds a process that was not asked to end."""
    broker = brokers(nemesis)[0]
    broker.process.stubborn = True
    terminated = nemesis.strike("terminate", "broker-1")
    killed = nemesis.strike("kill", "broker-1")
    assert nemesis.bitten(killed).proven
    nemesis.executor.heal(killed)
    nemesis.executor.heal(terminated)
    assert broker.starts == 1
    assert broker.process.state() is ProcessState.RUNNING


class TestReplace:
    def test_the_disk_is_seen_to_be_empty(self, nemesis: Nemesis) -> None:
        brokers(nemesis)[0].node.files = 7
        entry = nemesis.strike("replace", "broker-1")
        assert nemesis.bitten(entry).observations == {
            "left on the disk": {"broker-1": 0},
            "ended by signal 9": {"broker-1": -9},
            "registration expired": {"broker-1": True},
        }

    def test_not_proven_when_something_is_left(self, nemesis: Nemesis) -> None:
        node = brokers(nemesis)[0].node
        node.files, node.full = 7, True
        proof = nemesis.bitten(nemesis.strike("replace", "broker-1"))
        assert not proof.proven
        assert proof.observations["missing"] == {"left on the disk": ["broker-1"]}

    def test_the_disk_of_one_that_runs_is_left_alone(self, nemesis: Nemesis) -> None:
        broker = brokers(nemesis)[0]
        broker.process.deaf = True
        with pytest.raises(RuntimeError, match="broker-1 runs: its disk is not changed"):
            nemesis.strike("replace", "broker-1")
        assert broker.node.files == 1

    def test_of_one_that_another_fault_has_killed(self, nemesis: Nemesis) -> None:
        killed = nemesis.strike("kill", "broker-1")
        replaced = nemesis.strike("replace", "broker-1")
        assert nemesis.bitten(replaced).proven
        nemesis.executor.heal(killed)
        assert brokers(nemesis)[0].starts == 0, "no broker starts on a disk that is being emptied"
        nemesis.executor.heal(replaced)
        assert nemesis.healed(replaced).proven

    def test_all_are_down_before_the_first_disk_is_emptied(self, nemesis: Nemesis) -> None:
        entry = nemesis.aim("replace", "all")
        words = [str(effect) for effect in entry.plan.effects]
        assert words == [
            *(f"kill broker-{number}" for number in (1, 2, 3)),
            *(f"empty the disk of broker-{number}" for number in (1, 2, 3)),
        ]

    def test_replacement_destroys_all_of_the_disk(self) -> None:
        assert FAULTS["replace"].destroys == "all"
        assert FAULTS["restart"].destroys is None

    @pytest.mark.parametrize("who", ["zookeeper", "zookeeper-1", "zk-leader", "all + zookeeper-1"])
    def test_zookeeper_is_refused(self, who: str) -> None:
        members = Members(brokers=("broker-1",), zookeepers=("zookeeper-1",))
        found = list(problems(parse(who), FAULTS["replace"].aim, members, {}))
        assert found
        assert all("targets brokers" in problem for problem in found)

    def test_zookeeper_is_refused_when_it_strikes(self) -> None:
        members = Members(brokers=("broker-1",), zookeepers=("zookeeper-1",))
        target = Target(expression="x", nodes=("zookeeper-1",), servers=("zookeeper-1",))
        fault = FAULTS["replace"]
        with pytest.raises(Unplannable, match="not for zookeeper-1"):
            fault.plan(members, target, fault.parameters(), None)  # type: ignore[arg-type]


def test_server_asked_to_end_is_ended_and_started_at_the_heal(nemesis: Nemesis) -> None:
    """The gate closes between two effects: the first server has been asked, and still runs."""
    broker = brokers(nemesis)[0]
    broker.process.stubborn = True
    entry = nemesis.strike("terminate", "broker-1")
    nemesis.executor.close()
    nemesis.executor.heal(entry)
    assert broker.process.state() is ProcessState.RUNNING
    assert broker.starts == 1
    with pytest.raises(HealingBegun):
        nemesis.strike("terminate", "broker-2")


def test_terminated_server_may_end(nemesis: Nemesis) -> None:
    entry = nemesis.strike("terminate", "broker-1")
    assert nemesis.ledger.holding("broker-1") == entry.fault_id
    assert nemesis.ledger.holding("broker-2") is None
