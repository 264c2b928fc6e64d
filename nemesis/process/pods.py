"""Faults on the Kubernetes nodes of brokers: a node is drained, or its brokers vanish with it.

They strike all brokers of the cluster on the nodes of the target, and no other pods there. The
nodes themselves are not touched, but for a mark that they take no new pods.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from pydantic import Field

from ackproof.infra.api.interface import (
    Capability,
    ClusterView,
    PodPlace,
    PodRefusal,
    PodView,
    Timings,
)
from ackproof.nemesis.effects import (
    LINK,
    PROCESS,
    EffectNotBegun,
    EndsNothing,
    OnServer,
    ProcessKill,
    Terminate,
)
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
)
from ackproof.nemesis.process import observations
from ackproof.nemesis.proofs import (
    Seen,
    expiry_ms,
    held,
    intended,
    observe,
    of_brokers,
    of_process,
    sessions_before,
    struck,
    takes_the_quorum,
    unless,
)

# --- effects --------------------------------------------------------------------------------------

KUBERNETES_NODE = "kubernetes-node"
_DOWN = "was already down"


def pod_of(cluster: Cluster, server: str) -> PodView:
    """Return the pod of a server. Raise EffectNotBegun if it has none."""
    distant = cluster.server(server).distant
    if distant is None or distant.pod is None:
        raise EffectNotBegun(f"{server} is in no pod of Kubernetes")
    return distant.pod


@dataclass(frozen=True, slots=True)
class Cordon:
    """A mark of a node that it takes no new pods. ``server`` is a broker that was on the node."""

    node: str
    server: str = field(compare=False)
    ends: ClassVar[None] = None

    @property
    def resource(self) -> Resource:
        return Resource(KUBERNETES_NODE, (self.node,))

    def apply(self, cluster: Cluster) -> bool:
        """Cordon the node. Raise EffectNotBegun if something else has done so, or it is refused."""
        try:
            return pod_of(cluster, self.server).cordon(self.node)
        except PodRefusal as refusal:
            raise EffectNotBegun(str(refusal)) from refusal

    def undo(self, cluster: Cluster) -> None:
        pod_of(cluster, self.server).uncordon(self.node)

    def __str__(self) -> str:
        return f"cordon {self.node}"


@dataclass(frozen=True, slots=True)
class Eviction(OnServer):
    """The graceful end of a broker's pod, without waiting for it. Its owner makes another pod,
    which nothing can hasten: nothing is undone.

    Attributes:
        uid: The identity of the pod.
        budgets: Whether PodDisruptionBudgets are respected.
        within_ms: How long a refused eviction is repeated, in milliseconds.
    """

    uid: str
    budgets: bool
    within_ms: int
    kind: ClassVar[str] = PROCESS

    def apply(self, cluster: Cluster) -> bool:
        """Evict the pod. Return False if it was gone before. Raise EffectNotBegun with the refusal,
        which names the disruption budget."""
        pod = pod_of(cluster, self.server)
        try:
            return pod.evict(self.uid, self.within_ms / 1000, budgets=self.budgets)
        except PodRefusal as refusal:
            raise EffectNotBegun(str(refusal)) from refusal

    def undo(self, cluster: Cluster) -> None: ...

    def __str__(self) -> str:
        return f"{'evict' if self.budgets else 'delete'} the pod of {self.server}"


@dataclass(frozen=True, slots=True)
class Silence(EndsNothing, OnServer):
    """The loss of all packets from and to a broker's pod."""

    kind: ClassVar[str] = LINK

    def apply(self, cluster: Cluster) -> bool:
        pod_of(cluster, self.server).silence()
        return True

    def undo(self, cluster: Cluster) -> None:
        pod_of(cluster, self.server).unsilence()

    def __str__(self) -> str:
        return f"silence {self.server}"


@dataclass(frozen=True, slots=True)
class Disappearance(ProcessKill):
    """The end of a broker whose packets are all lost. The kubelet leaves a second to a container
    that is killed, in which a broker could say goodbye, and its kernel closes connections."""

    def apply(self, cluster: Cluster) -> bool:
        """Kill the broker. Raise EffectNotBegun if it can still be reached."""
        if not pod_of(cluster, self.server).is_silent():
            raise EffectNotBegun(f"{self.server} is still reached, though its packets are dropped")
        return ProcessKill.apply(self, cluster)

    def __str__(self) -> str:
        return f"kill {self.server} unheard"


# --- storage --------------------------------------------------------------------------------------


def lost_with_pods(plan: Plan, cluster: Cluster) -> Mapping[str, str]:
    """Return the storage of log directories that is lost with the pods that a plan ends, in words,
    by broker."""
    found = {}
    for name in _of_ended_pods(plan):
        view = cluster.server(name).distant
        if view is not None and view.pod is not None and view.pod.lost_storage is not None:
            found[name] = view.pod.lost_storage
    return found


def with_lost_storage(plan: Plan, cluster: Cluster) -> Plan:
    """Return a plan that says that disks are lost if they are lost with every pod that it ends. A
    loss that only some brokers have is not declared: it would excuse what the others lose."""
    lost = lost_with_pods(plan, cluster)
    return replace(plan, destroys="all") if lost and lost.keys() == _of_ended_pods(plan) else plan


def _of_ended_pods(plan: Plan) -> set[str]:
    return {
        one.server for one in plan.effects if isinstance(one, ProcessKill | Terminate | Eviction)
    }


# --- observations ---------------------------------------------------------------------------------


def _of_pods(
    injection: Injection,
    claim: str,
    kind: type[Effect],
    seen: Callable[[str, PodPlace | None], Seen],
) -> Look:
    """Return a look at the present pods of the servers on which the fault had an effect of that
    kind."""

    def of_one(server: str) -> Seen:
        return seen(server, pod_of(injection.cluster, server).place())

    def look() -> Observation:
        done, planned = struck(injection, kind)
        return observe(claim, planned, of_one, unless(done, _DOWN))

    return look


def _evicted(injection: Injection) -> Look:
    """Return a look at whether the pods are gone, and none has come to the same node."""

    def seen(server: str, now: PodPlace | None) -> Seen:
        before = injection.target.pods[server]
        if now is None:
            return True, "no pod"
        if now.uid == before.uid:
            return False, "ends" if now.ends else f"is still on {now.node}"
        word = "waits for a node" if now.node is None else f"on {now.node}"
        return now.node != before.node, word

    return _of_pods(injection, "pod replaced", Eviction, seen)


def _told_to_end(injection: Injection) -> Look:
    def seen(server: str, now: PodPlace | None) -> Seen:
        ends = now is None or now.ends or now.uid != injection.target.pods[server].uid
        return ends, "ends" if ends else "is not deleted"

    return _of_pods(injection, "pod deleted", Disappearance, seen)


def _ready(injection: Injection) -> Look:
    """Return a look at whether the pods of the target have a node and are ready."""

    def seen(server: str) -> Seen:
        now = pod_of(injection.cluster, server).place()
        there = now is not None and now.node is not None
        word = f"on {now.node}" if there and now is not None else "on no node"
        return there and now is not None and now.ready and not now.ends, word

    return lambda: observe(
        "pod ready", injection.target.servers, seen, lambda server: of_process(injection, server)
    )


def _cordoned(injection: Injection, *, wanted: bool) -> Look:
    """Return a look at whether the nodes take no new pods, or do so again."""
    planned = {effect.node: effect for effect in intended(injection, Cordon)}

    def seen(node: str) -> Seen:
        cordoned = pod_of(injection.cluster, planned[node].server).is_cordoned(node)
        return cordoned is wanted, "cordoned" if cordoned else "takes pods"

    def why_not(node: str) -> str | None:
        if not wanted:
            return held(injection, planned[node].resource)
        return (
            None if planned[node] in injection.done() else "was already cordoned by another fault"
        )

    return lambda: observe("cordoned" if wanted else "takes pods", planned, seen, why_not)


def _another_registration(injection: Injection) -> Look:
    """Return a look at whether the brokers hold no registration, or another than before."""
    before = sessions_before(injection)

    def seen(view: ClusterView, broker: int) -> Seen:
        holder = view.brokers.get(broker)
        ended = holder is None or hex(holder) != before.get(broker)
        return ended, "none" if holder is None else "another" if ended else "the same"

    done, planned = struck(injection, Eviction)
    brokers = [name for name in planned if name in done]
    return of_brokers(injection, "registration ended", brokers, seen)


def _without_goodbye(injection: Injection) -> Look:
    """Return a look at whether the controllers fenced the brokers because they heard nothing of
    them, by the metadata log. A broker that shuts down asks to be fenced."""
    before = sessions_before(injection)

    def seen(_view: ClusterView, broker: int) -> Seen:
        unasked = set(map(hex, injection.cluster.system.expired_sessions()))
        silent = before.get(broker) in unasked
        return silent, "by its silence" if silent else "not for its silence"

    done, planned = struck(injection, Disappearance)
    brokers = [name for name in planned if name in done]
    return of_brokers(injection, "fenced without a goodbye", brokers, seen)


# --- faults ---------------------------------------------------------------------------------------


class Drained(Parameters):
    """The parameters of a drain."""

    by: Literal["eviction", "deletion"] = Field(
        default="eviction",
        description="`eviction` respects PodDisruptionBudgets, `deletion` does not, as `kubectl "
        "drain --disable-eviction`",
    )
    within_ms: int = Field(
        default=60_000,
        ge=1,
        description="how long an eviction that a PodDisruptionBudget refuses is repeated",
    )


@dataclass(frozen=True, slots=True)
class Drain:
    """A fault that cordons the nodes of brokers and evicts the brokers, as ``kubectl drain`` does
    before maintenance of a node.

    A broker moves to another node, or waits for one until the node is uncordoned at the end. It is
    proven by its pod, which is another, and its registration, which has ended.
    """

    name: ClassVar[str] = "drain"
    summary: ClassVar[str] = (
        "cordon Kubernetes nodes and evict all brokers there; uncordon them at the end"
    )
    aim: ClassVar[Aim] = Aim.KUBERNETES_NODES
    parameters: ClassVar[type[Parameters]] = Drained
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.MOVE_PODS})
    destroys: ClassVar[None] = None

    def plan(
        self,
        members: Members,  # noqa: ARG002
        target: Target,
        parameters: Parameters,
        rng: random.Random,  # noqa: ARG002
    ) -> Plan:
        assert isinstance(parameters, Drained)
        places = {server: _place(target, server) for server in target.servers}
        cordons = {str(place.node): server for server, place in reversed(places.items())}
        budgets, within_ms = parameters.by == "eviction", parameters.within_ms
        return Plan(
            effects=(
                *(Cordon(node, server) for node, server in sorted(cordons.items())),
                *(Eviction(one, places[one].uid, budgets, within_ms) for one in places),
            )
        )

    def bitten(self, injection: Injection) -> Sequence[Look]:
        looks = [_evicted(injection), _cordoned(injection, wanted=True)]
        if injection.cluster.members.zookeepers:  # clients do not learn of registrations
            looks.append(_another_registration(injection))
        return looks

    def healed(self, injection: Injection) -> Sequence[Look]:
        return [
            _cordoned(injection, wanted=False),
            _ready(injection),
            *observations.looks_at_external_recovery(injection),
        ]

    def hold_ms_min(self, timings: Timings) -> int:
        return expiry_ms(timings)


@dataclass(frozen=True, slots=True)
class NodeFailure:
    """A fault by which the cluster sees of brokers what it sees of those of a dead node.

    The agents in the pods drop all packets. Then the pods are deleted without grace and kept down,
    as those of a StatefulSet are while their node does not answer. At the end they come back,
    wherever the scheduler puts them.
    """

    name: ClassVar[str] = "node-failure"
    summary: ClassVar[str] = (
        "silence and kill all brokers on Kubernetes nodes; no goodbye is heard, as of dead nodes, "
        "which themselves go on; the brokers come back at the end"
    )
    aim: ClassVar[Aim] = Aim.KUBERNETES_NODES
    parameters: ClassVar[type[Parameters]] = Parameters
    needs: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.SIGNALS, Capability.CUT_LINKS, Capability.MOVE_PODS}
    )
    destroys: ClassVar[None] = None

    def plan(
        self,
        members: Members,  # noqa: ARG002
        target: Target,
        parameters: Parameters,  # noqa: ARG002
        rng: random.Random,  # noqa: ARG002
    ) -> Plan:
        return Plan(
            effects=(*map(Silence, target.servers), *map(Disappearance, target.servers)),
        )

    def bitten(self, injection: Injection) -> Sequence[Look]:
        in_full = injection.hold_ms >= self.hold_ms_min(injection.cluster.system)
        looks = [*observations.looks_at_external_fault(injection, in_full=in_full)]
        looks.append(_told_to_end(injection))
        if in_full and injection.cluster.members.kraft and not takes_the_quorum(injection):
            looks.append(_without_goodbye(injection))
        return looks

    def healed(self, injection: Injection) -> Sequence[Look]:
        return [_ready(injection), *observations.looks_at_external_recovery(injection)]

    def hold_ms_min(self, timings: Timings) -> int:
        return expiry_ms(timings)


def _place(target: Target, server: str) -> PodPlace:
    """Return where a broker of the target is. A plan without a cluster does not know."""
    return target.pods.get(server, PodPlace(uid="", node=f"the node of {server}"))


DRAIN, NODE_FAILURE = Drain(), NodeFailure()
ON_KUBERNETES = (DRAIN, NODE_FAILURE)


def drain_limit_ms(parameters: Drained, servers: int) -> int:
    """Return how long the evictions of a drain may be refused at most, in milliseconds."""
    return servers * parameters.within_ms
