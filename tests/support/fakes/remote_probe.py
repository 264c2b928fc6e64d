"""Observations of a broker in memory that the harness did not deploy, and of its pod."""

import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ackproof.infra.api.interface import PodPlace, PodRefusal, ProcessState
from ackproof.testing.memory.cluster import Memory
from ackproof.testing.memory.servers import MemoryServer


@dataclass
class FromOutside:
    """Observations of a broker. ``unmoved``: it serves in spite of every action."""

    server: MemoryServer
    unmoved: bool = False
    pod: "PodInMemory | None" = None

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
    """

    nodes: Mapping[str, int]
    cordoned: dict[str, str] = field(default_factory=dict)
    budget: str | None = None
    refusals: int = 0
    pods: list["PodInMemory"] = field(default_factory=list)

    def free(self) -> Iterator[str]:
        for node, room in self.nodes.items():
            if node not in self.cordoned and room > sum(pod.node == node for pod in self.pods):
                yield node

    def schedule(self) -> None:
        for pod in self.pods:
            if pod.node is None and (node := next(self.free(), None)) is not None:
                pod.node = node
                pod.server.start()


@dataclass
class PodInMemory:
    """The pod of a broker: a ``PodView``. Each start of the broker is another pod."""

    lost_storage: str | None = field(default=None, init=False)

    server: MemoryServer
    kubernetes: KubernetesInMemory
    node: str | None
    silent: bool = False

    def place(self) -> PodPlace | None:
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
