"""What can be deployed: systems by the names that campaigns give them (:mod:`names`)."""

from collections.abc import Callable, Mapping, Sequence

from ackproof.infra.artifacts import Artifact
from ackproof.infra.disks import DiskPlan
from ackproof.infra.interface import Backend, InfraError, System
from ackproof.infra.systems.bundled import BundledSystem
from ackproof.infra.systems.kafka.jars import fetch, jars_of
from ackproof.infra.systems.kafka.system import kafka_program
from ackproof.infra.systems.metadata_quorum import quorum_of
from ackproof.infra.systems.names import EXTERNAL, SystemName, parse
from ackproof.infra.systems.on_zookeeper import SystemOnZooKeeper

_IN_CONTAINERS = "docker"
_THERE = "here"
"""The backend on which nothing is deployed."""


def prepare(name: str, tell: Callable[[str], None]) -> None:
    """Have on this machine what the system needs and a run could not fetch. ``tell`` is told, a
    line at a time, of what takes long. Raises InfraError when it cannot be had."""
    if (kafka := _parsed(name).kafka) is not None:
        fetch(kafka, tell)


def jars(name: str) -> Sequence[Artifact]:
    """What nodes need for the system of that name, beside what they have for any: a backend is
    opened with it. Raises InfraError where it was not prepared, or is not what was released."""
    kafka = _parsed(name).kafka
    return () if kafka is None else (jars_of(kafka),)


def obstacle(name: SystemName, backend: str) -> str | None:
    """Why a system cannot be deployed on a backend; None: it can."""
    if name.text == EXTERNAL:
        told = f"nothing of {EXTERNAL} is deployed: its clients are on the backend {_THERE}"
        return None if backend == _THERE else f"{told}, not on {backend}"
    if backend == _THERE:
        return f"nothing is deployed on the backend {_THERE}: it is for {EXTERNAL}"
    if backend == _IN_CONTAINERS and name.kafka is not None and (links := name.kafka.links):
        return (
            f"{name.text} has jars that are links ({', '.join(links)}): containers see the "
            "directory, and not where these lead"
        )
    return None


def make_system(
    name: str,
    backend: Backend,
    *,
    brokers: int,
    zookeepers: int,
    properties: Mapping[str, str],
    metadata_quorum: str | None = None,
    disks: DiskPlan | None = None,
    clocks: bool = False,
) -> System:
    """The system of that name, configured on ``backend`` and not deployed yet.

    ``zookeepers``: how many servers keep the metadata; with KRaft, controllers. ``properties``:
    Kafka's broker properties. ``metadata_quorum``: who keeps the metadata
    (:class:`infra.systems.metadata_quorum.MetadataQuorum`); None: whoever does by default.
    ``disks``: what the brokers' logs lie on; None: directories of their nodes. ``clocks``: whether
    its servers go by fake clocks. Raises InfraError for a name that is none, or that is not
    deployed there, ValueError for properties that cannot be, and for a quorum that it has not.
    """
    named, quorum = _parsed(name), quorum_of(name, metadata_quorum)
    if quorum is None:
        raise InfraError(f"{EXTERNAL} is not deployed: see infra.systems.external.system")
    if named.kafka is None:
        return BundledSystem(
            backend,
            brokers=brokers,
            zookeepers=zookeepers,
            properties=properties,
            disks=disks,
            clocks=clocks,
        )
    if reason := obstacle(named, backend.name):
        raise InfraError(reason)
    if quorum.kraft:
        # kio takes its time, and where hypothesis is installed, that writes into the working
        # directory: not whenever a cluster is deployed.
        from ackproof.infra.systems.kraft.system import SystemOnKRaft

        return SystemOnKRaft(
            backend,
            name=named.text,
            release=named.kafka,
            brokers=brokers,
            controllers=zookeepers,
            combined=quorum.combined,
            properties=properties,
            disks=disks,
            clocks=clocks,
        )
    return SystemOnZooKeeper(
        backend,
        name=named.text,
        program=kafka_program(named.kafka),
        brokers=brokers,
        zookeepers=zookeepers,
        properties=properties,
        disks=disks,
        clocks=clocks,
    )


def _parsed(name: str) -> SystemName:
    try:
        return parse(name)
    except ValueError as reason:
        raise InfraError(str(reason)) from None
