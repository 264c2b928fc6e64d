"""Commits of one connection are stored as they came, whatever has to be looked up before."""

import asyncio
from contextvars import Context as Variables
from contextvars import copy_context
from random import Random
from typing import Any

from kio.schema.errors import ErrorCode

from ackproof.broker.controller.cluster import BrokerInfo, Endpoint, LiveBroker
from ackproof.broker.coordination.nodes import Assigned, PartitionView
from ackproof.broker.server.coordination.zk_metadata import ZkMetadata
from ackproof.broker.server.groups.group_coordinator import GroupCoordinator
from ackproof.broker.server.groups.offsets_topic import OffsetsTopic
from ackproof.broker.server.network.connections import PEER, Peer
from ackproof.broker.server.replication.fetch_session_cache import FetchSessionCache
from ackproof.broker.server.requests import groups
from ackproof.broker.server.requests.context import Context
from ackproof.broker.server.requests.dispatch import SERVED
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ackproof.broker.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.support.worlds.replica_hosts import Host, hosts, leader_and_isr, run, until

HOME = TopicPartition(OFFSETS_TOPIC, 0)
UNUSED: Any = None
INFO = BrokerInfo(broker_id=1, endpoints=(Endpoint(host="a", port=9092),))


class Zk:
    """Two topics of a partition each; those of ``hidden`` are not told of until ``shown``."""

    def __init__(self, *hidden: str) -> None:
        self._hidden = hidden
        self.shown = asyncio.Event()

    async def live_brokers(self, _watch: Any) -> dict[int, LiveBroker]:
        return {1: LiveBroker(info=INFO, epoch=1)}

    async def topics(self, _watch: Any = None) -> list[str]:
        return ["t", "u"]

    async def partitions(self, topic: str) -> list[int]:
        if topic in self._hidden:
            await self.shown.wait()
        return [0]

    async def partition(self, _tp: TopicPartition) -> PartitionView:
        return PartitionView(replicas=Assigned(replicas=(1,), version=0))


async def coordinating(host: Host, zk: Any) -> Context:
    """A broker without a controller that coordinates all groups, and has read nothing yet."""
    metadata = ZkMetadata(zk, zk)
    await metadata.read_brokers()
    await host.call(leader_and_isr(HOME, 1, 0, (1,), (1,)))
    topic = OffsetsTopic(host.config, metadata, UNUSED, 1)
    groups = GroupCoordinator(host.config, host.clock, host.replicas, topic, metadata, host.spawn)
    groups.tick()
    await until(lambda: list(groups.shards()))
    return Context(
        config=host.config,
        cluster_id="cluster",
        clock=host.clock,
        fence=host.fence,
        replicas=host.replicas,
        metadata=metadata,
        purgatory=host.purgatory,
        fetch_sessions=FetchSessionCache(10, Random(1)),
        topics=UNUSED,
        configs=UNUSED,
        coordinator=UNUSED,
        producer_ids=UNUSED,
        groups=groups,
        new_uuid=UNUSED,
        served=SERVED,
    )


def connection(number: int) -> Variables:
    variables = copy_context()
    variables.run(PEER.set, Peer("h", number))
    return variables


def commits(context: Context, by: Variables, **offsets: int) -> asyncio.Task[Any]:
    """A request of that connection is started."""
    request = OffsetCommitRequest(
        version=8,
        group_id="g",
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=tuple(
            OffsetCommitRequestTopic(
                name=topic,
                partitions=(
                    OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=offset, committed_metadata=None
                    ),
                ),
            )
            for topic, offset in offsets.items()
        ),
    )
    return asyncio.get_running_loop().create_task(
        groups.handle_offset_commit(request, context), context=by
    )


def deletes(context: Context, by: Variables, topic: str) -> asyncio.Task[Any]:
    request = OffsetDeleteRequest(
        version=0,
        group_id="g",
        topics=(
            OffsetDeleteRequestTopic(
                name=topic, partitions=(OffsetDeleteRequestPartition(partition_index=0),)
            ),
        ),
    )
    return asyncio.get_running_loop().create_task(
        groups.handle_offset_delete(request, context), context=by
    )


def errors(response: Any) -> set[ErrorCode]:
    return {p.error_code for topic in response.topics for p in topic.partitions}


def committed(context: Context) -> dict[str, int]:
    (shard,) = context.groups.shards()
    offsets = shard.groups["g"].offsets.committed if "g" in shard.groups.by_id else {}
    return {tp.topic: found.value.offset for tp, found in offsets.items()}


async def settled() -> None:
    """Whatever can go on without anybody's help has."""
    for _ in range(100):
        await asyncio.sleep(0)


def test_later_commit_does_not_overtake_one_with_a_pending_topic_lookup(tmp_path) -> None:
    """Both would be answered without an error, and the group go on from 5."""

    async def story() -> None:
        async with hosts(tmp_path, 1) as brokers:
            zk = Zk("u")
            context, mine = await coordinating(brokers[1], zk), connection(1)
            first = commits(context, mine, t=5, u=3)
            later = commits(context, mine, t=6)
            await settled()
            zk.shown.set()
            assert errors(await first) == errors(await later) == {ErrorCode.none}
            assert committed(context) == {"t": 6, "u": 3}

    run(story())


def test_a_deletion_does_not_overtake_a_commit(tmp_path) -> None:
    async def story() -> None:
        async with hosts(tmp_path, 1) as brokers:
            zk = Zk("u")
            context, mine = await coordinating(brokers[1], zk), connection(1)
            await commits(context, mine, t=5)
            first = commits(context, mine, t=6, u=3)
            later = deletes(context, mine, "t")
            await settled()
            zk.shown.set()
            assert errors(await first) == errors(await later) == {ErrorCode.none}
            assert committed(context) == {"u": 3}

    run(story())


def test_other_connections_do_not_wait(tmp_path) -> None:
    async def story() -> None:
        async with hosts(tmp_path, 1) as brokers:
            zk = Zk("u")
            context = await coordinating(brokers[1], zk)
            waiting = commits(context, connection(1), u=3)
            await settled()
            assert errors(await commits(context, connection(2), t=5)) == {ErrorCode.none}
            assert not waiting.done()
            zk.shown.set()
            assert errors(await waiting) == {ErrorCode.none}

    run(story())


def test_cancelled_commit_lets_the_next_one_proceed(tmp_path) -> None:
    async def story() -> None:
        async with hosts(tmp_path, 1) as brokers:
            context, mine = await coordinating(brokers[1], Zk("u")), connection(1)
            waiting = commits(context, mine, u=3)
            later = commits(context, mine, t=5)
            await settled()
            waiting.cancel()
            assert errors(await later) == {ErrorCode.none}
            assert committed(context) == {"t": 5}

    run(story())
