"""Faults on disks and on the files of logs, on the cluster in memory."""

import signal

import pytest

from ackproof.infra.api.interface import InfraError, ProcessState
from ackproof.nemesis import FAULTS
from ackproof.nemesis.effects import ProcessKill
from ackproof.nemesis.interface import Effect, Unplannable
from ackproof.nemesis.storage import STORAGE, PowerLoss
from ackproof.testing.faults import Nemesis
from ackproof.testing.memory.cluster import Memory
from ackproof.testing.memory.servers import MemoryDisk

FOR_GOOD = [
    ("bit-flip", {}),
    ("corrupt-index", {}),
    ("corrupt-index", {"of": "each"}),
    ("lose-checkpoint", {}),
    ("lose-epochs", {}),
]


def disks_of(memory: Memory, number: int) -> list[MemoryDisk]:
    return memory.system.brokers[number - 1].node.disks


@pytest.mark.parametrize(("name", "own"), FOR_GOOD)
def test_damage_bites_and_stays(nemesis: Nemesis, name: str, own: dict[str, object]) -> None:
    entry = nemesis.strike(name, "broker-2", **own)
    assert nemesis.bitten(entry).proven
    nemesis.executor.heal(entry)
    assert nemesis.healed(entry).proven
    assert nemesis.memory.system.brokers[1].node.logs.damage


@pytest.mark.parametrize(("name", "own"), FOR_GOOD)
def test_damage_that_is_not_in_the_file_is_not_proven(
    nemesis: Nemesis, name: str, own: dict[str, object]
) -> None:
    nemesis.memory.system.brokers[1].node.logs.deaf = True
    proof = nemesis.bitten(nemesis.strike(name, "broker-2", **own))
    assert not proof.proven
    assert "not observed" in str(proof.observations)


def test_fault_without_anything_to_damage_reports_it(nemesis: Nemesis) -> None:
    nemesis.memory.system.brokers[1].node.logs.kinds = ("index",)
    with pytest.raises(InfraError, match="no closed-segment"):
        nemesis.strike("bit-flip", "broker-2")


class TestPowerFailure:
    def test_power_failure_proof_lists_its_observations(self, nemesis: Nemesis) -> None:
        proof = nemesis.bitten(nemesis.strike("power-failure", "broker-2"))
        assert proof.observations == {
            "unsynced data is gone": {"broker-2": ["synced there, unsynced gone"]},
            "ended by signal 9": {"broker-2": -9},
            "registration expired": {"broker-2": True},
        }

    def test_not_proven_where_all_is_kept(self, nemesis: Nemesis) -> None:
        """A kill, and no power failure."""
        disks_of(nemesis.memory, 2)[0].keeps_all = True
        proof = nemesis.bitten(nemesis.strike("power-failure", "broker-2"))
        assert proof.observations["missing"] == {"unsynced data is gone": ["broker-2"]}

    def test_not_proven_where_too_much_is_gone(self, nemesis: Nemesis) -> None:
        entry = nemesis.strike("power-failure", "broker-2")
        disks_of(nemesis.memory, 2)[0].synced = ""
        assert not nemesis.bitten(entry).proven

    def test_not_proven_where_one_of_two_disks_kept_all(self, nemesis: Nemesis) -> None:
        nemesis.memory.system.brokers[1].node.disk("2", 64).deaf = True
        assert not nemesis.bitten(nemesis.strike("power-failure", "broker-2")).proven

    def test_not_proven_without_a_disk_of_its_own(self, nemesis: Nemesis) -> None:
        disks_of(nemesis.memory, 2).clear()
        assert not nemesis.bitten(nemesis.strike("power-failure", "broker-2")).proven

    def test_of_a_controller_with_a_disk(self, nemesis: Nemesis) -> None:
        (keeper,) = nemesis.memory.system.zookeepers
        keeper.node.disk("1", 64)
        entry = nemesis.strike("power-failure", "zookeeper-1")
        proof = nemesis.bitten(entry)
        assert proof.proven
        seen = proof.observations["unsynced data is gone"]
        assert seen == {"zookeeper-1": ["synced there, unsynced gone"]}
        nemesis.executor.heal(entry)
        assert nemesis.healed(entry).proven

    def test_of_a_keeper_without_disks_is_refused(self, nemesis: Nemesis) -> None:
        with pytest.raises(Unplannable, match="KRaft controllers that are no brokers, not for zoo"):
            nemesis.aim("power-failure", "zookeeper-1")

    def test_all_processes_end_before_the_first_disk(self, nemesis: Nemesis) -> None:
        kinds = [type(effect) for effect in nemesis.aim("power-failure", "all").plan.effects]
        assert kinds == [ProcessKill] * 3 + [PowerLoss] * 3

    def test_the_witnesses_token_is_another_one_each_time(self, nemesis: Nemesis) -> None:
        def tokens(seed: int) -> set[str]:
            plan = nemesis.aim("power-failure", "all", seed=seed).plan
            return {effect.token for effect in plan.effects if isinstance(effect, PowerLoss)}

        assert len(tokens(1) | tokens(2)) == 6
        assert tokens(1) == tokens(1)

    def test_of_a_broker_that_is_down_already(self, nemesis: Nemesis) -> None:
        nemesis.strike("kill", "broker-2")
        proof = nemesis.bitten(nemesis.strike("power-failure", "broker-2"))
        assert proof.proven
        assert "was already down" in str(proof.observations["not observed"])

    def test_a_tail_is_proven_too(self, nemesis: Nemesis) -> None:
        entry = nemesis.strike("power-failure", "broker-2", tail="torn")
        assert nemesis.bitten(entry).proven
        disks_of(nemesis.memory, 2)[0].damage.clear()
        assert nemesis.bitten(entry).observations["missing"] == {"torn": ["broker-2"]}

    def test_the_server_starts_when_all_faults_let_go(self, nemesis: Nemesis) -> None:
        killed = nemesis.strike("kill", "broker-2")
        power = nemesis.strike("power-failure", "broker-2")
        nemesis.executor.heal(power)
        assert nemesis.memory.system.brokers[1].starts == 0
        nemesis.executor.heal(killed)
        assert nemesis.memory.system.brokers[1].starts == 1


@pytest.mark.parametrize("name", ["disk-full", "disk-failure", "read-only"])
class TestAFailedDisk:
    def test_failed_disk_is_one_of_several(self, nemesis: Nemesis, name: str) -> None:
        nemesis.memory.system.brokers[1].node.disk("2", 64)
        struck = set()
        for seed in range(8):
            entry = nemesis.strike(name, "broker-2", seed=seed)
            refused = [disk.refusal for disk in disks_of(nemesis.memory, 2)]
            assert refused.count(None) == 1
            struck.add(refused.index(None))
            assert nemesis.bitten(entry).proven
            nemesis.executor.heal(entry)
            assert nemesis.healed(entry).proven
            nemesis.ledger.close(entry.fault_id)
        assert struck == {0, 1}

    def test_or_all(self, nemesis: Nemesis, name: str) -> None:
        nemesis.memory.system.brokers[1].node.disk("2", 64)
        nemesis.strike(name, "broker-2", disks="all")
        assert None not in [disk.refusal for disk in disks_of(nemesis.memory, 2)]

    def test_failed_disk_is_replaced_while_the_broker_is_down(
        self, nemesis: Nemesis, name: str
    ) -> None:
        entry = nemesis.strike(name, "broker-2")
        nemesis.executor.heal(entry)
        assert nemesis.memory.system.brokers[1].starts == 1
        assert nemesis.memory.system.brokers[1].process.state() is ProcessState.RUNNING

    def test_that_fails_otherwise_proves_nothing(self, nemesis: Nemesis, name: str) -> None:
        entry = nemesis.strike(name, "broker-2")
        disks_of(nemesis.memory, 2)[0].refusal = "EPERM"
        assert not nemesis.bitten(entry).proven


@pytest.mark.parametrize("name", ["disk-full", "disk-failure", "read-only"])
def test_a_broker_that_is_about_to_end_of_its_disk_does_not_stay_down(
    nemesis: Nemesis, name: str
) -> None:
    entry = nemesis.strike(name, "broker-2")
    dying = nemesis.memory.system.brokers[1].process
    nemesis.executor.heal(entry)
    assert dying.state() is ProcessState.EXITED
    assert nemesis.memory.system.brokers[1].starts == 1
    assert nemesis.healed(entry).proven


@pytest.mark.parametrize("name", ["disk-full", "disk-failure", "read-only", "slow-disk"])
def test_a_broker_that_ends_of_its_disk_has_not_ended_by_itself(
    nemesis: Nemesis, name: str
) -> None:
    entry = nemesis.strike(name, "broker-2")
    nemesis.memory.system.brokers[1].process.signal(9)
    assert nemesis.ledger.holding("broker-2") == entry.fault_id
    nemesis.executor.heal(entry)
    assert nemesis.memory.system.brokers[1].starts == 1
    assert nemesis.healed(entry).proven


def test_a_slow_disk_is_measured(nemesis: Nemesis) -> None:
    entry = nemesis.strike("slow-disk", "broker-2", bytes_per_s=8192)
    assert nemesis.bitten(entry).observations == {
        "writes are slow": {"broker-2": ["4096 bytes in 0.50 s"]}
    }
    disks_of(nemesis.memory, 2)[0].limit = 1 << 30  # the kernel says that there is a limit
    assert not nemesis.bitten(entry).proven


def test_effect_of_another_disk_fault_is_excluded(nemesis: Nemesis) -> None:
    full = nemesis.strike("disk-full", "broker-2")
    nemesis.strike("read-only", "broker-2")
    assert "read-only#2 is active" in str(nemesis.bitten(full).observations["not observed"])


@pytest.mark.parametrize("fault", STORAGE, ids=lambda fault: fault.name)
def test_zookeeper_is_not_affected(nemesis: Nemesis, fault: Effect) -> None:
    with pytest.raises(Unplannable, match="zookeeper-1"):
        nemesis.aim(fault.name, "zookeeper")  # type: ignore[attr-defined]
    assert FAULTS[fault.name] is fault  # type: ignore[attr-defined]


def test_server_is_started_on_its_full_disk(nemesis: Nemesis) -> None:
    entry = nemesis.strike("disk-full", "broker-2", starts=2)
    broker = nemesis.memory.system.brokers[1]
    assert broker.starts == 2
    assert disks_of(nemesis.memory, 2)[0].refusal == "ENOSPC"
    proof = nemesis.bitten(entry)
    assert proof.proven
    assert proof.observations["started again"] == {"broker-2": "runs"}
    nemesis.executor.heal(entry)
    assert disks_of(nemesis.memory, 2)[0].refusal is None
    assert broker.starts == 3
    assert nemesis.healed(entry).proven


def test_server_that_was_only_killed_was_not_started_on_its_full_disk(nemesis: Nemesis) -> None:
    entry = nemesis.strike("disk-full", "broker-2", starts=1)
    nemesis.memory.system.brokers[1].process.signal(signal.SIGKILL)
    proof = nemesis.bitten(entry)
    assert not proof.proven
    assert proof.observations["missing"] == {"started again": ["broker-2"]}
