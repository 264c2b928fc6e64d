"""The leader's part: appends, follower progress, ISR, high watermark, waiting producers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import TypeVar

from kio.schema.errors import ErrorCode

from ackproof.broker.replication.config import ReplicaConfig
from ackproof.broker.replication.epochs import UNKNOWN_OFFSET
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
from ackproof.broker.replication.local import Effects, LocalLog
from ackproof.broker.types import BrokerId, LeaderEpoch, Millis, Offset, ZkVersion, value

# --- followers ------------------------------------------------------------------------------------
#
# What a leader knows of one follower, from nothing but that follower's fetches.
#
# Follows ``Replica.updateFetchStateOrThrow`` and ``ReplicaState.isCaughtUp`` of Kafka 3.x.


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


# --- ISR ------------------------------------------------------------------------------------------
#
# The ISR as the leader holds it: committed in ZooKeeper, and perhaps one change under way.
#
# While a write is in flight, or nobody knows whether it happened, either ISR may be the one that
# the controller elects from. The leader therefore answers to the *maximal* ISR, committed and
# proposed together (KIP-497), until it learns which one holds.


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrState:
    """``proposed``: the ISR being written on top of ``zk_version``, or None.
    ``retry``: that write's outcome is unknown, and it is to be sent again."""

    committed: tuple[BrokerId, ...]
    zk_version: ZkVersion
    proposed: tuple[BrokerId, ...] | None = None
    retry: bool = False

    @property
    def maximal(self) -> frozenset[BrokerId]:
        """All members that may count, whichever way the write in flight ends.

        {1, 2} is being written as {1}. By the proposal alone, 1 would acknowledge what it alone
        has; the write is refused, the controller elects 2, and the record is gone. By the
        committed ISR alone, when {1} is being written as {1, 2}: 2 may be elected already.
        """
        return frozenset(self.committed) | frozenset(self.proposed or ())

    def propose(self, isr: tuple[BrokerId, ...]) -> "IsrState":
        """With a write of ``isr`` in flight; only one at a time."""
        if self.proposed is not None:
            raise ValueError(f"an ISR write is in flight already: {self.proposed}")
        return replace(self, proposed=isr)

    def written(self, isr: tuple[BrokerId, ...], zk_version: ZkVersion) -> "IsrState":
        """With the proposal committed; unchanged if this is news of another, earlier write."""
        if self.proposed != isr or zk_version <= self.zk_version:
            return self
        return IsrState(committed=isr, zk_version=zk_version)

    def failed(self, *, conflict: bool) -> "IsrState":
        """The proposal stands: to be tried again; after a conflict, until the controller speaks.

        Given up instead, it might have been carried out unseen, and who is in it be elected while
        this leader no longer waits for it.
        """
        return replace(self, retry=self.proposed is not None and not conflict)

    def refused(self) -> "IsrState":
        """Without the proposal, which certainly was not carried out."""
        return replace(self, proposed=None, retry=False)


# --- waiting producers ----------------------------------------------------------------------------
#
# Produce requests with acks=-1 that wait for the high watermark.
#
# They are done in the order of the offset they wait for, and expire in that of their deadlines: a
# heap for each, so that nothing is ever searched or polled. Offsets grow with the leader's log, but
# for the repetitions of idempotent producers. What one heap is done with, the other drops when it
# gets there.


Key = TypeVar("Key", Millis, Offset)


@value(kw_only=True)
class Waiting:
    """Appended at ``base_offset``; done when the high watermark reaches ``required_offset``."""

    request: int
    base_offset: Offset
    required_offset: Offset
    deadline: Millis


class PendingProduces:
    """Each method but ``add`` removes the requests it returns."""

    def __init__(self) -> None:
        self._waiting: dict[int, Waiting] = {}
        self._offsets: list[tuple[Offset, int]] = []
        self._deadlines: list[tuple[Millis, int]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiting: Waiting) -> None:
        """``waiting.request`` is not waiting yet."""
        self._waiting[waiting.request] = waiting
        heappush(self._offsets, (waiting.required_offset, waiting.request))
        heappush(self._deadlines, (waiting.deadline, waiting.request))

    def reached(self, high_watermark: Offset) -> list[Waiting]:
        """Those that wait for nothing above ``high_watermark``."""
        return self._take(self._offsets, high_watermark)

    def expired(self, now: Millis) -> list[Waiting]:
        """Those whose deadline is not after ``now``, earliest first."""
        return self._take(self._deadlines, now)

    def drain(self) -> list[Waiting]:
        """All of them."""
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
# The leader's part: appends, follower progress, ISR, high watermark, waiting producers.
#
# Follows ``Partition`` of Kafka 3.x before KIP-966. One deliberate difference: in each new epoch
# the leader forgets what followers had fetched, also when it led the epoch it knew before. Between
# the two another broker may have led, and followers may have cut what this leader remembers them
# to hold.


def refuse(request: int, error: ErrorCode) -> Respond:
    """The answer to a produce request that failed, or whose outcome nobody knows."""
    return Respond(request=request, error=error, base_offset=UNKNOWN_OFFSET)


class Leader:
    """Leader of one epoch. ``pending`` outlives the epoch while the same broker leads on."""

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
        """First of all in an epoch: note where it begins.

        After the first append it is too late. A follower holds 10 to 12 of epoch 2, which nobody
        else has; this leader has appended 10 to 12 of epoch 3. Asked where epoch 2 ended, it would
        say 13, its log's end, the follower keep its own, and the logs be different for good.

        As seed 001 prints it (``r.hw = r.leo``), what is here is called committed, whoever else has
        it: a leader that fails before anybody does keeps it by its watermark when it is back, below
        what the next leader has committed meanwhile.
        """
        raised = self._log.log_end_offset if self._raises_watermark else self._log.high_watermark
        return (
            *self._log.start_epoch(self.epoch),
            *self._log.move_high_watermark(raised),
            *self._advance(),
        )

    def start_serving(self, event: StartServing) -> Effects:
        """The wait for followers is over; the ISR is this leader's business from now on."""
        if event.leader_epoch == self.epoch and not self.serves:
            self._pass_time(event.now)
            self.serves = True
            self._next_isr_check = self._after_half_lag(event.now)
        return ()

    def update_assignment_and_isr(self, state: LeaderAndIsr) -> Effects:
        """The coordinator changed the ISR or the assignment within the epoch.

        Whom it took out of the ISR is forgotten. 1 leads with ISR {1, 2, 3} where 3 is dead, and
        has never fetched in this epoch; it is taken out at once. Taken for caught up still, as all
        of the ISR are at first, it would hold the watermark for another replica.lag.time.max.ms.
        """
        self._pass_time(state.now)
        for replica in self.remotes.keys() & set(self.isr.committed) - set(state.isr):
            self.remotes[replica] = RemoteReplica()
        self.isr = IsrState(committed=state.isr, zk_version=state.zk_version)
        self._assign(state.replicas)
        return self._advance()

    def replicas_changed(self, event: ReplicasChanged) -> Effects:
        """Other replicas are assigned: their fetches count from now on, those of others no more."""
        self._assign(event.replicas)
        return self._advance()

    def _assign(self, replicas: Iterable[BrokerId]) -> None:
        self.remotes = {
            replica: self.remotes.get(replica, RemoteReplica())
            for replica in self._others(replicas)
        }

    def _others(self, replicas: Iterable[BrokerId]) -> Iterable[BrokerId]:
        """All that the watermark has to do with: those assigned, and who is in the ISR.

        A partition on its way from 5 to 2, which has joined the ISR, is sent to 1 instead. 2 is
        assigned no more, and may be elected still: what is committed without it would be lost.
        """
        everybody = dict.fromkeys((*replicas, *sorted(self.isr.maximal)))
        return (replica for replica in everybody if replica != self._broker)

    def resign(self) -> Effects:
        """Nobody here will ever know what becomes of the waiting requests."""
        return tuple(
            refuse(waiting.request, ErrorCode.not_leader_or_follower)
            for waiting in self.pending.drain()
        )

    # --- produce ----------------------------------------------------------------------------

    def refusal(self, acks: int) -> ErrorCode:
        """With what a produce request would be refused now, or ``none``."""
        if not self.serves:
            return ErrorCode.not_leader_or_follower
        refused = acks == -1 and self.is_under_min_isr
        return ErrorCode.not_enough_replicas if refused else ErrorCode.none

    def produce(self, event: Produce) -> Effects:
        """Append what is not there yet, and answer at once unless acks=-1."""
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
        """The effects, and from where to where the batches are in the log."""
        if event.appended is not None:
            return ((), *event.appended)
        base = self._log.log_end_offset
        appended = self._log.append_as_leader(event.batches, self.epoch)
        return appended, base, self._log.log_end_offset

    def _acknowledge(self) -> Effects:
        """Answer those whose records are below the high watermark.

        ``min.insync.replicas`` counts once more: with 2 of them in the ISR the batch was let in,
        then one was dropped, and the watermark rose by the leader's log alone. That two hold it
        would be a lie. Who is about to join may count, since the watermark has waited for it.
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
        """Give up the oldest records; followers hear of it with their next fetch."""
        return self._log.advance_start(event.offset)

    # --- high watermark ---------------------------------------------------------------------

    def _advance(self) -> Effects:
        """Raise the high watermark if all who count have more, and answer whom that satisfies.

        It never goes back here: a follower that counts from now on with a lower end, or has not
        fetched in this epoch yet, takes nothing away from what consumers have read and producers
        were told.
        """
        target = self.committed_end()
        moved = self._log.move_high_watermark(target) if target > self._log.high_watermark else ()
        return (*moved, *self._acknowledge())

    def committed_end(self) -> Offset:
        """The smallest log end of all who count: the maximal ISR, and those about to join it.

        A follower outside the ISR counts while it is caught up by time. Otherwise a leader alone
        in its ISR would raise the watermark with each append, and a follower always one fetch
        behind could never reach it to join (``maybeIncrementLeaderHW``).
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
        """Note a follower's progress; let it into the ISR, raise the watermark.

        A fetch by a broker that is no replica, or from outside this log (which is answered with
        OFFSET_OUT_OF_RANGE), says nothing about what that follower shares with this log.
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
        """A follower joins when it has all that is committed, and all of earlier epochs.

        The epoch's start matters because a new leader's watermark may be too low at first. 1 and 2
        have committed up to 12, and 2, told of 10 so far, leads next: by its watermark 3 could
        join with 10, be elected, and lack two records that were acknowledged.
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
        """The ISR changed in ZooKeeper: a smaller one may let the watermark rise. News of an
        earlier epoch's write is none: the controller has elected from another ISR since."""
        if event.leader_epoch != self.epoch:
            return ()
        self.isr = self.isr.written(event.isr, event.zk_version)
        return self._advance()

    def isr_write_failed(self, event: IsrWriteFailed) -> Effects:
        """Keep the maximal ISR; an unknown outcome is settled by a second try."""
        if event.leader_epoch == self.epoch:
            self.isr = self.isr.failed(conflict=event.conflict)
        return ()

    def isr_refused(self, event: IsrRefused) -> Effects:
        """What was proposed was never written: the watermark waits for nobody in it any more."""
        if event.leader_epoch != self.epoch:
            return ()
        self.isr = self.isr.refused()
        return self._advance()

    @property
    def is_under_min_isr(self) -> bool:
        """The committed ISR is smaller than ``min.insync.replicas``."""
        return len(self.isr.committed) < self.config.min_insync_replicas

    # --- time -------------------------------------------------------------------------------

    def tick(self, event: Tick) -> Effects:
        """Send an uncertain ISR write again, shrink the ISR when due, expire waiting requests."""
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
