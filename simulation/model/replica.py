"""One broker's replica of a partition, as far as the model knows it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ackproof.broker.controller.cluster import NEVER_READ
from ackproof.broker.replication.events import FollowerFetch, Produce, WriteIsr
from ackproof.broker.replication.replica import Replica
from ackproof.broker.types import BrokerId
from simulation.model.log import ModelLog

NEVER: Final = -(2**62)
"""A time in ms that is longer ago than any lag."""
UNDAMAGED: Final = math.inf


class Lag(NamedTuple):
    """The limits within which a follower may lag behind its leader and stay in the ISR."""

    ms: float = math.inf
    """``replica.lag.time.max.ms``."""
    messages: float = math.inf
    """``replica.lag.max.messages`` of Kafka 0.8."""


@dataclass(slots=True)
class _Follower:
    since: int
    """The time since which it is not level with the leader, in ms."""
    too_far_since: int
    """The time since which it is too many messages behind, in ms."""
    fetched: tuple[int, int] | None = None
    """The time of its last fetch, and the end of the leader's log then."""
    is_member: bool = True
    """Whether it is in the ISR."""
    fetched_level: int = NEVER
    """The last time at which it fetched at the log end, of then or of the fetch before."""


@dataclass(slots=True)
class LagTracker:
    """The lags of one leader's followers in one epoch; times are those of its events, in ms."""

    messages_max: float = math.inf
    epoch: int = -1
    _followers: dict[BrokerId, _Follower] = field(default_factory=dict)

    def stepped(self, replica: Replica, event: Any) -> None:
        """Process an event of the leader.

        A follower has caught up if it is level now, or was level at its last fetch but one
        (``Replica.updateFetchStateOrThrow``). A follower that joins the ISR starts again.
        """
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
                follower.too_far_since = now

    def _known(self, broker: BrokerId, now: int, *, is_member: bool) -> _Follower:
        known, start = self._followers.get(broker), now if is_member else NEVER
        if known is None:
            return _Follower(start, now, is_member=is_member, fetched_level=start)
        if is_member and not known.is_member:
            known.since, known.too_far_since = now, now
        known.is_member = is_member
        return known

    def hold_back(self, now: int, lag_max_ms: float) -> set[int]:
        """Return the followers that may hold back the high watermark.

        These are the members of the ISR, and the followers that were level within ``lag_max_ms``
        (``maybeIncrementLeaderHW``). A follower that is about to join is not among them.
        """
        return {
            broker
            for broker, follower in self._followers.items()
            if follower.is_member or now - follower.fetched_level <= lag_max_ms
        }

    def longest(self, now: int) -> tuple[int, int]:
        """Return the member of the ISR that lags longest, and its lag in ms; (-1, 0) if there is
        none."""
        return _longest({b: now - f.since for b, f in self._followers.items() if f.is_member})

    def farthest(self, now: int) -> tuple[int, int]:
        """Return the member of the ISR that is too many messages behind for the longest time, and
        that time in ms."""
        return _longest(
            {b: now - f.too_far_since for b, f in self._followers.items() if f.is_member}
        )


def _longest(lags: Mapping[int, int]) -> tuple[int, int]:
    lag, broker = max(((lag, broker) for broker, lag in lags.items()), default=(0, -1))
    return broker, lag


@dataclass(slots=True)
class ReplicaModel:
    """A replica; it outlives the processes of its broker."""

    log: ModelLog
    high_watermark: int = 0
    untracked_high_watermark: int = 0
    """The part of the high watermark that it learned from a damaged leader, whose commits are not
    tracked. It keeps it under the next leader."""
    verified: int = 0
    """The offset below which its log was compared with what is committed."""
    undamaged_end: float = UNDAMAGED
    """The offset below which nothing can have been lost. The replica is damaged unless it is
    infinite."""
    end_before_damage: int = 0
    """The log end of a damaged replica when it was whole, or since, if greater."""
    lost_committed: bool | None = None
    """Whether a damaged replica lacked committed records at its first contact with its leader. None
    means that there was no contact yet."""
    registered: int = NEVER_READ
    """The transaction of its broker's last registration, which is the broker epoch."""
    trusted: bool = True
    """Whether its log and watermark are from a time that counts; see
    ``PartitionModel.end_guarantee``."""
    known: bool = True
    """Whether ``log`` is what is on the disk."""
    durable_end: int = 0
    """The offset below which the disk certainly has the log, if ``log`` is not known."""
    readable: bool = True
    """Whether the disk let the model read the log when this process began."""
    closed: bool = False
    """Whether its broker has ended in order since its last event."""
    epoch_watermarks: dict[int, int] = field(default_factory=dict)
    """The high watermark of this process as leader, by epoch."""
    epoch_starts: dict[int, int] = field(default_factory=dict)
    """The log end when this process began to lead, by epoch."""
    waiting: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """The waiting produce requests by token: acks, the offset after the batch, the deadline."""
    lags: LagTracker = field(default_factory=LagTracker)
    proposal: WriteIsr | None = None
    """The last ISR that this process proposed, written or not."""
    pending_proposal: WriteIsr | None = None
    """The proposed ISR whose outcome it does not know yet."""

    @property
    def is_whole(self) -> bool:
        """Return whether it has everything that it ever had."""
        return self.undamaged_end == UNDAMAGED

    @property
    def is_certain(self) -> bool:
        """Return whether ``log`` is certainly what the replica has."""
        return self.readable and self.known and self.is_whole

    def uncertain_from(self, offset: int) -> None:
        """Note that records at ``offset`` and above may be lost, or truncated ones may be back.

        A log of 15 records that was truncated to 10, and lost power before that was synced, may
        have 15 again.
        """
        self.durable_end = offset if self.known else min(self.durable_end, offset)
        self.known = False

    def process_started(self, *, readable: bool) -> None:
        """Note that a new process of its broker has opened the log."""
        self.epoch_watermarks.clear()
        self.epoch_starts.clear()
        self.waiting.clear()
        self.proposal = self.pending_proposal = None
        self.lags = LagTracker()
        self.readable = readable
        self.closed = False
        if not readable:
            self.uncertain_from(0)

    def log_found(self, log: ModelLog, kept: int) -> None:
        """Note that ``log`` was found, which is the same as the old one below ``kept``.

        A replica that lost everything at its first power failure loses nothing at the second. It is
        as damaged as before.
        """
        if kept >= (self.log.end if self.is_whole else self.end_before_damage):
            self.undamaged_end = UNDAMAGED
        elif not self.is_whole:
            self.undamaged_end = max(self.undamaged_end, kept)
        self.verified = min(self.verified, kept)
        self.trusted = self.trusted and log.end == kept  # otherwise truncated records are back

    def log_read(self, log: ModelLog, high_watermark: int) -> None:
        """Note that ``log`` is what is on the disk."""
        self.log, self.known = log, True
        self.high_watermark = high_watermark
        self.verified = min(self.verified, log.end)

    def produce_received(self, event: Produce) -> None:
        """Note that a produce request begins to wait."""
        size = sum(batch.next_offset - batch.base_offset for batch in event.batches)
        end = event.appended[1] if event.appended else self.log.end + size
        self.waiting[event.request] = (event.acks, end, event.deadline)
