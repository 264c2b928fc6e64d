"""Groups that are loaded while leaderships change: what an earlier epoch held is not served."""

import asyncio

from hosts import OF_NOBODY, hosts, leader_and_isr, run, until
from kio.schema.errors import ErrorCode

from broker.server.groups.group_coordinator import GroupCoordinator
from broker.server.groups.offsets_topic import OffsetsTopic
from broker.server.replication.roles import StopReplica
from broker.server.topic_names import OFFSETS_TOPIC
from broker.types import TopicPartition

TP = TopicPartition(OFFSETS_TOPIC, 0)


async def loading(host):
    """A coordinator that has begun to load the one partition there is, and not finished."""
    await host.call(leader_and_isr(TP, 1, 0, (1,), (1,)))
    await host.produce(TP, b"v")
    topic = OffsetsTopic(host.config, host.metadata, None, 1)
    made = GroupCoordinator(host.config, host.clock, host.replicas, topic, host.spawn)
    made.tick()
    await asyncio.sleep(0)  # it has read the log, and let others have their turn
    assert made.is_loading
    return made


async def loaded(coordinator):
    await until(lambda: not coordinator.is_loading)
    await asyncio.sleep(0)


def test_what_was_loaded_in_an_earlier_epoch_is_loaded_again(tmp_path):
    """Another broker may have led in between, and stored commits."""

    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            coordinator = await loading(host)
            word = leader_and_isr(TP, 1, 1, (1,), (1,))
            await host.told(word)
            assert coordinator.is_loading
            await loaded(coordinator)
            assert not list(coordinator.shards())
            assert coordinator.shard("g") is ErrorCode.coordinator_load_in_progress
            await loaded(coordinator)
            assert len(list(coordinator.shards())) == 1
            assert not host.halted

    run(story())


def test_what_was_deleted_while_it_was_loaded_is_not_served(tmp_path):
    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            coordinator = await loading(host)
            await host.replicas.stop_replicas([StopReplica(partition=TP, delete=True)], OF_NOBODY)
            await loaded(coordinator)
            assert not coordinator._shards
            assert coordinator.shard("g") is ErrorCode.not_coordinator

    run(story())
