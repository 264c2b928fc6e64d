"""Apache Kafka as a system under test: its releases, unpacked directories, and container images."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath

from ackproof.config.schemas import Schema
from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.capabilities import Stage
from ackproof.infra.api.interface import InfraError, Node, System
from ackproof.infra.systems.kafka import images, releases, remote_tier
from ackproof.infra.systems.kafka.jars import fetch, jars_of
from ackproof.infra.systems.kafka.kraft.properties import OF_ZOOKEEPER, SESSION
from ackproof.infra.systems.kafka.programs import (
    MAIN,
    JavaAgent,
    agent_in,
    agent_of,
    java,
    knock,
    logging,
)
from ackproof.infra.systems.kafka.releases import Release
from ackproof.infra.systems.kafka.upgrades import PROTOCOL, ProtocolChange, protocol_of
from ackproof.infra.systems.on_zookeeper import Program, ProgramChange, SystemOnZooKeeper
from ackproof.infra.systems.product import KAFKA, Build, Layout, MetadataQuorum, Product
from ackproof.infra.systems.properties import KnownProperties
from ackproof.infra.systems.security import HASHES, OAUTHBEARER, ClusterSecurity

_PROPERTIES = {
    # These are Kafka's defaults since 2.5. The properties from which waits are derived are the same
    # for all releases.
    "zookeeper.session.timeout.ms": "18000",
    "replica.lag.time.max.ms": "30000",
    # The value is that of the shipped server.properties. The default is the session timeout: a
    # broker that is started while ZooKeeper is paused would end before ZooKeeper is back.
    "zookeeper.connection.timeout.ms": "18000",
    # The default makes index files of 10 MB, two for each replica, which collect would fetch whole.
    "log.index.size.max.bytes": "1048576",
    # The default is a third of the heap, and campaigns compact few keys.
    "log.cleaner.dedupe.buffer.size": "8388608",
}


@dataclass(frozen=True, slots=True)
class _BrokerCommandLine:
    """The command line of a broker, with these jars of a release and its JVM agent."""

    release: Release
    jars: Artifact
    agent: JavaAgent | None

    def __call__(self, node: Node, config: PurePosixPath) -> Sequence[str]:
        option = logging(self.release, node)
        start = java(node, heap_mb=384, logging=option, jars=self.jars, agent=self.agent)
        return [*start, MAIN, str(config)]


def _command_line(release: Release) -> _BrokerCommandLine:
    return _BrokerCommandLine(release, jars_of(release), agent_of(release))


def kafka_program(release: Release) -> Program:
    """Return the program of its brokers, on nodes that have its jars (``infra.systems.artifacts``).

    Raises InfraError if the jars are not here, or differ from the release.
    """
    return Program(
        command=_command_line(release),
        knock=knock,
        properties=_PROPERTIES,
        # A broker ends when its id is taken in ZooKeeper, by whichever session.
        starts_beside_itself=False,
    )


# --- the product ------------------------------------------------------------------------------


IMAGE = "image:"
"""The prefix of an image's name. No version and no directory begins like this."""

AGENT = "+agent:"
"""The text between a release and the directory of a JVM agent that its servers load."""

TO = ".."
"""The text between the two releases of an upgrade."""

_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+){1,3}")
_TWO_VERSIONS = re.compile(rf"({_VERSION.pattern})({re.escape(TO)})({_VERSION.pattern})")
_IN_CONTAINERS = "docker"
_ON_ONE_MACHINE = "local"
_WITH_KRAFT, _WITHOUT_ZOOKEEPER = (3, 3), (4, 0)
"""The first release in which KRaft is declared ready (KIP-833), and the first without ZooKeeper."""
_WITH_VOTERS = (3, 9)
"""The first release whose controllers can leave and join the quorum (KIP-853)."""
_WITH_MIGRATION = (3, 6)
"""The first release in which the migration to KRaft is ready (KIP-866)."""
_ZOOKEEPER = "zookeeper."
_SCRAM_WITH_KRAFT = (3, 5)
"""The first release in which KRaft keeps the credentials of SCRAM (KIP-900)."""
_TOKENS_VERIFIED = (3, 9)
"""The first release whose classes for the tokens of OAUTHBEARER (KIP-768) have the names of 4.x."""


@dataclass(frozen=True, kw_only=True)
class KafkaBuild(Build):
    """A release of Apache Kafka."""

    release: Release
    takes_racks: bool = True

    def described(self, quorum: MetadataQuorum | None) -> KnownProperties | None:
        found = releases.described(self.release)
        if found is None:
            return None
        kraft = quorum is not None and not quorum.zookeeper
        return KnownProperties(
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
                f"{self.text} has jars that are links ({', '.join(links)}): containers see "
                "the directory, but not the targets of links"
            )
        return super().obstacle(backend)

    def insecurity(self, asked: ClusterSecurity, quorum: MetadataQuorum | None) -> str | None:
        if quorum is None or not quorum.kraft:
            return (
                f"{self.text} with ZooKeeper is deployed with connections in the clear only; use "
                "metadata.quorum: isolated-kraft or combined-kraft, which need Apache Kafka 3.3"
            )
        if quorum.dynamic or quorum.migrates:
            return (
                f"metadata.quorum: {quorum} is deployed with connections in the clear only; use "
                "isolated-kraft or combined-kraft"
            )
        if asked.mechanism in HASHES and self.release.is_before(_SCRAM_WITH_KRAFT):
            return f"KRaft keeps the credentials of SCRAM since 3.5 (KIP-900), not in {self.text}"
        if asked.mechanism == OAUTHBEARER and self.release.is_before(_TOKENS_VERIFIED):
            return f"OAUTHBEARER is deployed with Apache Kafka 3.9 or newer, not {self.text}"
        return None

    def untiered(self, quorum: MetadataQuorum | None, backend: str) -> str | None:
        if quorum is None or quorum.zookeeper:
            return f"{self.text} with ZooKeeper is deployed without a remote tier; use KRaft"
        if self.release.is_before(remote_tier.SINCE):
            return f"tiered storage is deployed with Apache Kafka 3.8 or newer, not {self.text}"
        if backend != _ON_ONE_MACHINE:
            return (
                "the remote tier is a directory that all brokers share, which only the backend "
                f"{_ON_ONE_MACHINE} has"
            )
        return None

    def prepare_tier(self, tell: Callable[[str], None]) -> None:
        remote_tier.fetch(self.release, tell)

    def prepare(self, tell: Callable[[str], None]) -> None:
        fetch(self.release, tell)

    def artifacts(self) -> Sequence[Artifact]:
        agent = agent_of(self.release)
        return (jars_of(self.release), *(() if agent is None else (agent.artifact,)))

    def configured(self, layout: Layout) -> System:
        return _configured(self, self.release, None, layout)


@dataclass(frozen=True, kw_only=True)
class KafkaUpgrade(Build):
    """Two releases of Apache Kafka: the one that is deployed, and a newer one to which a fault can
    change its servers."""

    before: KafkaBuild
    after: KafkaBuild
    takes_racks: bool = True

    def described(self, quorum: MetadataQuorum | None) -> KnownProperties | None:
        """Return the properties that both releases have, with the older one's values."""
        older, newer = self.before.described(quorum), self.after.described(quorum)
        if older is None or newer is None:
            return None
        return replace(
            older,
            system=self.text,
            page="those that both releases have: Apache Kafka's own documentation",
            broker={name: one for name, one in older.broker.items() if name in newer.broker},
            topic={name: one for name, one in older.topic.items() if name in newer.topic},
        )

    def is_before(self, release: tuple[int, ...]) -> bool:
        return self.before.is_before(release)

    def obstacle(self, backend: str) -> str | None:
        return self.before.obstacle(backend) or self.after.obstacle(backend)

    @property
    def is_upgrade(self) -> bool:
        return True

    def untiered(self, quorum: MetadataQuorum | None, backend: str) -> str | None:  # noqa: ARG002
        return "an upgrade is deployed without a remote tier"

    def insecurity(self, asked: ClusterSecurity, quorum: MetadataQuorum | None) -> str | None:  # noqa: ARG002
        return f"{self.text}: an upgrade is done with connections in the clear only"

    def prepare(self, tell: Callable[[str], None]) -> None:
        self.before.prepare(tell)
        self.after.prepare(tell)

    def artifacts(self) -> Sequence[Artifact]:
        return (*self.before.artifacts(), *self.after.artifacts())

    def configured(self, layout: Layout) -> System:
        return _configured(self, self.before.release, self.after.release, layout)


def _configured(build: Build, release: Release, newer: Release | None, layout: Layout) -> System:
    if reason := build.obstacle(layout.backend.name):
        raise InfraError(reason)
    if layout.quorum is None or not layout.quorum.kraft:
        return SystemOnZooKeeper(
            layout.backend,
            name=build.text,
            program=kafka_program(release),
            brokers=layout.brokers,
            zookeepers=layout.keepers,
            properties=layout.properties,
            disks=layout.disks,
            clocks=layout.clocks,
            racks=layout.racks,
            known=build.known(layout.quorum),
            change=None if newer is None else _program_change(release, newer),
        )
    # kio takes long to import. Where hypothesis is installed, the import writes into the working
    # directory. It is therefore imported only for a deployment with KRaft.
    if layout.quorum.migrates:
        from ackproof.infra.systems.kafka.migration import MigratingSystem

        return MigratingSystem(
            layout.backend,
            name=build.text,
            release=release,
            program=kafka_program(release),
            brokers=layout.brokers,
            keepers=layout.keepers,
            properties=layout.properties,
            disks=layout.disks,
            clocks=layout.clocks,
            racks=layout.racks,
            known=build.known(layout.quorum),
        )
    from ackproof.infra.systems.kafka.kraft.system import SystemOnKRaft

    return SystemOnKRaft(
        layout.backend,
        name=build.text,
        release=release,
        newer=newer,
        brokers=layout.brokers,
        controllers=layout.keepers,
        combined=layout.quorum.combined,
        dynamic=layout.quorum.dynamic,
        properties=layout.properties,
        disks=layout.disks,
        clocks=layout.clocks,
        racks=layout.racks,
        security=layout.security,
    )


def _program_change(release: Release, newer: Release) -> ProgramChange:
    older = {PROTOCOL: protocol_of(release)}
    programs = {one: _command_line(one) for one in (release, newer)}
    return ProgramChange(
        commands={
            Stage.BEFORE: programs[release],
            Stage.AFTER: programs[newer],
            Stage.FINAL: programs[newer],
        },
        properties={Stage.BEFORE: older, Stage.AFTER: older, Stage.FINAL: {}},
        upgrade=partial(ProtocolChange, release, newer),
    )


def kafka_build(which: str | None) -> KafkaBuild | KafkaUpgrade:
    """Return the build for a version, an absolute directory, or ``image:NAME``; or for two of them,
    ``3.9.2..kafka:4.4.0``.

    Raises ValueError with what is wrong.
    """
    if not which:
        raise ValueError(f"which Apache Kafka? {_ways()}")
    older, arrow, newer = which.partition(f"{TO}{KAFKA}:")
    if not arrow and (two := _TWO_VERSIONS.fullmatch(which)):
        older, arrow, newer = two.groups()
    if arrow:
        return _upgrade(_one(older), _one(newer))
    return _one(which)


def _one(which: str) -> KafkaBuild:
    release, plus, agent = which.partition(AGENT)
    if plus:
        return _with_agent(_one(release), agent)
    if which.startswith("/"):
        return _of(which, releases.unpacked(Path(which)))
    if which.startswith(IMAGE):
        image = images.taken(which.removeprefix(IMAGE))
        return _of(f"{IMAGE}{image.name}", releases.unpacked(image.directory))
    if not _VERSION.fullmatch(which):
        raise ValueError(f"{which!r} is neither a version nor the path of a directory; {_ways()}")
    return _of(which, releases.released(which))


def _with_agent(build: KafkaBuild, directory: str) -> KafkaBuild:
    if not directory.startswith("/"):
        raise ValueError(f"{AGENT}{directory}: the directory of a JVM agent is an absolute path")
    agent_in(Path(directory))
    return replace(
        build,
        text=f"{build.text}{AGENT}{directory}",
        release=replace(build.release, agent=Path(directory)),
    )


def _of(which: str, release: Release) -> KafkaBuild:
    first = {
        MetadataQuorum.ZOOKEEPER: (0,),
        MetadataQuorum.DYNAMIC_KRAFT: _WITH_VOTERS,
        MetadataQuorum.MIGRATION: _WITH_MIGRATION,
    }
    quorums = [
        one
        for one in MetadataQuorum
        if not release.is_before(first.get(one, _WITH_KRAFT))
        and (not one.zookeeper or release.is_before(_WITHOUT_ZOOKEEPER))
    ]
    return KafkaBuild(
        text=f"{KAFKA}:{which}",
        release=release,
        needs="Apache Kafka (fetched)",
        quorums=tuple(quorums),
    )


# --- upgrades ---------------------------------------------------------------------------------


def _no_upgrade(before: Release, after: Release) -> str | None:
    """Return why servers cannot change from one release to the other; None if they can."""
    told = f"an upgrade from {before.version} to {after.version}"
    if before.is_before(releases.FIRST):
        first = ".".join(map(str, releases.FIRST))
        return f"{told}: an upgrade begins with Apache Kafka {first} or newer"
    if before.version == after.version:
        return (
            f"{told}: both releases have the same version, so that no server could prove which it "
            "runs"
        )
    if not before.is_before(after.numbers):
        return (
            f"{told}: `to` must be the newer release; for the way back, upgrade first and use the "
            "fault downgrade"
        )
    return None


def _no_common_quorum(before: Release, after: Release) -> str:
    """Return the message that no metadata quorum works in both releases."""
    return (
        f"an upgrade from {before.version} to {after.version}: {before.version} is deployed with "
        f"ZooKeeper, which {after.version} no longer has, and KRaft can be upgraded from 3.3 on. "
        "Kafka's way is an upgrade to 3.9, the migration to KRaft (KIP-866) with metadata.quorum: "
        "zookeeper-to-kraft, and the upgrade to 4.0, a campaign each. Begin with 3.3 or newer, or "
        "end before 4.0"
    )


def _upgrade(before: KafkaBuild, after: KafkaBuild) -> KafkaUpgrade:
    if (reason := _no_upgrade(before.release, after.release)) is not None:
        raise ValueError(reason)
    quorums = tuple(
        one
        for one in before.quorums
        if one in after.quorums and not one.dynamic and not one.migrates
    )
    if not quorums:
        raise ValueError(_no_common_quorum(before.release, after.release))
    return KafkaUpgrade(
        text=f"{before.text}{TO}{after.text}",
        needs=before.needs,
        quorums=quorums,
        before=before,
        after=after,
    )


def _with_kraft(broker: Mapping[str, Schema]) -> Mapping[str, Schema]:
    """Return the properties without those of brokers on ZooKeeper, except for the session timeout.

    One campaign file is therefore valid for both: see infra.systems.kafka.kraft.properties.
    """
    others = {name: one for name, one in broker.items() if not name.startswith(_ZOOKEEPER)}
    return ({OF_ZOOKEEPER: broker[SESSION]} if SESSION in broker else {}) | others


def _ways() -> str:
    return (
        f"{KAFKA}:VERSION (2.4.0 or newer, for example {KAFKA}:{releases.VERSIONS[-1]}), "
        f"{KAFKA}:/DIRECTORY of an unpacked release, {KAFKA}:{IMAGE}NAME, or two of these with "
        f"{TO!r} between them for an upgrade ({KAFKA}:3.9.2{TO}{KAFKA}:4.4.0); "
        f"{AGENT}/DIRECTORY behind a release loads a JVM agent into its servers"
    )


APACHE_KAFKA = Product(
    name=KAFKA,
    summary="Apache Kafka 2.4 or newer, on ZooKeeper or with KRaft (from 3.3 on)",
    build=kafka_build,
    forms=(
        f"{KAFKA}:VERSION",
        f"{KAFKA}:/DIRECTORY",
        f"{KAFKA}:{IMAGE}NAME",
        f"{KAFKA}:VERSION{TO}{KAFKA}:VERSION",
        f"{KAFKA}:VERSION{AGENT}/DIRECTORY",
    ),
    versions=releases.VERSIONS,
)
