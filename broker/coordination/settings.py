"""What one broker's coordination is told once."""

from dataclasses import dataclass

from ackproof.broker.types import BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The document's configuration parameters, by the properties of ``server.properties``."""

    broker: BrokerId
    preferred_replica_wait_ms: int = 200
    """``ackproof.preferred.replica.wait.ms``, PreferredReplicaTime: how long a replica that is not
    the preferred one waits before it claims the leadership."""
    keep_in_sync_ms: int = 10_000
    """``ackproof.keep.in.sync.ms``, KeepInSyncTime: how long a new leader waits at most for live
    replicas to catch up before it serves."""
    state_change_queue_max: int = 1_000
    """``ackproof.state.change.queue.max``: entries from which on a queue is full."""
    load_balancing: bool = True
    """``auto.leader.rebalance.enable``: whether ``checkLoadBalancing`` is done."""
    unclean_start: bool = False
    """The broker was not shut down in an orderly way before this start: the ends of its logs may
    be gone."""

    def __post_init__(self) -> None:
        for name in ("preferred_replica_wait_ms", "keep_in_sync_ms"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is negative: {getattr(self, name)}")
        if self.state_change_queue_max < 1:
            raise ValueError("a state change queue must have room for one request")
