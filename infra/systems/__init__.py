"""What can be deployed: the table of systems."""

from collections.abc import Mapping
from typing import Protocol

from infra.disks import DiskPlan
from infra.interface import Backend, InfraError, System
from infra.systems.bundled import BundledSystem

_PLANNED = frozenset({"kafka"})


class _Make(Protocol):
    """See :func:`make_system`."""

    def __call__(
        self,
        backend: Backend,
        *,
        brokers: int,
        zookeepers: int,
        properties: Mapping[str, str],
        disks: DiskPlan | None,
        clocks: bool,
    ) -> System: ...


SYSTEMS: Mapping[str, _Make] = {
    "bundled": BundledSystem,
}


def make_system(
    name: str,
    backend: Backend,
    *,
    brokers: int,
    zookeepers: int,
    properties: Mapping[str, str],
    disks: DiskPlan | None = None,
    clocks: bool = False,
) -> System:
    """The system of that name, configured on ``backend`` and not deployed yet.

    ``properties``: Kafka's broker properties. ``disks``: what the brokers' logs lie on; None:
    directories of their nodes. ``clocks``: whether its servers go by fake clocks. Raises
    InfraError for a name that is none or is not there yet, ValueError for properties that cannot
    be.
    """
    if name in _PLANNED:
        raise InfraError(f"system {name!r} cannot be deployed yet; there is: {', '.join(SYSTEMS)}")
    if name not in SYSTEMS:
        raise InfraError(f"no system {name!r}; there is: {', '.join(SYSTEMS)}")
    return SYSTEMS[name](
        backend,
        brokers=brokers,
        zookeepers=zookeepers,
        properties=properties,
        disks=disks,
        clocks=clocks,
    )
