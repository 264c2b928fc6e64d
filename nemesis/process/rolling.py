"""Faults that change servers one by one: a rolling upgrade to another release and its way back.

Each server is stopped gracefully, its programs are exchanged, and it is started. The next one
follows when it is back. A roll is no outage: the cluster must keep what it acknowledged, and serve.

Nothing is undone at the end of such a fault. The servers keep what they have got.
"""

import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from ackproof.infra.api.capabilities import Stage, Upgrade, UpgradeRefused
from ackproof.infra.api.interface import (
    Capability,
    ClusterView,
    PartitionView,
    Process,
    ProcessState,
    Server,
    Timings,
    ViewUnavailable,
)
from ackproof.nemesis import proofs
from ackproof.nemesis.effects import EffectNotBegun, OnServer, Passing, kill
from ackproof.nemesis.interface import (
    Aim,
    Cluster,
    Effect,
    Injection,
    Look,
    Members,
    Observation,
    Parameters,
    Plan,
    Resource,
    Target,
    Unplannable,
)
from ackproof.nemesis.proofs import Seen, observe, struck, targeted, unless

# --- effects --------------------------------------------------------------------------------------

RELEASE = "release"
POLL_S = 0.2
_A_SERVER_MS = 15_000
"""The time that a server with little data takes from its stop to its return, on two cores."""
_FINAL = Resource(RELEASE, ("metadata.version",))
_NAMED = 3
"""The number of partitions that a message names."""


def change_of(cluster: Cluster) -> Upgrade:
    """Return the change that the cluster's servers can make. Raise EffectNotBegun without one."""
    if (change := cluster.system.upgrade) is None:
        raise EffectNotBegun(f"{cluster.system.name} has one release only")
    return change


@dataclass(frozen=True, slots=True)
class Roll(OnServer, Passing):
    """The change of one server to a stage, from its stop to its return.

    Attributes:
        stage: The stage that it has afterwards.
        wait: ``isr``: stop the server only while it and all its partitions are in sync, and wait
            until that is so again. ``none``: do not wait, except for the end of the old process.
        within_ms: How long each of the waits may take, in milliseconds.
        pause_ms: How long it waits before it stops the server, in milliseconds.
    """

    stage: Stage
    wait: Literal["isr", "none"]
    within_ms: int
    pause_ms: int = 0
    kind: ClassVar[str] = RELEASE

    def apply(self, cluster: Cluster) -> bool:
        """Change the server. Return False if it has that stage already.

        Raise EffectNotBegun if it was left as it was: it is down or paused by another fault, or out
        of sync, or the cluster is not where it can be changed. Raise RuntimeError or TimeoutError
        if it did not stop in time, or did not come back.
        """
        change, server = change_of(cluster), cluster.server(self.server)
        if change.stage(self.server) in _REACHED[self.stage]:
            return False
        time.sleep(self.pause_ms / 1000)
        self._await_sound(cluster, server)
        if (why := change.obstacle(self.server, self.stage)) is not None:
            raise EffectNotBegun(why)
        epoch = _epoch(cluster, server)
        change.unfinished.add(self.server)
        self._stop(server.process)
        change.install(self.server, self.stage)
        process = server.start()
        if self.wait == "isr":
            self._await_back(cluster, server, process, epoch)
        change.unfinished.discard(self.server)
        return True

    def undo(self, cluster: Cluster) -> None:
        """Start a server that did not come back. It keeps the release that it has got."""
        change, server = change_of(cluster), cluster.server(self.server)
        if self.server in change.unfinished and server.process.state() is ProcessState.EXITED:
            server.start()
        change.unfinished.discard(self.server)

    def _await_sound(self, cluster: Cluster, server: Server) -> None:
        def lacks() -> str | None:
            if (state := server.process.state()) is not ProcessState.RUNNING:
                return f"it is {state.value} by another fault"
            return None if self.wait == "none" else lacks_sync(cluster, server)

        if (why := first_none(lacks, self.within_ms)) is not None:
            raise EffectNotBegun(f"the roll ends before {self.server}, which still runs: {why}")

    def _stop(self, process: Process) -> None:
        with suppress(ProcessLookupError):
            process.signal(signal.SIGTERM)
        try:
            process.wait(self.within_ms / 1000)
        except TimeoutError:
            kill(process)
            within_s = self.within_ms / 1000
            raise TimeoutError(
                f"{self.server} did not end within {within_s:g} s of SIGTERM, and was killed"
            ) from None

    def _await_back(
        self, cluster: Cluster, server: Server, process: Process, epoch: int | None
    ) -> None:
        def lacks() -> str | None:
            if process.state() is ProcessState.EXITED:
                return None
            return _lacks_itself(cluster, server, epoch)

        why = first_none(lacks, self.within_ms)
        version = change_of(cluster).versions[self.stage]
        if process.state() is ProcessState.EXITED:
            status = process.exit_code()
            raise RuntimeError(f"{self.server} ended with status {status}, started as {version}")
        if why is not None:
            within_s = self.within_ms / 1000
            raise TimeoutError(
                f"{self.server} is not back within {within_s:g} s, started as {version}: {why}"
            )

    def __str__(self) -> str:
        return f"change {self.server} to {_WORDS[self.stage]}"


def first_none(lacks: Callable[[], str | None], within_ms: int) -> str | None:
    """Return None as soon as nothing is lacking, or what was lacking when the time was up."""
    end = time.monotonic() + within_ms / 1000
    while True:
        try:
            why = lacks()
        except ViewUnavailable as silence:
            why = str(silence)
        if why is None or time.monotonic() >= end:
            return why
        time.sleep(POLL_S)


_REACHED = {
    Stage.BEFORE: (Stage.BEFORE,),
    Stage.AFTER: (Stage.AFTER, Stage.FINAL),
    Stage.FINAL: (Stage.FINAL,),
    Stage.MIGRATING: (Stage.MIGRATING, Stage.KRAFT),
    Stage.KRAFT: (Stage.KRAFT,),
    Stage.RETURNING: (Stage.RETURNING, Stage.MIGRATING, Stage.BEFORE),
}
_WORDS = {
    Stage.BEFORE: "the release or mode of its deployment",
    Stage.AFTER: "the newer release",
    Stage.FINAL: "the protocol of the newer release",
    Stage.MIGRATING: "migration mode",
    Stage.KRAFT: "KRaft",
    Stage.RETURNING: "migration mode, with ZooKeeper again",
}


def _epoch(cluster: Cluster, server: Server) -> int | None:
    """Return the session or epoch of a broker's registration; None without one."""
    if server.name not in _brokers(cluster):
        return None
    with suppress(ViewUnavailable):
        return cluster.system.view().brokers.get(server.id)
    return None


def _brokers(cluster: Cluster) -> Sequence[str]:
    return [one.name for one in (*cluster.system.brokers, *cluster.system.added.there)]


def lacks_sync(cluster: Cluster, server: Server) -> str | None:
    """Return what makes it unsafe to stop a server, or None. Raise ViewUnavailable."""
    keepers = cluster.members.zookeepers
    if server.name in keepers and (out := _not_serving(cluster, keepers)):
        return f"{', '.join(out)} is not in the quorum"
    if server.name not in _brokers(cluster):
        return None
    view = cluster.system.view()
    out = [
        f"{one.topic}-{one.partition}"
        for one in _hosted(view, server)
        if not set(one.replicas) <= set(one.isr)
    ]
    return f"the ISR of {few(out)} is not full" if out else None


def _lacks_itself(cluster: Cluster, server: Server, epoch: int | None) -> str | None:
    """Return what a server lacks to be back, other than by its former registration ``epoch``; None
    if it lacks nothing. Raise ViewUnavailable."""
    keepers = cluster.members.zookeepers
    if server.name in keepers and _not_serving(cluster, [server.name]):
        return "it is not in the quorum"
    if server.name not in _brokers(cluster):
        return None
    view = cluster.system.view()
    if view.brokers.get(server.id) in (None, epoch):
        return "it is not registered"
    out = [
        f"{one.topic}-{one.partition}" for one in _hosted(view, server) if server.id not in one.isr
    ]
    return f"it is not in the ISR of {few(out)}" if out else None


def _not_serving(cluster: Cluster, keepers: Sequence[str]) -> Sequence[str]:
    modes = cluster.system.ensemble.modes()
    return [name for name in keepers if name not in modes]


def _hosted(view: ClusterView, server: Server) -> Sequence[PartitionView]:
    return [one for _, one in sorted(view.partitions.items()) if server.id in one.replicas]


def few(names: Sequence[str]) -> str:
    """Return the first of several names, and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


@dataclass(frozen=True, slots=True)
class Finalize(Passing):
    """The end of an upgrade with KRaft, from which there is no way back: ``metadata.version`` is
    raised to the newest level."""

    within_ms: int
    ends: ClassVar[None] = None

    @property
    def resource(self) -> Resource:
        return _FINAL

    def apply(self, cluster: Cluster) -> bool:
        """Finalize the upgrade.

        Raise EffectNotBegun if a server has the older release, or if the cluster refuses it, and
        TimeoutError if no broker answers in time.
        """
        change = change_of(cluster)
        servers = (*cluster.members.servers, *cluster.members.added)
        older = [name for name in servers if change.stage(name) is Stage.BEFORE]
        if older:
            raise EffectNotBegun(
                f"the upgrade cannot be finalized: {', '.join(older)} still has the older release"
            )
        try:
            change.finalize(self.within_ms / 1000)
        except UpgradeRefused as reason:
            raise EffectNotBegun(f"the cluster does not finalize the upgrade: {reason}") from reason
        return True

    def undo(self, cluster: Cluster) -> None: ...

    def __str__(self) -> str:
        return "finalize the upgrade"


# --- faults ---------------------------------------------------------------------------------------


class Rolled(Parameters):
    """The parameters of a roll."""

    waits: ClassVar[int] = 0
    """The number of waits for the cluster, beside those for servers."""
    wait: Literal["isr", "none"] = Field(
        default="isr",
        description="`isr`: stop a server only while its partitions have a full ISR, and go on "
        "when it is registered and in every ISR again. `none`: go on at once, an impatient roll",
    )
    pause_ms: int = Field(
        default=0, ge=0, description="time between two servers, in which the cluster is mixed"
    )
    within_ms: int = Field(
        default=120_000,
        ge=1,
        description="the longest wait before, for and after the stop of a server",
    )


class Upgraded(Rolled):
    """The parameters of an upgrade."""

    finalize: bool = Field(
        default=False,
        description="finalize the upgrade when all servers have the newer release: "
        "`metadata.version` with KRaft, and with ZooKeeper a second roll without the former "
        "`inter.broker.protocol.version`. There is no way back",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingChange:
    """A fault that changes its target servers one by one, from their stop to their return."""

    name: str
    summary: str
    parameters: type[Rolled]
    aim: ClassVar[Aim] = Aim.SERVERS
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.SIGNALS})
    destroys: ClassVar[None] = None

    def healed(self, injection: Injection) -> Sequence[Look]:
        members = injection.cluster.members
        done, _ = struck(injection, Roll)
        brokers = targeted(injection, members.brokers)
        return [
            proofs.running(injection, injection.target.servers),
            proofs.serving(injection, targeted(injection, members.zookeepers)),
            proofs.registered(injection, brokers, renewed=[one for one in brokers if one in done]),
        ]

    def hold_ms_min(self, timings: Timings) -> int:  # noqa: ARG002
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRoll(RollingChange):
    """The change of servers to another release.

    It is proven by the version that each server writes into its log when it starts, and an upgrade
    that it finalizes by the level that each broker reports.

    Attributes:
        stage: The stage that the servers have afterwards.
    """

    stage: Stage

    def plan(
        self,
        members: Members,
        target: Target,
        parameters: Parameters,
        rng: random.Random,  # noqa: ARG002
    ) -> Plan:
        assert isinstance(parameters, Rolled)
        keepers = [name for name in members.zookeepers if name in target.servers]
        if keepers and not members.kraft:
            raise Unplannable(
                f"{self.name} is for Kafka's servers, not for {', '.join(keepers)}: ZooKeeper "
                "keeps its version; aim at brokers, such as `all`"
            )
        brokers = [name for name in members.brokers if name in target.servers]
        servers = tuple(dict.fromkeys((*keepers, *brokers)))
        if self.stage is Stage.BEFORE:
            servers = tuple(reversed(servers))
        rolls = list(rolls_of(servers, self.stage, parameters))
        if isinstance(parameters, Upgraded) and parameters.finalize:
            if members.kraft:
                return Plan(effects=(*rolls, Finalize(parameters.within_ms)))
            rolls += rolls_of(servers, Stage.FINAL, parameters)
        return Plan(effects=tuple(rolls))

    def bitten(self, injection: Injection) -> Sequence[Look]:
        finalizes = any(map(_finalizes, injection.plan.effects))
        return [
            *([_final(injection)] if finalizes else []),
            changed(injection, "version in its log"),
            *self.healed(injection),
        ]


def roll_expected_ms(parameters: Rolled, servers: int) -> int:
    """Return how long a roll of so many servers is expected to take, in milliseconds."""
    return servers * (parameters.pause_ms + _A_SERVER_MS)


def roll_limit_ms(parameters: Rolled, servers: int) -> int:
    """Return how long a roll of so many servers may take at most, in milliseconds."""
    rolls = 2 if isinstance(parameters, Upgraded) and parameters.finalize else 1
    waits_ms = parameters.waits * parameters.within_ms
    return rolls * servers * (parameters.pause_ms + 3 * parameters.within_ms) + waits_ms


def rolls_of(servers: Sequence[str], stage: Stage, parameters: Rolled) -> Sequence[Roll]:
    """Return the changes of servers to a stage, in their order."""
    wait, within_ms = parameters.wait, parameters.within_ms
    pauses = [0, *[parameters.pause_ms] * (len(servers) - 1)]
    return [
        Roll(name, stage, wait, within_ms, pause)
        for name, pause in zip(servers, pauses, strict=False)
    ]


def _finalizes(effect: Effect) -> bool:
    return isinstance(effect, Finalize) or (
        isinstance(effect, Roll) and effect.stage is Stage.FINAL
    )


def changed(injection: Injection, claim: str) -> Look:
    """Return a look at the version, or mode, that each server has logged since its change."""
    change = change_of(injection.cluster)
    stages = {one.server: one.stage for one in proofs.intended(injection, Roll)}

    def seen(server: str) -> Seen:
        version = change.reported(server)
        right = version == change.versions[stages[server]]
        return right, f"{change.was(server) or 'unknown'} -> {version or 'not reported yet'}"

    def look() -> Observation:
        done, _ = struck(injection, Roll)
        return observe(claim, tuple(stages), seen, unless(done, "had it already"))

    return look


def _final(injection: Injection) -> Look:
    """Return a look at the level of features that each broker reports."""
    change = change_of(injection.cluster)

    def look() -> Observation:
        done = any(map(_finalizes, injection.done()))

        def why_not(broker: str) -> str | None:
            return proofs.of_process(injection, broker) if done else "was final already"

        return observe("finalized", injection.cluster.members.brokers, change.finality, why_not)

    return look


UPGRADE = ReleaseRoll(
    name="upgrade",
    summary="change servers to the newer release; one by one, controllers first, and they keep it",
    stage=Stage.AFTER,
    parameters=Upgraded,
)
DOWNGRADE = ReleaseRoll(
    name="downgrade",
    summary="change servers back to the older release; one by one, brokers first, and they keep it",
    stage=Stage.BEFORE,
    parameters=Rolled,
)
UPGRADES: Sequence[ReleaseRoll] = (UPGRADE, DOWNGRADE)
