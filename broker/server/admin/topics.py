"""Creation, extension and deletion of topics: validation, and the way into ZooKeeper."""

import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kio.schema.errors import ErrorCode

from ackproof.broker.config import BrokerConfig, ConfigError
from ackproof.broker.controller.assignment import (
    InvalidReplicationFactor,
    assign_more,
    assign_replicas,
)
from ackproof.broker.controller.cluster import TopicAssignment
from ackproof.broker.server.metadata_cache import MetadataCache
from ackproof.broker.server.topic_names import is_legal
from ackproof.broker.server.zk.kafka_zk import TopicExists, UnknownTopic
from ackproof.broker.server.zk.session import SessionExpired
from ackproof.broker.types import NO_LEADER, BrokerId


def java_hash(text: str) -> int:
    """Return Java's hash of a string: over UTF-16 code units, in signed 32 bits."""
    data = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for unit in struct.unpack(f">{len(data) // 2}H", data):
        code = (31 * code + unit) & 0xFFFF_FFFF
    return code - 2**32 if code >= 2**31 else code


class TopicStore(Protocol):
    """Topics and their assignments in ZooKeeper."""

    async def topics(self) -> set[str]:
        """Return the names of all topics."""

    async def has_topic(self, topic: str) -> bool:
        """Return whether there is such a topic."""

    async def topic_assignments(self, topics: Iterable[str]) -> dict[str, TopicAssignment]:
        """Return the assignments of those topics that exist."""

    async def partition_count(self, topic: str) -> int:
        """Return how many partitions ``topic`` has, including those that are still being created,
        or 0 if there is no such topic."""

    async def create_topic(
        self, topic: str, assignment: Mapping[int, Sequence[int]], config: Mapping[str, str]
    ) -> None:
        """Create a topic with these replicas by partition, the preferred one first.

        Raises:
            TopicExists: also when another broker was faster.
            SessionExpired: unknown whether the topic was created.
        """

    async def add_partitions(self, topic: str, added: Mapping[int, Sequence[int]]) -> None:
        """Give ``topic`` further partitions. The existing ones do not change.

        Raises:
            UnknownTopic: no such topic.
            SessionExpired: unknown whether they were added.
        """

    async def is_being_deleted(self, topic: str) -> bool:
        """Return whether the deletion of ``topic`` was requested."""

    async def delete_topic(self, topic: str) -> None:
        """Request the deletion of ``topic``.

        Raises:
            UnknownTopic: no such topic.
            SessionExpired: unknown whether it will be deleted.
        """


Assignment = Mapping[int, tuple[BrokerId, ...]]


class Refused(Exception):
    """The rejection of a client's request, with the error code.

    Requests about several resources collect one for each, and ``none`` stands for those that were
    accepted.
    """

    def __init__(self, error: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.error = error


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A requested topic. None means the broker's default. A request has either ``assignment`` or
    the two counts."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    assignment: Assignment = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)


PARTITIONS_MAX = 10_000
"""The limit for new partitions of one topic in one request, as in Kafka since 3.3 (KRaft; with
ZooKeeper there is no limit). A small request with a large number would cost the broker much work,
because it assigns replicas to each partition."""


def _check_may_exist(name: str) -> None:
    if not is_legal(name):
        raise Refused(ErrorCode.unknown_topic_or_partition, f"There is no topic {name!r}.")


def _check_number(new_partitions: int) -> None:
    if new_partitions > PARTITIONS_MAX:
        raise Refused(
            ErrorCode.policy_violation,
            f"{new_partitions} new partitions at once, expected at most {PARTITIONS_MAX}.",
        )


class Topics:
    """Creates, extends and deletes topics on behalf of clients."""

    def __init__(self, config: BrokerConfig, store: TopicStore, metadata: MetadataCache) -> None:
        self._config = config
        self._store = store
        self._metadata = metadata

    def validate(self, spec: TopicSpec) -> Assignment:
        """Return the replicas by partition for a topic that may be created, according to the
        metadata cache. Another broker may create a topic of that name at the same time.

        Raises:
            Refused: the topic may not be created, with the reason.
        """
        self._check_name(spec.name)
        try:
            self._config.topic_defaults().overridden(spec.config)
        except ConfigError as error:
            raise Refused(ErrorCode.invalid_config, str(error)) from error
        if spec.assignment:
            return self._check_assignment(spec)
        return self._assign(spec)

    async def create(self, spec: TopicSpec) -> int:
        """Write the topic to ZooKeeper, and return how many partitions it has.

        Raises:
            Refused: it may not be created, or it is unknown whether it was.
        """
        await self._metadata.refresh([spec.name])
        assignment = self.validate(spec)
        try:
            await self._store.create_topic(spec.name, assignment, spec.config)
        except TopicExists as error:
            raise Refused(ErrorCode.topic_already_exists, str(error)) from error
        except SessionExpired as error:
            raise Refused(ErrorCode.request_timed_out, str(error)) from error
        return len(assignment)

    async def wait_until_led(self, name: str, partitions: int, timeout_s: float) -> None:
        """Wait until this broker has heard of a leader for every partition.

        Raises:
            Refused: the time ran out. The topic exists all the same.
        """

        def led() -> bool:
            known = self._metadata.topics.get(name, {})
            return len(known) >= partitions and all(p.leader != NO_LEADER for p in known.values())

        if not await self._metadata.wait_until(led, timeout_s, [name]):
            raise Refused(ErrorCode.request_timed_out, f"{name} has no leaders yet.")

    async def create_automatically(self, name: str) -> ErrorCode:
        """Create a topic that a client named in a request, and return the error for that client."""
        try:
            await self.create(TopicSpec(name=name))
        except Refused as refused:
            if refused.error is ErrorCode.invalid_topic_exception:
                return refused.error
        return ErrorCode.leader_not_available

    async def add_partitions(
        self,
        name: str,
        count: int,
        assignment: Sequence[tuple[BrokerId, ...]] | None,
        *,
        validate_only: bool,
    ) -> None:
        """Give a topic further partitions, so that it has ``count``.

        ``assignment`` has the replicas of the new ones. With None they are distributed as in Kafka.

        Raises:
            Refused: it may not be extended, or it is unknown whether it was.
        """
        old = await self._extensible(name, count)
        existing = {number: found.replicas for number, found in old.partitions.items()}
        added = self._more(existing, count, assignment)
        if validate_only:
            return
        try:
            await self._store.add_partitions(name, added)
        except UnknownTopic as error:
            raise Refused(ErrorCode.unknown_topic_or_partition, str(error)) from error
        except SessionExpired as error:
            raise Refused(ErrorCode.request_timed_out, str(error)) from error

    async def assignments(self, names: Collection[str] | None) -> dict[str, TopicAssignment]:
        """Return the replicas of these topics (None: of all) from ZooKeeper."""
        wanted = await self._store.topics() if names is None else names
        return await self._store.topic_assignments(filter(is_legal, wanted))

    async def delete(self, name: str) -> None:
        """Request the deletion of a topic.

        Raises:
            Refused: it may not be deleted, or it is unknown whether it will be.
        """
        if not self._config.delete_topic_enable:
            raise Refused(ErrorCode.topic_deletion_disabled, "delete.topic.enable is false.")
        _check_may_exist(name)
        try:
            await self._store.delete_topic(name)
        except UnknownTopic as error:
            raise Refused(ErrorCode.unknown_topic_or_partition, str(error)) from error
        except SessionExpired as error:
            raise Refused(ErrorCode.request_timed_out, str(error)) from error

    async def wait_until_gone(self, name: str, timeout_s: float) -> None:
        """Wait until this broker has heard that a topic is deleted. Replicas on brokers that are
        down may remain, and the name stays taken, for as long as these brokers are down.

        Raises:
            Refused: the time ran out. The topic will be deleted all the same.
        """
        if not await self._metadata.wait_until(
            lambda: name not in self._metadata.names, timeout_s, [name]
        ):
            raise Refused(ErrorCode.request_timed_out, f"{name} is not deleted yet.")

    async def _extensible(self, name: str, count: int) -> TopicAssignment:
        _check_may_exist(name)
        found = (await self._store.topic_assignments([name])).get(name)
        if found is None or 0 not in found.partitions:
            raise Refused(ErrorCode.unknown_topic_or_partition, f"There is no topic {name!r}.")
        if await self._store.is_being_deleted(name):
            raise Refused(ErrorCode.invalid_topic_exception, f"Topic {name!r} is being deleted.")
        if any(part.adding or part.removing for part in found.partitions.values()):
            raise Refused(ErrorCode.reassignment_in_progress, f"{name} is being reassigned.")
        if count <= len(found.partitions):
            raise Refused(
                ErrorCode.invalid_partitions,
                f"{name} has {len(found.partitions)} partitions: {count} would not be more.",
            )
        return found

    def _more(
        self, existing: Assignment, count: int, given: Sequence[tuple[BrokerId, ...]] | None
    ) -> Assignment:
        alive = {broker.id: broker.rack for broker in self._metadata.brokers.values()}
        added = count - len(existing)
        _check_number(added)
        if given is None:
            try:
                return assign_more(alive, existing, added)
            except InvalidReplicationFactor as error:
                raise Refused(ErrorCode.invalid_replication_factor, str(error)) from error
        wrong = ErrorCode.invalid_replica_assignment
        if len(given) != added:
            raise Refused(wrong, f"{added} partitions are new, {len(given)} have replicas.")
        if {len(replicas) for replicas in given} != {len(existing[0])}:
            raise Refused(wrong, f"Every partition has {len(existing[0])} replicas.")
        numbered = dict(enumerate(given, len(existing)))
        self._check_replicas(numbered)
        return numbered

    def _check_name(self, name: str) -> None:
        if not is_legal(name):
            raise Refused(
                ErrorCode.invalid_topic_exception,
                f"Topic name {name!r} is not 1 to 249 letters, digits, '.', '_' and '-'.",
            )
        # A name without partitions may be left by a creation whose broker died. A second creation
        # completes it. If the name counted as taken, __consumer_offsets could never be created
        # after such a death, and groups would have no coordinator for good.
        if name in self._metadata.topics:
            raise Refused(ErrorCode.topic_already_exists, f"Topic {name!r} already exists.")
        for other in set(self._metadata.names) - {name}:
            if other.replace(".", "_") == name.replace(".", "_"):
                raise Refused(
                    ErrorCode.invalid_topic_exception,
                    f"Topic {name!r} collides with {other!r}: '.' and '_' are the same in metrics.",
                )

    def _assign(self, spec: TopicSpec) -> Assignment:
        partitions = self._config.num_partitions if spec.partitions is None else spec.partitions
        factor = spec.replication_factor
        factor = self._config.default_replication_factor if factor is None else factor
        alive = {broker.id: broker.rack for broker in self._metadata.brokers.values()}
        if partitions < 1:
            raise Refused(ErrorCode.invalid_partitions, "A topic has at least one partition.")
        _check_number(partitions)
        if not 1 <= factor <= len(alive):
            raise Refused(
                ErrorCode.invalid_replication_factor,
                f"Replication factor {factor} with {len(alive)} brokers alive.",
            )
        # The start differs by topic. Otherwise the same broker would lead every topic of one
        # partition. Kafka draws it at random. By the name it is the same in every run, and topics
        # t-1, t-2 and t-3 start at successive brokers.
        return assign_replicas(alive, partitions, factor, start=java_hash(spec.name))

    def _check_assignment(self, spec: TopicSpec) -> Assignment:
        if spec.partitions is not None or spec.replication_factor is not None:
            raise Refused(ErrorCode.invalid_request, "Give either an assignment or the two counts.")
        wrong = ErrorCode.invalid_replica_assignment
        if sorted(spec.assignment) != list(range(len(spec.assignment))):
            raise Refused(wrong, "Partitions are not numbered from 0 without gaps.")
        if len({len(replicas) for replicas in spec.assignment.values()}) != 1:
            raise Refused(wrong, "Partitions have different numbers of replicas.")
        self._check_replicas(spec.assignment)
        return spec.assignment

    def _check_replicas(self, assignment: Assignment) -> None:
        wrong = ErrorCode.invalid_replica_assignment
        for partition, replicas in assignment.items():
            if not replicas or len(set(replicas)) != len(replicas):
                raise Refused(wrong, f"Replicas of partition {partition}: {replicas}.")
            if unknown := set(replicas) - self._metadata.brokers.keys():
                raise Refused(wrong, f"Brokers {sorted(unknown)} are not alive.")
