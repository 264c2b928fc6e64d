"""Answers of a leader with a disk that returns altered bytes, or none."""

import errno
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v4.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.list_offsets.v5.request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.batch import CorruptBatch, extent, parse_batches, whole_batches_below
from tests.support.worlds.replica_hosts import (
    LENGTH_AT,
    Host,
    elect,
    hosts,
    log_of,
    overwrite,
    refuse_reads,
    run,
)

TP, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
MAX = 2**20


def fetch(*asked: tuple[TopicPartition, int]) -> FetchRequest:
    """Return a consumer's fetch of partitions of one topic, from these offsets."""
    partitions: Any = tuple(
        FetchPartition(partition=tp.partition, fetch_offset=offset, partition_max_bytes=MAX)  # type: ignore[arg-type]
        for tp, offset in asked
    )
    return FetchRequest(
        replica_id=-1,  # type: ignore[arg-type]
        max_wait=timedelta(0),  # type: ignore[arg-type]
        min_bytes=0,  # type: ignore[arg-type]
        max_bytes=MAX,  # type: ignore[arg-type]
        isolation_level=0,  # type: ignore[arg-type]
        topics=(FetchTopic(topic="t", partitions=partitions),),  # type: ignore[arg-type]
    )


async def answers(host: Host, *asked: tuple[TopicPartition, int]) -> list[tuple[ErrorCode, int]]:
    """Return the error and the number of batches of each partition."""
    answer = await host.call(fetch(*asked))
    return [
        (told.error_code, len(list(parse_batches(told.records or b""))))
        for told in answer.responses[0].partitions
    ]


def test_a_damaged_batch_costs_its_own_partition(tmp_path):
    """A length of -12, and a scan over the batches stands still."""

    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            for tp in (TP, OTHER):
                await elect(brokers, tp, 1, 0, (1,))
                for value in (b"a", b"b", b"c"):
                    await host.produce(tp, value)
            size = log_of(host, TP).stat().st_size // 3
            overwrite(log_of(host, TP), size + LENGTH_AT, (-12).to_bytes(4, "big", signed=True))
            assert await answers(host, (TP, 0), (OTHER, 0)) == [
                (ErrorCode.none, 1),
                (ErrorCode.none, 3),
            ]
            assert await answers(host, (TP, 1), (OTHER, 1)) == [
                (ErrorCode.corrupt_message, 0),
                (ErrorCode.none, 2),
            ]
            assert not host.halted

    run(story())


def test_a_log_that_cannot_be_read_halts_the_broker(tmp_path):
    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            await elect(brokers, TP, 1, 0, (1,))
            for value in (b"a", b"b"):  # the last one is not read from the disk
                await host.produce(TP, value)
            refuse_reads(log_of(host, TP))
            assert await answers(host, (TP, 0)) == [(ErrorCode.kafka_storage_error, 0)]
            assert [error.errno for error in host.halted] == [errno.EISDIR]

    run(story())


def test_a_log_in_which_no_time_can_be_looked_up_halts_the_broker(tmp_path):
    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            await elect(brokers, TP, 1, 0, (1,))
            await host.produce(TP, b"a")
            refuse_reads(log_of(host, TP))
            at_0 = ListOffsetsPartition(
                partition_index=TP.partition, current_leader_epoch=-1, timestamp=0
            )
            topic = ListOffsetsTopic(name=TP.topic, partitions=(at_0,))
            asked = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=(topic,))
            answer = await host.call(asked)
            told = answer.topics[0].partitions[0]
            assert (told.error_code, told.offset) == (ErrorCode.kafka_storage_error, -1)
            assert [error.errno for error in host.halted] == [errno.EISDIR]

    run(story())


@pytest.mark.parametrize("length", [-(2**31), -12, 0, 48])
def test_no_batch_is_shorter_than_its_header(length: int) -> None:
    header = bytes(8) + length.to_bytes(4, "big", signed=True) + bytes(49)
    with pytest.raises(CorruptBatch):
        extent(header)
    with pytest.raises(CorruptBatch):
        whole_batches_below(header, 10)
    sound = bytes(8) + (49).to_bytes(4, "big") + bytes(49)
    assert whole_batches_below(sound + header, 10) == len(sound)
