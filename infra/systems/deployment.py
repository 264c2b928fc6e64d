"""What it takes to deploy brokers, whoever keeps their metadata."""

import io
from collections.abc import Callable, Mapping, Sequence

from jproperties import Properties

from ackproof.infra.agent.probes import accepts
from ackproof.infra.disks import DiskPlan
from ackproof.infra.interface import DeploymentError, Node
from ackproof.infra.storage import Disk
from ackproof.infra.systems.server import NodeServer
from ackproof.infra.waiting import wait_until

BROKER_PORT = 9092
BROKERS_UP_S = 60.0
STOP_GRACE_S = 5.0


def disks(node: Node, planned: DiskPlan | None) -> Sequence[Disk]:
    """The disks of a node; none where nothing is ``planned``."""
    if planned is None:
        return ()
    return [node.disk(str(n), planned.megabytes) for n in range(1, planned.per_server + 1)]


def server_properties(settings: Mapping[str, str]) -> bytes:
    """The content of a ``server.properties``."""
    properties = Properties()
    for name, value in settings.items():
        properties[name] = value
    buffer = io.BytesIO()
    properties.store(buffer, encoding="utf-8", timestamp=False)
    return buffer.getvalue()


def listens(server: NodeServer) -> bool:
    """Whether it accepts connections."""
    return accepts(server.node.address, server.port)


def await_all(
    servers: Sequence[NodeServer],
    ready: Callable[[NodeServer], bool],
    timeout: float,
    what: str,
) -> None:
    """Wait until all are ready. Raises DeploymentError for the first that is not, at once when
    its process has ended."""
    for server in servers:
        try:
            wait_until(
                lambda server=server: server.exited() or ready(server),  # type: ignore[misc]
                timeout,
                f"{server.name} {what}",
            )
        except TimeoutError as error:
            raise DeploymentError(f"{error}\n{server.log_tail()}", server) from error
        if server.exited():
            raise DeploymentError(
                f"{server.name} ended with status {server.process.exit_code()} before it {what}\n"
                f"{server.log_tail()}",
                server,
            )
