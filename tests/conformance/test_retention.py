"""Retention, and what ListOffsets tells of the records that are left (KIP-79, KIP-734)."""

from collections.abc import Iterable

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages import incremental_alter_configs as single
from simulation.clients.producers import encode_batch, wall_ms
from tests.support.worlds.wire_cluster import (
    EARLIEST,
    WireCluster,
    deletion_of_records,
    errors_in,
    simulated,
)

pytestmark = pytest.mark.simulation

PROPERTIES = {"log.retention.check.interval.ms": "500"}
RETENTION_MS = 600_000
MARGIN_MS = 60_000
SEGMENT_BYTES = 200
"""For two batches of one record each, and not for three."""
TINY = {"segment.bytes": str(SEGMENT_BYTES), "index.interval.bytes": "0", "retention.ms": "-1"}
MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -3, -4, -5
NOTHING = (-1, -1)


def times() -> tuple[int, int]:
    """Return a time that retention does not reach back to, and one that it does."""
    now = wall_ms() // 1000 * 1000
    return now - RETENTION_MS - MARGIN_MS, now - RETENTION_MS + MARGIN_MS


async def append_each(cluster: WireCluster, tp: TopicPartition, times_ms: Iterable[int]) -> None:
    for timestamp in times_ms:
        await cluster.append(tp, encode_batch([b"v"], times_ms=[timestamp]))


async def limit(cluster: WireCluster, topic: str) -> None:
    """Set the retention, now that all records are there."""
    config = single.AlterableConfig(
        name="retention.ms", config_operation=0, value=str(RETENTION_MS)
    )
    resource = single.AlterConfigsResource(resource_type=2, resource_name=topic, configs=(config,))
    request = single.IncrementalAlterConfigsRequest(
        version=0, resources=(resource,), validate_only=False
    )
    assert errors_in(await cluster.ask(1, request)) == {ErrorCode.none}


async def begins_at(cluster: WireCluster, tp: TopicPartition, expected: int) -> None:
    """Wait until the leader's log begins there, and that it stays so."""

    async def begins() -> bool:
        return (await cluster.listed(tp, EARLIEST))[0] == expected

    await cluster.until(f"{tp} begins at {expected}", begins)
    (part,) = await cluster.fetch([(tp, expected - 1)])
    assert part.error_code is ErrorCode.offset_out_of_range


OLD, YOUNG = 0, 1


@pytest.mark.parametrize(
    ("ages", "begin"),
    [
        ([OLD, OLD, YOUNG, OLD, YOUNG, OLD, YOUNG], 2),
        ([OLD, OLD, OLD], 3),
        ([OLD, YOUNG], 0),
    ],
)
@simulated
async def test_segment_goes_when_its_youngest_record_is_too_old(
    cluster: WireCluster, topic: str, ages: list[int], begin: int
) -> None:
    tp = await cluster.create(topic, config=TINY)
    await append_each(cluster, tp, [times()[age] for age in ages])
    await limit(cluster, topic)
    if begin:
        await begins_at(cluster, tp, begin)
    else:
        assert (await cluster.listed(tp, EARLIEST))[0] == 0


@simulated
async def test_record_much_younger_than_its_segment_begins_another_one(
    cluster: WireCluster, topic: str
) -> None:
    config = {"segment.ms": str(MARGIN_MS), "retention.ms": "-1"}
    tp = await cluster.create(topic, config=config)
    old, step = times()[0], MARGIN_MS * 2 // 3
    await append_each(cluster, tp, [old, old + step, old + 2 * step])
    await limit(cluster, topic)
    await begins_at(cluster, tp, 2)


@simulated
async def test_oldest_segments_go_while_enough_bytes_are_left(
    cluster: WireCluster, topic: str
) -> None:
    one = len(encode_batch([b"v"]))
    tp = await cluster.create(topic, config={**TINY, "retention.bytes": str(6 * one)})
    await append_each(cluster, tp, [wall_ms()] * 10)
    await begins_at(cluster, tp, 4)


@simulated
async def test_restarted_leader_knows_how_old_its_segments_are(
    cluster: WireCluster, topic: str
) -> None:
    old, young = times()
    tp = await cluster.create(topic, config=TINY)
    await append_each(cluster, tp, [old, old, young, old, young])
    node = cluster.simulation.nodes[await cluster.leader(tp)]
    node.stop()

    async def has_ended() -> bool:
        return not node.is_alive

    await cluster.until("the leader has ended", has_ended)
    node.start()
    await cluster.settled()
    await limit(cluster, topic)
    await begins_at(cluster, tp, 2)


@simulated
async def test_lookup_by_time_finds_the_first_record_that_is_not_older(
    cluster: WireCluster, topic: str
) -> None:
    old, young = times()
    tp = await cluster.create(topic, config=TINY)
    await append_each(cluster, tp, [old, old, young, old, young])
    await limit(cluster, topic)
    await begins_at(cluster, tp, 2)
    first, middle, last = young + 1_000, young + 2_000, young + 3_000
    three = await cluster.append(tp, encode_batch([b"v"] * 3, times_ms=[first, last, middle]))
    await append_each(cluster, tp, [young] * 3)
    base = three.base_offset
    for timestamp, expected in {
        old: (2, young),
        young: (2, young),
        young + 1: (base, first),
        first + 1: (base + 1, last),
        last: (base + 1, last),
        last + 1: NOTHING,
        MAX_TIMESTAMP: (base + 1, last),
        EARLIEST_LOCAL: (2, -1),
        LATEST_TIERED: NOTHING,
    }.items():
        assert await cluster.listed(tp, timestamp) == expected
    leader = await cluster.leader(tp)
    await cluster.ask(leader, deletion_of_records(tp, base + 1))
    assert await cluster.listed(tp, old) == (base + 1, last)
    await cluster.ask(leader, deletion_of_records(tp, base + 2))
    assert await cluster.listed(tp, MAX_TIMESTAMP) == (base + 2, middle)
