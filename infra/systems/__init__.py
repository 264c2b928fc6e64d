"""What can be deployed: the table of systems."""

from collections.abc import Callable, Mapping

from infra.interface import Backend, InfraError, System
from infra.systems.bundled import BundledSystem

_PLANNED = frozenset({"kafka"})


def _bundled(
    backend: Backend, brokers: int, zookeepers: int, properties: Mapping[str, str]
) -> System:
    return BundledSystem(backend, brokers=brokers, zookeepers=zookeepers, properties=properties)


SYSTEMS: Mapping[str, Callable[[Backend, int, int, Mapping[str, str]], System]] = {
    "bundled": _bundled,
}


def make_system(
    name: str,
    backend: Backend,
    *,
    brokers: int,
    zookeepers: int,
    properties: Mapping[str, str],
) -> System:
    """The system of that name, configured on ``backend`` and not deployed yet.

    ``properties``: Kafka's broker properties. Raises InfraError for a name that is none or is not
    there yet, ValueError for properties that cannot be.
    """
    if name in _PLANNED:
        raise InfraError(f"system {name!r} cannot be deployed yet; there is: {', '.join(SYSTEMS)}")
    if name not in SYSTEMS:
        raise InfraError(f"no system {name!r}; there is: {', '.join(SYSTEMS)}")
    return SYSTEMS[name](backend, brokers, zookeepers, properties)
