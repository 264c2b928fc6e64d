"""Who keeps the metadata of a system: ZooKeeper, or KRaft's controllers, which are servers of their
own or brokers, too. The words are those of Kafka's own system tests (ducktape's
``metadata_quorum``)."""

from enum import StrEnum


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
