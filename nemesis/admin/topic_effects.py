"""Effects on topics of the faults' own, which no client of the workload knows; and those on topics
of the workload that stay."""

from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from ackproof.infra.api.admin import NoAnswer
from ackproof.infra.api.interface import ClusterView
from ackproof.nemesis.admin.effects import TOPIC, OnPartition, await_view, patience_s, take_back
from ackproof.nemesis.interface import Cluster, Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class OnTopic:
    """An effect on a topic. What is done to one of ours goes with it, by the undoing of the effect
    by which it was made; what is done to one of the workload stays."""

    topic: str
    ends: ClassVar[None] = None
    part: ClassVar[str]

    @property
    def resource(self) -> Resource:
        return Resource(TOPIC, (self.topic,), self.part)

    def apply(self, cluster: Cluster) -> bool:
        raise NotImplementedError

    def undo(self, cluster: Cluster) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic(OnTopic):
    """A topic is made; undone by deleting it. ``assignment``: of each partition the brokers, by
    name, the preferred one first."""

    assignment: tuple[tuple[str, ...], ...]

    part: ClassVar[str] = "existence"

    def apply(self, cluster: Cluster) -> bool:
        ids = [[cluster.server(name).id for name in brokers] for brokers in self.assignment]
        with suppress(NoAnswer):
            cluster.system.admin.create_topic(self.topic, ids, patience_s(cluster))
        return True

    def undo(self, cluster: Cluster) -> None:
        admin = cluster.system.admin
        order = lambda: admin.delete_topic(self.topic, patience_s(cluster))  # noqa: E731
        take_back(cluster, order, lambda: not _there(cluster, self.topic))

    def __str__(self) -> str:
        return f"create {self.topic} with {len(self.assignment)} partitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowTopic(OnTopic):
    """It gets more partitions, ``partitions`` in all."""

    partitions: int

    part: ClassVar[str] = "partitions"

    def apply(self, cluster: Cluster) -> bool:
        with suppress(NoAnswer):
            cluster.system.admin.grow_topic(self.topic, self.partitions, patience_s(cluster))
        return True

    def __str__(self) -> str:
        return f"grow {self.topic} to {self.partitions} partitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic(OnTopic):
    """It is deleted. ``partitions``: that it has."""

    partitions: int

    part: ClassVar[str] = "deletion"

    def apply(self, cluster: Cluster) -> bool:
        """Raises TimeoutError when it was never seen whole: that it is gone afterwards would be the
        proof of nothing."""
        _await_led(cluster, self.topic, self.partitions)
        with suppress(NoAnswer):
            cluster.system.admin.delete_topic(self.topic, patience_s(cluster))
        return True

    def __str__(self) -> str:
        return f"delete {self.topic}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecords(OnTopic):
    """So many records are written to each of its partitions, and those below an offset deleted."""

    partitions: int
    records: int
    before: int

    part: ClassVar[str] = "records"

    def apply(self, cluster: Cluster) -> bool:
        """Raises TimeoutError where nobody led it in time, NoAnswer when the records were not
        acknowledged."""
        _await_led(cluster, self.topic, self.partitions)
        admin = cluster.system.admin
        for number in range(self.partitions):
            admin.append(self.topic, number, self.records, patience_s(cluster))
        for number in range(self.partitions):
            with suppress(NoAnswer):
                admin.delete_records(self.topic, number, self.before, patience_s(cluster))
        return True

    def __str__(self) -> str:
        return f"delete the records of {self.topic} below {self.before}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteBelow(OnPartition):
    """The records of a partition of the workload below an offset are deleted."""

    before: int

    part: ClassVar[str] = "log start"

    def apply(self, cluster: Cluster) -> bool:
        """Raises OrderRefused where it has not so many in time."""
        admin = cluster.system.admin
        with suppress(NoAnswer):
            admin.delete_records(self.topic, self.number, self.before, patience_s(cluster))
        return True

    def __str__(self) -> str:
        return f"delete the records of {self.name} below {self.before}"


def led(view: ClusterView, topic: str) -> int:
    """How many of a topic's partitions have a leader."""
    return sum(one.topic == topic and one.leader >= 0 for one in view.partitions.values())


def _there(cluster: Cluster, topic: str) -> bool:
    return any(name == topic for name, _ in cluster.system.view().partitions)


def _await_led(cluster: Cluster, topic: str, partitions: int) -> None:
    if not await_view(cluster, lambda view: led(view, topic) >= partitions):
        raise TimeoutError(f"{topic} is not led on all of its {partitions} partitions")
