"""Making topics: what a request may ask for, and how it gets into ZooKeeper.

The controller sees the new znode and does the rest; whoever created the topic waits until the
metadata cache shows leaders. Policies are not handled.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kio.schema.errors import ErrorCode

from broker.config import BrokerConfig, ConfigError
from broker.controller.assignment import assign_replicas
from broker.server.metadata_cache import MetadataCache
from broker.server.zk import KafkaZk, TopicExists
from broker.server.zk_session import SessionExpired
from broker.types import NO_LEADER, BrokerId

NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
Assignment = Mapping[int, tuple[BrokerId, ...]]


class Refused(Exception):
    """What a client is told, with the error code; ``none`` says that all went well."""

    def __init__(self, error: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.error = error


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic as asked for. None: the broker's default. ``assignment`` excludes the counts."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    assignment: Assignment = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)


class Topics:
    """Creates topics in the name of clients."""

    def __init__(self, config: BrokerConfig, zk: KafkaZk, metadata: MetadataCache) -> None:
        self._config = config
        self._zk = zk
        self._metadata = metadata

    def validate(self, spec: TopicSpec) -> Assignment:
        """Replicas by partition for a topic that may be created.

        Raises:
            Refused: and why.
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
        """Writes the topic to ZooKeeper; returns how many partitions it has.

        Raises:
            Refused: it may not be created, or nobody knows whether it was.
        """
        assignment = self.validate(spec)
        try:
            await self._zk.create_topic(spec.name, assignment, spec.config)
        except TopicExists as error:
            raise Refused(ErrorCode.topic_already_exists, str(error)) from error
        except SessionExpired as error:
            raise Refused(ErrorCode.request_timed_out, str(error)) from error
        return len(assignment)

    async def wait_until_led(self, name: str, partitions: int, timeout_s: float) -> None:
        """Waits until this broker has heard of a leader for every partition.

        Raises:
            Refused: time ran out; the topic exists all the same.
        """

        def led() -> bool:
            known = self._metadata.topics.get(name, {})
            return len(known) >= partitions and all(p.leader != NO_LEADER for p in known.values())

        if not await self._metadata.wait_until(led, timeout_s):
            raise Refused(ErrorCode.request_timed_out, f"{name} has no leaders yet.")

    async def create_automatically(self, name: str) -> ErrorCode:
        """Creates a topic that a client asked about; returns what to tell that client."""
        try:
            await self.create(TopicSpec(name=name))
        except Refused as refused:
            if refused.error is ErrorCode.invalid_topic_exception:
                return refused.error
        return ErrorCode.leader_not_available

    def _check_name(self, name: str) -> None:
        if name in {".", ".."} or not NAME.fullmatch(name):
            raise Refused(
                ErrorCode.invalid_topic_exception,
                f"Topic name {name!r} is not 1 to 249 letters, digits, '.', '_' and '-'.",
            )
        if name in self._metadata.topics:
            raise Refused(ErrorCode.topic_already_exists, f"Topic {name!r} already exists.")
        for other in self._metadata.topics:
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
        if not 1 <= factor <= len(alive):
            raise Refused(
                ErrorCode.invalid_replication_factor,
                f"Replication factor {factor} with {len(alive)} brokers alive.",
            )
        return assign_replicas(alive, partitions, factor)

    def _check_assignment(self, spec: TopicSpec) -> Assignment:
        if spec.partitions is not None or spec.replication_factor is not None:
            raise Refused(ErrorCode.invalid_request, "Give either an assignment or the two counts.")
        wrong = ErrorCode.invalid_replica_assignment
        if sorted(spec.assignment) != list(range(len(spec.assignment))):
            raise Refused(wrong, "Partitions are not numbered from 0 without gaps.")
        if len({len(replicas) for replicas in spec.assignment.values()}) != 1:
            raise Refused(wrong, "Partitions have different numbers of replicas.")
        for partition, replicas in spec.assignment.items():
            if not replicas or len(set(replicas)) != len(replicas):
                raise Refused(wrong, f"Replicas of partition {partition}: {replicas}.")
            if unknown := set(replicas) - self._metadata.brokers.keys():
                raise Refused(wrong, f"Brokers {sorted(unknown)} are not alive.")
        return spec.assignment
