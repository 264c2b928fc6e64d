"""Who lags behind its leader, told by the leader's own events: a judge of when it must go."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ackproof.broker.replication.events import FollowerFetch
from ackproof.broker.replication.replica import Replica
from ackproof.broker.types import BrokerId

NEVER: Final = -(2**62)
"""Longer ago than any lag."""


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
    is_member: bool = True
    """Of the ISR."""
    fetched_level: int = NEVER
    """When it last fetched as if it had been level: then, or at the fetch before."""


@dataclass(slots=True)
class Laggards:
    """Of one leader in one epoch; times are those of its events, in ms."""

    messages_max: float = math.inf
    epoch: int = -1
    _followers: dict[BrokerId, _Follower] = field(default_factory=dict)

    def stepped(self, replica: Replica, event: Any) -> None:
        """The leader took ``event`` in. Who is level with it now, or was at its last fetch but one,
        has caught up (``Replica.updateFetchStateOrThrow``); who is let into the ISR begins anew."""
        now = getattr(event, "now", None)
        if now is None:
            return
        if replica.leader_epoch != self.epoch:
            self.epoch = replica.leader_epoch
            self._followers.clear()
        end, ends = replica.log_end_offset, replica.follower_ends
        self._followers = {b: self._known(b, now, is_member=b in replica.isr) for b in ends}
        if isinstance(event, FollowerFetch) and event.replica in self._followers:
            follower = self._followers[event.replica]
            if follower.fetched is not None and event.offset >= follower.fetched[1]:
                follower.since = max(follower.since, follower.fetched[0])
                follower.fetched_level = max(follower.fetched_level, follower.fetched[0])
            if event.offset >= end:
                follower.fetched_level = now
            follower.fetched = now, end
        for broker, follower in self._followers.items():
            if ends[broker] == end or not replica.serves:
                follower.since = now
            near = ends[broker] < 0 or end - ends[broker] <= self.messages_max
            if near or not replica.serves:
                follower.far_since = now

    def _known(self, broker: BrokerId, now: int, *, is_member: bool) -> _Follower:
        known, began = self._followers.get(broker), now if is_member else NEVER
        if known is None:
            return _Follower(began, now, is_member=is_member, fetched_level=began)
        if is_member and not known.is_member:
            known.since, known.far_since = now, now
        known.is_member = is_member
        return known

    def hold_back(self, now: int, lag_max_ms: float) -> set[int]:
        """Who may hold the watermark back, whoever is about to join the ISR apart: its members, and
        who has been level with the leader within ``lag_max_ms`` (``maybeIncrementLeaderHW``)."""
        return {
            broker
            for broker, follower in self._followers.items()
            if follower.is_member or now - follower.fetched_level <= lag_max_ms
        }

    def longest(self, now: int) -> tuple[int, int]:
        """Who lags for longest, and for how many ms; (-1, 0): nobody."""
        return _longest({b: now - f.since for b, f in self._followers.items() if f.is_member})

    def farthest(self, now: int) -> tuple[int, int]:
        """The same of who is too many messages behind."""
        return _longest({b: now - f.far_since for b, f in self._followers.items() if f.is_member})


def _longest(lags: Mapping[int, int]) -> tuple[int, int]:
    lag, broker = max(((lag, broker) for broker, lag in lags.items()), default=(0, -1))
    return broker, lag
