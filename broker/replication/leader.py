"""Leader-side replication of one partition: appends, follower progress, ISR changes, the high
watermark and pending produce requests.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Final, Literal, TypeVar

from kio.schema.errors import ErrorCode

from ackproof.broker.replication.config import ReplicaConfig
from ackproof.broker.replication.events import (
    DeleteRecords,
    FollowerFetch,
    IsrRefused,
    IsrWriteFailed,
    IsrWritten,
    LeaderAndIsr,
    Produce,
    ReplicasChanged,
    Respond,
    StartServing,
    Tick,
    WriteIsr,
)
from ackproof.broker.replication.local import UNKNOWN_OFFSET, Effects, LocalLog
from ackproof.broker.types import BrokerId, LeaderEpoch, Millis, Offset, ZkVersion, value

# --- followers ------------------------------------------------------------------------------------
#
# What a leader knows of one follower, learned only from that follower's fetches.
#
# Follows ``Replica.updateFetchStateOrThrow`` and ``ReplicaState.isCaughtUp`` of Kafka 3.x.


NEVER = Millis(-(2**62))
"""A time longer ago than any lag time."""


@value(kw_only=True)
class RemoteReplica:
    """The leader's view of a follower. Offsets are -1 until its first fetch in this epoch."""

    log_start_offset: Offset = UNKNOWN_OFFSET
    log_end_offset: Offset = UNKNOWN_OFFSET
    last_fetch_leader_log_end: Offset = UNKNOWN_OFFSET
    last_fetch_time: Millis = NEVER
    last_caught_up_time: Millis = NEVER

    def fetched(
        self, *, offset: Offset, log_start: Offset, leader_log_end: Offset, now: Millis
    ) -> "RemoteReplica":
        """Return the view after a fetch from ``offset`` at ``now``, when the leader's log ended at
        ``leader_log_end``.

        Two rules say when the follower caught up:

        1. It has now reached the leader's end.
        2. It has now reached the leader's end at the time of its previous fetch, and so was caught
           up then.

        Without the second rule, a leader under steady load would never see a follower catch up.
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
        """Return whether the follower's end equals the leader's, or did at most ``lag_time_max_ms``
        ago."""
        return (
            self.log_end_offset == leader_log_end
            or now - self.last_caught_up_time <= lag_time_max_ms
        )


# --- ISR ------------------------------------------------------------------------------------------
#
# The ISR as the leader holds it: the one committed in ZooKeeper, and perhaps one pending change.
#
# While a write is in flight, or its outcome is unknown, the controller may elect from either ISR.
# The leader therefore uses the *maximal* ISR, committed and proposed together (KIP-497), until it
# learns which one holds.


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrState:
    """The committed ISR and the pending change.

    ``proposed`` is the ISR that is being written on top of ``zk_version``, or None. ``retry`` says
    that the outcome of that write is unknown, and that it must be sent again.
    """

    committed: tuple[BrokerId, ...]
    zk_version: ZkVersion
    proposed: tuple[BrokerId, ...] | None = None
    retry: bool = False

    @property
    def maximal(self) -> frozenset[BrokerId]:
        """All members that may count, however the write in flight ends.

        - {1, 2} is being written as {1}, and only the proposal counts. Broker 1 acknowledges a
          record that only it has. The write is rejected, the controller elects 2, and the record is
          lost.
        - {1} is being written as {1, 2}, and only the committed ISR counts. Broker 2 may be elected
          already.
        """
        return frozenset(self.committed) | frozenset(self.proposed or ())

    def propose(self, isr: tuple[BrokerId, ...]) -> "IsrState":
        """Return the state with a write of ``isr`` in flight. Raise ValueError if there is one
        already."""
        if self.proposed is not None:
            raise ValueError(f"an ISR write is in flight already: {self.proposed}")
        return replace(self, proposed=isr)

    def written(self, isr: tuple[BrokerId, ...], zk_version: ZkVersion) -> "IsrState":
        """Return the state with the proposal committed. It is unchanged if the news is of an
        earlier write."""
        if self.proposed != isr or zk_version <= self.zk_version:
            return self
        return IsrState(committed=isr, zk_version=zk_version)

    def failed(self, *, conflict: bool) -> "IsrState":
        """Return the state with the proposal kept. It is retried, or after a conflict waits for the
        controller.

        If the proposal were dropped, it might have been written without the leader's knowledge. A
        replica in it could then be elected while this leader no longer waits for it.
        """
        return replace(self, retry=self.proposed is not None and not conflict)

    def refused(self) -> "IsrState":
        """Return the state without the proposal, which was certainly not written."""
        return replace(self, proposed=None, retry=False)


# --- waiting producers ----------------------------------------------------------------------------
#
# Produce requests with acks=-1 that wait for the high watermark.
#
# They complete in the order of the offset that they wait for, and expire in the order of their
# deadlines. There is a heap for each order, so that nothing is ever searched or polled. Offsets
# grow with the leader's log, except for the retries of idempotent producers. An entry that was
# removed by one heap is dropped by the other when it comes to the top.


Key = TypeVar("Key", Millis, Offset)


@value(kw_only=True)
class Waiting:
    """A request appended at ``base_offset``, which completes when the high watermark reaches
    ``required_offset``."""

    request: int
    base_offset: Offset
    required_offset: Offset
    deadline: Millis


class PendingProduces:
    """The waiting produce requests. Each method except ``add`` removes the requests that it
    returns."""

    def __init__(self) -> None:
        self._waiting: dict[int, Waiting] = {}
        self._offsets: list[tuple[Offset, int]] = []
        self._deadlines: list[tuple[Millis, int]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiting: Waiting) -> None:
        """Add a request. ``waiting.request`` must not be waiting yet."""
        self._waiting[waiting.request] = waiting
        heappush(self._offsets, (waiting.required_offset, waiting.request))
        heappush(self._deadlines, (waiting.deadline, waiting.request))

    def reached(self, high_watermark: Offset) -> list[Waiting]:
        """Return the requests that wait for nothing above ``high_watermark``."""
        return self._take(self._offsets, high_watermark)

    def expired(self, now: Millis) -> list[Waiting]:
        """Return the requests whose deadline is not after ``now``, the earliest first."""
        return self._take(self._deadlines, now)

    def drain(self) -> list[Waiting]:
        """Return all requests."""
        everyone = list(self._waiting.values())
        self._waiting.clear()
        self._offsets.clear()
        self._deadlines.clear()
        return everyone

    def _take(self, heap: list[tuple[Key, int]], limit: Key) -> list[Waiting]:
        taken = []
        while heap and (heap[0][0] <= limit or heap[0][1] not in self._waiting):
            _, request = heappop(heap)
            if request in self._waiting:
                taken.append(self._waiting.pop(request))
        return taken


# --- leader ---------------------------------------------------------------------------------------
#
# Leader-side replication: appends, follower progress, ISR, high watermark, waiting producers.
#
# Follows ``Partition`` of Kafka 3.x before KIP-966. There is one deliberate difference: in each new
# epoch the leader forgets what followers had fetched, even if it also led the previous epoch that
# it knew. Another broker may have led in between, and followers may have truncated what this leader
# remembers them to hold.


def refuse(request: int, error: ErrorCode) -> Respond:
    """Return the answer to a produce request that failed, or whose outcome is unknown."""
    return Respond(request=request, error=error, base_offset=UNKNOWN_OFFSET)


class Leader:
    """The leader of one epoch. ``pending`` outlives the epoch while the same broker stays
    leader."""

    def __init__(
        self,
        broker: BrokerId,
        config: ReplicaConfig,
        log: LocalLog,
        state: LeaderAndIsr,
        pending: PendingProduces,
    ) -> None:
        self.config = config
        self.epoch: LeaderEpoch = state.leader_epoch
        self.epoch_start: Offset = log.log_end_offset
        self.serves = state.serves
        self.isr = IsrState(committed=state.isr, zk_version=state.zk_version)
        self._broker = broker
        self.remotes: dict[BrokerId, RemoteReplica] = {
            replica: RemoteReplica(last_caught_up_time=state.now if replica in state.isr else NEVER)
            for replica in self._others(state.replicas)
        }
        self.pending = pending
        self._log = log
        self._now = state.now
        self._raises_watermark = state.as_printed
        self._next_isr_check = self._after_half_lag(state.now)

    def enter(self) -> Effects:
        """Note where the epoch begins, before anything else happens in it.

        After the first append it is too late:

        1. A follower holds offsets 10 to 12 of epoch 2, which no other replica has.
        2. This leader has appended offsets 10 to 12 of epoch 3.
        3. The follower asks where epoch 2 ended, and the leader answers 13, the end of its log.
        4. The follower keeps its records, and the logs differ for good.

        *Design V2* prints ``r.hw = r.leo``: everything in this log counts as committed, even if no
        other replica has it. A leader that fails before another replica has copied it keeps it by
        its watermark when it returns. The next leader has meanwhile committed other records at
        these offsets.
        """
        raised = self._log.log_end_offset if self._raises_watermark else self._log.high_watermark
        return (
            *self._log.start_epoch(self.epoch),
            *self._log.move_high_watermark(raised),
            *self._advance(),
        )

    def start_serving(self, event: StartServing) -> Effects:
        """End the wait for followers. From now on this leader manages the ISR."""
        if event.leader_epoch == self.epoch and not self.serves:
            self._pass_time(event.now)
            self.serves = True
            self._next_isr_check = self._after_half_lag(event.now)
        return ()

    def update_assignment_and_isr(self, state: LeaderAndIsr) -> Effects:
        """Take over a change of the ISR or the assignment within the epoch.

        The progress of a replica that was removed from the ISR is forgotten. Suppose broker 1 leads
        with ISR {1, 2, 3}, and broker 3 is dead, has never fetched in this epoch, and is removed at
        once. All members of the ISR count as caught up at first. If broker 3 still did, it would
        hold the watermark for another replica.lag.time.max.ms.
        """
        self._pass_time(state.now)
        for replica in self.remotes.keys() & set(self.isr.committed) - set(state.isr):
            self.remotes[replica] = RemoteReplica()
        self.isr = IsrState(committed=state.isr, zk_version=state.zk_version)
        self._assign(state.replicas)
        return self._advance()

    def replicas_changed(self, event: ReplicasChanged) -> Effects:
        """Count the fetches of the newly assigned replicas, and no longer those of others."""
        self._assign(event.replicas)
        return self._advance()

    def _assign(self, replicas: Iterable[BrokerId]) -> None:
        self.remotes = {
            replica: self.remotes.get(replica, RemoteReplica())
            for replica in self._others(replicas)
        }

    def _others(self, replicas: Iterable[BrokerId]) -> Iterable[BrokerId]:
        """Return all replicas that the watermark depends on: the assigned ones and the ISR.

        Suppose a partition is being moved from 5 to 2, broker 2 has joined the ISR, and the
        partition is then sent to 1 instead. Broker 2 is no longer assigned but may still be
        elected. Records that were committed without it would be lost.
        """
        everybody = dict.fromkeys((*replicas, *sorted(self.isr.maximal)))
        return (replica for replica in everybody if replica != self._broker)

    def resign(self) -> Effects:
        """Answer all waiting requests, because this broker will never learn their outcome."""
        return tuple(
            refuse(waiting.request, ErrorCode.not_leader_or_follower)
            for waiting in self.pending.drain()
        )

    # --- produce ----------------------------------------------------------------------------

    def refusal(self, acks: int) -> ErrorCode:
        """Return the error with which a produce request would be rejected now, or ``none``."""
        if not self.serves:
            return ErrorCode.not_leader_or_follower
        refused = acks == -1 and self.is_under_min_isr
        return ErrorCode.not_enough_replicas if refused else ErrorCode.none

    def produce(self, event: Produce) -> Effects:
        """Append the batches that are not in the log yet, and answer at once unless acks=-1."""
        self._pass_time(event.now)
        refusal = self.refusal(event.acks)
        if refusal is not ErrorCode.none:
            return (refuse(event.request, refusal),)
        appended, base, required = self._append(event)
        if event.acks != -1:
            answer = Respond(request=event.request, error=ErrorCode.none, base_offset=base)
            return (*appended, *self._advance(), answer)
        self.pending.add(
            Waiting(
                request=event.request,
                base_offset=base,
                required_offset=required,
                deadline=event.deadline,
            )
        )
        return (*appended, *self._advance())

    def _append(self, event: Produce) -> tuple[Effects, Offset, Offset]:
        """Return the effects, and the offset range of the batches in the log."""
        if event.appended is not None:
            return ((), *event.appended)
        base = self._log.log_end_offset
        appended = self._log.append_as_leader(event.batches, self.epoch)
        return appended, base, self._log.log_end_offset

    def _acknowledge(self) -> Effects:
        """Answer the requests whose records are below the high watermark.

        ``min.insync.replicas`` is checked a second time. Suppose a batch was accepted with two
        members in the ISR, then one was removed, and the watermark rose by the leader's log alone.
        It would be false to say that two replicas hold the batch. A replica that is about to join
        may count, because the watermark has waited for it.
        """
        reached = self.pending.reached(self._log.high_watermark)
        if not reached:
            return ()
        enough = len(self.isr.maximal) >= self.config.min_insync_replicas
        return tuple(
            Respond(request=done.request, error=ErrorCode.none, base_offset=done.base_offset)
            if enough
            else refuse(done.request, ErrorCode.not_enough_replicas_after_append)
            for done in reached
        )

    def delete_records(self, event: DeleteRecords) -> Effects:
        """Delete the oldest records. Followers learn it from the answer to their next fetch."""
        return self._log.advance_start(event.offset)

    # --- high watermark ---------------------------------------------------------------------

    def _advance(self) -> Effects:
        """Raise the high watermark if all replicas that count have more, and answer the requests
        done.

        It never goes back here. A follower may begin to count with a lower end, or may not have
        fetched in this epoch yet. Neither takes back what consumers have read or what was
        acknowledged to producers.
        """
        target = self.committed_end()
        moved = self._log.move_high_watermark(target) if target > self._log.high_watermark else ()
        return (*moved, *self._acknowledge())

    def committed_end(self) -> Offset:
        """Return the smallest log end of the replicas that count: the maximal ISR and those about
        to join.

        A follower outside the ISR counts while it is caught up by time. Otherwise a leader alone in
        its ISR would raise the watermark with each append. A follower that is always one fetch
        behind could then never reach it to join (``maybeIncrementLeaderHW``).
        """
        return min([self._log.log_end_offset, *self._counted_ends()])

    def _counted_ends(self) -> Sequence[Offset]:
        maximal = self.isr.maximal
        return [
            remote.log_end_offset
            for replica, remote in self.remotes.items()
            if replica in maximal or self._is_caught_up(remote)
        ]

    def _is_caught_up(self, remote: RemoteReplica) -> bool:
        return remote.is_caught_up(
            self._log.log_end_offset, self._now, self.config.replica_lag_time_max_ms
        )

    # --- followers and the ISR --------------------------------------------------------------

    def follower_fetch(self, event: FollowerFetch) -> Effects:
        """Note a follower's progress, add it to the ISR if it may join, and raise the watermark.

        Some fetches say nothing about what the follower shares with this log: those of a broker
        that is no replica, and those from outside this log, which are answered with
        OFFSET_OUT_OF_RANGE.
        """
        self._pass_time(event.now)
        remote = self.remotes.get(event.replica)
        first, last = self._log.log_start_offset, self._log.log_end_offset
        if remote is None or not first <= event.offset <= last:
            return ()
        self.remotes[event.replica] = remote.fetched(
            offset=event.offset,
            log_start=event.log_start_offset,
            leader_log_end=self._log.log_end_offset,
            now=event.now,
        )
        return (*self._maybe_expand_isr(event.replica), *self._advance())

    def _maybe_expand_isr(self, replica: BrokerId) -> Effects:
        """Propose the follower for the ISR when it has all committed records and all of earlier
        epochs.

        The epoch's start matters because a new leader's watermark may be too low at first. Suppose
        brokers 1 and 2 have committed up to 12, and broker 2, which has heard only of 10, leads
        next. By the watermark alone, broker 3 could join with 10, be elected, and lack two
        acknowledged records.
        """
        end = self.remotes[replica].log_end_offset
        if self.isr.proposed is not None or replica in self.isr.committed or not self.serves:
            return ()
        if end < max(self._log.high_watermark, self.epoch_start):
            return ()
        return self._propose((*self.isr.committed, replica))

    def _maybe_shrink_isr(self) -> Effects:
        lagging = {replica for replica in self.remotes if self._lags(replica)}
        kept = tuple(replica for replica in self.isr.committed if replica not in lagging)
        return self._propose(kept) if kept != self.isr.committed else ()

    def _lags(self, replica: BrokerId) -> bool:
        remote = self.remotes[replica]
        return not self._is_caught_up(remote) or self._is_too_far_behind(remote)

    def _is_too_far_behind(self, remote: RemoteReplica) -> bool:
        limit = self.config.replica_lag_max_messages
        if limit is None or remote.log_end_offset == UNKNOWN_OFFSET:
            return False
        return self._log.log_end_offset - remote.log_end_offset > limit

    def _propose(self, isr: tuple[BrokerId, ...]) -> Effects:
        self.isr = self.isr.propose(isr)
        return (self._write_isr(isr),)

    def _write_isr(self, isr: tuple[BrokerId, ...]) -> WriteIsr:
        return WriteIsr(leader_epoch=self.epoch, isr=isr, zk_version=self.isr.zk_version)

    def isr_written(self, event: IsrWritten) -> Effects:
        """Take over the written ISR, because a smaller one may let the watermark rise. The outcome
        of an earlier epoch's write is ignored: the controller has since elected from another ISR.
        """
        if event.leader_epoch != self.epoch:
            return ()
        self.isr = self.isr.written(event.isr, event.zk_version)
        return self._advance()

    def isr_write_failed(self, event: IsrWriteFailed) -> Effects:
        """Keep the maximal ISR. A second write settles an unknown outcome."""
        if event.leader_epoch == self.epoch:
            self.isr = self.isr.failed(conflict=event.conflict)
        return ()

    def isr_refused(self, event: IsrRefused) -> Effects:
        """Drop the proposal, which was never written. The watermark no longer waits for its new
        members."""
        if event.leader_epoch != self.epoch:
            return ()
        self.isr = self.isr.refused()
        return self._advance()

    @property
    def is_under_min_isr(self) -> bool:
        """Whether the committed ISR is smaller than ``min.insync.replicas``."""
        return len(self.isr.committed) < self.config.min_insync_replicas

    # --- time -------------------------------------------------------------------------------

    def tick(self, event: Tick) -> Effects:
        """Repeat an uncertain ISR write, shrink the ISR when due, and expire waiting requests."""
        self._pass_time(event.now)
        moved = (*self._retry_or_shrink_isr(), *self._advance())
        expired = (
            refuse(waiting.request, ErrorCode.request_timed_out)
            for waiting in self.pending.expired(event.now)
        )
        return (*moved, *expired)

    def _retry_or_shrink_isr(self) -> Effects:
        if self.isr.proposed is not None:
            return self._retry_isr_write(self.isr.proposed) if self.isr.retry else ()
        if self._now < self._next_isr_check or not self.serves:
            return ()
        self._next_isr_check = self._after_half_lag(self._now)
        return self._maybe_shrink_isr()

    def _retry_isr_write(self, proposed: tuple[BrokerId, ...]) -> Effects:
        self.isr = IsrState(
            committed=self.isr.committed, zk_version=self.isr.zk_version, proposed=proposed
        )
        return (self._write_isr(proposed),)

    def _after_half_lag(self, now: Millis) -> Millis:
        return Millis(now + self.config.replica_lag_time_max_ms // 2)

    def _pass_time(self, now: Millis) -> None:
        self._now = max(self._now, now)


# --- choice of a replica to read from -------------------------------------------------------------
#
# The choice of the replica from which a consumer reads (KIP-392), made by the leader.
#
# A leader sends a consumer to another replica only if ``replica.selector.class`` says so. Kafka's
# ``RackAwareReplicaSelector`` names a replica in the consumer's own rack (``client.rack``) when the
# leader is in another one. Among several, it prefers the one with the most records, then the one
# that caught up last, then the largest id. A replica that is not in the ISR, or lacks the requested
# offset, is never named (KAFKA-14372); see
# :meth:`broker.replication.replica.Replica.followers_to_read_from`.
#
# Not handled: custom selectors, which in Kafka are classes on the class path.


ReplicaSelector = Literal[
    "org.apache.kafka.common.replica.LeaderSelector",
    "org.apache.kafka.common.replica.RackAwareReplicaSelector",
]
"""Kafka's own selectors. With the first, every consumer reads from the leader, as without any
selector."""
RACK_AWARE: Final[ReplicaSelector] = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def preferred_read_replica(
    rack: str,
    leader: BrokerId,
    followers: Mapping[BrokerId, RemoteReplica],
    racks: Mapping[BrokerId, str | None],
) -> BrokerId | None:
    """Return the follower from which a consumer in ``rack`` should read, or None for the leader.

    Args:
        rack: the consumer's rack, empty if it has none.
        followers: the followers that it may be sent to, as the leader knows them.
        racks: the racks of the brokers that are known to be alive.
    """
    if not rack or racks.get(leader) == rack:
        return None
    near = [follower for follower in followers if racks.get(follower) == rack]

    def progress(follower: BrokerId) -> tuple[int, int, int]:
        remote = followers[follower]
        return remote.log_end_offset, remote.last_caught_up_time, follower

    return max(near, key=progress, default=None)
