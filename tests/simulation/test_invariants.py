"""Each invariant, broken by hand: a checker that cannot fail checks nothing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.controller.cluster import PartitionState
from ackproof.broker.replication.events import (
    Append,
    FollowerFetch,
    HighWatermark,
    LeaderAndIsr,
    Produce,
    Respond,
    Tick,
    Truncate,
    WriteIsr,
)
from ackproof.broker.replication.replica import Role
from simulation.model.log import BatchExtent, ModelLog
from simulation.model.partition import PartitionModel
from simulation.model.replica import Lag
from simulation.violation import Violation
from tests.support.builders.batches import batch

RECORD = batch((b"one",), leader_epoch=0)
OTHER = batch((b"other",), leader_epoch=0)


class Story:
    """Three brokers; 1 leads epoch 0, and what they do is said step by step."""

    def __init__(self) -> None:
        self.partition = PartitionModel("t-0", checks_data=True, note=lambda _: None)
        self.version = 0
        self.now = 0.0
        self.isr: tuple[int, ...] = (1, 2, 3)
        self.ends = {2: 0, 3: 0}
        self.waters = dict.fromkeys((1, 2, 3), 0)
        self.roles = {1: (Role.LEADER, 0), 2: (Role.FOLLOWER, 0), 3: (Role.FOLLOWER, 0)}
        self.state(1, 0, (1, 2, 3))
        for broker in (1, 2, 3):
            self.partition.hosted(broker, ModelLog(), 0)
            self.step(broker, event=self.word())

    def word(self) -> LeaderAndIsr:
        return LeaderAndIsr(
            controller_epoch=1, leader=1, leader_epoch=0, isr=(1, 2, 3), replicas=(1, 2, 3),
            zk_version=0, now=0,
        )  # fmt: skip

    def state(
        self,
        leader: int,
        epoch: int,
        isr: Sequence[int],
        *,
        unclean: bool = False,
        lives: Mapping[int, int] | None = None,
    ) -> None:
        """``lives``: as which incarnation a member is in the ISR, if not as its first."""
        self.version += 1
        state = PartitionState(
            leader=leader, leader_epoch=epoch, isr=tuple(isr), controller_epoch=1,
            zk_version=self.version, broker_epochs={b: (lives or {}).get(b, b) for b in isr},
        )  # fmt: skip
        self.partition.state_written(state, unclean=unclean, now=self.now)

    def step(self, broker: int, *effects: Any, event: Any = None) -> None:
        role, epoch = self.roles[broker]
        log = self.partition.replica(broker).log
        shadow = ModelLog(log.start, log.between(log.start, log.end))
        for effect in effects:
            if isinstance(effect, Append):
                shadow.append(effect)
            elif isinstance(effect, Truncate):
                shadow.truncate(effect.offset)
        view: Any = SimpleNamespace(
            role=role, leader=1, leader_epoch=epoch, isr=self.isr,
            high_watermark=self.waters[broker],
            log_start_offset=shadow.start, log_end_offset=shadow.end, zk_version=self.version,
            serves=True, follower_ends=self.ends,
        )  # fmt: skip
        self.partition.stepped(broker, view, event or Tick(now=0), effects)

    def append(self, broker: int, what: Any = RECORD, at: int = 0) -> None:
        """Append the record as the leader, or as a follower that fetched it."""
        leads = self.roles[broker][0] is Role.LEADER
        epoch = self.roles[broker][1] if leads else None
        stored = what if leads else replace(what, base_offset=at)
        self.step(broker, Append(batches=(stored,), base_offset=at, leader_epoch=epoch))

    def commit(self, *brokers: int, to: int) -> None:
        for broker in brokers:
            self.waters[broker] = to
            self.step(broker, HighWatermark(offset=to))

    def replicated(self) -> None:
        """One record, everywhere, committed."""
        for broker in (1, 2, 3):
            self.append(broker)
        self.commit(1, 2, 3, to=1)


def broken(invariant: str, deed: Callable[..., None], *args: Any, **named: Any) -> None:
    with pytest.raises(Violation) as raised:
        deed(*args, **named)
    assert raised.value.invariant == invariant


@pytest.fixture
def story() -> Story:
    return Story()


def test_sound_state_breaks_no_invariant(story: Story) -> None:
    story.replicated()
    story.state(2, 1, (2, 3))
    assert story.partition.committed_end == 1
    assert story.partition.is_guaranteed(0, sent_at=0.0)


def test_a_leader_outside_the_isr(story: Story) -> None:
    broken("Isr/leader-is-no-member", story.state, 1, 1, (2, 3))


def test_an_unclean_election_where_none_is_allowed(story: Story) -> None:
    story.state(1, 0, (1, 2))
    broken("Election/unclean-leader", story.state, 3, 1, (3,))


def test_unclean_election_ends_earlier_guarantees(story: Story) -> None:
    story.replicated()
    story.state(1, 0, (1, 2))
    story.state(3, 1, (3,), unclean=True)
    assert not story.partition.is_guaranteed(0, sent_at=0.0)


def test_record_acked_by_an_unaware_leader_is_not_guaranteed(story: Story) -> None:
    """Alone in the ISR that it knows, it waits for no follower."""
    story.append(1, OTHER)
    produce = Produce(request=7, batches=(RECORD,), acks=-1, deadline=9, now=0)
    append = Append(batches=(RECORD,), base_offset=1, leader_epoch=0)
    answer = Respond(request=7, error=ErrorCode.none, base_offset=1)
    story.state(1, 0, (1,))
    story.state(3, 1, (3,), unclean=True)
    story.step(1, append, answer, event=produce)
    assert story.partition.acked_by_deposed == {RECORD.crc}


def test_two_leaders_of_one_epoch(story: Story) -> None:
    broken("LeaderEpoch/two-leaders", story.state, 2, 0, (1, 2, 3))


def test_two_that_append_in_one_epoch(story: Story) -> None:
    story.append(1)
    story.roles[2] = (Role.LEADER, 0)
    broken("LeaderEpoch/two-leaders", story.append, 2)


def test_an_epoch_that_goes_back(story: Story) -> None:
    story.state(2, 4, (2, 3))
    broken("LeaderEpoch/went-back", story.state, 3, 3, (2, 3))


def test_a_watermark_above_the_log(story: Story) -> None:
    broken("HighWatermark/out-of-range", story.commit, 1, to=1)


def test_a_follower_s_watermark_above_all_that_was_committed(story: Story) -> None:
    story.append(2)
    broken("HighWatermark/out-of-range", story.commit, 2, to=1)


def test_the_watermark_of_a_leader_that_is_damaged_and_leads_on_is_as_good(story: Story) -> None:
    """A sync failed, and was not missed: it sees what it wrote."""
    story.replicated()
    story.partition.damaged(1, 0, now=1.0)
    for broker in (1, 2, 3):
        story.append(broker, OTHER, at=1)
    story.commit(1, 2, 3, to=2)


def test_a_leader_s_watermark_that_goes_back(story: Story) -> None:
    story.replicated()
    broken("HighWatermark/went-back", story.commit, 1, to=0)


def test_isr_member_without_a_committed_record_is_a_violation(story: Story) -> None:
    story.append(1)
    story.append(2)
    broken("Isr/believed-member-lacks-committed-record", story.commit, 1, to=1)


def test_isr_member_that_truncates_a_committed_record_is_a_violation(story: Story) -> None:
    story.replicated()
    story.waters[3] = 0
    broken("Isr/member-lacks-committed-record", story.step, 3, Truncate(offset=0))


def test_broker_that_enters_the_isr_without_a_committed_record_is_a_violation(story: Story) -> None:
    story.state(1, 0, (1,))
    story.append(1)
    story.partition.replica(2).log.clear(0)
    story.roles[1] = (Role.LEADER, 0)
    story.waters[1] = 1
    with pytest.raises(Violation):  # by the leader's own ISR first
        story.step(1, HighWatermark(offset=1))
    broken("Isr/member-lacks-committed-record", story.state, 1, 0, (1, 2))


def test_isr_member_that_deletes_its_replica_is_a_violation(story: Story) -> None:
    story.replicated()
    broken("Isr/member-lacks-committed-record", story.partition.removed, 2)


def test_former_isr_member_may_delete_its_replica(story: Story) -> None:
    story.replicated()
    story.state(1, 0, (1, 3))
    story.partition.removed(2)


def test_two_logs_that_differ(story: Story) -> None:
    story.append(1)
    story.append(2, OTHER)
    story.append(3)
    broken("Isr/believed-member-lacks-committed-record", story.commit, 1, to=1)


def test_an_ack_before_the_commit(story: Story) -> None:
    produce = Produce(request=7, batches=(RECORD,), acks=-1, deadline=9, now=0)
    append = Append(batches=(RECORD,), base_offset=0, leader_epoch=0)
    answer = Respond(request=7, error=ErrorCode.none, base_offset=0)
    broken("Produce/acknowledged-before-commit", story.step, 1, append, answer, event=produce)


def answered_with_two_in_sync_at_least(story: Story, *before: Any) -> None:
    """1 has committed a record, and answers it, after these effects."""
    story.partition.configured(2)
    story.append(1)
    story.waters[1] = 1
    produce = Produce(request=7, batches=(), appended=(0, 1), acks=-1, deadline=9, now=0)
    answer = Respond(request=7, error=ErrorCode.none, base_offset=0)
    story.step(1, *before, HighWatermark(offset=1), answer, event=produce)


def test_an_ack_with_enough_in_sync(story: Story) -> None:
    story.append(2)
    story.state(1, 0, (1, 2))
    story.isr = (1, 2)
    answered_with_two_in_sync_at_least(story)


def test_an_ack_with_too_few_in_sync(story: Story) -> None:
    story.state(1, 0, (1,))
    story.isr = (1,)
    broken("Isr/acknowledged-below-minimum", answered_with_two_in_sync_at_least, story)


def test_ack_with_an_isr_believed_by_the_leader_alone_is_a_violation(story: Story) -> None:
    story.append(2, replace(RECORD, leader_epoch=1))
    story.state(1, 1, (1,))
    story.roles[1] = (Role.LEADER, 1)
    story.isr = (1, 2)
    broken("Isr/acknowledged-below-minimum", answered_with_two_in_sync_at_least, story)


def test_joining_follower_counts_for_an_ack(story: Story) -> None:
    story.append(2)
    story.state(1, 0, (1,))
    story.isr = (1,)
    joining = WriteIsr(leader_epoch=0, isr=(1, 2), zk_version=story.version)
    answered_with_two_in_sync_at_least(story, joining)


def test_follower_with_a_refused_join_does_not_count_for_an_ack(story: Story) -> None:
    story.state(1, 0, (1,))
    story.isr = (1,)
    joining = WriteIsr(leader_epoch=0, isr=(1, 2), zk_version=story.version - 1)
    broken("Isr/acknowledged-below-minimum", answered_with_two_in_sync_at_least, story, joining)


def lagging(story: Story) -> None:
    """2 and 3 lack a record from 0 ms on; they may for 1000."""
    story.partition.lag_max = Lag(ms=1_000)
    story.append(1)
    story.step(1, event=Tick(now=0))


def fetch(story: Story, follower: int, offset: int, now: int) -> None:
    story.ends[follower] = offset
    event = FollowerFetch(replica=follower, offset=offset, log_start_offset=0, now=now)
    story.step(1, event=event)


def follows(story: Story, now: int) -> None:
    """The leader's watermark; all have that record."""
    story.append(2)
    story.append(3)
    story.waters[1] = 1
    story.step(1, HighWatermark(offset=1), event=Tick(now=now))


def test_a_follower_that_lags_and_is_not_dropped(story: Story) -> None:
    lagging(story)
    story.step(1, event=Tick(now=1_500))
    broken("Isr/laggard-not-removed", story.step, 1, event=Tick(now=1_501))


def test_a_follower_that_is_just_being_dropped(story: Story) -> None:
    lagging(story)
    story.step(1, WriteIsr(leader_epoch=0, isr=(1,), zk_version=story.version))
    story.step(1, event=Tick(now=9_000))


def test_a_follower_that_is_level_or_one_fetch_behind_does_not_lag(story: Story) -> None:
    lagging(story)
    fetch(story, 2, 1, now=1_000)
    fetch(story, 3, 0, now=1_000)
    follows(story, now=1_000)
    story.append(1, at=1)
    fetch(story, 3, 1, now=1_400)
    story.step(1, event=Tick(now=2_400))
    broken("Isr/laggard-not-removed", story.step, 1, event=Tick(now=2_501))


def test_a_follower_that_is_too_many_messages_behind(story: Story) -> None:
    lagging(story)
    story.partition.lag_max = Lag(ms=1_000, messages=2)
    for offset in (1, 2, 3):
        story.append(1, at=offset)
    fetch(story, 2, 2, now=100)
    fetch(story, 3, 0, now=100)
    story.step(1, event=Tick(now=750))
    broken("Isr/laggard-not-removed", story.step, 1, event=Tick(now=751))


def silent_outside_the_isr(story: Story) -> None:
    """3 was level once, at 1000 ms, and is neither in the ISR nor heard of since; 2 has it all."""
    story.partition.lag_max = Lag(ms=1_000)
    story.replicated()
    story.isr = (1, 2)
    story.state(1, 0, story.isr)
    fetch(story, 3, 1, now=1_000)
    for broker in (1, 2):
        story.append(broker, at=1)
    fetch(story, 2, 2, now=1_000)


def test_recently_caught_up_follower_holds_the_high_watermark_back(story: Story) -> None:
    silent_outside_the_isr(story)
    story.step(1, event=Tick(now=2_000))
    broken("HighWatermark/lags-behind-isr", story.step, 1, event=Tick(now=2_001))


def test_a_watermark_that_follows_as_time_passes(story: Story) -> None:
    silent_outside_the_isr(story)
    story.step(1, event=Tick(now=2_000))
    story.waters[1] = 2
    story.step(1, HighWatermark(offset=2), event=Tick(now=2_001))


def test_joining_follower_holds_the_high_watermark_back(story: Story) -> None:
    silent_outside_the_isr(story)
    story.step(1, WriteIsr(leader_epoch=0, isr=(1, 2, 3), zk_version=story.version))
    story.step(1, event=Tick(now=2_001))


def test_follower_that_returns_gets_a_new_lag_time(story: Story) -> None:
    lagging(story)
    follows(story, now=1_000)
    for now, story.isr in ((1_400, (1,)), (1_500, (1, 2, 3))):
        story.step(1, event=Tick(now=now))
    story.step(1, event=Tick(now=3_000))
    broken("Isr/laggard-not-removed", story.step, 1, event=Tick(now=3_001))


def test_the_smallest_setting_counts_of_which_a_leader_may_not_have_heard(story: Story) -> None:
    story.partition.configured(1)
    story.state(1, 0, (1,))
    story.isr = (1,)
    answered_with_two_in_sync_at_least(story)


# --- what is lost ---------------------------------------------------------------------------------


def test_a_killed_broker_has_its_log_again(story: Story) -> None:
    story.replicated()
    broken("Log/records-lost-on-disk", story.partition.hosted, 2, ModelLog(), 0)


def test_replica_after_power_loss_has_its_synced_records(story: Story) -> None:
    story.replicated()
    story.append(2, OTHER, at=1)
    story.partition.damaged(2, 1, now=1.0)
    broken("Log/records-lost-on-disk", story.partition.hosted, 2, ModelLog(), 0)


def test_deleted_records_stay_deleted_after_a_closed_log(story: Story) -> None:
    story.replicated()
    story.partition.replica(2).log.start_at(1)
    story.partition.closed(2)
    broken("Log/deleted-record-is-back", story.partition.hosted, 2, on_disk(RECORD), 0)


def test_replica_with_a_closed_log_remembers_its_high_watermark(story: Story) -> None:
    story.replicated()
    story.partition.replica(2).high_watermark = 1
    story.partition.closed(2)
    broken("HighWatermark/lost-at-stop", story.partition.hosted, 2, on_disk(RECORD), 0)


def test_killed_replica_may_have_an_older_high_watermark(story: Story) -> None:
    story.replicated()
    story.partition.replica(2).high_watermark = 1
    story.partition.ended_abruptly(2)
    story.partition.closed(2)  # in its next life, in which it has not looked
    story.partition.hosted(2, on_disk(RECORD), 0)


def test_replica_that_stops_before_opening_its_log_has_not_closed_it(story: Story) -> None:
    story.replicated()
    story.partition.replica(2).log.start_at(1)
    story.partition.damaged(2, 1, now=1.0)
    story.partition.closed(2)
    story.partition.hosted(2, on_disk(RECORD), 0)


def on_disk(*what: Any) -> ModelLog:
    """A log as it is found at the start."""
    return ModelLog(
        0,
        [BatchExtent(at, at + 1, each.crc, 0, each.max_timestamp) for at, each in enumerate(what)],
    )


def test_a_cut_that_was_not_synced_may_be_undone_by_a_power_failure(story: Story) -> None:
    story.replicated()
    story.append(2, OTHER, at=1)
    story.step(2, Truncate(offset=1))
    story.partition.damaged(2, 1, now=1.0)
    story.partition.hosted(2, on_disk(RECORD, OTHER), 0)
    assert story.partition.replica(2).is_whole
    story.commit(2, to=2)  # as it was before, and it has no effect


def test_returned_truncated_record_is_not_its_replacement(story: Story) -> None:
    story.replicated()
    story.append(2, RECORD, at=1)
    story.partition.damaged(2, 1, now=1.0)
    story.partition.hosted(2, on_disk(RECORD, OTHER), 0)
    assert story.partition.replica(2).undamaged_end == 1
    story.partition.damaged(2, 1, now=1.0)
    broken("Log/records-lost-on-disk", story.partition.hosted, 2, on_disk(OTHER, OTHER), 0)


def test_disk_loss_of_one_member_keeps_the_guarantees(story: Story) -> None:
    story.replicated()
    story.partition.damaged(2, 0, now=1.0)
    story.partition.hosted(2, ModelLog(), 0)
    assert story.partition.is_guaranteed(0, sent_at=0.5)


def test_all_members_that_lose_theirs_cost_it(story: Story) -> None:
    story.replicated()
    for broker in (1, 2, 3):
        story.partition.damaged(broker, 0, now=1.0)
    assert not story.partition.is_guaranteed(0, sent_at=0.5)
    assert story.partition.is_guaranteed(0, sent_at=2.0), "what comes later is promised again"


def test_the_last_member_counts_when_the_others_leave(story: Story) -> None:
    story.replicated()
    story.partition.damaged(2, 0, now=1.0)
    story.now = 2.0
    story.state(2, 1, (2,))
    assert not story.partition.is_guaranteed(0, sent_at=0.5)


def test_a_damaged_one_that_is_elected_before_one_that_has_all(story: Story) -> None:
    story.replicated()
    story.partition.damaged(2, 0, now=1.0)
    story.partition.hosted(2, ModelLog(), 0)
    broken("Isr/damaged-replica-stays", story.state, 2, 1, (2, 3))


def test_bounced_leader_with_other_bounced_isr_members_is_a_violation(story: Story) -> None:
    story.replicated()
    story.state(-1, 1, (2, 3))
    for broker in (2, 3):
        story.partition.registered(broker, 10 + broker)
    broken("Election/leader-not-alone-in-isr", story.state, 2, 2, (2, 3), lives={2: 12, 3: 13})
    story.state(2, 3, (2,), lives={2: 12})


def test_bounced_leader_before_all_isr_members_return_is_a_violation(story: Story) -> None:
    story.replicated()
    story.state(-1, 1, (1, 2, 3))
    for broker in (2, 3):
        story.partition.registered(broker, 10 + broker)
    broken("Election/did-not-wait-for-isr", story.state, 2, 2, (2,), lives={2: 12})
    story.state(-1, 3, (1, 2, 3))
    story.state(2, 4, (2,), unclean=True, lives={2: 12})


def test_a_damaged_one_leads_an_isr_of_which_all_bounced(story: Story) -> None:
    """Known, and no more: what comes afterwards is promised."""
    story.replicated()
    story.partition.damaged(2, 0, now=1.0)
    story.partition.hosted(2, ModelLog(), 0)
    story.state(-1, 1, (1, 2, 3))
    for broker in (1, 2, 3):
        story.partition.registered(broker, 10 + broker)
    story.now = 2.0
    story.state(2, 2, (2,), lives={2: 12})
    assert not story.partition.is_guaranteed(0, sent_at=0.5)
    assert story.partition.is_guaranteed(0, sent_at=2.5)


def test_a_damaged_one_that_never_left(story: Story) -> None:
    story.replicated()
    story.partition.damaged(2, 0, now=1.0)
    story.partition.hosted(2, ModelLog(), 0)
    story.partition.replica(2).lost_committed = True
    broken("Isr/damaged-replica-stays", story.partition.check_damaged_left_isr)
    story.step(1, WriteIsr(leader_epoch=0, isr=(1, 3), zk_version=1))
    story.state(1, 0, (1, 3))
    story.step(1, WriteIsr(leader_epoch=0, isr=(1, 3, 2), zk_version=2))
    story.partition.check_damaged_left_isr()


def test_member_that_lacks_only_voided_records_may_stay(story: Story) -> None:
    """Without a controller: the log of the last of the ISR is lost, and of an empty log its next
    leader lets in a waiting follower, without an order of its replica."""
    fetch = FollowerFetch(replica=2, offset=0, log_start_offset=0, now=0)
    story.replicated()
    story.state(1, 0, (1,))
    for broker in (2, 1):
        story.partition.damaged(broker, 0, now=1.0)
        story.partition.hosted(broker, ModelLog(), 0)
        story.waters[broker] = 0
        story.step(1, event=fetch)
    story.state(1, 1, (1, 2))
    story.partition.check_damaged_left_isr()


def test_a_shadow_is_cut_as_logs_are() -> None:
    log = ModelLog(0, [BatchExtent(0, 3, 1, 0), BatchExtent(3, 5, 2, 0)])
    assert [extent.base for extent in log.between(1, 5)] == [0, 3]
    log.truncate(4)
    assert (log.start, log.end) == (0, 3)
    log.clear(7)
    assert (log.start, log.end) == (7, 7)


# --- who waits ------------------------------------------------------------------------------------


def test_waiting_producer_is_answered_at_the_commit(story: Story) -> None:
    produce = Produce(request=7, batches=(RECORD,), acks=-1, deadline=9, now=0)
    story.step(1, Append(batches=(RECORD,), base_offset=0, leader_epoch=0), event=produce)
    for broker in (2, 3):
        story.append(broker)
    story.waters[1] = 1
    broken("Produce/commit-not-acknowledged", story.step, 1, HighWatermark(offset=1))


def test_waiting_producer_is_answered_at_its_timeout(story: Story) -> None:
    produce = Produce(request=7, batches=(RECORD,), acks=-1, deadline=9, now=0)
    story.step(1, Append(batches=(RECORD,), base_offset=0, leader_epoch=0), event=produce)
    story.step(1, event=Tick(now=8))
    broken("Produce/waits-beyond-timeout", story.step, 1, event=Tick(now=9))


def test_answered_producer_no_longer_waits(story: Story) -> None:
    produce = Produce(request=7, batches=(RECORD,), acks=-1, deadline=9, now=0)
    story.step(1, Append(batches=(RECORD,), base_offset=0, leader_epoch=0), event=produce)
    answer = Respond(request=7, error=ErrorCode.request_timed_out, base_offset=-1)
    story.step(1, answer, event=Tick(now=9))
    story.step(1, event=Tick(now=20))
