"""The topic settings that a replica depends on.

Names and defaults are Apache Kafka's. The server turns the topic's properties into this record.
"""

from dataclasses import dataclass
from enum import Enum


class Truncation(Enum):
    """The criterion by which a follower truncates its log before it fetches."""

    HIGH_WATERMARK = "high-watermark"
    """Truncate to the follower's own high watermark, as Kafka did before 0.11. This loses
    acknowledged records and lets logs diverge (*Reliability*, section 1.4, figures 8-9 to 8-14)."""

    LEADER_EPOCH = "leader-epoch"
    """Truncate where the leader says that the follower's latest epoch ended (KIP-101, KIP-279)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaConfig:
    """Settings of one replica, which may change while it runs (``Replica.configure``)."""

    min_insync_replicas: int = 1
    """``min.insync.replicas``: acks=-1 is rejected while the ISR is smaller."""

    replica_lag_time_max_ms: int = 30_000
    """``replica.lag.time.max.ms``: how long a follower may be behind before it leaves the ISR. The
    leader checks twice in this time."""

    truncation: Truncation = Truncation.LEADER_EPOCH

    replica_lag_max_messages: int | None = None
    """``replica.lag.max.messages`` of Kafka 0.8: a follower that is further behind than this leaves
    the ISR as well. None means that there is no such rule, as in every Kafka since 0.9
    (*Reliability*, section 1.1)."""

    def __post_init__(self) -> None:
        if self.min_insync_replicas < 1:
            raise ValueError(f"min.insync.replicas must be at least 1: {self.min_insync_replicas}")
        if self.replica_lag_time_max_ms < 0:
            raise ValueError(f"replica.lag.time.max.ms is negative: {self.replica_lag_time_max_ms}")
