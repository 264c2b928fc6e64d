"""Apache Kafka as a system under test: its releases, those that are unpacked in a directory, and
those of container images."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ackproof.infra.artifacts import Artifact
from ackproof.infra.interface import InfraError, System
from ackproof.infra.schemas import Schema
from ackproof.infra.systems.kafka import images, releases
from ackproof.infra.systems.kafka.jars import fetch, jars_of
from ackproof.infra.systems.kafka.releases import Release
from ackproof.infra.systems.kafka.system import kafka_program
from ackproof.infra.systems.kraft.properties import OF_ZOOKEEPER, SESSION
from ackproof.infra.systems.metadata_quorum import MetadataQuorum
from ackproof.infra.systems.names import KAFKA
from ackproof.infra.systems.on_zookeeper import SystemOnZooKeeper
from ackproof.infra.systems.product import Build, Layout, Product
from ackproof.infra.systems.properties import Known

IMAGE = "image:"
"""What follows is an image's name. No version and no directory begins like this."""

_VERSION = re.compile(r"[0-9]+(\.[0-9]+){1,3}")
_IN_CONTAINERS = "docker"
_WITH_KRAFT, _WITHOUT_ZOOKEEPER = (3, 3), (4, 0)
"""KRaft is said to be ready from the first of these releases on (KIP-833). From the second on there
is nothing else."""
_ZOOKEEPER = "zookeeper."


@dataclass(frozen=True, kw_only=True)
class KafkaBuild(Build):
    """A release of Apache Kafka."""

    release: Release

    def described(self, quorum: MetadataQuorum | None) -> Known | None:
        found = releases.described(self.release.version)
        if found is None:
            return None
        kraft = quorum is not None and quorum.kraft
        return Known(
            system=self.text,
            kraft=kraft,
            page=f"those that there are: Apache Kafka {self.release.version}'s own documentation",
            broker=_with_kraft(found["broker"]) if kraft else found["broker"],
            topic=found["topic"],
            loads_classes=True,
        )

    def is_before(self, release: tuple[int, ...]) -> bool:
        return self.release.is_before(release)

    def obstacle(self, backend: str) -> str | None:
        if backend == _IN_CONTAINERS and (links := self.release.links):
            return (
                f"{self.text} has jars that are links ({', '.join(links)}): containers see the "
                "directory, and not where these lead"
            )
        return super().obstacle(backend)

    def prepare(self, tell: Callable[[str], None]) -> None:
        fetch(self.release, tell)

    def artifacts(self) -> Sequence[Artifact]:
        return (jars_of(self.release),)

    def configured(self, layout: Layout) -> System:
        if reason := self.obstacle(layout.backend.name):
            raise InfraError(reason)
        if layout.quorum is None or not layout.quorum.kraft:
            return SystemOnZooKeeper(
                layout.backend,
                name=self.text,
                program=kafka_program(self.release),
                brokers=layout.brokers,
                zookeepers=layout.keepers,
                properties=layout.properties,
                disks=layout.disks,
                clocks=layout.clocks,
                known=self.known(layout.quorum),
            )
        # kio takes its time, and where hypothesis is installed, that writes into the working
        # directory: not whenever a cluster is deployed.
        from ackproof.infra.systems.kraft.system import SystemOnKRaft

        return SystemOnKRaft(
            layout.backend,
            name=self.text,
            release=self.release,
            brokers=layout.brokers,
            controllers=layout.keepers,
            combined=layout.quorum.combined,
            properties=layout.properties,
            disks=layout.disks,
            clocks=layout.clocks,
        )


def kafka_build(which: str | None) -> KafkaBuild:
    """Return the build for a version, an absolute directory, or ``image:NAME``. Raises ValueError
    that says what is wrong with it."""
    if not which:
        raise ValueError(f"which Apache Kafka? {_ways()}")
    if which.startswith("/"):
        return _of(which, releases.unpacked(Path(which)))
    if which.startswith(IMAGE):
        image = images.taken(which.removeprefix(IMAGE))
        return _of(f"{IMAGE}{image.name}", releases.unpacked(image.directory))
    if not _VERSION.fullmatch(which):
        raise ValueError(f"{which!r} is neither a version nor the path of a directory; {_ways()}")
    return _of(which, releases.released(which))


def _of(which: str, release: Release) -> KafkaBuild:
    has_zookeeper = release.is_before(_WITHOUT_ZOOKEEPER)
    has_kraft = not release.is_before(_WITH_KRAFT)
    return KafkaBuild(
        text=f"{KAFKA}:{which}",
        release=release,
        needs="Apache Kafka (fetched)",
        quorums=tuple(one for one in MetadataQuorum if (has_kraft if one.kraft else has_zookeeper)),
    )


def _with_kraft(broker: Mapping[str, Schema]) -> Mapping[str, Schema]:
    """Without those of brokers on ZooKeeper; but for the session timeout, so that one file is right
    for both: see infra.systems.kraft.properties."""
    others = {name: one for name, one in broker.items() if not name.startswith(_ZOOKEEPER)}
    return {OF_ZOOKEEPER: broker[SESSION], **others}


def _ways() -> str:
    known = ", ".join(f"{KAFKA}:{version}" for version in releases.VERSIONS)
    return f"{known}, or {KAFKA}:/DIRECTORY of an unpacked release, or {KAFKA}:{IMAGE}NAME"


APACHE_KAFKA = Product(
    name=KAFKA,
    summary="Apache Kafka on ZooKeeper, or with KRaft from 3.3 on",
    build=kafka_build,
    forms=(f"{KAFKA}:VERSION", f"{KAFKA}:/DIRECTORY", f"{KAFKA}:{IMAGE}NAME"),
    versions=releases.VERSIONS,
)
