"""What a leader knows of one follower, from nothing but that follower's fetches.

Follows ``Replica.updateFetchStateOrThrow`` and ``ReplicaState.isCaughtUp`` of Kafka 3.x.
"""

from ackproof.broker.replication.epochs import UNKNOWN_OFFSET
from ackproof.broker.types import Millis, Offset, value

NEVER = Millis(-(2**62))
"""Longer ago than any lag time."""


@value(kw_only=True)
class RemoteReplica:
    """A follower in the leader's eyes; offsets are -1 until its first fetch of this epoch."""

    log_start_offset: Offset = UNKNOWN_OFFSET
    log_end_offset: Offset = UNKNOWN_OFFSET
    last_fetch_leader_log_end: Offset = UNKNOWN_OFFSET
    last_fetch_time: Millis = NEVER
    last_caught_up_time: Millis = NEVER

    def fetched(
        self, *, offset: Offset, log_start: Offset, leader_log_end: Offset, now: Millis
    ) -> "RemoteReplica":
        """After a fetch from ``offset`` at ``now``, when the leader's log ended at
        ``leader_log_end``.

        Two rules say when it caught up: it has reached the leader's end now; or it has reached
        where the leader's end was at its fetch before this one, and so was caught up then. Without
        the second rule a leader under steady load would never see anybody catch up.
        """
        caught_up = self.last_caught_up_time
        if offset >= leader_log_end:
            caught_up = max(caught_up, now)
        elif offset >= self.last_fetch_leader_log_end:
            caught_up = max(caught_up, self.last_fetch_time)
        return RemoteReplica(
            log_start_offset=log_start,
            log_end_offset=offset,
            last_fetch_leader_log_end=max(leader_log_end, self.last_fetch_leader_log_end),
            last_fetch_time=now,
            last_caught_up_time=caught_up,
        )

    def is_caught_up(self, leader_log_end: Offset, now: Millis, lag_time_max_ms: int) -> bool:
        """Level with the leader, or level with it no longer than ``lag_time_max_ms`` ago."""
        return (
            self.log_end_offset == leader_log_end
            or now - self.last_caught_up_time <= lag_time_max_ms
        )
