"""Making a node of a container, whose first process is the agent: the one lives as long as the
other."""

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from docker.errors import DockerException, NotFound
from docker.models.containers import Container

from ackproof.infra.agent_client import AgentClient
from ackproof.infra.artifacts import Artifact
from ackproof.infra.copying import SeenThere
from ackproof.infra.docker.limits import ContainerLimits
from ackproof.infra.identity import ProcessIdentity
from ackproof.infra.interface import InfraError, Software
from ackproof.infra.node import AgentNode, Made
from ackproof.infra.sockets import Sockets

# As in the Dockerfile.
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
    """The node in ``container``, which runs already, sees ``shared``, and has ``artifacts`` where
    these say. Raises InfraError when it has ended, or is not to be reached from here."""
    container.reload()
    first = _first_process(name, container)

    def last_words() -> str | None:
        return None if first.lives() else _log(container)

    # By way of the container's own file system: nothing needs to be mounted into it.
    sockets = Sockets(name, f"/proc/{first.pid}/root{_SOCKET}", last_words)
    agent = AgentClient(name, sockets)
    networks: Mapping[str, Mapping[str, str]] = container.attrs["NetworkSettings"]["Networks"]
    return AgentNode(
        Made(
            name=name,
            addresses=[networks[network]["IPAddress"]],
            directory=_HOME,
            agent=agent,
            software=lambda: _software(agent),
            shares=SeenThere(name, shared),
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
    """The end of what its first process has written."""
    try:
        return container.logs(tail=10).decode(errors="replace").strip()
    except DockerException:  # it is removed
        return ""
