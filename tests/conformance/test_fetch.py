"""Fetches: limits, waiting, watermarks, sessions and leader epochs (KIP-74, KIP-227, KIP-320)."""

import asyncio
from itertools import pairwise

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.types import BrokerId, LeaderEpoch, TopicPartition
from ackproof.broker.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from simulation.clients.client import list_offsets
from tests.support.clients.fetch_requests import AMPLE, Limits, fetch_request
from tests.support.worlds.wire_cluster import WireCluster, batches_in, errors_in, simulated

pytestmark = pytest.mark.simulation

BATCHES = 6
WAIT_MS = 1_000
AT_ONCE_S = 0.3
STRANGER = BrokerId(99)


async def filled(cluster: WireCluster, topic: str) -> tuple[TopicPartition, TopicPartition]:
    """Return two partitions of one leader; each has some batches of one record."""
    await cluster.create(topic, (1, 2), (1, 3))
    tps = TopicPartition(topic, 0), TopicPartition(topic, 1)
    for _ in range(BATCHES):
        for tp in tps:
            await cluster.append(tp)
    return tps


@pytest.mark.parametrize(
    "limits",
    [
        Limits(max_bytes=1),
        Limits(partition_max_bytes=1),
        Limits(max_bytes=200),
        Limits(partition_max_bytes=200),
    ],
)
@simulated
async def test_fetch_with_a_byte_limit_reads_the_log_in_whole_batches(
    cluster: WireCluster, topic: str, limits: Limits
) -> None:
    tp, _ = await filled(cluster, topic)
    limit, at = min(limits.max_bytes, limits.partition_max_bytes), 0
    while at < BATCHES:
        (part,) = await cluster.fetch([(tp, at)], limits)
        batches = batches_in(part)
        assert batches[0].base_offset == at
        assert len(batches) == 1 or sum(batch.size for batch in batches) <= limit
        assert all(a.next_offset == b.base_offset for a, b in pairwise(batches))
        at = batches[-1].next_offset


@pytest.mark.parametrize("max_bytes", [1, 300])
@simulated
async def test_fetch_of_several_partitions_serves_the_first_and_keeps_the_limit(
    cluster: WireCluster, topic: str, max_bytes: int
) -> None:
    tps = await filled(cluster, topic)
    parts = await cluster.fetch([(tp, 0) for tp in tps], Limits(max_bytes=max_bytes))
    batches = [batch for part in parts for batch in batches_in(part)]
    assert batches_in(parts[0])
    assert len(batches) == 1 or sum(batch.size for batch in batches) <= max_bytes


@simulated
async def test_fetch_tells_watermark_and_log_start(cluster: WireCluster, topic: str) -> None:
    tp, _ = await filled(cluster, topic)
    (part,) = await cluster.fetch([(tp, BATCHES)])
    assert (part.high_watermark, part.log_start_offset) == (BATCHES, 0)
    (part,) = await cluster.fetch([(tp, BATCHES + 7)])
    assert part.error_code is ErrorCode.offset_out_of_range
    assert (part.high_watermark, part.log_start_offset) == (-1, -1)


def now() -> float:
    return asyncio.get_running_loop().time()


@simulated
async def test_fetch_without_news_waits_as_long_as_it_asked_for(
    cluster: WireCluster, topic: str
) -> None:
    tp, _ = await filled(cluster, topic)
    leader, began = await cluster.leader(tp), now()
    limits = Limits(min_bytes=1, max_wait_ms=WAIT_MS)
    (part,) = await cluster.fetch([(tp, BATCHES)], limits, to=leader)
    assert not batches_in(part)
    assert WAIT_MS / 1000 <= now() - began <= WAIT_MS / 1000 + AT_ONCE_S


async def fetched_meanwhile(
    cluster: WireCluster, asked: list[tuple[TopicPartition, int]], limits: Limits
) -> tuple[list[int], float]:
    """Append to the last partition while a fetch waits; return the batch sizes and the wait."""
    leader, began = await cluster.leader(asked[0][0]), now()
    fetching = asyncio.ensure_future(cluster.fetch(asked, limits, to=leader))
    await asyncio.sleep(limits.max_wait_ms / 2000)
    await cluster.send(asked[-1][0], to=leader, acks=1, by="another")
    parts = await fetching
    return [batch.size for part in parts for batch in batches_in(part)], now() - began


@simulated
async def test_waiting_fetch_is_answered_when_a_record_is_committed(
    cluster: WireCluster, topic: str
) -> None:
    tp, _ = await filled(cluster, topic)
    limits = Limits(min_bytes=1, max_wait_ms=WAIT_MS)
    sizes, waited = await fetched_meanwhile(cluster, [(tp, BATCHES)], limits)
    assert len(sizes) == 1
    assert waited <= WAIT_MS / 2000 + AT_ONCE_S


@simulated
async def test_fetch_that_waited_in_vain_keeps_its_byte_limit(
    cluster: WireCluster, topic: str
) -> None:
    full, other = await filled(cluster, topic)
    limits = Limits(max_bytes=1, min_bytes=AMPLE, max_wait_ms=WAIT_MS)
    for asked in ([(full, BATCHES - 1)], [(full, BATCHES), (other, BATCHES)]):
        sizes, _ = await fetched_meanwhile(cluster, asked, limits)
        assert len(sizes) == 1


# --- sessions -------------------------------------------------------------------------------------


def told(answer: object) -> set[int]:
    return {part.partition_index for topic in answer.responses for part in topic.partitions}  # type: ignore[attr-defined]


@simulated
async def test_fetch_session_tells_news_alone_and_nothing_of_a_forgotten_partition(
    cluster: WireCluster, topic: str
) -> None:
    quiet, busy = await filled(cluster, topic)
    leader = await cluster.leader(quiet)
    both = [(quiet, BATCHES), (busy, BATCHES)]
    begun = await cluster.ask(leader, fetch_request(both, session=(0, 0)))
    await cluster.append(busy)
    waits = Limits(min_bytes=1, max_wait_ms=500)
    answer = await cluster.ask(leader, fetch_request((), waits, session=(begun.session_id, 1)))
    assert told(answer) == {busy.partition}
    forgets = fetch_request((), session=(begun.session_id, 2), forgotten=[busy])
    await cluster.ask(leader, forgets)
    await cluster.append(busy)
    answer = await cluster.ask(leader, fetch_request((), waits, session=(begun.session_id, 3)))
    assert busy.partition not in told(answer)


@simulated
async def test_fetch_of_a_former_session_epoch_or_an_unknown_session_is_refused(
    cluster: WireCluster, topic: str
) -> None:
    tp, _ = await filled(cluster, topic)
    leader = await cluster.leader(tp)
    begun = await cluster.ask(leader, fetch_request([(tp, 0)], session=(0, 0)))
    first = fetch_request([(tp, 0)], session=(begun.session_id, 1))
    await cluster.ask(leader, first)
    again = await cluster.ask(leader, first)
    assert again.error_code is ErrorCode.invalid_fetch_session_epoch
    unknown = fetch_request([(tp, 0)], session=(begun.session_id ^ 1, 1))
    answer = await cluster.ask(leader, unknown)
    assert answer.error_code is ErrorCode.fetch_session_id_not_found


# --- whom one asks, and in which epoch ------------------------------------------------------------


@simulated
async def test_request_of_another_leader_epoch_is_refused(cluster: WireCluster, topic: str) -> None:
    tp, _ = await filled(cluster, topic)
    cluster.expire(await cluster.leader(tp))
    await cluster.until("another one leads", lambda: leads_anew(cluster, tp))
    await cluster.settled()
    part = await cluster.part(tp)
    leader, follower = part.leader_id, await cluster.follower(tp)
    for epoch, expected in (
        (part.leader_epoch + 1, ErrorCode.unknown_leader_epoch),
        (part.leader_epoch - 1, ErrorCode.fenced_leader_epoch),
    ):
        for request in (
            fetch_request([(tp, 0)], epoch=LeaderEpoch(epoch)),
            fetch_request([(tp, 0)], epoch=LeaderEpoch(epoch), replica=BrokerId(follower)),
            list_offsets(tp, epoch=LeaderEpoch(epoch)),
            end_of_epoch(tp, epoch),
        ):
            assert errors_in(await cluster.ask(leader, request)) == {expected}, request


async def leads_anew(cluster: WireCluster, tp: TopicPartition) -> bool:
    return bool((await cluster.part(tp)).leader_epoch > 0)


def end_of_epoch(tp: TopicPartition, presumed: int) -> OffsetForLeaderEpochRequest:
    part = OffsetForLeaderPartition(
        partition=tp.partition,
        current_leader_epoch=LeaderEpoch(presumed),
        leader_epoch=LeaderEpoch(0),
    )
    topic = OffsetForLeaderTopic(topic=tp.topic, partitions=(part,))
    return OffsetForLeaderEpochRequest(version=3, replica_id=BrokerId(-1), topics=(topic,))


@simulated
async def test_follower_and_stranger_are_refused(cluster: WireCluster, topic: str) -> None:
    tp, _ = await filled(cluster, topic)
    refused = {ErrorCode.not_leader_or_follower}
    follower, leader = await cluster.follower(tp), await cluster.leader(tp)
    assert errors_in(await cluster.ask(follower, list_offsets(tp))) == refused
    fetch = fetch_request([(tp, 0)], replica=STRANGER)
    assert errors_in(await cluster.ask(leader, fetch)) == refused
    nowhere = list_offsets(TopicPartition("nowhere", 0))
    assert errors_in(await cluster.ask(leader, nowhere)) == {ErrorCode.unknown_topic_or_partition}
