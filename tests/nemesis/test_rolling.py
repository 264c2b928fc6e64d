"""Rolling upgrades and downgrades: order, waits, proofs, and what a failed roll leaves behind."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ackproof.infra.api.capabilities import MigrationState, Stage, ZooKeeperTraces
from ackproof.infra.api.interface import ProcessState, Server
from ackproof.nemesis import FAULTS
from ackproof.nemesis.effects import EffectNotBegun
from ackproof.nemesis.execution import Ledger
from ackproof.nemesis.interface import Members, Target, Unplannable
from ackproof.nemesis.process.rolling import Finalize, Roll, Rolled, Upgraded, roll_limit_ms
from ackproof.testing.faults import Nemesis
from ackproof.testing.memory.cluster import Memory, memory_cluster
from ackproof.testing.memory.servers import memory_server

OLD, NEW = "3.9.2", "4.4.0"
SOON = {"within_ms": 50}
"""A limit for waits that end without success."""


@dataclass
class MemoryUpgrade:
    """The two releases of a cluster in memory."""

    memory: Memory
    versions: Mapping[Stage, str] = field(
        default_factory=lambda: {Stage.BEFORE: OLD, Stage.AFTER: NEW, Stage.FINAL: NEW}
    )
    stages: dict[str, Stage] = field(default_factory=dict)
    unfinished: set[str] = field(default_factory=set)
    installed: list[str] = field(default_factory=list)
    """The servers in the order of their changes."""
    down: list[int] = field(default_factory=list)
    """The number of servers that were down at each change."""
    keeps: str | None = None
    """A server that starts with its former release whatever is installed."""
    level: int = 1
    finalized: bool = False

    def first_stage(self, server: str) -> Stage:
        return self.stage(server)

    def stage(self, server: str) -> Stage:
        return self.stages.get(server, Stage.BEFORE)

    def install(self, server: str, stage: Stage) -> None:
        assert self.memory.cluster.server(server).process.state() is ProcessState.EXITED
        self.stages[server] = stage
        self.installed.append(server)
        servers = self.memory.cluster.members.servers
        states = [self.memory.cluster.server(name).process.state() for name in servers]
        self.down.append(states.count(ProcessState.EXITED))
        self.finalized |= stage is Stage.FINAL

    def reported(self, server: str) -> str | None:
        return OLD if server == self.keeps else self.versions[self.stage(server)]

    def was(self, server: str) -> str | None:
        return OLD if self.stage(server) is not Stage.BEFORE else NEW

    def obstacle(self, server: str, stage: Stage) -> str | None:
        back = stage is Stage.BEFORE and self.stage(server) is not stage
        return "Kafka does not go back from there" if back and self.finalized else None

    def finalize(self, timeout_s: float) -> None:
        assert timeout_s > 0
        self.finalized, self.level = True, 2

    def finality(self, broker: str) -> tuple[bool, str]:
        final = self.level == 2 or self.stage(broker) is Stage.FINAL
        return final, f"level {self.level} of 2"


@dataclass
class World:
    """A cluster in memory with two releases, and a nemesis for it."""

    nemesis: Nemesis
    upgrade: MemoryUpgrade

    @property
    def memory(self) -> Memory:
        return self.nemesis.memory


def world(tmp_path: Path, *, combined: bool = True) -> World:
    """Return a cluster with three combined controllers, or with one ZooKeeper server."""
    memory = memory_cluster(zookeepers=3 if combined else 1, combined=combined)
    memory.system.upgrade = MemoryUpgrade(memory)
    return World(Nemesis(memory, tmp_path / "ledger.jsonl"), memory.system.upgrade)


@pytest.fixture
def kraft(tmp_path: Path) -> World:
    return world(tmp_path)


@pytest.fixture
def zookeeper(tmp_path: Path) -> World:
    return world(tmp_path, combined=False)


def test_upgrade_changes_one_server_at_a_time_with_proof(kraft: World) -> None:
    entry = kraft.nemesis.strike("upgrade", "all", hold_ms=0)
    assert kraft.upgrade.installed == ["broker-1", "broker-2", "broker-3"]
    assert kraft.upgrade.down == [1, 1, 1]
    proof = kraft.nemesis.bitten(entry)
    assert proof.proven, proof.observations
    changed = dict.fromkeys(kraft.upgrade.installed, f"{OLD} -> {NEW}")
    assert proof.observations["version in its log"] == changed
    kraft.nemesis.executor.heal(entry)
    assert kraft.nemesis.healed(entry).proven
    assert kraft.memory.disturbances == []
    assert set(kraft.upgrade.stages.values()) == {Stage.AFTER}, "the end takes nothing back"


def test_second_upgrade_changes_only_the_rest(kraft: World) -> None:
    kraft.nemesis.strike("upgrade", "broker-2", hold_ms=0)
    entry = kraft.nemesis.strike("upgrade", "all", hold_ms=0)
    assert kraft.upgrade.installed == ["broker-2", "broker-1", "broker-3"]
    proof = kraft.nemesis.bitten(entry)
    assert proof.proven
    assert proof.observations["not observed"] == {
        "version in its log": {"broker-2": "had it already"}
    }
    again = kraft.nemesis.strike("upgrade", "all", hold_ms=0)
    assert not kraft.nemesis.bitten(again).proven, "nothing was changed"


def test_downgrade_goes_back_in_the_opposite_order(kraft: World) -> None:
    kraft.nemesis.strike("upgrade", "all", hold_ms=0)
    entry = kraft.nemesis.strike("downgrade", "all", hold_ms=0)
    assert kraft.upgrade.installed[3:] == ["broker-3", "broker-2", "broker-1"]
    proof = kraft.nemesis.bitten(entry)
    assert proof.proven
    assert proof.observations["version in its log"]["broker-1"] == f"{NEW} -> {OLD}"  # type: ignore[index]


def test_controllers_are_upgraded_first_and_downgraded_last() -> None:
    servers = ("controller-1", "controller-2", "broker-1", "broker-2")
    members = Members(brokers=servers[2:], zookeepers=servers[:2])
    target = Target(expression="all + quorum", nodes=(), servers=tuple(reversed(servers)))
    for name, order in (("upgrade", servers), ("downgrade", tuple(reversed(servers)))):
        fault = FAULTS[name]
        plan = fault.plan(members, target, fault.parameters(), random.Random(1))
        assert tuple(effect.ends for effect in plan.effects) == order


def test_server_that_keeps_its_release_is_no_proof(kraft: World) -> None:
    kraft.upgrade.keeps = "broker-2"
    proof = kraft.nemesis.bitten(kraft.nemesis.strike("upgrade", "all", hold_ms=0))
    assert not proof.proven
    assert proof.observations["missing"] == {"version in its log": ["broker-2"]}


def test_server_that_does_not_come_up_ends_the_roll(kraft: World) -> None:
    kraft.memory.backend.servers["broker-2"].stillborn = True
    entry = kraft.nemesis.aim("upgrade", "all", hold_ms=0)
    with pytest.raises(RuntimeError, match=r"broker-2 ended with status 1, started as 4\.4\.0"):
        kraft.nemesis.executor.inject(entry)
    assert kraft.upgrade.installed == ["broker-1", "broker-2"]
    kraft.memory.backend.servers["broker-2"].stillborn = False
    kraft.nemesis.executor.heal(entry)
    assert kraft.nemesis.healed(entry).proven, "the heal starts it again"


def test_server_that_ignores_sigterm_is_killed_and_keeps_its_release(kraft: World) -> None:
    kraft.memory.backend.servers["broker-1"].process.stubborn = True
    entry = kraft.nemesis.aim("upgrade", "all", hold_ms=0, **SOON)
    with pytest.raises(TimeoutError, match=r"broker-1 did not end within 0\.05 s"):
        kraft.nemesis.executor.inject(entry)
    assert kraft.upgrade.installed == []
    kraft.nemesis.executor.heal(entry)
    assert kraft.nemesis.healed(entry).proven, "the heal starts it again"


def test_server_is_not_stopped_while_its_partitions_are_out_of_sync(kraft: World) -> None:
    kraft.memory.system.admin.isrs["orders", 0] = (1, 2)
    entry = kraft.nemesis.aim("upgrade", "broker-1", hold_ms=0, **SOON)
    with pytest.raises(EffectNotBegun, match="the ISR of orders-0 is not full"):
        kraft.nemesis.executor.inject(entry)
    assert kraft.upgrade.installed == []
    assert not kraft.nemesis.bitten(entry).proven


def test_impatient_roll_does_not_wait_for_the_isr(kraft: World) -> None:
    kraft.memory.system.admin.isrs["orders", 0] = (1, 2)
    entry = kraft.nemesis.strike("upgrade", "broker-1", hold_ms=0, wait="none", **SOON)
    assert kraft.nemesis.bitten(entry).proven


@pytest.mark.parametrize(("fault", "state"), [("kill", "exited"), ("pause", "stopped")])
def test_server_that_another_fault_holds_is_not_changed(
    zookeeper: World, fault: str, state: str
) -> None:
    zookeeper.nemesis.strike(fault, "broker-2")
    entry = zookeeper.nemesis.aim("upgrade", "broker-2", hold_ms=0, **SOON)
    with pytest.raises(EffectNotBegun, match=f"it is {state} by another fault"):
        zookeeper.nemesis.executor.inject(entry)
    assert zookeeper.upgrade.installed == []


def test_end_of_a_changed_server_is_not_explained_by_the_roll(kraft: World) -> None:
    entry = kraft.nemesis.strike("upgrade", "broker-1", hold_ms=60_000)
    ledger = kraft.nemesis.ledger
    assert ledger.still_open() == (entry,)
    assert ledger.holding("broker-1") is None
    assert ledger.ending("broker-1") == {entry.fault_id}, "the end of its old process is"


def test_roll_leaves_the_proofs_of_other_faults_alone(kraft: World) -> None:
    kraft.nemesis.strike("upgrade", "broker-1", hold_ms=60_000)
    proof = kraft.nemesis.bitten(kraft.nemesis.strike("kill", "broker-2"))
    assert proof.proven
    assert "not observed" not in proof.observations


class TestFinalization:
    """The end of an upgrade."""

    def test_kraft_is_finalized_once_after_all_servers(self, kraft: World) -> None:
        entry = kraft.nemesis.strike("upgrade", "all", hold_ms=0, finalize=True)
        assert isinstance(entry.plan.effects[-1], Finalize)
        proof = kraft.nemesis.bitten(entry)
        assert proof.proven
        assert proof.observations["finalized"] == dict.fromkeys(
            ("broker-1", "broker-2", "broker-3"), "level 2 of 2"
        )

    def test_finalization_alone_is_proven(self, kraft: World) -> None:
        kraft.nemesis.strike("upgrade", "all", hold_ms=0)
        entry = kraft.nemesis.strike("upgrade", "all", hold_ms=0, finalize=True)
        assert kraft.nemesis.bitten(entry).proven

    def test_it_is_refused_while_a_server_has_the_older_release(self, kraft: World) -> None:
        entry = kraft.nemesis.aim("upgrade", "broker-1 + broker-2", hold_ms=0, finalize=True)
        with pytest.raises(EffectNotBegun, match="broker-3 still has the older release"):
            kraft.nemesis.executor.inject(entry)
        assert not kraft.upgrade.finalized

    def test_there_is_no_way_back_behind_it(self, kraft: World) -> None:
        kraft.nemesis.strike("upgrade", "all", hold_ms=0, finalize=True)
        entry = kraft.nemesis.aim("downgrade", "all", hold_ms=0)
        with pytest.raises(EffectNotBegun, match="Kafka does not go back"):
            kraft.nemesis.executor.inject(entry)
        assert set(kraft.upgrade.stages.values()) == {Stage.AFTER}

    def test_brokers_on_zookeeper_are_restarted_once_more(self, zookeeper: World) -> None:
        entry = zookeeper.nemesis.strike("upgrade", "all", hold_ms=0, finalize=True)
        brokers = ["broker-1", "broker-2", "broker-3"]
        assert zookeeper.upgrade.installed == [*brokers, *brokers]
        assert set(zookeeper.upgrade.stages.values()) == {Stage.FINAL}
        assert zookeeper.nemesis.bitten(entry).proven


@dataclass
class MemoryMigration(MemoryUpgrade):
    """The migration of a cluster in memory, whose controllers do what Kafka's do."""

    versions: Mapping[Stage, str] = field(
        default_factory=lambda: {
            Stage.BEFORE: "ZooKeeper",
            Stage.MIGRATING: "migration mode",
            Stage.KRAFT: "KRaft",
            Stage.RETURNING: "migration mode",
        }
    )
    stuck: bool = False
    """Whether the controllers do not take over."""
    lags: bool = False
    """Whether ZooKeeper does not get what the controllers write."""
    left: ZooKeeperTraces = field(
        default_factory=lambda: ZooKeeperTraces(
            controller=101, migration="{}", epoch=3, newest_epoch=5
        )
    )
    """The znodes that are in ZooKeeper once the controllers are removed."""

    def _stages_of(self, names: tuple[str, ...]) -> set[Stage]:
        return {self.stage(name) for name in names}

    def stage(self, server: str) -> Stage:
        first = Stage.MIGRATING if server.startswith("controller-") else Stage.BEFORE
        return self.stages.get(server, first)

    @property
    def may_have_begun(self) -> bool:
        return Stage.BEFORE not in self._stages_of(self.memory.cluster.members.brokers)

    def state(self) -> MigrationState:
        if self.stuck or not self.may_have_begun:
            return MigrationState.PRE_MIGRATION
        if Stage.MIGRATING in self._stages_of(self.memory.cluster.members.quorum):
            return MigrationState.MIGRATION
        return MigrationState.POST_MIGRATION

    def controller_in_zookeeper(self) -> int | None:
        if self.memory.system.removed:
            return self.left.controller
        return 1 if self.state() is MigrationState.PRE_MIGRATION else 101

    def in_kraft_mode(self) -> frozenset[int]:
        members = self.memory.cluster.members
        return frozenset(
            number for number, name in members.by_id.items() if self.stage(name) is Stage.KRAFT
        )

    def removal_obstacle(self) -> str | None:
        brokers = self.memory.cluster.members.brokers
        return "it needs them" if Stage.KRAFT in self._stages_of(brokers) else None

    def behind(self) -> list[str]:
        return ["orders-0 has leader 1 in ZooKeeper, leader 2 in the metadata log"] * self.lags

    def remove_controllers(self) -> None:
        system, quorum = self.memory.system, self.memory.cluster.members.quorum
        system.removed = [one for one in system.zookeepers if one.name in quorum]
        system.zookeepers = [one for one in system.zookeepers if one.name not in quorum]
        system.ensemble.servers = system.zookeepers

    def traces(self) -> ZooKeeperTraces:
        return self.left

    def clear_traces(self, *, raises_epoch: bool) -> None:
        """Let broker 2 be the controller after the one that was removed."""
        epoch = self.left.newest_epoch if raises_epoch else self.left.epoch
        self.left = replace(self.left, controller=2, migration=None, epoch=epoch + 1)


@dataclass
class Attendant:
    """An observer of servers that leave, with their states and the faults that end them."""

    ledger: Ledger
    seen: list[tuple[str, str, int | None]] = field(default_factory=list)

    def joins(self, server: Server) -> None:
        raise AssertionError(f"{server.name} joins")

    def leaves(self, server: Server) -> None:
        state = server.process.state().value
        self.seen.append((server.name, state, self.ledger.upon(server.name)))

    left = leaves


class TestMigration:
    """The migration from ZooKeeper to KRaft."""

    @pytest.fixture
    def migrating(self, tmp_path: Path) -> World:
        memory = memory_cluster(zookeepers=1)
        controller = memory_server("controller", 1, 9093)
        memory.system.zookeepers = [*memory.system.zookeepers, controller]
        memory.backend.servers[controller.name] = controller
        memory.system.ensemble.servers = memory.system.zookeepers
        memory.system.upgrade = MemoryMigration(memory)
        return World(Nemesis(memory, tmp_path / "ledger.jsonl"), memory.system.upgrade)

    def test_each_step_is_proven_by_the_cluster_itself(self, migrating: World) -> None:
        steps = [
            ("broker-1", "migration-mode", "dual-write", None),
            (
                "all",
                "migration-mode",
                "dual-write",
                "MIGRATION, and /controller names controller-1",
            ),
            ("all", "kraft", "registered as a broker of", "KRaft"),
            ("quorum", "final", "migration", "POST_MIGRATION"),
        ]
        for target, to, claim, seen in steps:
            entry = migrating.nemesis.strike("migrate", target, hold_ms=0, to=to)
            proof = migrating.nemesis.bitten(entry)
            assert proof.proven, (to, proof.observations)
            found = proof.observations.get(claim)
            assert (set(found.values()) if isinstance(found, dict) else None) == (seen and {seen})
            migrating.nemesis.executor.heal(entry)
            assert migrating.nemesis.healed(entry).proven
        assert migrating.memory.disturbances == []
        assert migrating.upgrade.down == [1] * 7

    def test_controllers_that_do_not_take_over_are_no_proof(self, migrating: World) -> None:
        assert isinstance(migrating.upgrade, MemoryMigration)
        migrating.upgrade.stuck = True
        entry = migrating.nemesis.aim("migrate", "all", hold_ms=0, **SOON)
        with pytest.raises(
            TimeoutError, match=r"within 0\.05 s, .* PRE_MIGRATION, and /controller"
        ):
            migrating.nemesis.executor.inject(entry)
        proof = migrating.nemesis.bitten(entry)
        assert not proof.proven
        assert proof.observations["missing"] == {"dual-write": ["cluster"]}

    def test_each_step_of_the_way_back_is_proven_by_the_cluster_itself(
        self, migrating: World
    ) -> None:
        for to in ("migration-mode", "kraft"):
            migrating.nemesis.strike("migrate", "all", hold_ms=0, to=to)
        attendant = Attendant(migrating.nemesis.ledger)
        object.__setattr__(migrating.memory.cluster, "attendant", attendant)
        epochs = "/controller_epoch 6, newest epoch of a partition 5"
        steps = [
            ("all", "migration-mode", "registered as a broker of", "ZooKeeper"),
            (
                "quorum",
                "broker-controller",
                "in ZooKeeper",
                f"/controller names broker-2, and there is no /migration; {epochs}",
            ),
            ("all", "zookeeper", "controller", "/controller names broker-2"),
        ]
        for target, to, claim, seen in steps:
            entry = migrating.nemesis.strike("migrate-back", target, hold_ms=0, to=to)
            proof = migrating.nemesis.bitten(entry)
            assert proof.proven, (to, proof.observations)
            assert set(proof.observations[claim].values()) == {seen}  # type: ignore[attr-defined]
            migrating.nemesis.executor.heal(entry)
            assert migrating.nemesis.healed(entry).proven
        assert [state for _, state, _ in attendant.seen] == ["running", "exited"]
        assert attendant.seen[1][2] is not None, "the fault that ended it"
        assert migrating.upgrade.installed[-3:] == ["broker-3", "broker-2", "broker-1"]
        assert migrating.upgrade.down == [1] * 12
        assert migrating.memory.cluster.members.quorum == ("zookeeper-1",)
        with pytest.raises(Unplannable, match="the controllers are gone already"):
            migrating.nemesis.aim("migrate-back", "quorum", hold_ms=0, to="broker-controller")

    @pytest.mark.parametrize(
        ("trouble", "why"),
        [
            ("kraft", "cannot be removed: it needs them"),
            ("lags", "ZooKeeper differs from the metadata log: orders-0 has leader 1"),
            ("pause", "controller-1 is stopped by another fault"),
            ("isr", "the ISR of orders-0 is not full"),
        ],
    )
    def test_controllers_are_not_removed_at_the_wrong_time(
        self, migrating: World, trouble: str, why: str
    ) -> None:
        assert isinstance(migrating.upgrade, MemoryMigration)
        migrating.nemesis.strike("migrate", "all", hold_ms=0)
        if trouble == "kraft":
            migrating.nemesis.strike("migrate", "broker-1", hold_ms=0, to="kraft")
        elif trouble == "pause":
            migrating.nemesis.strike("pause", "controller-1")
        elif trouble == "isr":
            migrating.memory.system.admin.isrs["orders", 0] = (1, 2)
        migrating.upgrade.lags = trouble == "lags"
        how = {"to": "broker-controller", **SOON}
        entry = migrating.nemesis.aim("migrate-back", "quorum", hold_ms=0, **how)
        with pytest.raises(EffectNotBegun, match=why):
            migrating.nemesis.executor.inject(entry)
        assert migrating.memory.system.removed == ()
        assert not migrating.nemesis.bitten(entry).proven
        if trouble in ("lags", "isr"):
            hasty = migrating.nemesis.strike(
                "migrate-back", "quorum", hold_ms=0, wait="none", **how
            )
            assert migrating.nemesis.bitten(hasty).proven

    @pytest.mark.parametrize(
        ("target", "to", "why"),
        [
            ("quorum", "zookeeper", "restarts brokers, not controller-1"),
            ("all", "broker-controller", "stops controllers, not broker-1"),
        ],
    )
    def test_step_of_the_way_back_has_its_own_targets(
        self, migrating: World, target: str, to: str, why: str
    ) -> None:
        with pytest.raises(Unplannable, match=why):
            migrating.nemesis.aim("migrate-back", target, hold_ms=0, to=to)

    def test_pause_of_zookeeper_shows_beside_controllers_that_lead(self, migrating: World) -> None:
        entry = migrating.nemesis.strike("pause", "zookeeper")
        assert entry.target.servers == ("zookeeper-1",)
        proof = migrating.nemesis.bitten(entry)
        assert proof.proven, proof.observations
        assert proof.observations["leads no quorum"] == {"zookeeper-1": "does not serve"}


def test_zookeeper_servers_are_no_target(zookeeper: World) -> None:
    with pytest.raises(Unplannable, match="ZooKeeper keeps its version"):
        zookeeper.nemesis.aim("upgrade", "all + zookeeper", hold_ms=0)


def test_system_with_one_release_is_not_changed(nemesis: Nemesis) -> None:
    entry = nemesis.aim("upgrade", "all", hold_ms=0)
    with pytest.raises(EffectNotBegun, match="memory has one release only"):
        nemesis.executor.inject(entry)


def test_limit_of_a_roll_counts_its_waits() -> None:
    assert roll_limit_ms(Rolled(within_ms=10, pause_ms=5), 3) == 3 * (5 + 3 * 10)
    assert roll_limit_ms(Upgraded(within_ms=10, finalize=True), 3) == 2 * 3 * 3 * 10


def test_effects_are_described_for_the_ledger() -> None:
    words = str(Roll("broker-1", Stage.AFTER, "isr", 1))
    assert words == "change broker-1 to the newer release"
    assert str(Finalize(1)) == "finalize the upgrade"
