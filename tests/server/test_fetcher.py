"""Requests of a follower, and its reaction to late, wrong or missing answers."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.batch import stamped
from ackproof.broker.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ackproof.broker.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ackproof.broker.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tests.support.builders.batches import batch
from tests.support.fakes.scripted_leader import ScriptedLeader
from tests.support.worlds.replica_hosts import hosts, leader_and_isr, run, stop_replica, until

TP = TopicPartition("t", 0)
BACKOFF_MS = 300


@asynccontextmanager
async def following(directory):
    """Broker 2, told to follow broker 1, which is the script, in epoch 3."""
    leader = ScriptedLeader()
    await leader.start()
    try:
        async with hosts(directory, 2) as brokers:
            host = brokers[2]
            object.__setattr__(host.config, "replica_fetch_backoff_ms", BACKOFF_MS)
            host.peers = {1: leader}
            await follow(host, 3)
            yield leader, host
    finally:
        await leader.close()


async def follow(host, epoch):
    await host.call(leader_and_isr(TP, 1, epoch, (1, 2), (1, 2)))


def records(offset, epoch, count=1):
    return b"".join(bytes(stamped(batch(), offset + n, epoch).raw) for n in range(count))


def fetch_answer(*, error=ErrorCode.none, data=b"", topic="t", watermark=0, session=7):
    partition = PartitionData(
        partition_index=0,
        error_code=error,
        high_watermark=watermark,
        last_stable_offset=watermark,
        log_start_offset=0,
        aborted_transactions=None,
        records=data,
    )
    return FetchResponse(
        error_code=ErrorCode.none,
        session_id=session,
        responses=(FetchableTopicResponse(topic=topic, partitions=(partition,)),),
    )


def epoch_answer(epoch, end, error=ErrorCode.none):
    end_offset = EpochEndOffset(error_code=error, partition=0, leader_epoch=epoch, end_offset=end)
    return OffsetForLeaderEpochResponse(
        topics=(OffsetForLeaderTopicResult(topic="t", partitions=(end_offset,)),),
    )


def range_answer(offset):
    partition = ListOffsetsPartitionResponse(
        partition_index=0,
        error_code=ErrorCode.none,
        timestamp=-1,
        offset=offset,
        leader_epoch=3,
    )
    return ListOffsetsResponse(
        topics=(ListOffsetsTopicResponse(name="t", partitions=(partition,)),),
    )


def asked_of(request):
    return request.topics[0].partitions[0]


def test_everything_a_follower_asks_names_its_epoch(tmp_path):
    """A leader of another epoch, deposed or not yet told, must be able to refuse (KIP-320)."""

    async def story():
        async with following(tmp_path) as (leader, host):
            request, answer = await leader.next("FetchRequest")
            assert (asked_of(request).current_leader_epoch, request.replica_id) == (3, 2)
            answer.set_result(fetch_answer(error=ErrorCode.offset_out_of_range))
            for timestamp in (-2, -1):
                request, answer = await leader.next("ListOffsetsRequest")
                asked = asked_of(request)
                assert (asked.timestamp, asked.current_leader_epoch) == (timestamp, 3)
                assert request.replica_id == 2, "a follower is told the log's end"
                answer.set_result(range_answer(10))
            request, answer = await leader.next("FetchRequest")
            assert asked_of(request).fetch_offset == 10
            answer.set_result(fetch_answer(data=records(10, 3)))
            request, answer = await leader.next("FetchRequest")
            await follow(host, 4)
            answer.set_result(fetch_answer())
            request, _ = await leader.next("OffsetForLeaderEpochRequest")
            asked = asked_of(request)
            assert (asked.current_leader_epoch, asked.leader_epoch) == (4, 3)

    run(story())


def test_an_answer_to_a_fetch_of_an_earlier_epoch_is_not_appended(tmp_path):
    """Between the two another may have led: the batches of the old leader may be in no log now."""

    async def story():
        async with following(tmp_path) as (leader, host):
            _, answer = await leader.next("FetchRequest")
            await follow(host, 4)
            answer.set_result(fetch_answer(data=records(0, 3)))
            await leader.next("FetchRequest")
            assert host.partition(TP).log.log_end_offset == 0

    run(story())


def test_an_answer_for_a_former_topic_is_not_for_the_one_that_was_made_again(tmp_path):
    """Test a topic of the same name, with the same leader, in the same epoch, at the same
    offset."""

    async def story():
        async with following(tmp_path) as (leader, host):
            _, answer = await leader.next("FetchRequest")
            keeps_the_connection = TopicPartition("other", 0)
            await host.call(leader_and_isr(keeps_the_connection, 1, 3, (1, 2), (1, 2)))
            await host.call(stop_replica(TP, 3, delete=True))
            await follow(host, 3)
            answer.set_result(fetch_answer(data=records(0, 3)))
            await leader.next("FetchRequest")
            assert leader.connections == 1
            assert host.partition(TP).log.log_end_offset == 0

    run(story())


def test_an_answer_about_an_epoch_that_was_asked_for_in_an_earlier_one_cuts_nothing(tmp_path):
    async def story():
        async with following(tmp_path) as (leader, host):
            request, answer = await leader.next("FetchRequest")
            answer.set_result(fetch_answer(data=records(0, 3, 5)))
            await leader.next("FetchRequest")
            leader.disconnect()
            await follow(host, 4)
            request, answer = await leader.next("OffsetForLeaderEpochRequest")
            await follow(host, 5)
            answer.set_result(epoch_answer(3, 2))
            request, answer = await leader.next("OffsetForLeaderEpochRequest")
            assert asked_of(request).current_leader_epoch == 5
            assert host.partition(TP).log.log_end_offset == 5

    run(story())


def test_that_a_fetch_of_an_earlier_epoch_was_out_of_range_cuts_nothing(tmp_path):
    async def story():
        async with following(tmp_path) as (leader, host):
            request, answer = await leader.next("FetchRequest")
            answer.set_result(fetch_answer(error=ErrorCode.offset_out_of_range))
            request, answer = await leader.next("ListOffsetsRequest")
            answer.set_result(range_answer(10))
            request, answer = await leader.next("ListOffsetsRequest")
            await follow(host, 4)
            answer.set_result(range_answer(20))
            request, _ = await leader.next("FetchRequest")
            assert asked_of(request).fetch_offset == 0

    run(story())


def test_session_restarts_after_a_lost_connection(tmp_path):
    """It is unknown whether the last request arrived; the leader would believe another offset."""

    async def story():
        async with following(tmp_path) as (leader, _):
            request, answer = await leader.next("FetchRequest")
            answer.set_result(fetch_answer())
            request, answer = await leader.next("FetchRequest")
            assert (request.session_id, request.session_epoch) == (7, 1)
            leader.disconnect()
            request, _ = await leader.next("FetchRequest")
            assert (request.session_id, request.session_epoch) == (7, 0)
            assert asked_of(request).fetch_offset == 0, "named again"

    run(story())


def test_a_leader_that_refuses_is_left_alone_for_a_while(tmp_path):
    async def story():
        async with following(tmp_path) as (leader, host):
            _, answer = await leader.next("FetchRequest")
            before = host.clock.now()
            error = ErrorCode.unknown_leader_epoch
            answer.set_result(fetch_answer(error=error, session=0))
            await leader.next("FetchRequest")
            assert host.clock.now() - before >= BACKOFF_MS

    run(story())


@pytest.mark.parametrize(
    ("number", "at", "bit"),
    [(2, -1, 1), (0, 7, 64), (1, 7, 1), (1, 7, 2), (2, 7, 64)],
    ids=["record", "first offset", "offset of the one before", "of the next", "of none"],
)
def test_damaged_batch_is_not_appended_and_is_fetched_again(tmp_path, number, at, bit):
    """No CRC covers an offset: a hole, or an overlap, in the middle or at the end."""

    async def story():
        async with following(tmp_path) as (leader, host):
            _, answer = await leader.next("FetchRequest")
            before = host.clock.now()
            damaged = bytearray(records(0, 3, 3))
            damaged[number * len(damaged) // 3 + at] ^= bit
            answer.set_result(fetch_answer(data=bytes(damaged), session=0))
            _, answer = await leader.next("FetchRequest")
            assert host.clock.now() - before >= BACKOFF_MS
            assert host.partition(TP).log.log_end_offset == 0
            assert not host.halted
            answer.set_result(fetch_answer(data=records(0, 3)))
            await until(lambda: host.partition(TP).log.log_end_offset == 1)

    run(story())


@pytest.mark.parametrize("error", [ErrorCode.none, ErrorCode.offset_out_of_range])
def test_answer_about_an_unrequested_partition_closes_the_connection(tmp_path, error):
    async def story():
        async with following(tmp_path) as (leader, host):
            request, answer = await leader.next("FetchRequest")
            answer.set_result(fetch_answer(error=error, data=records(0, 3), topic="other"))
            request, _ = await leader.next("FetchRequest")
            assert request.session_epoch == 0
            assert not host.halted

    run(story())


def test_a_leader_that_moved_is_followed_to_its_new_address(tmp_path):
    async def story():
        async with following(tmp_path) as (leader, host):
            _, answer = await leader.next("FetchRequest")
            elsewhere = ScriptedLeader()
            await elsewhere.start()
            host.peers = {1: elsewhere}
            answer.set_result(fetch_answer())
            await elsewhere.next("FetchRequest")
            await asyncio.wait_for(elsewhere.close(), 5)

    run(story())
