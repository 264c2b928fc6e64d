"""The Docker backend: nodes as containers on a private bridge network of the run.

The engine is this machine's own, and we are root (see :mod:`infra.docker.engine`). The harness
reaches containers at their addresses on the bridge, and is never cut. Not handled: a container
that something else removes (its processes are gone then).
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import Any

from docker.errors import DockerException
from docker.models.containers import Container
from docker.types import Mount

from ackproof.infra.artifacts import Artifact
from ackproof.infra.docker.engine import connected, limits, owned, unavailable
from ackproof.infra.docker.image import ensure_image
from ackproof.infra.docker.node import make_node, remove
from ackproof.infra.interface import Capability, InfraError, Node
from ackproof.infra.links import AgentLinks
from ackproof.infra.node import AgentNode
from ackproof.infra.nodes import Nodes, capabilities
from ackproof.infra.together import on_all
from ackproof.infra.trials import TRIALS

_RIGHTS: Mapping[str, Any] = {"cap_add": ["NET_ADMIN"]}
"""To cut links, in its own network alone."""
_WITH_DISKS: Mapping[str, Any] = {
    "cap_add": ["NET_ADMIN", "SYS_ADMIN"],
    "device_cgroup_rules": ["b 7:* rwm", "c 10:237 rwm"],
    "security_opt": ["apparmor=unconfined"],
}
"""To mount, by way of loop devices (``/dev/loop*`` and ``/dev/loop-control``)."""

_ARTIFACTS = PurePosixPath("/opt/ackproof")
"""Beside ZooKeeper's jars, which are in the image."""


def _silent(_line: str) -> None: ...


class DockerBackend:
    """Implements ``infra.interface.Backend``.

    Args:
        shared: A directory of this machine that every node sees at the same path, made if need
            be; only what lies below it can be shared with a node. None for none.
        progress: Told, a line at a time, of an image that has to be built first.
        names: The nodes that will be asked for: their containers are started at once, together.
        disks: Whether nodes shall be able to have disks of their own. Their containers may mount
            file systems and use loop devices then, as root of this machine may.
        artifacts: What every node shall see besides, and cannot change.

    Raises InfraError where the backend does not work, or the image cannot be built.
    """

    name = "docker"

    def __init__(
        self,
        shared: Path | None = None,
        progress: Callable[[str], None] = _silent,
        names: Sequence[str] = (),
        *,
        disks: bool = False,
        artifacts: Sequence[Artifact] = (),
    ) -> None:
        if obstacle := unavailable():
            raise InfraError(obstacle)
        self._shared = shared and shared.absolute()
        self._artifacts = {one: _ARTIFACTS / one.name for one in artifacts}
        self._rights = _WITH_DISKS if disks else _RIGHTS
        self._nodes = Nodes(self._make)
        self.links = AgentLinks(self._nodes)
        self._run = f"ackproof-{secrets.token_hex(4)}"
        if self._shared is not None:
            self._shared.mkdir(parents=True, exist_ok=True)
        with ExitStack() as made:
            self._client = made.enter_context(connected())
            self._image = ensure_image(self._client, progress)
            network = self._client.networks.create(self._run, internal=True, labels=owned())
            made.callback(network.remove)
            made.callback(lambda: on_all(AgentNode.close, self._nodes.made()))
            on_all(self.node, names)
            self._made = made.pop_all()

    @property
    def capabilities(self) -> frozenset[Capability]:
        agents = [node.agent for node in self._nodes.made()]
        tried = {one: [agent.ask(verb) for agent in agents] for one, verb in TRIALS.items()}
        return capabilities([agent.ask("obstacles") for agent in agents], [limits()], tried)

    def node(self, name: str) -> AgentNode:
        """Raises ValueError for a name that is none, InfraError when closed or when there is no
        container to be had."""
        return self._nodes.get(name)

    def remove(self, name: str) -> None:
        self._nodes.remove(name)

    def remains(self, name: str) -> Sequence[str]:
        container = f"{self._run}-{name}"
        try:
            there = self._client.containers.list(all=True, filters={"name": f"^/{container}$"})
        except DockerException as error:
            raise InfraError(f"the engine does not say what there is of {name}: {error}") from error
        return [f"the container {container}"] if there else []

    def reaches(self, source: Node, target: Node, port: int, timeout: float = 1.0) -> bool:
        return self._nodes.reaches(source, target, port, timeout)

    def close(self) -> None:
        self._nodes.close()
        self._made.close()

    def _make(self, name: str) -> AgentNode:
        container = self._start(name)
        try:
            return make_node(name, container, self._run, self._shared, self._artifacts)
        except BaseException:
            remove(container)
            raise

    def _start(self, name: str) -> Container:
        mounts = [
            Mount(str(there), str(artifact.path), type="bind", read_only=True)
            for artifact, there in self._artifacts.items()
        ]
        if self._shared is not None:
            mounts.append(Mount(str(self._shared), str(self._shared), type="bind"))
        try:
            return self._client.containers.run(
                self._image,
                detach=True,
                name=f"{self._run}-{name}",
                hostname=name,
                network=self._run,
                labels=owned(),
                **self._rights,
                mounts=mounts,
            )
        except DockerException as error:
            raise InfraError(f"no container for {name}: {error}") from error
