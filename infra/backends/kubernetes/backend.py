"""The kubernetes backend: nodes as pods, in a namespace of the run.

The first process of a pod is the agent. It ends when the harness has been silent for
:data:`infra.backends.kubernetes.manifests.LEASE_S`, and all processes and faults of the pod end
with it. The harness must reach the addresses of pods, as a pod or a node of the cluster does.
"""

import hashlib
import secrets
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing

from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.interface import Capability, InfraError, Node, Software
from ackproof.infra.backends.docker.image import PROJECT, modules
from ackproof.infra.backends.kubernetes import manifests
from ackproof.infra.backends.kubernetes.cluster import (
    RunNamespace,
    connected,
    settings_from_environment,
    unavailable,
)
from ackproof.infra.backends.kubernetes.manifests import (
    ARTIFACTS,
    HOME,
    NEVER,
    PYTHON,
    SOURCES,
)
from ackproof.infra.backends.kubernetes.pods import PodConnection, Pods
from ackproof.infra.machine.parallel import on_all
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.node.agent_client import AgentClient
from ackproof.infra.node.capability_probes import TRIALS
from ackproof.infra.node.copying import CopiedShares, Keeper, bring_artifact
from ackproof.infra.node.node import AgentNode, NodeParts
from ackproof.infra.node.nodes import AgentLinks, Nodes, capabilities, lacking

Report = Callable[[str], None]

_AGENT_LISTENS_WITHIN_S = 60.0
_SUMMED_WITHIN_S = 60.0
_CONNECTS_WITHIN_S = 5.0
_JARS = ARTIFACTS / "zookeeper"
_OF_PYTHON = ".py"


def _silent(_line: str) -> None: ...


class KubernetesBackend:
    """An ``infra.api.interface.Backend`` with pods as nodes.

    Args:
        report: Gets a line for each step that takes a while.
        names: The nodes that will be requested: their pods are started at once, together.
        disks: Whether nodes can have disks of their own. Their pods are privileged then.
        artifacts: Files that nodes also need, copied into each pod.

    Raises InfraError if the backend does not work, or the cluster refuses what it needs.
    """

    name = "kubernetes"

    def __init__(
        self,
        report: Report = _silent,
        names: Sequence[str] = (),
        *,
        disks: bool = False,
        artifacts: Sequence[Artifact] = (),
    ) -> None:
        if obstacle := unavailable():
            raise InfraError(obstacle)
        self._settings = settings_from_environment(privileged=disks)
        self._report = report
        self._artifacts = artifacts
        self._keepers: dict[str, Keeper] = {}
        self._nodes = Nodes(self._make)
        self.links = AgentLinks(self._nodes)
        with ExitStack() as made:
            user = made.enter_context(connected())
            run = RunNamespace(user, f"ackproof-{secrets.token_hex(4)}")
            made.callback(run.close)
            self._pods = Pods(run.client, run.name)
            made.callback(lambda: on_all(AgentNode.close, self._nodes.made()))
            made.callback(lambda: on_all(Keeper.close, list(self._keepers.values())))
            on_all(self.node, names)
            self._made = made.pop_all()

    @property
    def capabilities(self) -> frozenset[Capability]:
        agents = [node.agent for node in self._nodes.made()]
        tried = self.tried(TRIALS.keys())
        return capabilities([agent.ask("obstacles") for agent in agents], tried=tried)

    def tried(self, which: Collection[Capability]) -> Mapping[Capability, Sequence[str | None]]:
        """Return why each pod lacks each of the capabilities ``which``, by a trial in it."""
        agents = [node.agent for node in self._nodes.made()]
        return {
            one: [NEVER[one]] if one in NEVER else [agent.ask(TRIALS[one]) for agent in agents]
            for one in which
        }

    def node(self, name: str) -> AgentNode:
        """Return the node of a name.

        Raises ValueError for an invalid name, and InfraError when closed or without a pod.
        """
        return self._nodes.get(name)

    def remove(self, name: str) -> None:
        if (keeper := self._keepers.pop(name, None)) is not None:
            keeper.close()
        self._nodes.remove(name)

    def remains(self, name: str) -> Sequence[str]:
        return [f"the pod {name} in {self._pods.namespace}"] if self._pods.exists(name) else []

    def reaches(self, source: Node, target: Node, port: int, timeout: float = 1.0) -> bool:
        return self._nodes.reaches(source, target, port, timeout)

    def close(self) -> None:
        self._nodes.close()
        self._made.close()

    def _make(self, name: str) -> AgentNode:
        try:
            address = self._pods.create(manifests.pod(name, self._pods.namespace, self._settings))
            node = self._node(name, address)
        except BaseException:
            self._pods.delete(name)
            raise
        self._keepers[name] = Keeper(name, lambda: _keep(node))
        return node

    def _node(self, name: str, address: str) -> AgentNode:
        agent = AgentClient(name, PodConnection(self._pods, name))
        _wait_for(agent)
        _check_reached(agent, address)
        _check_sources(agent, self._settings.image)
        agent.ask("mkdir", path=str(HOME / "logs"))
        machine = agent.ask("facts")["machine"]
        for one in self._artifacts:
            bring_artifact(agent, one, ARTIFACTS / one.name, machine, self._report)
        return AgentNode(
            NodeParts(
                name=name,
                addresses=[address],
                directory=HOME,
                agent=agent,
                software=lambda: _software(agent),
                shares=CopiedShares(agent, HOME / "shared"),
                artifacts={one: ARTIFACTS / one.name for one in self._artifacts},
                remove=lambda: self._pods.delete(name),
            )
        )


def survey(needs: frozenset[Capability], report: Report, *, disks: bool) -> frozenset[Capability]:
    """Return the capabilities of pods in the cluster, by a trial in one that is removed again.

    Args:
        needs: Those that a campaign needs: others that take long to try are not tried.
        report: Gets a line for each capability that pods lack, with the reason.
        disks: Whether the pods of the campaign will have disks of their own.

    Raises InfraError if the cluster refuses the pod, or the pod cannot be reached from here.
    """
    with closing(KubernetesBackend(report, disks=disks)) as backend:
        obstacles = backend.node("trial").agent.ask("obstacles")
        tried = backend.tried([one for one in TRIALS if one in needs])
    for line in lacking(obstacles):
        report(line)
    for line in lacking({one: reasons[0] for one, reasons in tried.items()}):
        report(line)
    return capabilities([obstacles], tried=tried)


def _keep(node: AgentNode) -> None:
    """Renew the lease of a pod's agent, which any request does, and copy the shared files."""
    node.agent.ask("time_ns")
    node.sync()


def _software(agent: AgentClient) -> Software:
    jars = sorted(agent.ask("sums", path=str(_JARS), ending=".jar"))
    return Software(
        python=PYTHON,
        java="java",
        zookeeper_class_path=":".join(str(_JARS / name) for name in jars),
    )


def _wait_for(agent: AgentClient) -> None:
    """Wait until the agent listens. Raises InfraError."""
    reasons: list[InfraError] = []

    def answers() -> bool:
        try:
            agent.ask("time_ns")
        except InfraError as error:
            reasons.append(error)
            return False
        return True

    try:
        wait_until(answers, _AGENT_LISTENS_WITHIN_S, f"the agent of {agent.who}", 0.1)
    except TimeoutError:
        raise reasons[-1] from None


def _check_reached(agent: AgentClient, address: str) -> None:
    """Raise InfraError unless this process can connect to the pod."""
    port = agent.ask("sink", name="from-the-harness", address=address)
    try:
        with socket.create_connection((address, port), _CONNECTS_WITHIN_S):
            pass
    except OSError as error:
        raise InfraError(
            f"this machine does not reach the pod of {agent.who} at {address} ({error}): run "
            "Ackproof in a pod or on a node of the cluster, or where addresses of pods are routed"
        ) from error
    agent.ask("poured", name="from-the-harness")


def _check_sources(agent: AgentClient, image: str) -> None:
    """Raise InfraError unless the image has the sources of this Ackproof."""
    there = agent.ask("sums", timeout=_SUMMED_WITHIN_S, path=str(SOURCES), ending=_OF_PYTHON)
    here = {name: hashlib.sha256(content).hexdigest() for name, content in modules(PROJECT)}
    if there != here:
        differing = sorted(
            name for name in here.keys() | there.keys() if here.get(name) != there.get(name)
        )
        raise InfraError(
            f"the image {image} was made of other sources than this Ackproof ({differing[0]} and "
            f"{len(differing) - 1} more): make docker-image makes the right one"
        )
