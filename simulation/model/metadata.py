"""The leaders in metadata answers, and the settings that each broker uses.

- **Metadata/missing-leader-not-reported**: a partition without a leader is reported with
  LEADER_NOT_AVAILABLE, so that clients ask again.
- **Metadata/leader-never-led**: a broker that is reported as leader in an epoch leads or led in it.
  With another epoch, clients would take the right answer, a moment later, for an older one
  (KIP-320).
"""

import json
from collections.abc import Container, Mapping
from typing import Final

from kio.schema.errors import ErrorCode

from ackproof.broker.config import BrokerConfig, TopicConfig
from ackproof.broker.types import NO_EPOCH, NO_LEADER, TopicPartition
from ackproof.broker.wire.messages.metadata import MetadataResponse
from simulation.violation import Violation

CLUSTER: Final = "/cluster/id"
CONTROLLER: Final = "/controller"
BROKERS: Final = "/config/brokers/"
ALL: Final = "<default>"

LeaderTerm = tuple[TopicPartition, int, int]
"""A partition, its leader and the epoch."""


class BrokerSettings:
    """The settings that brokers use where a topic has none: their properties, and the dynamic
    settings in ZooKeeper (KIP-226)."""

    def __init__(self) -> None:
        self.properties: dict[int, BrokerConfig] = {}
        self.dynamic: dict[str, Mapping[str, str]] = {}
        """The dynamic settings by broker id, or by :data:`ALL`."""

    def written(self, path: str, data: bytes | None) -> None:
        """Note a write to a node of ZooKeeper."""
        if path.startswith(BROKERS):
            self.dynamic[path.removeprefix(BROKERS)] = json.loads(data)["config"] if data else {}

    def defaults(self, broker: int) -> TopicConfig:
        """Return the settings of a broker; its own take precedence over those of all."""
        dynamic = {**self.dynamic.get(ALL, {}), **self.dynamic.get(str(broker), {})}
        return self.properties[broker].overridden(dynamic).topic_defaults()


def check_reported_leaders(answer: MetadataResponse, ever_led: Container[LeaderTerm]) -> None:
    """Judge the leaders in an answer to Metadata. Raises Violation.

    ``ever_led`` has all leaders and epochs that were ever in ZooKeeper.
    """
    for topic in answer.topics:
        for part in topic.partitions:
            tp = TopicPartition(topic.name or "", part.partition_index)
            has_none = part.leader_id == NO_LEADER
            if has_none != (part.error_code is ErrorCode.leader_not_available):
                what = f"the error is {part.error_code.name} and the leader {part.leader_id}"
                raise Violation("Metadata/missing-leader-not-reported", f"{tp}: {what}")
            led = (tp, part.leader_id, part.leader_epoch)
            if not has_none and part.leader_epoch != NO_EPOCH and led not in ever_led:
                what = f"{part.leader_id} is said to lead in epoch {part.leader_epoch}"
                raise Violation("Metadata/leader-never-led", f"{tp}: {what}, and never did")
