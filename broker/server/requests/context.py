"""The tools of request handlers: the parts of the broker, the client, and the order of partitions
in a response."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from ackproof.broker.config import BrokerConfig
from ackproof.broker.probe import NO_PROBE, Probe
from ackproof.broker.server.admin import ConfigAdmin, Topics
from ackproof.broker.server.controller.control_fence import ControlFence
from ackproof.broker.server.coordinator import Coordinator
from ackproof.broker.server.groups.group_coordinator import GroupCoordinator
from ackproof.broker.server.metadata_cache import MetadataCache
from ackproof.broker.server.replication.fetch_session_cache import FetchSessionCache
from ackproof.broker.server.replication.purgatory import Purgatory
from ackproof.broker.server.replication.replica_manager import ReplicaManager
from ackproof.broker.server.schedule import Clock
from ackproof.broker.server.zk.kafka_zk import ProducerIds
from ackproof.broker.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The parts of the broker, each of which owns its own state.

    ``served`` is the table of APIs as ApiVersions shows it: versions by API key. ``new_uuid``
    creates the ids of group members.
    """

    config: BrokerConfig
    cluster_id: str
    clock: Clock
    fence: ControlFence
    replicas: ReplicaManager
    metadata: MetadataCache
    purgatory: Purgatory
    fetch_sessions: FetchSessionCache
    topics: Topics
    configs: ConfigAdmin
    coordinator: Coordinator
    producer_ids: ProducerIds
    groups: GroupCoordinator
    new_uuid: Callable[[], uuid.UUID]
    served: Mapping[int, range]
    probe: Probe = NO_PROBE


class Client(NamedTuple):
    """A client: its ``client.id``, and its host as groups show it, for example ``/10.0.0.1``."""

    id: str
    host: str


T = TypeVar("T")


def by_topic(outcomes: Mapping[TopicPartition, T]) -> dict[str, list[tuple[int, T]]]:
    """Return the numbers of the partitions by topic, all in order, for example ``{"t": [(0, a), (1,
    b)]}``."""
    topics: dict[str, list[tuple[int, T]]] = {}
    for topic, number in sorted(outcomes):
        outcome = outcomes[TopicPartition(topic, number)]
        topics.setdefault(topic, []).append((number, outcome))
    return topics
