"""The figures of *Reliability* (its chapter 8), one test each. m1, m2, ... are its messages."""

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.replication.config import Truncation
from tests.support.worlds.replica_lab import A, B, C, Lab

BY_WATERMARK = Truncation.HIGH_WATERMARK
BY_EPOCH = Truncation.LEADER_EPOCH


def three_replicas(leader_end: int) -> Lab:
    lab = Lab(3)
    lab.elect(A, (A, B, C), to=(A, B, C))
    for _ in range(leader_end):
        lab.produce(A)
    return lab


def test_figure_8_2_watermark_is_the_smallest_log_end_of_the_isr() -> None:
    lab = Lab(3, replica_lag_time_max_ms=10_000)
    lab.elect(A, (A, B, C), to=(A, B, C))
    lab.produce(A, count=6)
    lab.exchange(B)
    lab.exchange(C, times=2)
    lab.exchange(B)
    lab.pass_time(6_000)
    lab.produce(A)
    lab.exchange(B, times=2)
    lab.produce(A, count=2)
    assert [lab[b].log_end_offset for b in (A, B, C)] == [9, 7, 6]
    assert lab[A].high_watermark == 6

    lab.pass_time(5_000)
    assert lab.write_isr() == (A, B), "C was last caught up 11 s ago, B 5 s ago"
    assert lab[A].high_watermark == 7


def test_figures_8_4_to_8_7_watermark_follows_the_fetches() -> None:
    lab = Lab(3)
    lab.elect(A, (A, B, C), to=(A, B, C))
    lab.produce(A, count=3)
    first = lab.ask(B)
    lab.produce(A, count=1)
    lab.produce(A, count=1)
    assert [lab.ends(b) for b in (A, B, C)] == [(5, 0), (0, 0), (0, 0)], "8-4"

    lab.deliver(first)
    lab.exchange(C)
    lab.produce(A, count=10)
    assert [lab.ends(b) for b in (A, B, C)] == [(15, 0), (3, 0), (5, 0)], "8-5, min(0, 0)"

    answers = [lab.ask(B), lab.ask(C)]
    assert lab.ends(A) == (15, 3), "8-6, min(15, 3, 5)"
    for answer in answers:
        lab.deliver(answer)
    assert lab[B].high_watermark == 0, "B's answer left before C had reported its log end"
    assert lab[C].high_watermark == 3, "8-7, min(LEO, 3)"


def test_figure_8_8_only_the_leader_knows_other_log_ends() -> None:
    lab = three_replicas(leader_end=1)
    lab.exchange(B)
    before = lab[A].high_watermark
    lab.ask(B)
    lab.ask(C)
    assert lab[A].high_watermark == before == 0, "C's log end is known now, and it is 0"
    lab.exchange(C)
    lab.ask(C)
    assert lab[A].high_watermark == 1, "raised by the request, before the answer is read"
    assert lab[B].high_watermark == 0, "followers learn it only from answers"


def m1_m2_on_both(truncation: Truncation) -> Lab:
    """Return figures 8-9 and 8-15: B leads, both logs end at 2, and A's watermark is still 1."""
    lab = Lab(2, truncation=truncation)
    lab.elect(B, (B, A), to=(A, B))
    lab.produce(B)
    lab.exchange(A)
    lab.produce(B)
    lab.exchange(A)
    assert [lab.ends(b) for b in (A, B)] == [(2, 1), (2, 1)]
    lab.checkpoint(A)
    answer = lab.ask(A)
    assert lab.ends(B) == (2, 2)
    lab.checkpoint(B)
    lab.crash(A)
    lab.start(A)
    lab.deliver(answer)
    assert lab.ends(A) == (2, 1), "the answer went to A's former life"
    return lab


def test_figures_8_9_to_8_11_truncation_by_watermark_loses_a_committed_message() -> None:
    lab = m1_m2_on_both(BY_WATERMARK)
    lab.tell(A)
    assert lab.log(A) == [1], "8-10"

    lab.crash(B)
    lab.elect(A, (A,), to=(A,))
    lab.start(B)
    lab.tell(B)
    assert lab.log(B) == [1, 2]
    lab.exchange(B)
    lab.exchange(B)
    assert lab.log(A) == lab.log(B) == [1], "8-11: m2 is gone, though it was committed"
    assert lab.ends(B) == (1, 1)


def test_figures_8_15_to_8_19_truncation_by_epoch_loses_nothing() -> None:
    lab = m1_m2_on_both(BY_EPOCH)
    lab.tell(A)
    assert lab[B].end_offset_for_epoch(0) == (0, 2), "8-16 to 8-18: B answers with its LEO"
    lab.exchange(A)
    assert lab.log(A) == [1, 2], "8-18"

    lab.crash(B)
    lab.elect(A, (A,), to=(A,))
    assert lab[A].epochs == ((0, 0), (1, 2)), "8-19"
    lab.start(B)
    lab.tell(B)
    lab.exchange(B, times=2)
    assert lab.log(A) == lab.log(B) == [1, 2]


def m2_on_a_only(truncation: Truncation) -> Lab:
    """Return figures 8-12/8-13 and 8-20/8-21: A led with m1 and m2. B returns first, leads and
    takes m3.

    Both lose power at once, and B's disk does not have m2 yet. So a committed message can be on A
    alone (KIP-101, scenario 2).
    """
    lab = Lab(2, truncation=truncation)
    lab.elect(A, (A, B), to=(A, B))
    lab.produce(A)
    lab.exchange(B)
    lab.produce(A)
    lab.exchange(B)
    lab.ask(B)
    assert [lab.ends(b) for b in (A, B)] == [(2, 2), (2, 1)]
    for broker, unsynced in ((A, 0), (B, 1)):
        lab.checkpoint(broker)
        lab.crash(broker, unsynced)
    lab.start(B)
    lab.elect(B, (B,), to=(B,))
    lab.produce(B)
    assert lab.ends(B) == (2, 2)
    lab.start(A)
    lab.tell(A)
    return lab


def test_figures_8_12_to_8_14_logs_diverge_with_truncation_by_watermark() -> None:
    lab = m2_on_a_only(BY_WATERMARK)
    lab.exchange(A, times=3)
    assert lab.log(A) == [1, 2]
    assert lab.log(B) == [1, 3], "8-14: different records at offset 1, both 'committed'"
    assert lab.ends(A) == lab.ends(B) == (2, 2)


def test_figures_8_20_to_8_22_logs_agree_with_truncation_by_epoch() -> None:
    lab = m2_on_a_only(BY_EPOCH)
    lab.exchange(A)
    assert lab.log(A) == [1], "8-22: m2 is cut"
    lab.exchange(A, times=2)
    assert lab.log(A) == lab.log(B) == [1, 3]
    assert lab.ends(A) == lab.ends(B) == (2, 2)
    assert lab[A].epochs == lab[B].epochs == ((0, 0), (1, 1))


def test_figure_8_24_acks_1_is_lost_with_the_leader() -> None:
    lab = three_replicas(leader_end=1)
    assert lab.error(1) is ErrorCode.none
    lab.crash(A)
    lab.elect(B, (B, C), to=(B, C))
    assert lab.log(B) == []


def test_figure_8_25_acks_all_outlives_the_leader() -> None:
    lab = three_replicas(leader_end=0)
    request = lab.produce(A, acks=-1)
    lab.exchange(B, times=2)
    lab.exchange(C)
    assert lab.error(request) is None, "C has not reported that it has it"
    lab.exchange(C)
    assert lab.error(request) is ErrorCode.none
    lab.crash(A)
    lab.elect(B, (B, C), to=(B, C))
    assert lab.log(B) == [request]


@pytest.mark.parametrize("has_it", [True, False])
def test_figure_8_26_acks_all_is_not_answered_when_the_leader_dies_first(has_it: bool) -> None:
    lab = three_replicas(leader_end=0)
    request = lab.produce(A, acks=-1)
    if has_it:
        lab.exchange(B)
    lab.crash(A)
    lab.elect(B, (B, C), to=(B, C))
    assert lab.error(request) is None, "the producer sees a broken connection, and does not know"
    assert lab.log(B) == ([request] if has_it else []), "a retry may make it two"
