"""The leader's part: appends, follower progress, ISR, high watermark, waiting producers.

Follows ``Partition`` of Kafka 3.x before KIP-966. One deliberate difference: in each new epoch
the leader forgets what followers had fetched, also when it led the epoch it knew before. Between
the two another broker may have led, and followers may have cut what this leader remembers them
to hold.
"""

from collections.abc import Iterable, Sequence

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
from ackproof.broker.replication.isr import IsrState
from ackproof.broker.replication.local import Effects, LocalLog
from ackproof.broker.replication.pending import PendingProduces, Waiting
from ackproof.broker.replication.remote import NEVER, RemoteReplica
from ackproof.broker.types import BrokerId, LeaderEpoch, Millis, Offset


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
