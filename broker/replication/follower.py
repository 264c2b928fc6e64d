"""Follower-side replication: truncate what the leader does not have, then fetch from it.

A follower first *truncates*, then *fetches*. Truncation by leader epoch may take several questions:

1. The follower asks where its latest epoch ended on the leader, and truncates there.
2. The leader may not know that epoch, and name an older one that the follower does not know either.
   The follower then truncates to a still older epoch of its own, and asks again (KIP-101, KIP-279).

An answer counts only in the phase and epoch in which it was requested. A late or repeated answer
changes nothing.
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
    """A follower in one epoch of its leader."""

    def __init__(self, config: ReplicaConfig, log: LocalLog, state: LeaderAndIsr) -> None:
        self.leader: BrokerId = state.leader
        self.epoch: LeaderEpoch = state.leader_epoch
        self._log = log
        self._by_epoch = config.truncation is Truncation.LEADER_EPOCH
        self._truncating = True
        self._is_prefix = False

    def enter(self) -> Effects:
        """Truncate to the high watermark at once when there is no epoch to ask about."""
        if self._by_epoch and self._log.epochs.latest != NO_EPOCH:
            return ()
        self._truncating = False
        return self._log.truncate(self._log.high_watermark)

    def fetching(self) -> FetchFrom | AskEpoch:
        """Return the next request to the leader."""
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
        """Truncate where this log and the leader's diverge. Remain in this phase if that offset is
        not known yet."""
        if not self._truncating or event.current_leader_epoch != self.epoch:
            return ()
        if not self._could_be_asked(event):
            return ()
        offset, is_final = self._truncation_state(event)
        cut = self._log.truncate(offset)
        self._truncating = not is_final and self._log.epochs.latest != NO_EPOCH
        return cut

    def _could_be_asked(self, event: EpochEndOffset) -> bool:
        """Return whether the answer can belong to the current question.

        An answer never names a later epoch than the question, which named this log's latest. If it
        does, it answers an earlier question from before the last truncation. This log no longer
        knows such a late epoch, and would be truncated at -1, that is, completely.
        """
        return event.leader_epoch <= self._log.epochs.latest

    def _truncation_state(self, event: EpochEndOffset) -> tuple[Offset, bool]:
        """Return where to truncate, and whether that is final.

        If the leader does not know the epoch, the high watermark decides, as in Kafka.
        """
        if event.end_offset < 0:
            return self._log.high_watermark, True
        known, end = self._log.epochs.end_offset_for(event.leader_epoch, self._log.log_end_offset)
        if known == event.leader_epoch:
            return min(end, event.end_offset), True
        return end, False

    def fetched(self, event: Fetched) -> Effects:
        """Append the leader's batches, and adopt its high watermark and log start.

        The batches count only if they begin where this log ends. A late or repeated answer to an
        earlier fetch would leave a hole, or overlap what followed.
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
        """Return whether this log ends inside a batch of the leader's.

        Truncated by watermark, logs may diverge at any offset. The follower then discards what it
        holds of that batch. Example, after an unclean election:

        1. The follower is told to truncate to the leader's end, 41.
        2. It truncates to 40, because a batch of its own ended there.
        3. The leader's last batch is 36 to 41, which the follower would reject for ever.
        """
        if self._by_epoch or not event.batches:
            return False
        end, start = (
            self._log.log_end_offset,
            max(self._log.log_start_offset, event.log_start_offset),
        )
        return event.batches[0].base_offset < end > start

    def out_of_range(self, event: FetchOutOfRange) -> Effects:
        """Truncate or start again, because the leader does not have the offset after this log's
        end.

        - If the leader's log ends earlier, truncate to its end. This follows an unclean election,
          or a truncation by high watermark.
        - If the leader's log starts later, nothing here is of use, and this log starts again there.

        Once the leader has served a fetch from this log's end, this log is a prefix of the leader's
        for the rest of the epoch. A truncation would remove records that the leader counts as
        replicated. If requests arrive in order, the leader then gives this answer only after it has
        lost the end of its own log: it crashed and still leads in its epoch. It may have reached
        the same offset again by now, which changes nothing. A repeated answer looks the same;
        therefore this case only raises the alarm.
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
