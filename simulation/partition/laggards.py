"""Who lags behind its leader, told by the leader's own events: a judge of when it must go."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from broker.replication.events import FollowerFetch
from broker.replication.replica import Replica


class Lag(NamedTuple):
    """How far a follower may be behind, and stay in the ISR."""

    ms: float = math.inf
    """``replica.lag.time.max.ms``."""
    messages: float = math.inf
    """``replica.lag.max.messages``, which Kafka 0.8 has."""


@dataclass(slots=True)
class _Follower:
    since: int
    """Since when it is not level with the leader, in ms."""
    far_since: int
    """Since when it is too many messages behind."""
    fetched: tuple[int, int] | None = None
    """Its last fetch: when, and where the leader's log ended then."""


@dataclass(slots=True)
class Laggards:
    """Of one leader in one epoch; times are those of its events, in ms."""

    messages_max: float = math.inf
    epoch: int = -1
    _followers: dict[int, _Follower] = field(default_factory=dict)

    def stepped(self, replica: Replica, event: Any) -> None:
        """The leader took ``event`` in. Who is level with it now, or was at its last fetch but one,
        has caught up (``Replica.updateFetchStateOrThrow``); who is let into the ISR begins anew."""
        now = getattr(event, "now", None)
        if now is None:
            return
        if replica.leader_epoch != self.epoch or not replica.serves:
            self.epoch = replica.leader_epoch
            self._followers.clear()
        end, ends = replica.log_end_offset, replica.follower_ends
        members = [broker for broker in replica.isr if broker in ends]
        self._followers = {b: self._followers.get(b, _Follower(now, now)) for b in members}
        if isinstance(event, FollowerFetch) and event.replica in self._followers:
            follower = self._followers[event.replica]
            if follower.fetched is not None and event.offset >= follower.fetched[1]:
                follower.since = max(follower.since, follower.fetched[0])
            follower.fetched = now, end
        for broker in members:
            if ends[broker] == end:
                self._followers[broker].since = now
            if ends[broker] < 0 or end - ends[broker] <= self.messages_max:
                self._followers[broker].far_since = now

    def longest(self, now: int) -> tuple[int, int]:
        """Who lags for longest, and for how many ms; (-1, 0): nobody."""
        return _longest({b: now - follower.since for b, follower in self._followers.items()})

    def farthest(self, now: int) -> tuple[int, int]:
        """The same of who is too many messages behind."""
        return _longest({b: now - follower.far_since for b, follower in self._followers.items()})


def _longest(lags: Mapping[int, int]) -> tuple[int, int]:
    lag, broker = max(((lag, broker) for broker, lag in lags.items()), default=(0, -1))
    return broker, lag
