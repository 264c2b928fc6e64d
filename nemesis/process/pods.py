"""Faults on the pods of brokers and their Kubernetes nodes: a node is drained, or its brokers
vanish with it, or Strimzi's operator rolls brokers.

Those on nodes strike all brokers of the cluster on the nodes of the target, and no other pods
there. The nodes themselves are not touched, but for a mark that they take no new pods.
"""

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    Passing,
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


@dataclass(frozen=True, slots=True)
class RollOrder(OnServer):
    """The order to Strimzi's operator to replace a broker's pod, which it does later. ``uid`` is
    the identity of the pod."""

    uid: str
    kind: ClassVar[str] = PROCESS

    def apply(self, cluster: Cluster) -> bool:
        """Annotate the pod. Return False if it was replaced before. Raise EffectNotBegun if the
        cluster refuses, or the pod has the annotation already."""
        try:
            return pod_of(cluster, self.server).order_roll(self.uid)
        except PodRefusal as refusal:
            raise EffectNotBegun(str(refusal)) from refusal

    def undo(self, cluster: Cluster) -> None:
        pod_of(cluster, self.server).withdraw_roll(self.uid)

    def __str__(self) -> str:
        return f"order the roll of {self.server}"


@dataclass(frozen=True, slots=True)
class RollByOperator(Passing):
    """The wait until Strimzi's operator has replaced the pods that it was told to, one after
    another. Who waits for the ISR is the operator.

    Attributes:
        uids: The identity of each server's pod when the roll was ordered.
        within_ms: How long the operator may take for each pod, in milliseconds.
    """

    uids: tuple[tuple[str, str], ...]
    within_ms: int
    ends: ClassVar[None] = None

    @property
    def resource(self) -> Resource:
        return Resource("roll", tuple(server for server, _ in self.uids))

    def apply(self, cluster: Cluster) -> bool:
        """Wait. Raise TimeoutError if the operator does not begin, or does not bring a pod back, in
        time, and RuntimeError if it takes down a pod before the former one is ready again."""
        left = dict(self.uids)
        end = time.monotonic() + self.within_ms / 1000
        while left:
            places = {server: pod_of(cluster, server).place() for server in left}
            back = [server for server, now in places.items() if _is_back(now, left[server])]
            down = [name for name, now in places.items() if _is_down(now, left[name])]
            if len(down) > 1:
                raise RuntimeError(f"the operator took down {' and '.join(down)} at once")
            if back:
                end = time.monotonic() + self.within_ms / 1000
            elif time.monotonic() >= end:
                raise TimeoutError(self._lateness(down, left))
            for server in back:
                del left[server]
            time.sleep(_POLL_S)
        return True

    def undo(self, cluster: Cluster) -> None: ...

    def _lateness(self, down: Sequence[str], left: Iterable[str]) -> str:
        within_s = self.within_ms / 1000
        if down:
            return f"the operator has not brought {down[0]} back within {within_s:g} s"
        return (
            f"the operator has not rolled {', '.join(left)} within {within_s:g} s: it may be "
            "paused (strimzi.io/pause-reconciliation), or wait for the ISR"
        )

    def __str__(self) -> str:
        return "wait for the operator"


_POLL_S = 0.5


def _is_back(now: PodPlace | None, former: str) -> bool:
    return now is not None and now.uid != former and now.ready and not now.ends


def _is_down(now: PodPlace | None, former: str) -> bool:
    """Return whether the operator has taken a pod down. Ackproof holds down those of its faults."""
    if now is None:
        return True
    return not now.held and (now.ends or (now.uid != former and not now.ready))


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
        one.server
        for one in plan.effects
        if isinstance(one, ProcessKill | Terminate | Eviction | RollOrder)
    }


# --- observations ---------------------------------------------------------------------------------


def _replaced(injection: Injection) -> Look:
    """Return a look at whether other pods have taken the places of those that were to be rolled."""

    def seen(server: str, now: PodPlace | None) -> Seen:
        came = now is not None and now.uid != injection.target.pods[server].uid and not now.ends
        return came, f"on {now.node}" if came and now is not None else "the former pod, or none"

    return _of_pods(injection, "pod replaced", RollOrder, seen)


def _restarted_by(injection: Injection) -> Look:
    """Return a look at what the operator says had the pods replaced. It decides nothing: without
    the right to read events, it says that."""

    def seen(server: str, _now: PodPlace | None) -> Seen:
        former = injection.target.pods[server]
        return True, pod_of(injection.cluster, server).restarter(former)

    return _of_pods(injection, "restarted by", RollOrder, seen)


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


def _another_registration(injection: Injection, kind: type[Effect]) -> Look:
    """Return a look at whether the brokers hold no registration, or another than before."""
    before = sessions_before(injection)

    def seen(view: ClusterView, broker: int) -> Seen:
        holder = view.brokers.get(broker)
        ended = holder is None or hex(holder) != before.get(broker)
        return ended, "none" if holder is None else "another" if ended else "the same"

    done, planned = struck(injection, kind)
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
            looks.append(_another_registration(injection, Eviction))
        return looks

    def healed(self, injection: Injection) -> Sequence[Look]:
        return [
            _cordoned(injection, wanted=False),
            _ready(injection),
            *observations.looks_at_external_recovery(injection),
        ]

    def hold_ms_min(self, timings: Timings) -> int:
        return expiry_ms(timings)


class OperatorRolled(Parameters):
    """The parameters of a roll by the operator."""

    within_ms: int = Field(
        default=300_000,
        ge=1,
        description="how long the operator may take until it begins, and for each pod. It looks "
        "for the order every two minutes by default",
    )


@dataclass(frozen=True, slots=True)
class OperatorRoll:
    """A fault by which Strimzi's operator restarts brokers: it waits itself until the ISR allows
    that, and takes one after another.

    It is proven by the pods, which are others, and by the registrations, which have ended.
    """

    name: ClassVar[str] = "operator-roll"
    summary: ClassVar[str] = (
        "let Strimzi's operator replace the pods of brokers; it takes one after another, and waits "
        "for the ISR itself"
    )
    aim: ClassVar[Aim] = Aim.PODS
    parameters: ClassVar[type[Parameters]] = OperatorRolled
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.MOVE_PODS})
    destroys: ClassVar[None] = None

    def plan(
        self,
        members: Members,  # noqa: ARG002
        target: Target,
        parameters: Parameters,
        rng: random.Random,  # noqa: ARG002
    ) -> Plan:
        assert isinstance(parameters, OperatorRolled)
        uids = tuple((server, _place(target, server).uid) for server in target.servers)
        orders = (RollOrder(server, uid) for server, uid in uids)
        return Plan(effects=(*orders, RollByOperator(uids, parameters.within_ms)))

    def bitten(self, injection: Injection) -> Sequence[Look]:
        looks = [_replaced(injection), _restarted_by(injection)]
        if injection.cluster.members.zookeepers:  # clients do not learn of registrations
            looks.append(_another_registration(injection, RollOrder))
        return looks

    def healed(self, injection: Injection) -> Sequence[Look]:
        return [_ready(injection), *observations.looks_at_external_recovery(injection)]

    def hold_ms_min(self, timings: Timings) -> int:  # noqa: ARG002
        return 0


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


DRAIN, OPERATOR_ROLL, NODE_FAILURE = Drain(), OperatorRoll(), NodeFailure()
ON_KUBERNETES = (DRAIN, OPERATOR_ROLL, NODE_FAILURE)


def drain_limit_ms(parameters: Drained, servers: int) -> int:
    """Return how long the evictions of a drain may be refused at most, in milliseconds."""
    return servers * parameters.within_ms


def operator_roll_limit_ms(parameters: OperatorRolled, servers: int) -> int:
    """Return how long a roll of so many servers by the operator may take at most, in
    milliseconds."""
    return servers * parameters.within_ms
