"""Produce requests: numbers of idempotent producers, refused batches, several partitions."""

import asyncio
import struct

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages.init_producer_id import InitProducerIdRequest
from ackproof.broker.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from simulation.clients.producers import encode_batch, patch_batch
from tests.support.worlds.wire_cluster import EARLIEST, LATEST, WireCluster, errors_in, simulated

pytestmark = pytest.mark.simulation

REMEMBERED = 5
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20
MAGIC_AT, DELTA_AT, COUNT_AT = 16, 23, 57
GOOD = (b"v",)


def strange_batches() -> dict[str, tuple[bytes, ErrorCode]]:
    """Batches that no client of Kafka sends, with the error that each calls for."""
    good, invalid = encode_batch(GOOD, times_ms=[1_700_000_000_000]), ErrorCode.invalid_record
    many = patch_batch(patch_batch(good, COUNT_AT, ">i", 10**6), DELTA_AT, ">i", 10**6 - 1)

    def with_attributes(attributes: int) -> bytes:
        return encode_batch(GOOD, attributes=attributes, times_ms=[1_700_000_000_000])

    return {
        "damaged": (good[:-1] + bytes([good[-1] ^ 1]), ErrorCode.corrupt_message),
        "cut short": (good[:-1], ErrorCode.corrupt_message),
        "two batches": (good + good, invalid),
        "a transaction": (with_attributes(TRANSACTIONAL), ErrorCode.invalid_txn_state),
        "a control batch": (with_attributes(CONTROL), invalid),
        "the broker's time": (with_attributes(LOG_APPEND_TIME), ErrorCode.invalid_timestamp),
        "format 1": (good[:MAGIC_AT] + b"\1" + good[MAGIC_AT + 1 :], invalid),
        "offset 5": (struct.pack(">q", 5) + good[8:], invalid),
        "a gap": (patch_batch(good, DELTA_AT, ">i", 5), invalid),
        "too many records": (many, invalid),
        "no number": (encode_batch(GOOD, (7, 0, -1), times_ms=[1_700_000_000_000]), invalid),
    }


@pytest.mark.parametrize("what", strange_batches())
@simulated
async def test_strange_batch_is_refused_and_leaves_the_log_as_it_was(
    cluster: WireCluster, topic: str, what: str
) -> None:
    tp = await cluster.create(topic)
    batch, expected = strange_batches()[what]
    assert (await cluster.send(tp, batch)).error_code is expected
    assert await cluster.listed(tp, LATEST) == (0, -1)


@simulated
async def test_request_with_acks_2_or_for_an_unknown_topic_is_refused(
    cluster: WireCluster, topic: str
) -> None:
    tp = await cluster.create(topic)
    part = await cluster.send(tp, acks=2)
    assert part.error_code is ErrorCode.invalid_required_acks
    part = await cluster.send(TopicPartition("nowhere", 0), to=1)
    assert part.error_code is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("acks", [1, -1])
@simulated
async def test_follower_refuses_every_batch_whatever_else_is_wrong(
    cluster: WireCluster, topic: str, acks: int
) -> None:
    tp = await cluster.create(topic)
    follower = await cluster.follower(tp)
    for records in (encode_batch(GOOD), encode_batch([bytes(2**20 + 1)])):
        part = await cluster.send(tp, records, acks=acks, to=follower)
        assert part.error_code is ErrorCode.not_leader_or_follower


@simulated
async def test_client_may_not_write_to_the_offsets_topic(cluster: WireCluster) -> None:
    await cluster.coordinator("any")
    part = await cluster.send(TopicPartition(OFFSETS_TOPIC, 0))
    assert part.error_code is ErrorCode.invalid_topic_exception


# --- idempotent producers -------------------------------------------------------------------------


async def numbered(
    cluster: WireCluster, tp: TopicPartition, producer: tuple[int, int], number: int, count: int = 1
) -> tuple[ErrorCode, int]:
    """Send a numbered batch; return the error and the offset."""
    part = await cluster.send(tp, encode_batch([b"v"] * count, (*producer, number)))
    return part.error_code, part.base_offset


@simulated
async def test_producers_that_begin_at_two_brokers_at_once_get_different_ids(
    cluster: WireCluster,
) -> None:
    """Each broker takes a block of ids from ZooKeeper with its first producer."""
    request = InitProducerIdRequest(version=1, transactional_id=None, transaction_timeout_ms=1_000)
    answers = await asyncio.gather(*(cluster.ask(broker, request) for broker in (2, 3)))
    assert {answer.error_code for answer in answers} == {ErrorCode.none}
    assert len({answer.producer_id for answer in answers}) == len(answers)


@simulated
async def test_repetition_of_the_oldest_remembered_batch_gets_its_first_offset(
    cluster: WireCluster, topic: str
) -> None:
    tp, producer = await cluster.create(topic), await cluster.producer()
    offsets = [(await numbered(cluster, tp, producer, n))[1] for n in range(REMEMBERED)]
    assert offsets == list(range(REMEMBERED))
    assert await numbered(cluster, tp, producer, 0) == (ErrorCode.none, 0)
    assert await cluster.listed(tp, LATEST) == (REMEMBERED, -1)


@simulated
async def test_longer_batch_with_a_known_number_and_a_gap_are_refused(
    cluster: WireCluster, topic: str
) -> None:
    tp, producer = await cluster.create(topic), await cluster.producer()
    await numbered(cluster, tp, producer, 0)
    for number, count in ((0, 2), (2, 1)):
        error, _ = await numbered(cluster, tp, producer, number, count)
        assert error is ErrorCode.out_of_order_sequence_number


@simulated
async def test_next_producer_epoch_begins_at_zero_and_shuts_the_former_one_out(
    cluster: WireCluster, topic: str
) -> None:
    tp, (producer_id, epoch) = await cluster.create(topic), await cluster.producer()
    former, later = (producer_id, epoch), (producer_id, epoch + 1)
    for number in range(2):
        await numbered(cluster, tp, former, number)
    error, _ = await numbered(cluster, tp, later, 1)
    assert error is ErrorCode.out_of_order_sequence_number
    assert await numbered(cluster, tp, later, 0) == (ErrorCode.none, 2)
    assert await numbered(cluster, tp, later, 1) == (ErrorCode.none, 3)
    error, _ = await numbered(cluster, tp, former, 2)
    assert error is ErrorCode.invalid_producer_epoch


@simulated
async def test_repeated_batch_gets_the_first_append_time(cluster: WireCluster, topic: str) -> None:
    config = {"message.timestamp.type": "LogAppendTime"}
    tp, producer = await cluster.create(topic, config=config), await cluster.producer()
    batch = encode_batch(GOOD, (*producer, 0))
    first = await cluster.append(tp, batch)
    await asyncio.sleep(0.01)
    again = await cluster.append(tp, batch)
    assert (again.base_offset, again.log_append_time_ms) == (0, first.log_append_time_ms)


# --- several partitions ---------------------------------------------------------------------------


@simulated
async def test_partitions_with_different_followers_are_acked_together(
    cluster: WireCluster, topic: str
) -> None:
    await cluster.create(topic, (1, 2), (1, 3))
    for number, order in enumerate([(0, 1), (1, 0)] * 3):
        data = tuple(PartitionProduceData(index=n, records=encode_batch(GOOD)) for n in order)
        request = ProduceRequest(
            version=8,
            acks=-1,
            timeout_ms=10_000,
            topic_data=(TopicProduceData(name=topic, partition_data=data),),
        )
        answer = await cluster.ask(1, request)
        assert errors_in(answer) == {ErrorCode.none}
        parts = answer.responses[0].partition_responses
        assert {part.index: part.base_offset for part in parts} == {0: number, 1: number}
        for partition in order:
            tp = TopicPartition(topic, partition)
            assert await cluster.listed(tp, LATEST) == (number + 1, -1)
            assert (await cluster.listed(tp, EARLIEST))[0] == 0
