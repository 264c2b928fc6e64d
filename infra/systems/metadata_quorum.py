"""Who keeps the metadata of a system: ZooKeeper, or KRaft's controllers, which are servers of their
own or brokers, too. The words are those of Kafka's own system tests (ducktape's
``metadata_quorum``)."""

from enum import StrEnum

from ackproof.infra.systems.kafka.releases import Release
from ackproof.infra.systems.names import EXTERNAL, parse

_WITH_KRAFT, _WITHOUT_ZOOKEEPER = (3, 3), (4, 0)
"""From the one release on KRaft is said to be ready (KIP-833), from the other on there is nothing
else."""


class MetadataQuorum(StrEnum):
    """Who keeps the metadata."""

    ZOOKEEPER = "zookeeper"
    ISOLATED_KRAFT = "isolated-kraft"
    """Controllers that are servers of their own."""
    COMBINED_KRAFT = "combined-kraft"
    """Controllers that are brokers, too (``process.roles=broker,controller``)."""

    @property
    def kraft(self) -> bool:
        """Whether it is KRaft's controllers."""
        return self is not MetadataQuorum.ZOOKEEPER

    @property
    def combined(self) -> bool:
        """Whether they are brokers, too."""
        return self is MetadataQuorum.COMBINED_KRAFT

    def keepers(self, count: int) -> tuple[str, ...]:
        """What so many servers are called that keep the metadata: of brokers it is the first."""
        return tuple(f"{_CALLED[self]}-{number}" for number in range(1, count + 1))


_CALLED = {
    MetadataQuorum.ZOOKEEPER: "zookeeper",
    MetadataQuorum.ISOLATED_KRAFT: "controller",
    MetadataQuorum.COMBINED_KRAFT: "broker",
}


def quorum_of(system: str, asked: str | None = None) -> MetadataQuorum | None:
    """Who keeps the metadata of the system of that name, given who is ``asked`` for, if anybody;
    None of one that was there before, whose clients are not told. Raises ValueError for a name that
    is none, and for who cannot keep its metadata."""
    named = parse(system)
    if named.text == EXTERNAL:
        if asked is not None:
            raise ValueError(f"is for systems that are deployed, and {EXTERNAL} is there already")
        return None
    default = _default(named.kafka)
    if asked is None:
        return default
    if asked not in list(MetadataQuorum):
        raise ValueError(f"{asked!r} is none of {', '.join(MetadataQuorum)}")
    quorum = MetadataQuorum(asked)
    if quorum.kraft and not _has_kraft(named.kafka):
        raise ValueError(
            f"{system} keeps its metadata in ZooKeeper; KRaft has Apache Kafka from 3.3 on"
        )
    if default.kraft and not quorum.kraft:
        raise ValueError(
            f"{system} keeps its metadata with KRaft; ZooKeeper has Apache Kafka before 4.0"
        )
    return quorum


def _default(release: Release | None) -> MetadataQuorum:
    if release is None or release.is_before(_WITHOUT_ZOOKEEPER):
        return MetadataQuorum.ZOOKEEPER
    return MetadataQuorum.ISOLATED_KRAFT


def _has_kraft(release: Release | None) -> bool:
    return release is not None and not release.is_before(_WITH_KRAFT)
