"""The links between brokers in pods without agents, which NetworkPolicies cut."""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NoReturn

from ackproof.infra.agent.impairments import CUT, Impairment
from ackproof.infra.api.interface import InfraError, Node
from ackproof.infra.backends.kubernetes import network_policies
from ackproof.infra.backends.kubernetes.broker_pods import BrokerPod, core_api, present
from ackproof.infra.backends.kubernetes.network_policies import (
    HeldConnection,
    Manifest,
    NamedPod,
    named,
)
from ackproof.infra.node.copying import Keeper

_OPENS_WITHIN_S = 3.0


class PodLinks:
    """An ``infra.api.interface.Links`` between the brokers of a cluster. Whole links are cut, in
    both directions, and nothing else is possible.

    While a link is cut, the policies follow pods that are replaced, whose addresses change.

    Args:
        pods: The pod of each broker, by the broker's name. All are in one namespace.
        run: The name of the run, which labels its policies.
        note: Called before a policy is written, so that a later process can remove it.
    """

    def __init__(self, pods: Mapping[str, BrokerPod], run: str, note: Callable[[], None]) -> None:
        self.pods = pods
        self._run, self._note = run, note
        self._lock = threading.Lock()
        self._cut: set[tuple[str, str]] = set()
        self._written: dict[str, Manifest] = {}
        """The policy in force of each broker's pod, by the broker's name."""
        self._held: dict[str, HeldConnection] = {}
        self._following: Keeper | None = None

    def impair(self, source: Node, target: Node, impairment: Impairment) -> None:
        """See the protocol. A link is cut as soon as one direction of it is."""
        if impairment != CUT:
            raise InfraError(f"a NetworkPolicy cuts links: no {impairment.kind} is possible")
        with self._lock:
            self._cut.add((source.name, target.name))
            self._write()
            if self._following is None:
                self._following = Keeper("network policies", self._follow)

    def mend(self, source: Node, target: Node, impairment: Impairment) -> None:  # noqa: ARG002
        with self._lock:
            self._cut.discard((source.name, target.name))
            self._write()

    def hold(self, name: str, source: Node, target: Node, port: int) -> bool:
        """See the protocol. A connection that is held already stays."""
        with self._lock:
            if name not in self._held:
                if not self.reaches(source, target, port, _OPENS_WITHIN_S):
                    return False
                pod = self.pods[source.name]
                self._held[name] = HeldConnection(pod, target.address, port)
            return self._held[name].opened

    def held(self, name: str, source: Node) -> str:  # noqa: ARG002
        """Return ``silent`` if the broker at the other end does not answer, besides the states of
        the protocol."""
        held = self._held.get(name)
        return held.state() if held is not None and held.opened else "none"

    def let_go(self, name: str, source: Node) -> None:  # noqa: ARG002
        if (held := self._held.pop(name, None)) is not None:
            held.close()

    def reaches(self, source: Node, target: Node, port: int, timeout: float) -> bool:
        """Return whether a connection succeeds, see ``infra.api.interface.Backend``."""
        pod = self.pods[source.name]
        return network_policies.reaches(pod, target.address, port, timeout)

    def counted(self, *_: object) -> NoReturn:
        raise InfraError("a NetworkPolicy counts no packets")

    def tries(self, source: Node, target: Node, port: int, count: int, within: float) -> int:
        return sum(self.reaches(source, target, port, within) for _ in range(count))

    def connecting_ms(self, *_: object) -> NoReturn:
        raise InfraError("in pods without agents no times are measured")

    def throughput_kbit(self, *_: object) -> NoReturn:
        raise InfraError("in pods without agents no throughput is measured")

    def close(self) -> None:
        """Close held connections. Policies that are left are removed by the journal."""
        if self._following is not None:
            self._following.close()
        for name in list(self._held):
            with suppress(KeyError, OSError):
                self._held.pop(name).close()

    def _follow(self) -> None:
        with self._lock:
            if self._cut:
                self._write()

    def _peers(self, name: str) -> set[str]:
        return {b for a, b in self._cut if a == name} | {a for a, b in self._cut if b == name}

    def _write(self) -> None:
        """Let the policies be those of the links that are cut. A pod that is gone keeps the policy
        that selects its successor."""
        first = next(iter(self.pods.values()))
        namespace = first.pods.namespace
        with core_api(first.pods) as core:
            affected = {name for pair in self._cut for name in pair}
            for name in self._written.keys() - affected:
                written = self._written[name]["metadata"]["name"]
                network_policies.remove(core.api_client, namespace, self._run, written)
                del self._written[name]
            there: dict[str, NamedPod] = {}
            for name in affected:
                found = named(present(core, self.pods[name]))
                if found is None:
                    raise InfraError(f"no label of the pod of {name} has its name")
                there[name] = found
            for name in sorted(affected):
                peers = [there[one] for one in sorted(self._peers(name))]
                policy = network_policies.apart(self._run, namespace, there[name], peers)
                if self._written.get(name) != policy:
                    self._note()
                    network_policies.write(core.api_client, namespace, policy)
                    self._written[name] = policy
