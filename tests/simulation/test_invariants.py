"""The invariants of a partition, each of them broken."""

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
    """Three brokers with step-by-step events. Broker 1 leads epoch 0."""

    def __init__(self) -> None:
        self.partition = PartitionModel("t-0", checks_data=True, note=lambda _: None)
        self.version = 0
        self.now = 0.0
        self.leader = 1
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
        """Return a state. ``lives`` has the broker epochs of members that are not in the ISR with
        their first."""
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
            role=role, leader=self.leader, leader_epoch=epoch, isr=self.isr,
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
        """Append one record everywhere, and commit it."""
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


def test_leader_outside_the_isr_is_a_violation(story: Story) -> None:
    broken("Isr/leader-is-no-member", story.state, 1, 1, (2, 3))


def test_unclean_election_without_permission_is_a_violation(story: Story) -> None:
    story.state(1, 0, (1, 2))
    broken("Election/unclean-leader", story.state, 3, 1, (3,))


def test_unclean_election_ends_earlier_guarantees(story: Story) -> None:
    story.replicated()
    story.state(1, 0, (1, 2))
    story.state(3, 1, (3,), unclean=True)
    assert not story.partition.is_guaranteed(0, sent_at=0.0)


def test_record_acked_by_an_unaware_leader_is_not_guaranteed(story: Story) -> None:
    """Test a leader that knows an ISR of itself alone, and so waits for no follower."""
    story.append(1, OTHER)
    produce = Produce(request=7, batches=(RECORD,), acks=-1, deadline=9, now=0)
    append = Append(batches=(RECORD,), base_offset=1, leader_epoch=0)
    answer = Respond(request=7, error=ErrorCode.none, base_offset=1)
    story.state(1, 0, (1,))
    story.state(3, 1, (3,), unclean=True)
    story.step(1, append, answer, event=produce)
    assert story.partition.acked_by_deposed == {RECORD.crc}


def test_two_leaders_of_one_epoch_are_a_violation(story: Story) -> None:
    broken("LeaderEpoch/two-leaders", story.state, 2, 0, (1, 2, 3))


def test_two_appending_brokers_in_one_epoch_are_a_violation(story: Story) -> None:
    story.append(1)
    story.roles[2] = (Role.LEADER, 0)
    broken("LeaderEpoch/two-leaders", story.append, 2)


def test_decreasing_leader_epoch_is_a_violation(story: Story) -> None:
    story.state(2, 4, (2, 3))
    broken("LeaderEpoch/went-back", story.state, 3, 3, (2, 3))


def test_high_watermark_above_the_log_is_a_violation(story: Story) -> None:
    broken("HighWatermark/out-of-range", story.commit, 1, to=1)


def test_follower_watermark_above_committed_records_is_a_violation(story: Story) -> None:
    story.append(2)
    broken("HighWatermark/out-of-range", story.commit, 2, to=1)


def test_watermark_of_a_damaged_leader_is_valid_for_followers(story: Story) -> None:
    """Test a leader with an unnoticed failed sync: it still sees what it wrote."""
    story.replicated()
    story.partition.damaged(1, 0, now=1.0)
    for broker in (1, 2, 3):
        story.append(broker, OTHER, at=1)
    story.commit(1, 2, 3, to=2)


def test_follower_keeps_the_watermark_of_a_damaged_leader_and_no_more(story: Story) -> None:
    """Test the next leader, which has not heard of the commit itself (seed 35)."""
    story.replicated()
    story.partition.damaged(1, 0, now=1.0)
    for broker in (1, 2, 3):
        story.append(broker, OTHER, at=1)
    story.commit(1, 2, to=2)
    story.state(3, 1, (2, 3))
    story.leader, story.roles[3], story.roles[2] = 3, (Role.LEADER, 1), (Role.FOLLOWER, 1)
    story.step(2)
    story.append(3)
    story.append(2, at=2)
    broken("HighWatermark/out-of-range", story.commit, 2, to=3)


def test_decreasing_leader_watermark_is_a_violation(story: Story) -> None:
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
    with pytest.raises(Violation):  # the leader's own ISR is judged first
        story.step(1, HighWatermark(offset=1))
    broken("Isr/member-lacks-committed-record", story.state, 1, 0, (1, 2))


def test_isr_member_that_deletes_its_replica_is_a_violation(story: Story) -> None:
    story.replicated()
    broken("Isr/member-lacks-committed-record", story.partition.removed, 2)


def test_former_isr_member_may_delete_its_replica(story: Story) -> None:
    story.replicated()
    story.state(1, 0, (1, 3))
    story.partition.removed(2)


def test_isr_member_with_a_different_log_is_a_violation(story: Story) -> None:
    story.append(1)
    story.append(2, OTHER)
    story.append(3)
    broken("Isr/believed-member-lacks-committed-record", story.commit, 1, to=1)


def test_ack_before_the_commit_is_a_violation(story: Story) -> None:
    produce = Produce(request=7, batches=(RECORD,), acks=-1, deadline=9, now=0)
    append = Append(batches=(RECORD,), base_offset=0, leader_epoch=0)
    answer = Respond(request=7, error=ErrorCode.none, base_offset=0)
    broken("Produce/acknowledged-before-commit", story.step, 1, append, answer, event=produce)


def answered_with_two_in_sync_at_least(story: Story, *before: Any) -> None:
    """Let broker 1 commit a record and acknowledge it after these effects."""
    story.partition.configured(2)
    story.append(1)
    story.waters[1] = 1
    produce = Produce(request=7, batches=(), appended=(0, 1), acks=-1, deadline=9, now=0)
    answer = Respond(request=7, error=ErrorCode.none, base_offset=0)
    story.step(1, *before, HighWatermark(offset=1), answer, event=produce)


def test_ack_with_enough_in_sync_replicas_is_allowed(story: Story) -> None:
    story.append(2)
    story.state(1, 0, (1, 2))
    story.isr = (1, 2)
    answered_with_two_in_sync_at_least(story)


def test_ack_with_too_few_in_sync_replicas_is_a_violation(story: Story) -> None:
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
    """Let brokers 2 and 3 lack a record from 0 ms on. They may for 1000 ms."""
    story.partition.lag_max = Lag(ms=1_000)
    story.append(1)
    story.step(1, event=Tick(now=0))


def fetch(story: Story, follower: int, offset: int, now: int) -> None:
    story.ends[follower] = offset
    event = FollowerFetch(replica=follower, offset=offset, log_start_offset=0, now=now)
    story.step(1, event=event)


def follows(story: Story, now: int) -> None:
    """Let the leader's high watermark follow. All have the record."""
    story.append(2)
    story.append(3)
    story.waters[1] = 1
    story.step(1, HighWatermark(offset=1), event=Tick(now=now))


def test_lagging_follower_in_the_isr_is_a_violation(story: Story) -> None:
    lagging(story)
    story.step(1, event=Tick(now=1_500))
    broken("Isr/laggard-not-removed", story.step, 1, event=Tick(now=1_501))


def test_lagging_follower_with_a_proposed_removal_is_allowed(story: Story) -> None:
    lagging(story)
    story.step(1, WriteIsr(leader_epoch=0, isr=(1,), zk_version=story.version))
    story.step(1, event=Tick(now=9_000))


def test_follower_level_at_its_last_fetch_but_one_does_not_lag(story: Story) -> None:
    lagging(story)
    fetch(story, 2, 1, now=1_000)
    fetch(story, 3, 0, now=1_000)
    follows(story, now=1_000)
    story.append(1, at=1)
    fetch(story, 3, 1, now=1_400)
    story.step(1, event=Tick(now=2_400))
    broken("Isr/laggard-not-removed", story.step, 1, event=Tick(now=2_501))


def test_follower_too_many_messages_behind_is_a_violation(story: Story) -> None:
    lagging(story)
    story.partition.lag_max = Lag(ms=1_000, messages=2)
    for offset in (1, 2, 3):
        story.append(1, at=offset)
    fetch(story, 2, 2, now=100)
    fetch(story, 3, 0, now=100)
    story.step(1, event=Tick(now=750))
    broken("Isr/laggard-not-removed", story.step, 1, event=Tick(now=751))


def silent_outside_the_isr(story: Story) -> None:
    """Let broker 3 be silent outside the ISR since 1000 ms, when it was level. Broker 2 has
    everything."""
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


def test_high_watermark_follows_when_a_lag_time_ends(story: Story) -> None:
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


def test_smallest_former_min_isr_counts_for_an_unaware_leader(story: Story) -> None:
    story.partition.configured(1)
    story.state(1, 0, (1,))
    story.isr = (1,)
    answered_with_two_in_sync_at_least(story)


# --- losses ---------------------------------------------------------------------------------------


def test_killed_broker_without_its_log_is_a_violation(story: Story) -> None:
    story.replicated()
    broken("Log/records-lost-on-disk", story.partition.hosted, 2, ModelLog(), 0)


def test_replica_without_its_synced_records_is_a_violation(story: Story) -> None:
    story.replicated()
    story.append(2, OTHER, at=1)
    story.partition.damaged(2, 1, now=1.0)
    broken("Log/records-lost-on-disk", story.partition.hosted, 2, ModelLog(), 0)


def test_returned_deleted_record_after_a_closed_log_is_a_violation(story: Story) -> None:
    story.replicated()
    story.partition.replica(2).log.start_at(1)
    story.partition.closed(2)
    broken("Log/deleted-record-is-back", story.partition.hosted, 2, on_disk(RECORD), 0)


def test_forgotten_high_watermark_after_a_closed_log_is_a_violation(story: Story) -> None:
    story.replicated()
    story.partition.replica(2).high_watermark = 1
    story.partition.closed(2)
    broken("HighWatermark/lost-at-stop", story.partition.hosted, 2, on_disk(RECORD), 0)


def test_killed_replica_may_have_an_older_high_watermark(story: Story) -> None:
    story.replicated()
    story.partition.replica(2).high_watermark = 1
    story.partition.ended_abruptly(2)
    story.partition.closed(2)  # in its next process, before that has opened the log
    story.partition.hosted(2, on_disk(RECORD), 0)


def test_replica_that_stops_before_opening_its_log_has_not_closed_it(story: Story) -> None:
    story.replicated()
    story.partition.replica(2).log.start_at(1)
    story.partition.damaged(2, 1, now=1.0)
    story.partition.closed(2)
    story.partition.hosted(2, on_disk(RECORD), 0)


def on_disk(*what: Any) -> ModelLog:
    """Return the log that a start finds."""
    return ModelLog(
        0,
        [BatchExtent(at, at + 1, each.crc, 0, each.max_timestamp) for at, each in enumerate(what)],
    )


def test_unsynced_truncation_may_be_undone_by_a_power_failure(story: Story) -> None:
    story.replicated()
    story.append(2, OTHER, at=1)
    story.step(2, Truncate(offset=1))
    story.partition.damaged(2, 1, now=1.0)
    story.partition.hosted(2, on_disk(RECORD, OTHER), 0)
    assert story.partition.replica(2).is_whole
    story.commit(2, to=2)  # the state is unchanged, so it has no effect


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


def test_loss_on_all_isr_members_ends_the_guarantee(story: Story) -> None:
    story.replicated()
    for broker in (1, 2, 3):
        story.partition.damaged(broker, 0, now=1.0)
    assert not story.partition.is_guaranteed(0, sent_at=0.5)
    assert story.partition.is_guaranteed(0, sent_at=2.0), "later records are guaranteed again"


def test_damage_of_the_last_isr_member_ends_the_guarantee(story: Story) -> None:
    story.replicated()
    story.partition.damaged(2, 0, now=1.0)
    story.now = 2.0
    story.state(2, 1, (2,))
    assert not story.partition.is_guaranteed(0, sent_at=0.5)


def test_damaged_leader_instead_of_a_whole_member_is_a_violation(story: Story) -> None:
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


def test_damaged_leader_of_a_bounced_isr_ends_the_guarantee(story: Story) -> None:
    """Test the known limit: later records are guaranteed again."""
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


def test_damaged_replica_that_never_left_the_isr_is_a_violation(story: Story) -> None:
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
    """Test a cluster without a controller in which the log of the last ISR member is lost.

    From its empty log, the next leader lets in a waiting follower without an order for its replica.
    """
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


def test_model_log_is_truncated_by_whole_batches() -> None:
    log = ModelLog(0, [BatchExtent(0, 3, 1, 0), BatchExtent(3, 5, 2, 0)])
    assert [extent.base for extent in log.between(1, 5)] == [0, 3]
    log.truncate(4)
    assert (log.start, log.end) == (0, 3)
    log.clear(7)
    assert (log.start, log.end) == (7, 7)


# --- waiting producers ----------------------------------------------------------------------------


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
