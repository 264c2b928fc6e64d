"""The backends that a campaign can name, and how its system is made on one."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol

from harness.campaign import Cluster
from harness.cells import as_text
from infra.docker import enter as docker_enter
from infra.docker.backend import DockerBackend
from infra.docker.engine import unavailable
from infra.interface import Backend, Capability, System
from infra.local import enter as local_enter
from infra.local.backend import LocalBackend
from infra.registry import Kind
from infra.systems import make_system


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A kind of backend, before there is one.

    Attributes:
        capabilities: What it can do on this machine.
        obstacle: Why it does not work on this machine and how to mend it; None when it works.
        open: A backend. Nodes may keep their files below ``scratch``; what lies below ``results``
            can be shared with them; ``tell`` is told, a line at a time, of what takes long.
        enter: Replaces the calling process by one that runs a command where the backend works, as
            a run that the registry knows (see ``infra.local.enter.enter``).
    """

    capabilities: frozenset[Capability]
    obstacle: Callable[[], str | None]
    open: "Open"
    enter: Callable[..., NoReturn]


class Open(Protocol):
    """See ``Place.open``."""

    def __call__(self, scratch: Path, results: Path, tell: Callable[[str], None]) -> Backend: ...


def _local(scratch: Path, results: Path, tell: Callable[[str], None]) -> Backend:  # noqa: ARG001
    return LocalBackend(scratch)


def _docker(scratch: Path, results: Path, tell: Callable[[str], None]) -> Backend:  # noqa: ARG001
    return DockerBackend(results, tell)


BACKENDS: Mapping[str, Place] = {
    LocalBackend.name: Place(
        capabilities=LocalBackend.capabilities,
        obstacle=local_enter.can_enter,
        open=_local,
        enter=local_enter.enter,
    ),
    DockerBackend.name: Place(
        capabilities=DockerBackend.capabilities,
        obstacle=unavailable,
        open=_docker,
        enter=docker_enter.enter,
    ),
}


def make(cluster: Cluster, backend: Backend) -> System:
    """The system that ``cluster`` asks for, configured on ``backend`` and not deployed yet."""
    return make_system(
        cluster.system,
        backend,
        brokers=cluster.brokers,
        zookeepers=cluster.zookeepers,
        properties={name: as_text(value) for name, value in cluster.properties.items()},
    )


def go_inside(
    arguments: Sequence[str],
    run_id: str,
    *,
    kind: Kind,
    scratch: Path,
    results: Path | None,
    backend: str = LocalBackend.name,
) -> NoReturn:
    """Replace this process by ``ackproof <arguments>`` where ``backend`` works; ``scratch`` is
    removed when it ends. Raises InfraError when the machine does not let us in."""
    command = [sys.executable, "-m", "harness", *arguments]
    BACKENDS[backend].enter(command, run_id, kind=kind, scratch=scratch, results=results)
