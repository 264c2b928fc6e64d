"""Kafka's ``state.change.logger``, one JSON object per line.

The whole life of a state change can be followed in it: who asked whom, in which epochs, when it
was received and when it was completed (the lifecycle of the replication design V2, seed 001).
"""

import json
import logging

from broker.server.replication.roles import Origin
from broker.types import BrokerId, LeaderEpoch, Offset, TopicPartition

logger = logging.getLogger("state.change.logger")


class StateChangeLog:
    """Writes what happens to replicas of one broker."""

    def __init__(self, broker: BrokerId) -> None:
        self._broker = broker

    def record(
        self,
        event: str,
        origin: Origin,
        partition: TopicPartition,
        *,
        leader: BrokerId | None = None,
        leader_epoch: LeaderEpoch | None = None,
        error: str | None = None,
        leader_epoch_start_offset: Offset | None = None,
        high_watermark: Offset | None = None,
    ) -> None:
        """One line: ``event`` is received, completed or rejected; ``origin`` says of what. Of a
        leader that begins an epoch, as in Kafka, where its log ends and its high watermark."""
        line = {
            "event": event,
            "change": origin.change,
            "broker": self._broker,
            "partition": str(partition),
            **origin.by,
            "leader": leader,
            "leader_epoch": leader_epoch,
            "leader_epoch_start_offset": leader_epoch_start_offset,
            "high_watermark": high_watermark,
            "error": error,
        }
        logger.info(json.dumps({key: value for key, value in line.items() if value is not None}))
