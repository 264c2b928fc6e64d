"""Faults that migrate a cluster of Apache Kafka from ZooKeeper to KRaft, or take it back, step by
step (KIP-866).

The steps are in :mod:`infra.systems.kafka.migration`. A step is proven by the mode that each server
writes into its log when it starts, and by what the cluster itself says: the state of the migration
in the metadata log, the znodes of the controllers in ZooKeeper, and the registrations of brokers.
"""

import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from pydantic import Field

from ackproof.infra.api.capabilities import Migration, MigrationState, Stage
from ackproof.infra.api.interface import ProcessState, Server, ViewUnavailable
from ackproof.nemesis import proofs
from ackproof.nemesis.effects import EffectNotBegun, Passing, kill
from ackproof.nemesis.interface import (
    Cluster,
    Injection,
    Look,
    Members,
    Parameters,
    Plan,
    Resource,
    Target,
    Unplannable,
)
from ackproof.nemesis.process.rolling import (
    POLL_S,
    RELEASE,
    Roll,
    Rolled,
    RollingChange,
    changed,
    few,
    first_none,
    lacks_sync,
    rolls_of,
)
from ackproof.nemesis.proofs import Seen, intended, observe, targeted

# --- effects --------------------------------------------------------------------------------------


def migration_of(cluster: Cluster) -> Migration:
    """Return the migration of the cluster to KRaft. Raise EffectNotBegun without one."""
    if not isinstance(change := cluster.system.upgrade, Migration):
        raise EffectNotBegun(f"{cluster.system.name} does not migrate to KRaft")
    return change


@dataclass(frozen=True, slots=True)
class TakeOver(Passing):
    """The wait until KRaft's controllers have taken over, once all brokers are in migration mode.

    The controllers look for the brokers at intervals of up to a minute.
    """

    within_ms: int
    ends: ClassVar[None] = None

    @property
    def resource(self) -> Resource:
        return Resource(RELEASE, ("dual-write",))

    def apply(self, cluster: Cluster) -> bool:
        """Wait. Return False if a broker is not in migration mode, which the controllers wait for.

        Raise TimeoutError if they do not take over in time.
        """
        if not migration_of(cluster).may_have_begun:
            return False
        end = time.monotonic() + self.within_ms / 1000
        while not (found := taken_over(cluster))[0]:
            if time.monotonic() >= end:
                raise TimeoutError(
                    f"KRaft's controllers have not taken over within {self.within_ms / 1000:g} s, "
                    f"though all brokers are in migration mode: {found[1]}"
                )
            time.sleep(POLL_S)
        return True

    def undo(self, cluster: Cluster) -> None: ...

    def __str__(self) -> str:
        return "wait until KRaft's controllers have taken over"


def taken_over(cluster: Cluster) -> Seen:
    """Return whether KRaft's controllers have taken over, and what the cluster says."""
    migration, members = migration_of(cluster), cluster.members
    try:
        state, number = migration.state(), migration.controller_in_zookeeper()
    except ViewUnavailable as silence:
        return False, str(silence)
    named = _named(cluster, number)
    taken = state is MigrationState.MIGRATION and named in members.quorum
    return taken, f"{state}, and /controller names {named or 'no server'}"


@dataclass(frozen=True, slots=True)
class ControllersRemoval(Passing):
    """The end of KRaft's controllers for good, so that a broker becomes controller.

    Kafka's documents ask for little time between their end and the deletion of their znodes: the
    cluster has no controller meanwhile.

    Attributes:
        controllers: Their names. The ledger finds by them which fault ended them.
        wait: ``isr``: begin only while all ISRs are full and ZooKeeper has the leaders and ISRs of
            the metadata log, which are lost with the controllers. ``none``: begin at once.
        within_ms: How long each of the waits may take, in milliseconds.
        raises_epoch: See ``Migration.clear_traces``.
    """

    controllers: tuple[str, ...]
    wait: Literal["isr", "none"]
    within_ms: int
    raises_epoch: bool
    ends: ClassVar[None] = None

    @property
    def resource(self) -> Resource:
        return Resource(RELEASE, self.controllers)

    def apply(self, cluster: Cluster) -> bool:
        """Remove the controllers. Return False if that is done already.

        Raise EffectNotBegun if they were left as they were, and TimeoutError if ZooKeeper does not
        answer in time.
        """
        migration = migration_of(cluster)
        if cluster.system.removed:
            return False
        controllers = list(map(cluster.server, self.controllers))
        if (why := migration.removal_obstacle()) is not None:
            raise EffectNotBegun(f"the controllers cannot be removed: {why}")
        self._await_ready(cluster, migration, controllers)
        for controller in controllers:
            cluster.attendant.leaves(controller)
        migration.remove_controllers()
        _end(controllers, self.within_ms / 1000)
        silence = first_none(lambda: self._clear(migration), self.within_ms)
        for controller in controllers:
            cluster.attendant.left(controller)
        if silence is not None:
            raise TimeoutError(f"the controllers' znodes were not deleted: {silence}")
        return True

    def undo(self, cluster: Cluster) -> None:
        """Delete the controllers' znodes if that was not possible before."""
        if cluster.system.removed:
            self._clear(migration_of(cluster))

    def _await_ready(
        self, cluster: Cluster, migration: Migration, controllers: Sequence[Server]
    ) -> None:
        servers = [*map(cluster.server, cluster.members.brokers), *controllers]

        def lacks() -> str | None:
            for one in controllers:
                if (state := one.process.state()) is not ProcessState.RUNNING:
                    return f"{one.name} is {state.value} by another fault"
            if self.wait == "none":
                return None
            out = (why for one in servers if (why := lacks_sync(cluster, one)))
            if (why := next(out, None)) is not None:
                return why
            behind = migration.behind()
            return f"ZooKeeper differs from the metadata log: {few(behind)}" if behind else None

        if (why := first_none(lacks, self.within_ms)) is not None:
            raise EffectNotBegun(f"the controllers were left as they were: {why}")

    def _clear(self, migration: Migration) -> None:
        migration.clear_traces(raises_epoch=self.raises_epoch)

    def __str__(self) -> str:
        return "stop the controllers for good, and delete their znodes"


def _end(servers: Sequence[Server], within_s: float) -> None:
    """Stop servers together. Those that do not end in time are killed."""
    for server in servers:
        with suppress(ProcessLookupError):
            server.process.signal(signal.SIGTERM)
    end = time.monotonic() + within_s
    for server in servers:
        try:
            server.process.wait(max(end - time.monotonic(), 0))
        except TimeoutError:
            kill(server.process)


# --- faults ---------------------------------------------------------------------------------------

MigrationStep = Literal["migration-mode", "kraft", "final"]
MIGRATION_STEPS: Sequence[MigrationStep] = get_args(MigrationStep)
"""The steps of a migration from ZooKeeper to KRaft, in their order."""


class Migrated(Rolled):
    """The parameters of a step of the migration to KRaft."""

    waits: ClassVar[int] = 1
    to: MigrationStep = Field(
        default="migration-mode",
        description="`migration-mode`: restart brokers with "
        "`zookeeper.metadata.migration.enable`; when all have it, the controllers take over, and "
        "write to ZooKeeper, too. `kraft`: restart brokers without ZooKeeper. `final`: restart the "
        "controllers without it. There is no way back from there",
    )


ReturnStep = Literal["migration-mode", "broker-controller", "zookeeper"]
RETURN_STEPS: Sequence[ReturnStep] = get_args(ReturnStep)
"""The steps of the way back, in their order."""


class MigratedBack(Rolled):
    """The parameters of a step of the way back to ZooKeeper."""

    waits: ClassVar[int] = 2
    to: ReturnStep = Field(
        default="zookeeper",
        description="`migration-mode`: restart brokers of KRaft with ZooKeeper again. "
        "`broker-controller`: stop the controllers for good and delete `/controller` and "
        "`/migration`, so that a broker becomes controller; with `wait: isr` only once ZooKeeper "
        "has the leaders and ISRs of the metadata log. `zookeeper`: restart brokers without "
        "`zookeeper.metadata.migration.enable`",
    )
    raise_epoch: bool = Field(
        default=True,
        description="with `broker-controller`: raise `/controller_epoch` first, if KRaft's epoch "
        "is newer. Without that, partitions may get no leader (KAFKA-20488)",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationRoll(RollingChange):
    """A step of the migration from ZooKeeper to KRaft (KIP-866), server by server."""

    def plan(
        self,
        members: Members,
        target: Target,
        parameters: Parameters,
        rng: random.Random,  # noqa: ARG002
    ) -> Plan:
        assert isinstance(parameters, Migrated)
        final = parameters.to == "final"
        chosen = _chosen(self.name, parameters.to, members, target, controllers=final)
        if parameters.to == "migration-mode":
            rolls = rolls_of(chosen, Stage.MIGRATING, parameters)
            return Plan(effects=(*rolls, TakeOver(parameters.within_ms)))
        return Plan(effects=tuple(rolls_of(chosen, Stage.KRAFT, parameters)))

    def bitten(self, injection: Injection) -> Sequence[Look]:
        stages = {one.stage for one in intended(injection, Roll)}
        brokers = targeted(injection, injection.cluster.members.brokers)
        if Stage.MIGRATING in stages:
            reached = _dual_write(injection)
        else:
            reached = (
                _registered_with(injection, brokers, kraft=True)
                if brokers
                else _finalized(injection)
            )
        return [changed(injection, _MODE), reached, *self.healed(injection)]


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationReturn(RollingChange):
    """A step of the way back from KRaft to ZooKeeper."""

    def plan(
        self,
        members: Members,
        target: Target,
        parameters: Parameters,
        rng: random.Random,  # noqa: ARG002
    ) -> Plan:
        assert isinstance(parameters, MigratedBack)
        removes = parameters.to == "broker-controller"
        if removes and not members.migrates:
            raise Unplannable(f"{self.name} to {parameters.to}: the controllers are gone already")
        chosen = _chosen(self.name, parameters.to, members, target, controllers=removes)
        if removes:
            if len(chosen) < len(members.quorum):
                raise Unplannable(
                    f"{self.name} to {parameters.to} is for all controllers: `quorum`"
                )
            wait, within_ms = parameters.wait, parameters.within_ms
            removal = ControllersRemoval(tuple(chosen), wait, within_ms, parameters.raise_epoch)
            return Plan(effects=(removal,))
        stage = Stage.RETURNING if parameters.to == "migration-mode" else Stage.BEFORE
        return Plan(effects=tuple(rolls_of(list(reversed(chosen)), stage, parameters)))

    def bitten(self, injection: Injection) -> Sequence[Look]:
        if intended(injection, ControllersRemoval):
            return self.healed(injection)
        stages = {one.stage for one in intended(injection, Roll)}
        brokers = targeted(injection, injection.cluster.members.brokers)
        reached = (
            _registered_with(injection, brokers, kraft=False)
            if Stage.RETURNING in stages
            else _controlled_by_broker(injection)
        )
        return [changed(injection, _MODE), reached, *self.healed(injection)]

    def healed(self, injection: Injection) -> Sequence[Look]:
        if intended(injection, ControllersRemoval):
            return [_stopped(injection), _without_traces(injection)]
        return RollingChange.healed(self, injection)


def _chosen(
    fault: str, to: str, members: Members, target: Target, *, controllers: bool
) -> Sequence[str]:
    """Return the targets of a step, which is for controllers or for brokers, in their order. Raise
    Unplannable for others."""
    fit, kind, right = (
        (members.quorum, "controllers", "quorum")
        if controllers
        else (members.brokers, "brokers", "all")
    )
    if others := [name for name in target.servers if name not in fit]:
        does = "stops" if to == "broker-controller" else "restarts"
        raise Unplannable(
            f"{fault} to {to} {does} {kind}, not {', '.join(others)}: aim at {kind}, such as "
            f"`{right}`"
        )
    return [name for name in fit if name in target.servers]


# --- observations ---------------------------------------------------------------------------------

_MODE = "mode in its log"
_CLUSTER = ("cluster",)


def _dual_write(injection: Injection) -> Look:
    """Return a look at whether the controllers have taken over, and write to ZooKeeper, too.

    It shows nothing while a broker is not in migration mode.
    """
    cluster = injection.cluster
    brokers = (*cluster.members.brokers, *cluster.members.added)
    why_not = _waits(migration_of(cluster), brokers, Stage.BEFORE)
    return lambda: observe("dual-write", _CLUSTER, lambda _: taken_over(cluster), why_not)


def _registered_with(injection: Injection, brokers: Sequence[str], *, kraft: bool) -> Look:
    """Return a look at whether brokers have registered with the controllers as brokers of KRaft, or
    as brokers that have ZooKeeper."""
    migration = migration_of(injection.cluster)

    def seen(broker: str) -> Seen:
        try:
            registered = migration.in_kraft_mode()
        except ViewUnavailable as silence:
            return False, str(silence)
        there = injection.cluster.server(broker).id in registered
        return there is kraft, "KRaft" if there else "ZooKeeper"

    return lambda: observe(
        "registered as a broker of",
        brokers,
        seen,
        lambda broker: proofs.of_process(injection, broker),
    )


def _finalized(injection: Injection) -> Look:
    """Return a look at whether the controllers have left ZooKeeper.

    It shows nothing while a controller is in migration mode.
    """
    migration = migration_of(injection.cluster)

    def seen(_cluster: str) -> Seen:
        try:
            state = migration.state()
        except ViewUnavailable as silence:
            return False, str(silence)
        return state is MigrationState.POST_MIGRATION, state

    quorum = injection.cluster.members.quorum
    return lambda: observe("migration", _CLUSTER, seen, _waits(migration, quorum, Stage.MIGRATING))


def _waits(
    migration: Migration, servers: Sequence[str], stage: Stage
) -> Callable[[str], str | None]:
    """Return a function that says which servers the migration waits for: those that still are in
    this stage."""

    def why_not(_cluster: str) -> str | None:
        left = [name for name in servers if migration.stage(name) is stage]
        return f"it waits for {few(left)}" if left else None

    return why_not


def _stopped(injection: Injection) -> Look:
    """Return a look at whether the controllers have ended."""
    ended = proofs.in_state(injection.cluster, "exited")
    return lambda: observe("stopped", injection.target.servers, ended, lambda _: None)


def _without_traces(injection: Injection) -> Look:
    """Return a look at whether a broker is controller, and nothing of KRaft's controllers is left
    in ZooKeeper."""

    def seen(_cluster: str) -> Seen:
        cluster = injection.cluster
        try:
            found = migration_of(cluster).traces()
        except ViewUnavailable as silence:
            return False, str(silence)
        named = _named(cluster, found.controller)
        left = "/migration" if found.migration is not None else "no /migration"
        there = f"/controller names {named or 'no server'}, and there is {left}"
        epochs = (
            f"/controller_epoch {found.epoch}, newest epoch of a partition {found.newest_epoch}"
        )
        done = named in cluster.members.brokers and found.migration is None
        return done, f"{there}; {epochs}"

    return lambda: observe("in ZooKeeper", _CLUSTER, seen, lambda _: None)


def _controlled_by_broker(injection: Injection) -> Look:
    """Return a look at whether a broker is controller by ZooKeeper."""

    def seen(_cluster: str) -> Seen:
        cluster = injection.cluster
        try:
            named = _named(cluster, migration_of(cluster).controller_in_zookeeper())
        except ViewUnavailable as silence:
            return False, str(silence)
        return named in cluster.members.brokers, f"/controller names {named or 'no server'}"

    return lambda: observe("controller", _CLUSTER, seen, lambda _: None)


def _named(cluster: Cluster, number: int | None) -> str | None:
    return None if number is None else cluster.members.by_id.get(number, str(number))


MIGRATE = MigrationRoll(
    name="migrate",
    summary="migrate servers from ZooKeeper to KRaft; one by one, a step at a time, and they keep "
    "it",
    parameters=Migrated,
)
MIGRATE_BACK = MigrationReturn(
    name="migrate-back",
    summary="take servers back from KRaft to ZooKeeper; a step at a time, brokers one by one, and "
    "they keep it",
    parameters=MigratedBack,
)
MIGRATION: Sequence[MigrationRoll | MigrationReturn] = (MIGRATE, MIGRATE_BACK)
