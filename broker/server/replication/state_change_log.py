"""Kafka's ``state.change.logger``, one JSON object per line.

The whole life of a state change can be followed in it: its sender and receiver, the epochs, and
when it was received and completed (the lifecycle of *Design V2*).
"""

import json
import logging

from ackproof.broker.replication.events import EpochEndOffset, Event, FetchOutOfRange, LeaderAndIsr
from ackproof.broker.replication.replica import Replica
from ackproof.broker.server.replication.roles import Origin
from ackproof.broker.types import BrokerId, LeaderEpoch, Offset, TopicPartition

logger = logging.getLogger("state.change.logger")


class StateChangeLog:
    """The log of changes to the replicas of one broker."""

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
        """Write one line. ``event`` is received, completed or rejected, and ``origin`` names the
        order. For a leader that begins an epoch, as in Kafka, it has the end of its log and its
        high watermark."""
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


def truncated(
    partition: TopicPartition,
    replica: Replica,
    event: Event,
    *,
    log_end_offset: int,
    offset: int,
    high_watermark: Offset,
) -> None:
    """Write one line: a log that ended at ``log_end_offset`` was truncated to ``offset``, with the
    reason.

    The records that a replica removes are listed nowhere else. To explain later why an acknowledged
    record is gone, there is only this line. ``high_watermark`` is the one before the truncation.
    """
    line = {
        "event": "completed",
        "change": "Truncate",
        "broker": replica.broker,
        "partition": str(partition),
        "leader": replica.leader,
        "leader_epoch": replica.leader_epoch,
        "log_end_offset": log_end_offset,
        "offset": offset,
        "high_watermark": high_watermark,
        "due_to": _grounds(event),
    }
    logger.info(json.dumps(line))


def _grounds(event: Event) -> str:
    """Return the reason for a truncation, in Kafka's own words if it has one
    (``AbstractFetcherThread``)."""
    match event:
        case EpochEndOffset() if event.end_offset >= 0:
            return f"leader epoch {event.leader_epoch} and offset {event.end_offset}"
        case EpochEndOffset() | LeaderAndIsr():
            return "local high watermark"
        case FetchOutOfRange():
            ends = f"from {event.log_start_offset} to {event.log_end_offset}"
            return f"fetch offset out of range, the leader's log is {ends}"
        case _:
            return "a batch around it"
