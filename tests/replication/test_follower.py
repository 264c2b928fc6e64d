"""The follower: finding where the logs part, appending, out of range."""

from dataclasses import replace

import pytest
from lab import A, B, C, Lab
from memory_log import MemoryBatch

from ackproof.broker.replication.config import ReplicaConfig, Truncation
from ackproof.broker.replication.events import (
    AdvanceLogStart,
    Append,
    AskEpoch,
    EpochEndOffset,
    Fetched,
    FetchFrom,
    FetchOutOfRange,
    HighWatermark,
    LeaderAndIsr,
    LeaderLostRecords,
    Truncate,
    TruncateFully,
)
from ackproof.broker.replication.replica import LogState, Replica


def follower(
    *epochs: tuple[int, int],
    end: int,
    start: int = 0,
    watermark: int = 0,
    truncation: Truncation = Truncation.LEADER_EPOCH,
) -> Replica:
    """B, a follower of A in epoch 9, with these epochs in its log."""
    state = LogState(
        log_start_offset=start, log_end_offset=end, high_watermark=watermark, epochs=epochs
    )
    replica = Replica(B, ReplicaConfig(truncation=truncation), state)
    replica.step(
        LeaderAndIsr(
            controller_epoch=1,
            leader=A,
            leader_epoch=9,
            isr=(A,),
            replicas=(A, B),
            zk_version=9,
            now=0,
        )
    )
    return replica


def answer(epoch: int, end: int, current: int = 9) -> EpochEndOffset:
    return EpochEndOffset(current_leader_epoch=current, leader_epoch=epoch, end_offset=end)


def asks(epoch: int) -> AskEpoch:
    return AskEpoch(leader=A, leader_epoch=9, epoch=epoch)


def fetches(offset: int, start: int = 0) -> FetchFrom:
    return FetchFrom(leader=A, leader_epoch=9, offset=offset, log_start_offset=start)


def fetched(
    fetch_offset: int,
    *batches: MemoryBatch,
    watermark: int = 0,
    start: int = 0,
    epoch: int = 9,
) -> Fetched:
    return Fetched(
        leader_epoch=epoch,
        fetch_offset=fetch_offset,
        batches=batches,
        high_watermark=watermark,
        log_start_offset=start,
    )


# --- truncation -----------------------------------------------------------------------------------


def test_an_empty_log_has_nothing_to_ask() -> None:
    assert follower(end=0).fetching() == fetches(0)


@pytest.mark.parametrize(("leader_end", "cut"), [(4, 4), (5, None), (7, None)])
def test_the_same_epoch_ends_the_conversation(leader_end: int, cut: int | None) -> None:
    replica = follower((3, 0), end=5)
    assert replica.fetching() == asks(3)
    effects = replica.step(answer(3, leader_end))
    assert effects == (() if cut is None else (Truncate(offset=cut),))
    assert replica.fetching() == fetches(cut or 5)


def test_kip_279_logs_that_parted_more_than_once() -> None:
    """Leader: epoch 1 up to 10, then 2 up to 15. Follower: epoch 1 up to 12, then 3 up to 20."""
    replica = follower((1, 0), (3, 12), end=20)
    assert replica.step(answer(2, 15)) == (Truncate(offset=12),), "2 is unknown here: back to 1"
    assert replica.fetching() == asks(1)
    assert replica.step(answer(1, 10)) == (Truncate(offset=10),)
    assert replica.fetching() == fetches(10)


def test_a_doubled_answer_of_an_earlier_round_is_no_answer_to_the_next() -> None:
    """Found by a simulation: taken for the answer about epoch 1, it left five wrong records."""
    replica = follower((1, 0), (3, 12), end=20)
    first = answer(2, 11)
    replica.step(first)
    assert replica.step(first) == ()
    assert replica.fetching() == asks(1)


def test_an_epoch_that_its_leader_never_wrote_in_goes_too() -> None:
    replica = follower((1, 0), (3, 5), end=5)
    assert replica.step(answer(1, 8)) == (Truncate(offset=5),), "for the epoch checkpoint"
    assert replica.epochs == ((1, 0),)
    assert replica.fetching() == fetches(5)


def test_a_leader_that_knows_no_epoch_leaves_the_watermark() -> None:
    replica = follower((3, 0), end=5, watermark=2)
    assert replica.step(answer(-1, -1)) == (Truncate(offset=2),)
    assert replica.fetching() == fetches(2)


def test_a_log_wholly_below_the_leaders_is_thrown_away() -> None:
    replica = follower((3, 10), start=10, end=20, watermark=15)
    assert replica.step(answer(3, 4)) == (TruncateFully(offset=4), HighWatermark(offset=4))
    assert (replica.log_start_offset, replica.log_end_offset, replica.epochs) == (4, 4, ())


def test_by_watermark_there_is_nothing_to_ask() -> None:
    replica = follower((3, 0), end=5, watermark=2, truncation=Truncation.HIGH_WATERMARK)
    assert replica.log_end_offset == 2
    assert replica.fetching() == fetches(2)


def test_by_watermark_a_log_that_ends_inside_a_batch_gives_way_to_it() -> None:
    """After an unclean election logs have parted, and batches end where the others' do not."""
    replica = follower((3, 0), end=5, watermark=5, truncation=Truncation.HIGH_WATERMARK)
    answered = Fetched(
        leader_epoch=9,
        fetch_offset=5,
        batches=(MemoryBatch(7, 3, 6, 8),),
        high_watermark=6,
        log_start_offset=0,
    )
    assert replica.step(answered) == (Truncate(offset=3), HighWatermark(offset=3))
    assert replica.fetching() == fetches(3)
    replica.step(replace(answered, fetch_offset=3))
    assert replica.log_end_offset == 6


@pytest.mark.parametrize("late", [answer(3, 1, current=8), fetched(5), fetched(5, epoch=8)])
def test_answers_to_other_questions_change_nothing(late: EpochEndOffset | Fetched) -> None:
    replica = follower((3, 0), end=5)
    assert replica.step(late) == ()
    assert replica.fetching() == asks(3)


# --- fetching -------------------------------------------------------------------------------------


def fetching(end: int = 5, start: int = 0) -> Replica:
    replica = follower((3, start), start=start, end=end, watermark=start)
    replica.step(answer(3, end))
    return replica


def test_batches_watermark_and_log_start_are_adopted_in_this_order() -> None:
    replica = fetching()
    batches = (MemoryBatch(1, 5, 7, 3), MemoryBatch(2, 7, 8, 9))
    assert replica.step(fetched(5, *batches, watermark=20, start=2)) == (
        Append(batches=batches, base_offset=5, leader_epoch=None),
        HighWatermark(offset=8),
        AdvanceLogStart(offset=2),
    )
    assert replica.epochs == ((3, 2), (9, 7))
    assert replica.fetching() == fetches(8, start=2)


def test_an_answer_counts_once() -> None:
    replica = fetching()
    event = fetched(5, MemoryBatch(1, 5, 6, 9), watermark=6)
    replica.step(event)
    assert replica.step(event) == ()
    assert replica.log_end_offset == 6


def test_an_answer_of_an_earlier_epoch_is_ignored() -> None:
    replica = fetching()
    assert replica.step(fetched(5, MemoryBatch(1, 5, 6, 8), epoch=8)) == ()


def test_a_leader_that_ends_before() -> None:
    replica = fetching()
    event = FetchOutOfRange(leader_epoch=9, log_start_offset=0, log_end_offset=3)
    assert replica.step(event) == (Truncate(offset=3),)
    assert replica.fetching() == fetches(3)
    assert replica.step(event) == (), "once more changes nothing"


@pytest.mark.parametrize("leaders_end", [3, 6, 9])
def test_a_leader_that_has_served_and_has_it_no_more_raises_the_alarm(leaders_end: int) -> None:
    """Nothing is cut. Found by a simulation: an answer that came twice cut records that were
    acknowledged. Found in review: a leader that led on in its epoch with a shorter log passed its
    follower's end before it was asked where it ends, and all seemed well."""
    replica = fetching()
    replica.step(fetched(5, MemoryBatch(1, 5, 6, 9)))
    event = FetchOutOfRange(leader_epoch=9, log_start_offset=0, log_end_offset=leaders_end)
    assert replica.step(event) == (LeaderLostRecords(leader_epoch=9, log_end_offset=6),)
    assert replica.log_end_offset == 6


def test_a_leader_that_starts_later() -> None:
    replica = fetching()
    event = FetchOutOfRange(leader_epoch=9, log_start_offset=8, log_end_offset=12)
    assert replica.step(event) == (TruncateFully(offset=8), HighWatermark(offset=8))
    assert replica.fetching() == fetches(8, start=8)


def test_a_leader_that_has_it_after_all() -> None:
    event = FetchOutOfRange(leader_epoch=9, log_start_offset=0, log_end_offset=9)
    assert fetching().step(event) == ()


def test_a_log_start_inside_a_batch() -> None:
    """DeleteRecords left the leader's start at 8, inside a batch from 6: the batch comes whole."""
    replica = fetching()
    replica.step(FetchOutOfRange(leader_epoch=9, log_start_offset=8, log_end_offset=10))
    batch = MemoryBatch(1, 6, 10, 9)
    assert replica.step(fetched(8, batch, watermark=10, start=8)) == (
        TruncateFully(offset=6),
        HighWatermark(offset=6),
        Append(batches=(batch,), base_offset=6, leader_epoch=None),
        HighWatermark(offset=10),
        AdvanceLogStart(offset=8),
    )
    assert (replica.log_start_offset, replica.log_end_offset) == (8, 10)


def test_batches_over_records_of_ones_own_are_an_error() -> None:
    replica = fetching()
    with pytest.raises(ValueError, match="batch at 4 overlaps the log, which ends at 5"):
        replica.step(fetched(5, MemoryBatch(1, 4, 6, 9)))
    assert replica.log_end_offset == 5


def test_kip_279_with_three_brokers() -> None:
    """KAFKA-6361: two quick clean leader changes leave each broker a record of its own."""
    lab = Lab(3)
    lab.elect(A, (A, B, C), to=(A, B, C))
    for follower_ in (B, C):
        lab.exchange(follower_)
    lab.produce(A)
    lab.elect(B, (A, B, C), to=(B,))
    lab.produce(B)
    lab.produce(B)
    lab.elect(C, (A, B, C), to=(C,))
    lab.produce(C)
    lab.tell(A)
    lab.tell(B)
    for follower_ in (A, B):
        lab.exchange(follower_, times=5)
    assert lab.log(A) == lab.log(B) == lab.log(C) == [4]
