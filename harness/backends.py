"""The backends that a campaign can name, and how its system is made on one."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from harness.campaign import Cluster
from harness.cells import as_text
from infra.interface import Backend, Capability, System
from infra.local.backend import LocalBackend
from infra.local.enter import can_enter, enter
from infra.registry import Kind
from infra.systems import make_system


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A kind of backend, before there is one.

    Attributes:
        capabilities: What it can do on this machine.
        obstacle: Why it does not work on this machine and how to mend it; None when it works.
        open: A backend whose nodes keep their files below the directory given.
    """

    capabilities: frozenset[Capability]
    obstacle: Callable[[], str | None]
    open: Callable[[Path], Backend]


BACKENDS: Mapping[str, Place] = {
    LocalBackend.name: Place(
        capabilities=LocalBackend.capabilities, obstacle=can_enter, open=LocalBackend
    )
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
    arguments: Sequence[str], run_id: str, *, kind: Kind, scratch: Path, results: Path | None
) -> NoReturn:
    """Replace this process by ``ackproof <arguments>`` inside namespaces of its own; ``scratch``
    is removed when they end. Raises InfraError when the machine does not let us in."""
    command = [sys.executable, "-m", "harness", *arguments]
    enter(command, run_id, kind=kind, scratch=scratch, results=results)
