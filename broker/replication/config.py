"""What a replica is told about its topic's settings.

Names and defaults are Apache Kafka's; how properties become this record is the server's business.
"""

from dataclasses import dataclass
from enum import Enum


class Truncation(Enum):
    """By what a follower cuts its log before it fetches."""

    HIGH_WATERMARK = "high-watermark"
    """Down to its own high watermark, as Kafka did before 0.11. Loses acknowledged records and
    lets logs diverge (seed 002 section 1.4, figures 8-9 to 8-14)."""

    LEADER_EPOCH = "leader-epoch"
    """Where the leader says that the follower's latest epoch ended (KIP-101, KIP-279)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaConfig:
    """Settings of one replica; may change while it runs (``Replica.configure``)."""

    min_insync_replicas: int = 1
    """``min.insync.replicas``: acks=-1 is refused while the ISR is smaller."""

    replica_lag_time_max_ms: int = 30_000
    """``replica.lag.time.max.ms``: how long a follower may go without having caught up before it
    leaves the ISR. Checked each half of it."""

    truncation: Truncation = Truncation.LEADER_EPOCH

    replica_lag_max_messages: int | None = None
    """``replica.lag.max.messages`` of Kafka 0.8: a follower further behind than this leaves the
    ISR as well. None: no such rule, as in every Kafka since 0.9 (seed 002 section 1.1)."""

    def __post_init__(self) -> None:
        if self.min_insync_replicas < 1:
            raise ValueError(f"min.insync.replicas must be at least 1: {self.min_insync_replicas}")
        if self.replica_lag_time_max_ms < 0:
            raise ValueError(f"replica.lag.time.max.ms is negative: {self.replica_lag_time_max_ms}")
