"""The follower's part: cut what the leader does not have, then fetch from it.

A follower first *truncates*, then *fetches*. Truncating by leader epoch is a conversation: it asks
where its latest epoch ended on the leader and cuts there; when the leader does not know that epoch
and names an older one that this follower does not know either, the follower cuts back to an epoch
of its own that is older still, and asks again (KIP-101, KIP-279). Answers are taken only in the
phase and epoch that asked for them; whatever comes late or twice changes nothing.
"""

from ackproof.broker.replication.config import ReplicaConfig, Truncation
from ackproof.broker.replication.events import (
    AskEpoch,
    EpochEndOffset,
    Fetched,
    FetchFrom,
    FetchOutOfRange,
    LeaderAndIsr,
    LeaderLostRecords,
)
from ackproof.broker.replication.local import Effects, LocalLog
from ackproof.broker.types import NO_EPOCH, BrokerId, LeaderEpoch, Offset


class Follower:
    """Follower in one epoch of its leader."""

    def __init__(self, config: ReplicaConfig, log: LocalLog, state: LeaderAndIsr) -> None:
        self.leader: BrokerId = state.leader
        self.epoch: LeaderEpoch = state.leader_epoch
        self._log = log
        self._by_epoch = config.truncation is Truncation.LEADER_EPOCH
        self._truncating = True
        self._is_prefix = False

    def enter(self) -> Effects:
        """Cut at the high watermark at once when there is no epoch to ask about."""
        if self._by_epoch and self._log.epochs.latest != NO_EPOCH:
            return ()
        self._truncating = False
        return self._log.truncate(self._log.high_watermark)

    def fetching(self) -> FetchFrom | AskEpoch:
        """What to ask the leader next."""
        if self._truncating:
            return AskEpoch(
                leader=self.leader, leader_epoch=self.epoch, epoch=self._log.epochs.latest
            )
        return FetchFrom(
            leader=self.leader,
            leader_epoch=self.epoch,
            offset=self._log.log_end_offset,
            log_start_offset=self._log.log_start_offset,
        )

    def epoch_end_offset(self, event: EpochEndOffset) -> Effects:
        """Cut where this log and the leader's part; stay in this phase if that is not known yet."""
        if not self._truncating or event.current_leader_epoch != self.epoch:
            return ()
        if not self._could_be_asked(event):
            return ()
        offset, is_final = self._truncation_state(event)
        cut = self._log.truncate(offset)
        self._truncating = not is_final and self._log.epochs.latest != NO_EPOCH
        return cut

    def _could_be_asked(self, event: EpochEndOffset) -> bool:
        """An answer never names a later epoch than the question did, which was this log's latest.

        One that does answers an earlier question once more, from before the last cut. This log
        knows nothing of so late an epoch any more: it would be cut at -1, which is all of it.
        """
        return event.leader_epoch <= self._log.epochs.latest

    def _truncation_state(self, event: EpochEndOffset) -> tuple[Offset, bool]:
        """Where to cut, and whether that is final.

        A leader that knows no such epoch leaves the high watermark to go by; so does Kafka.
        """
        if event.end_offset < 0:
            return self._log.high_watermark, True
        known, end = self._log.epochs.end_offset_for(event.leader_epoch, self._log.log_end_offset)
        if known == event.leader_epoch:
            return min(end, event.end_offset), True
        return end, False

    def fetched(self, event: Fetched) -> Effects:
        """Append what the leader sent, and adopt its high watermark and log start.

        Only from where this log ends: an answer to an earlier fetch, come late or twice, would
        leave a hole or overlap what followed.
        """
        if not self._expects(event.leader_epoch) or event.fetch_offset != self._log.log_end_offset:
            return ()
        if self._ends_inside_a_batch(event):
            return self._log.truncate(Offset(event.batches[0].base_offset))
        appended = self._log.append_as_follower(event.batches, event.log_start_offset)
        self._is_prefix = True
        return (
            *appended,
            *self._log.move_high_watermark(event.high_watermark),
            *self._log.advance_start(event.log_start_offset),
        )

    def _ends_inside_a_batch(self, event: Fetched) -> bool:
        """By watermark, logs may part anywhere, and this one may end inside a batch of the
        leader's: it gives up what it holds of those offsets. After an unclean election it was cut
        at the leader's end, 41, and to 40 since its own batches ended there; the leader's last
        batch is 36 to 41, and would be refused for ever.
        """
        if self._by_epoch or not event.batches:
            return False
        end, start = (
            self._log.log_end_offset,
            max(self._log.log_start_offset, event.log_start_offset),
        )
        return event.batches[0].base_offset < end > start

    def out_of_range(self, event: FetchOutOfRange) -> Effects:
        """The leader has not got the offset after this log's end.

        Its log ends before: cut there (after an unclean election, or a cut by high watermark). It
        starts later: nothing here is of use any more, begin anew at its start.

        Once the leader has served a fetch from this log's end, this log is a prefix of the
        leader's for the rest of the epoch, and to cut it would take back what the leader counts as
        replicated. A leader that is asked in order then says so only after it has lost its own
        log's end: it crashed, and leads on in its epoch. That it may have as much again by now
        changes nothing. (An answer that comes twice says so, too; therefore it does no more than
        raise the alarm.)
        """
        if not self._expects(event.leader_epoch):
            return ()
        end = self._log.log_end_offset
        if event.log_start_offset > end:
            return self._log.truncate_fully(event.log_start_offset)
        if self._is_prefix:
            return (LeaderLostRecords(leader_epoch=self.epoch, log_end_offset=end),)
        return self._log.truncate(event.log_end_offset) if event.log_end_offset < end else ()

    def _expects(self, epoch: LeaderEpoch) -> bool:
        return epoch == self.epoch and not self._truncating
