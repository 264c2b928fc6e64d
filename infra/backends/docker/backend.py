"""The docker backend: nodes as containers of this machine's engine.

The engine is this machine's own, and the harness is root (see :mod:`infra.backends.docker.engine`).
It reaches the containers over the bridge of the run.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import Any

from docker.errors import DockerException, NotFound
from docker.models.containers import Container
from docker.types import Mount

from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.capabilities import LimitedResource
from ackproof.infra.api.interface import Capability, InfraError, Node, Software
from ackproof.infra.backends.docker.engine import connected, limits, owned, unavailable
from ackproof.infra.backends.docker.image import ensure_image
from ackproof.infra.machine.identity import ProcessIdentity
from ackproof.infra.machine.parallel import on_all
from ackproof.infra.node.agent_client import AgentClient, Sockets
from ackproof.infra.node.capability_probes import TRIALS
from ackproof.infra.node.copying import SamePathShares
from ackproof.infra.node.node import AgentNode, NodeParts
from ackproof.infra.node.nodes import AgentLinks, Nodes, capabilities

_PERIOD_US = 100_000
_ALL_US = -1
_SWAP = 1 << 20
"""The swap beyond the memory: more than the kernel charges at once, which is 64 pages."""

_MEASUREMENTS_MAX = 5
"""The most often that the memory of a container is measured to limit it."""


class ContainerLimits:
    """An ``infra.api.capabilities.ResourceLimits`` by the limits of a container."""

    def __init__(self, container: Container, agent: AgentClient) -> None:
        self._container = container
        self._agent = agent
        self._before: dict[LimitedResource, Mapping[str, int]] = {}

    def limit(self, what: LimitedResource, amount: int) -> None:
        self._before.setdefault(what, self._counters(what))
        if what is LimitedResource.CPU:
            self._update(cpu_period=_PERIOD_US, cpu_quota=amount * _PERIOD_US // 1000)
        else:
            self._leave(amount)

    def lift(self, what: LimitedResource) -> None:
        if what is LimitedResource.CPU:
            self._update(cpu_period=_PERIOD_US, cpu_quota=_ALL_US)
        elif what in self._before:
            self._give(self._machine())
        self._before.pop(what, None)

    def counted(self, what: LimitedResource) -> Mapping[str, int]:
        before = self._before.get(what)
        if before is None:
            return {}
        return {name: now - before[name] for name, now in self._counters(what).items()}

    def _counters(self, what: LimitedResource) -> Mapping[str, int]:
        found: dict[str, int] = self._agent.ask("counted", what=what, here=True)
        return found

    def _held(self) -> int:
        """Return the bytes that the kernel cannot take back by writing files out."""
        stats: Any = self._container.stats(stream=False)
        memory = stats["memory_stats"]
        files = memory["stats"].get("file", memory["stats"].get("total_cache", 0))
        return int(memory["usage"]) - int(files)

    def _machine(self) -> int:
        """Return the memory of the machine: the engine sets limits and takes none away."""
        client = self._container.client
        assert client is not None
        return int(client.info()["MemTotal"])

    def _leave(self, amount: int) -> None:
        """Limit the memory to what is held now, and ``amount`` bytes more. Raises InfraError."""
        # The engine takes a second to say what is held. What grows by more in this second would
        # then lie above the limit, and the kernel refuses that.
        for left in reversed(range(_MEASUREMENTS_MAX)):
            try:
                self._give(self._held() + amount)
            except InfraError:
                if not left:
                    raise
            else:
                return

    def _give(self, size: int) -> None:
        # The limit of memory and swap together is a little higher. In version 1 of control groups
        # it is checked first, and the kernel does not count how often it is reached (seen with
        # Linux 6.18).
        self._update(mem_limit=size, memswap_limit=size + _SWAP)

    def _update(self, **settings: Any) -> None:
        try:
            self._container.update(**settings)
        except DockerException as error:
            raise InfraError(f"{self._container.name} cannot be limited: {error}") from error


# --- containers as nodes ----------------------------------------------------------------------


# These paths are those of the Dockerfile.
_HOME = PurePosixPath("/var/lib/ackproof")
_SOCKET = "/run/ackproof.sock"
_PYTHON = "/opt/ackproof/bin/python3"
_JARS = PurePosixPath("/opt/ackproof/zookeeper")


def make_node(
    name: str,
    container: Container,
    network: str,
    shared: Path | None,
    artifacts: Mapping[Artifact, PurePosixPath],
) -> AgentNode:
    """Return the node in a running ``container``, which sees ``shared`` and has these
    ``artifacts``.

    Raises InfraError if the container has ended, or cannot be reached from here.
    """
    container.reload()
    first = _first_process(name, container)

    def last_words() -> str | None:
        return None if first.lives() else _log(container)

    # The socket is reached by the container's own file system: nothing needs to be mounted into it.
    sockets = Sockets(name, f"/proc/{first.pid}/root{_SOCKET}", last_words)
    agent = AgentClient(name, sockets)
    networks: Mapping[str, Mapping[str, str]] = container.attrs["NetworkSettings"]["Networks"]
    return AgentNode(
        NodeParts(
            name=name,
            addresses=[networks[network]["IPAddress"]],
            directory=_HOME,
            agent=agent,
            software=lambda: _software(agent),
            shares=SamePathShares(name, shared),
            artifacts=artifacts,
            remove=lambda: remove(container),
            limits=ContainerLimits(container, agent),
        )
    )


def remove(container: Container) -> None:
    """Remove a container with its processes and files."""
    try:
        container.remove(force=True, v=True)
    except NotFound:
        return


def _software(agent: AgentClient) -> Software:
    jars = sorted(e["name"] for e in agent.ask("tree", path=str(_JARS)) if e["kind"] == "file")
    return Software(
        python=_PYTHON,
        java="java",
        zookeeper_class_path=":".join(str(_JARS / name) for name in jars),
    )


def _first_process(name: str, container: Container) -> ProcessIdentity:
    pid = container.attrs["State"]["Pid"]
    try:
        return ProcessIdentity.of(pid)
    except ProcessLookupError as error:
        raise InfraError(
            f"the container of {name} is not a process of this machine, or ended at once; its log: "
            f"{_log(container) or '(empty)'}"
        ) from error


def _log(container: Container) -> str:
    """Return the end of the output of its first process."""
    try:
        return container.logs(tail=10).decode(errors="replace").strip()
    except DockerException:  # the container is removed
        return ""


# --- backend ----------------------------------------------------------------------------------


_RIGHTS: Mapping[str, Any] = {"cap_add": ["NET_ADMIN"]}
"""The rights to cut links, in the container's own network alone."""
_WITH_DISKS: Mapping[str, Any] = {
    "cap_add": ["NET_ADMIN", "SYS_ADMIN"],
    "device_cgroup_rules": ["b 7:* rwm", "c 10:237 rwm"],
    "security_opt": ["apparmor=unconfined"],
}
"""The rights to mount loop devices (``/dev/loop*`` and ``/dev/loop-control``)."""

_ARTIFACTS = PurePosixPath("/opt/ackproof")
"""The directory of artifacts, beside ZooKeeper's jars, which are in the image."""


def _silent(_line: str) -> None: ...


class DockerBackend:
    """An ``infra.api.interface.Backend`` with containers as nodes.

    Args:
        shared: A directory of this machine that every node sees at the same path, made if it does
            not exist. Only directories below it can be shared with a node. None for none.
        progress: Gets the output of a build of the image, line by line.
        names: The nodes that will be requested: their containers are started at once, together.
        disks: Whether nodes can have disks of their own. Their containers may then mount file
            systems and use loop devices, as root of this machine may.
        artifacts: Files that every node also sees, and cannot change.

    Raises InfraError if the backend does not work, or the image cannot be built.
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
        """Return the node of a name.

        Raises ValueError for an invalid name, and InfraError when closed or without a container.
        """
        return self._nodes.get(name)

    def remove(self, name: str) -> None:
        self._nodes.remove(name)

    def remains(self, name: str) -> Sequence[str]:
        container = f"{self._run}-{name}"
        try:
            there = self._client.containers.list(all=True, filters={"name": f"^/{container}$"})
        except DockerException as error:
            raise InfraError(f"the engine cannot list the containers of {name}: {error}") from error
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
