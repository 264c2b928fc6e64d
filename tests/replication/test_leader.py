"""The leader: acks, minimum ISR, watermark, ISR changes and their writes."""

import pytest
from kio.schema.errors import ErrorCode
from lab import A, B, C, Lab

from ackproof.broker.replication.config import ReplicaConfig
from ackproof.broker.replication.events import (
    AdvanceLogStart,
    Append,
    DeleteRecords,
    FollowerFetch,
    HighWatermark,
    IsrRefused,
    IsrWriteFailed,
    IsrWritten,
    LogStartMoved,
    Produce,
    Respond,
    Tick,
    WriteIsr,
)
from ackproof.broker.replication.leader import RemoteReplica
from ackproof.broker.types import Millis, Offset


def leading(brokers: int = 3, **config: int | None) -> Lab:
    lab = Lab(brokers, **config)
    lab.elect(A, lab.replicas, to=lab.replicas)
    return lab


def kinds(lab: Lab) -> list[type]:
    return [type(effect) for effect in lab.effects]


# --- acks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("acks", [0, 1])
def test_acks_0_and_1_are_answered_after_the_append(acks: int) -> None:
    lab = leading()
    lab.produce(A, count=2)
    request = lab.produce(A, acks=acks)
    assert kinds(lab) == [Append, Respond]
    assert lab.answers[request] == Respond(request=request, error=ErrorCode.none, base_offset=2)


def test_acks_all_is_answered_in_the_step_that_raises_the_watermark() -> None:
    lab = leading()
    requests = [lab.produce(A, count=2, acks=-1), lab.produce(A, acks=-1)]
    lab.exchange(B)
    lab.exchange(C)
    lab.ask(B)
    lab.ask(C)
    assert kinds(lab) == [HighWatermark, Respond, Respond]
    assert [lab.answers[request].base_offset for request in requests] == [0, 2]


def again(lab: Lab, first: int, last: int, acks: int = -1) -> int:
    """A request whose batches are in the log already, from ``first`` up to ``last``."""
    lab.step(
        A,
        Produce(
            request=100 + first,
            batches=(),
            acks=acks,
            deadline=Millis(lab.now + 1000),
            now=lab.now,
            appended=(Offset(first), Offset(last)),
        ),
    )
    return 100 + first


def test_a_repetition_is_answered_like_the_first_time_and_not_appended() -> None:
    lab = leading(brokers=2)
    lab.produce(A, count=2, acks=-1)
    later = lab.produce(A, count=2, acks=-1)
    repeated = again(lab, 0, 2)
    assert kinds(lab) == []
    lab.step(A, FollowerFetch(replica=B, offset=2, log_start_offset=0, now=lab.now))
    done = Respond(request=repeated, error=ErrorCode.none, base_offset=0)
    assert lab.answers[repeated] == done, "it waits for no more than its own records"
    assert lab.error(later) is None
    assert lab[A].log_end_offset == 4
    committed = again(lab, 0, 2)
    assert lab.effects == (done,)
    assert again(lab, 0, 2, acks=1) == committed
    assert lab.effects == (done,)


def test_a_repetition_does_not_escape_min_insync_replicas() -> None:
    lab = leading(brokers=1, min_insync_replicas=2)
    lab.produce(A, acks=1)
    assert lab[A].refusal(-1) is ErrorCode.not_enough_replicas
    assert lab[A].refusal(1) is ErrorCode.none
    assert lab.error(again(lab, 0, 1)) is ErrorCode.not_enough_replicas


def test_a_leader_alone_in_the_isr_answers_acks_all_at_once() -> None:
    lab = leading(brokers=1)
    request = lab.produce(A, acks=-1)
    assert kinds(lab) == [Append, HighWatermark, Respond]
    assert lab.error(request) is ErrorCode.none


def test_too_small_an_isr_refuses_acks_all_and_appends_nothing() -> None:
    lab = Lab(3, min_insync_replicas=2)
    lab.elect(A, (A,), to=(A,))
    request = lab.produce(A, acks=-1)
    assert lab.error(request) is ErrorCode.not_enough_replicas
    assert (lab.log(A), lab[A].is_under_min_isr) == ([], True)
    assert lab.error(lab.produce(A, acks=1)) is ErrorCode.none, "acks=1 does not care"


def test_an_isr_that_shrinks_too_far_after_the_append() -> None:
    lab = leading(brokers=2, min_insync_replicas=2, replica_lag_time_max_ms=1_000)
    request = lab.produce(A, acks=-1)
    lab.pass_time(1_001)
    assert lab.error(request) is None, "the smaller ISR is not written yet"
    lab.write_isr()
    assert lab.error(request) is ErrorCode.not_enough_replicas_after_append
    assert lab.log(A) == [request], "the record is there all the same"


def test_acks_all_times_out_at_its_deadline() -> None:
    lab = leading()
    later, sooner = lab.produce(A, acks=-1, timeout=200), lab.produce(A, acks=-1, timeout=100)
    lab.pass_time(99)
    assert lab.error(sooner) is None
    lab.pass_time(1)
    assert lab.error(sooner) is ErrorCode.request_timed_out
    assert lab.error(later) is None
    for follower in (B, C):
        lab.exchange(follower, times=2)
    assert lab.error(later) is ErrorCode.none
    assert lab.error(sooner) is ErrorCode.request_timed_out, "answered once and no more"


def test_losing_leadership_answers_those_who_wait() -> None:
    lab = leading()
    request = lab.produce(A, acks=-1)
    lab.elect(B, (A, B, C), to=(A,))
    assert lab.error(request) is ErrorCode.not_leader_or_follower


def test_requests_wait_on_when_the_leader_is_elected_again() -> None:
    lab = leading()
    request = lab.produce(A, acks=-1)
    lab.elect(A, (A, B, C), to=(A, B, C))
    assert lab.error(request) is None
    for follower in (B, C):
        lab.exchange(follower, times=2)
    assert lab.error(request) is ErrorCode.none


def test_min_isr_may_change_while_running() -> None:
    lab = leading(brokers=2)
    lab[A].configure(ReplicaConfig(min_insync_replicas=3))
    assert lab.error(lab.produce(A, acks=-1)) is ErrorCode.not_enough_replicas


# --- watermark ------------------------------------------------------------------------------------


def test_a_new_leader_forgets_what_followers_had() -> None:
    """A leads epochs 0 and 2. Between them B led, unknown to A, and C cut its log behind B's.

    What A remembers of C must not count: the record is not on C any more.
    """
    lab = leading()
    request = lab.produce(A)
    lab.exchange(C)
    lab.ask(C)
    lab.elect(B, (A, B, C), to=(B, C))
    lab.exchange(C)
    assert lab.log(C) == []
    lab.elect(A, (A, B, C), to=(A, B))
    lab.exchange(B, times=2)
    lab.ask(B)
    assert (lab[A].high_watermark, lab.log(B)) == (0, [request])
    lab.tell(C)
    lab.exchange(C, times=2)
    lab.ask(C)
    assert (lab[A].high_watermark, lab.log(C)) == (1, [request])


def test_the_watermark_waits_for_a_follower_about_to_join() -> None:
    lab = Lab(2, replica_lag_time_max_ms=1_000)
    lab.elect(A, (A,), to=(A, B))
    lab.exchange(B)
    assert lab.isr_writes[0].write == WriteIsr(leader_epoch=0, isr=(A, B), zk_version=0)
    lab.step(A, IsrWriteFailed(leader_epoch=0, conflict=True))
    lab.version += 1
    lab.tell(A)
    assert lab[A].isr == (A,)
    lab.produce(A)
    assert lab[A].high_watermark == 0, "B is outside the ISR, but was level a moment ago"
    lab.pass_time(1_001)
    assert lab[A].high_watermark == 1, "too long ago"


def test_a_late_fetch_lowers_what_is_known_but_not_the_watermark() -> None:
    lab = leading(brokers=2)
    lab.produce(A)
    late = FollowerFetch(replica=B, offset=0, log_start_offset=0, now=lab.now)
    lab.exchange(B, times=2)
    assert lab.step(A, late) == ()
    assert lab[A].high_watermark == 1


@pytest.mark.parametrize(("replica", "offset"), [(B, 2), (C, 1)])
def test_fetches_from_outside_say_nothing(replica: int, offset: int) -> None:
    """Offset 2 is past the log's end; C is no replica of this partition."""
    lab = leading(brokers=2)
    lab.produce(A)
    event = FollowerFetch(replica=replica, offset=offset, log_start_offset=0, now=lab.now)
    assert lab.step(A, event) == ()
    assert lab[A].high_watermark == 0


def test_reading_ends_at_the_watermark_or_the_log_end() -> None:
    lab = leading(brokers=2)
    lab.produce(A)
    assert lab[A].read_bound(None) == 0
    assert lab[A].read_bound(B) == 1


def test_low_watermark_is_the_smallest_log_start() -> None:
    lab = leading(brokers=2)
    assert lab[A].low_watermark == -1, "B has not fetched yet"
    lab.produce(A, count=3)
    lab.exchange(B, times=2)
    lab.step(A, LogStartMoved(offset=2))
    assert lab[A].low_watermark == 0
    lab.step(A, FollowerFetch(replica=B, offset=3, log_start_offset=1, now=lab.now))
    assert lab[A].low_watermark == 1


def test_a_dead_follower_does_not_hold_the_low_watermark() -> None:
    lab = leading(brokers=3)
    lab.produce(A, count=3)
    for follower, log_start in ((B, 2), (C, 0)):
        lab.step(
            A,
            FollowerFetch(replica=follower, offset=3, log_start_offset=log_start, now=lab.now),
        )
    lab.step(A, LogStartMoved(offset=2))
    assert lab[A].low_watermark == 0
    assert lab[A].low_watermark_among({A, B}) == 2


def test_deleted_records_are_given_up_on_leader_and_follower() -> None:
    lab = leading(brokers=2)
    lab.produce(A, count=3)
    lab.exchange(B, times=2)
    assert lab.step(A, DeleteRecords(offset=2)) == (AdvanceLogStart(offset=2),)
    assert lab.step(A, DeleteRecords(offset=1)) == ()
    assert lab[A].low_watermark == 0
    lab.exchange(B)
    assert lab[B].log_start_offset == 2
    lab.ask(B)
    assert lab[A].low_watermark == 2


# --- the ISR --------------------------------------------------------------------------------------


def test_caught_up_by_the_previous_fetch() -> None:
    """The two rules of Kafka's Replica.updateFetchStateOrThrow."""
    remote = RemoteReplica()
    level = remote.fetched(offset=5, log_start=0, leader_log_end=5, now=10)
    assert level.last_caught_up_time == 10
    behind = level.fetched(offset=5, log_start=0, leader_log_end=8, now=20)
    assert behind.last_caught_up_time == 10, "had all there was at its last fetch, at 10"
    chasing = behind.fetched(offset=8, log_start=0, leader_log_end=12, now=30)
    assert chasing.last_caught_up_time == 20, "has now all there was at its last fetch, at 20"
    slow = chasing.fetched(offset=9, log_start=0, leader_log_end=20, now=40)
    assert slow.last_caught_up_time == 20, "fetching is not enough"


def test_a_level_follower_stays_however_long_it_is_silent() -> None:
    lab = leading(brokers=2, replica_lag_time_max_ms=1_000)
    lab.exchange(B)
    lab.pass_time(100_000)
    assert lab.effects == ()
    assert not lab[A].is_under_replicated


def test_a_slow_follower_leaves_within_one_and_a_half_lag_times() -> None:
    lab = leading(brokers=2, replica_lag_time_max_ms=1_000)
    lab.produce(A)
    lab.pass_time(999)
    assert lab.isr_writes == []
    lab.pass_time(501)
    assert lab.write_isr() == (A,)
    assert lab[A].is_under_replicated
    assert lab.ends(A) == (1, 1)


def test_lag_in_messages_as_in_kafka_0_8() -> None:
    lab = leading(brokers=2, replica_lag_max_messages=4)
    lab.exchange(B)
    lab.produce(A, count=4)
    lab.pass_time(15_000)
    assert lab.isr_writes == []
    lab.produce(A)
    lab.pass_time(15_000)
    assert lab.write_isr() == (A,)


def test_joining_needs_the_watermark_and_the_epochs_start() -> None:
    lab = leading(replica_lag_time_max_ms=1_000)
    lab.produce(A)
    for follower in (B, C):
        lab.exchange(follower)
    lab.elect(B, (A, B), to=(A, B))
    lab.produce(B)
    assert lab.ends(B) == (2, 0)
    lab.step(B, FollowerFetch(replica=C, offset=0, log_start_offset=0, now=lab.now))
    assert lab.isr_writes == [], "level with the watermark 0, but the epoch began at 1"
    lab.step(B, FollowerFetch(replica=C, offset=1, log_start_offset=0, now=lab.now))
    assert lab.write_isr() == (A, B, C)


def test_one_write_at_a_time() -> None:
    lab = Lab(3)
    lab.elect(A, (A,), to=(A, B, C))
    lab.exchange(B)
    lab.exchange(C)
    assert [each.write.isr for each in lab.isr_writes] == [(A, B)]
    lab.write_isr()
    lab.exchange(C)
    assert lab.write_isr() == (A, B, C)


def joining() -> Lab:
    """B's joining is proposed, and B has fetched all of one record."""
    lab = Lab(2)
    lab.elect(A, (A,), to=(A, B))
    lab.exchange(B)
    lab.produce(A)
    assert lab.ends(A) == (1, 0), "a member to be counts already"
    return lab


def test_an_unknown_outcome_is_settled_by_the_same_write_at_a_later_tick() -> None:
    lab = joining()
    first = lab.isr_writes.pop().write
    lab.step(A, IsrWriteFailed(leader_epoch=0, conflict=False))
    assert lab.effects == ()
    lab.step(A, Tick(now=1))
    assert lab.effects == (first,)
    lab.step(A, Tick(now=2))
    assert lab.effects == (), "once, until that one's outcome is known"
    assert (lab[A].isr, lab[A].high_watermark) == ((A,), 0)
    lab.write_isr()
    assert (lab[A].isr, lab[A].zk_version) == ((A, B), 1)


def test_a_conflict_waits_for_the_controller() -> None:
    lab = joining()
    lab.step(A, IsrWriteFailed(leader_epoch=0, conflict=True))
    lab.step(A, Tick(now=1))
    assert lab.effects == ()
    assert lab[A].high_watermark == 0
    lab.elect(A, (A, B), to=(A,))
    assert lab[A].isr == (A, B)


def test_who_may_not_join_yet_is_not_waited_for_and_tries_again() -> None:
    lab = joining()
    asked = lab.isr_writes.pop().write
    lab.step(A, IsrRefused(leader_epoch=0))
    assert (lab[A].isr, lab[A].high_watermark) == ((A,), 0), "a follower that keeps up counts"
    lab.exchange(B)
    assert asked in [each.write for each in lab.isr_writes]
    lab.write_isr()
    assert lab[A].isr == (A, B)


@pytest.mark.parametrize(
    "late",
    [
        IsrWritten(leader_epoch=-1, isr=(A, B), zk_version=9),
        IsrWritten(leader_epoch=0, isr=(A, C), zk_version=9),
        IsrWritten(leader_epoch=0, isr=(A, B), zk_version=0),
        IsrWriteFailed(leader_epoch=-1, conflict=False),
        IsrRefused(leader_epoch=-1),
    ],
)
def test_news_of_other_writes_change_nothing(
    late: IsrWritten | IsrWriteFailed | IsrRefused,
) -> None:
    lab = joining()
    lab.step(A, late)
    lab.step(A, Tick(now=1))
    assert (lab.effects, lab[A].isr, lab[A].zk_version) == ((), (A,), 0)


def test_reassignment_within_an_epoch() -> None:
    lab = leading(brokers=2)
    lab.produce(A)
    lab.exchange(B)
    lab.replicas = (A, C)
    lab.isr = (A,)
    lab.version += 1
    lab.tell(A)
    assert lab[A].replicas == (A, C)
    assert lab.ends(A) == (1, 1), "B counts no more, C not yet"
