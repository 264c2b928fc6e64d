"""Connections: answers come in the order of the requests, however many and however they are cut."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.codec import read_response, write_request
from ackproof.broker.wire.messages.api_versions import ApiVersionsRequest
from ackproof.broker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ackproof.broker.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from simulation.clients.producers import encode_batch
from simulation.machines.node import PORT, broker_name
from tests.support.clients.fetch_requests import AMPLE, Limits, fetch_request
from tests.support.clients.pipeline import Pipeline, in_pieces
from tests.support.worlds.wire_cluster import LATEST, WireCluster, simulated

pytestmark = pytest.mark.simulation

LEADER = 1
REQUESTS = 90
"""More than twice what a broker has under way of one connection."""
WAITS_EVERY = 20
WAITS = Limits(min_bytes=AMPLE, max_wait_ms=200)
ANSWERED_S = 3.0
PIECES = ((1, 3, 2, 5), (2, 61, 4, 150), (1_000,))
"""A byte, a size in two parts, a request in several pieces, and two and a half in one."""
LARGE = tuple(letter * 30_000 for letter in "xyz")
"""Topic names that make a request larger than what is read at a time."""


def produce(tp: TopicPartition, acks: int) -> ProduceRequest:
    data = PartitionProduceData(index=tp.partition, records=encode_batch([b"v"]))
    topic = TopicProduceData(name=tp.topic, partition_data=(data,))
    return ProduceRequest(version=8, acks=acks, timeout_ms=1_000, topic_data=(topic,))


def metadata(*topics: str) -> MetadataRequest:
    named = tuple(MetadataRequestTopic(name=name) for name in topics)
    return MetadataRequest(version=9, topics=named, allow_auto_topic_creation=False)


def of_all_kinds(tp: TopicPartition, end: int) -> Iterator[Any]:
    """Yield requests, of which some are answered much later than those behind them, or never."""
    for number in range(REQUESTS):
        if number % WAITS_EVERY == 0:
            yield fetch_request([(tp, end)], WAITS)
        elif number % 5 == 1:
            yield ApiVersionsRequest(version=2)
        elif number % 5 == 3:
            yield metadata(tp.topic)
        else:
            yield produce(tp, acks=number % 5 // 2 % 2 if number % 5 == 2 else 1)


def frames(requests: Iterable[Any]) -> list[bytes]:
    return [write_request(each, number, "pipeline") for number, each in enumerate(requests)]


async def answers(
    cluster: WireCluster, requests: list[Any], pieces: Iterable[bytes], unread_s: float = 0.0
) -> dict[int, Any]:
    """Send requests; return the answers by the number of the request, in the order they came."""
    assert LEADER in cluster.living
    pipeline = await Pipeline.to(broker_name(LEADER), PORT)
    if unread_s:
        pipeline.pause()
    pipeline.write(pieces)
    if unread_s:
        await asyncio.sleep(unread_s)
        pipeline.resume()
    due = [n for n, each in enumerate(requests) if getattr(each, "acks", 1) != 0]
    assert await pipeline.has(len(due), ANSWERED_S)
    pipeline.hang_up()
    assert len(pipeline.responses) == len(due)
    told = {}
    for number, response in zip(due, pipeline.responses, strict=True):
        correlation_id, told[number] = read_response(requests[number], response)
        assert correlation_id == number
    return told


@simulated
async def test_pipelined_requests_are_answered_and_carried_out_in_their_order(
    cluster: WireCluster, topic: str
) -> None:
    tp = await cluster.create(topic)
    requests = list(of_all_kinds(tp, end=0))
    told = await answers(cluster, requests, [b"".join(frames(requests))])
    offset = 0
    for number, request in enumerate(requests):
        if not isinstance(request, ProduceRequest):
            continue
        if number in told:
            part = told[number].responses[0].partition_responses[0]
            assert (part.error_code, part.base_offset) == (ErrorCode.none, offset)
        offset += 1


@pytest.mark.parametrize("sizes", PIECES)
@simulated
async def test_requests_that_come_in_pieces_are_answered(
    cluster: WireCluster, topic: str, sizes: tuple[int, ...]
) -> None:
    tp = await cluster.create(topic)
    requests = list(of_all_kinds(tp, end=0))[: WAITS_EVERY // 2]
    await answers(cluster, requests, list(in_pieces(b"".join(frames(requests)), sizes)))


@simulated
async def test_client_that_reads_late_gets_all_answers(cluster: WireCluster) -> None:
    requests = [metadata(*LARGE), ApiVersionsRequest(version=2)] * 8
    await answers(cluster, requests, frames(requests), unread_s=0.5)


@simulated
async def test_broker_serves_on_when_clients_hang_up_in_the_middle(
    cluster: WireCluster, topic: str
) -> None:
    tp = await cluster.create(topic)
    waits = fetch_request([(tp, 0)], Limits(min_bytes=AMPLE, max_wait_ms=60_000))
    for _ in range(20):
        pipeline = await Pipeline.to(broker_name(LEADER), PORT)
        pipeline.write(frames([waits] * 16))
        pipeline.hang_up()
    assert (await cluster.append(tp)).base_offset == 0
    assert await cluster.listed(tp, LATEST) == (1, -1)


@simulated
async def test_connection_that_ends_while_its_broker_stands_still_does_not_count(
    cluster: WireCluster, topic: str
) -> None:
    tp = await cluster.create(topic)
    node = cluster.simulation.nodes[LEADER]
    node.pause()
    for _ in range(3):
        (await Pipeline.to(broker_name(LEADER), PORT)).close_with_reset()
    await asyncio.sleep(0.3)
    node.resume()
    assert (await cluster.append(tp)).base_offset == 0
