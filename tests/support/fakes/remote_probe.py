"""Observations of a broker in memory that the harness did not deploy, and of its pod."""

import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ackproof.infra.api.capabilities import LimitedResource
from ackproof.infra.api.interface import PodPlace, PodRefusal, ProcessState
from ackproof.testing.memory.cluster import Memory
from ackproof.testing.memory.servers import MemoryServer


@dataclass
class FromOutside:
    """Observations of a broker. ``unmoved``: it serves in spite of every action."""

    server: MemoryServer
    unmoved: bool = False
    pod: "PodInMemory | None" = None
    attached: bool = False

    def accepts(self) -> bool:
        return self.unmoved or self.server.process.state() is not ProcessState.EXITED

    def answers(self) -> bool:
        return self.unmoved or self.server.process.state() is ProcessState.RUNNING


@dataclass
class KubernetesInMemory:
    """The nodes of a cluster of Kubernetes.

    Attributes:
        nodes: The number of brokers that each node has room for.
        cordoned: What has cordoned each node, ``run`` or ``other``.
        budget: The words of a disruption budget that forbids evictions, or None.
        refusals: How often the budget refuses.
        operator: What the operator does with pods that it is told to roll: ``patient`` takes one
            after another, ``hasty`` all at once, and ``paused`` none.
        events: What an event says of a restart.
    """

    nodes: Mapping[str, int]
    cordoned: dict[str, str] = field(default_factory=dict)
    budget: str | None = None
    refusals: int = 0
    pods: list["PodInMemory"] = field(default_factory=list)
    operator: str = "patient"
    events: str = "an operator: its reason"
    looked_at: set[str] = field(default_factory=set)

    def free(self) -> Iterator[str]:
        for node, room in self.nodes.items():
            if node not in self.cordoned and room > sum(pod.node == node for pod in self.pods):
                yield node

    def schedule(self) -> None:
        for pod in self.pods:
            if pod.node is None and (node := next(self.free(), None)) is not None:
                pod.node = node
                pod.server.start()

    def operate(self) -> None:
        """Take the operator's next step: bring a pod back, or take down pods that it was told to
        roll."""
        if self.operator == "paused":
            return
        if any(pod.rolled for pod in self.pods):
            for pod in self.pods:
                if pod.rolled:
                    pod.rolled = False
                    pod.server.start()
            return
        ordered = [pod for pod in self.pods if pod.ordered]
        for pod in ordered if self.operator == "hasty" else ordered[:1]:
            pod.ordered, pod.rolled = False, True
            pod.server.process.signal(signal.SIGTERM)


@dataclass
class PodInMemory:
    """The pod of a broker: a ``PodView``. Each start of the broker is another pod. ``held_back``:
    the kubelet applies no change of its CPU."""

    lost_storage: str | None = field(default=None, init=False)

    server: MemoryServer
    kubernetes: KubernetesInMemory
    node: str | None
    silent: bool = False
    ordered: bool = False
    rolled: bool = False
    held_back: bool = False

    def places(self) -> dict[str, PodPlace]:
        found = {pod.server.name: pod.place() for pod in self.kubernetes.pods}
        return {name: place for name, place in found.items() if place is not None}

    def restarter(self, former: PodPlace) -> str:  # noqa: ARG002
        return self.kubernetes.events

    def order_roll(self, uid: str) -> bool:
        place = self.place()
        if place is None or place.uid != uid:
            return False
        if self.ordered:
            raise PodRefusal(f"{self.server.name} is told to roll already")
        self.ordered = True
        return True

    def withdraw_roll(self, uid: str) -> None:
        place = self.place()
        if place is not None and place.uid == uid:
            self.ordered = False

    def place(self) -> PodPlace | None:
        if self.server.name in self.kubernetes.looked_at:  # a new round of looks
            self.kubernetes.looked_at.clear()
            self.kubernetes.operate()
        self.kubernetes.looked_at.add(self.server.name)
        runs = self.server.process.state() is ProcessState.RUNNING
        waits = self.node is None
        uid = f"{self.server.name}-{self.server.starts + waits}"
        return PodPlace(uid=uid, node=self.node, ready=runs, ends=not runs and not waits)

    def cordon(self, node: str) -> bool:
        if self.kubernetes.cordoned.get(node) == "other":
            raise PodRefusal(f"the node {node} is cordoned already")
        if not self.server.process.deaf:
            self.kubernetes.cordoned[node] = "run"
        return True

    def uncordon(self, node: str) -> None:
        if self.kubernetes.cordoned.get(node) == "run":
            del self.kubernetes.cordoned[node]
            self.kubernetes.schedule()

    def is_cordoned(self, node: str) -> bool:
        return node in self.kubernetes.cordoned

    def evict(self, uid: str, within_s: float, *, budgets: bool) -> bool:
        assert within_s > 0
        place = self.place()
        if place is None or place.uid != uid or place.ends:
            return False
        if budgets and self.kubernetes.budget is not None:
            raise PodRefusal(self.kubernetes.budget)
        if not self.server.process.deaf:
            self.server.process.signal(signal.SIGTERM)
            self.node = None
            self.kubernetes.schedule()
        return True

    def cpu_limit(self) -> int | None:
        return None if self.held_back else self.server.node.limits.get(LimitedResource.CPU)

    def silence(self) -> None:
        self.silent = True

    def unsilence(self) -> None:
        self.silent = False

    def is_silent(self) -> bool:
        return self.silent


def put_into_pods(memory: Memory, *nodes: int) -> KubernetesInMemory:
    """Put the brokers into pods on nodes with room for so many brokers each, in order."""
    rooms = {f"node-{number}": room for number, room in enumerate(nodes, start=1)}
    kubernetes = KubernetesInMemory(nodes=rooms)
    for server in memory.system.brokers:
        pod = PodInMemory(server, kubernetes, next(kubernetes.free()))
        kubernetes.pods.append(pod)
        server.distant = FromOutside(server, pod=pod)
    return kubernetes
