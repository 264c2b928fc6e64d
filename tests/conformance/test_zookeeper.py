"""The broker's use of ZooKeeper, on a simulated one: servers that lag, and sessions that end."""

import asyncio
from functools import partial

import pytest

from ackproof.broker.config import BrokerConfig
from ackproof.broker.server.admin import TopicConfigs
from ackproof.broker.server.zk.controller_zk import ControllerZk
from ackproof.broker.server.zk.kafka_zk import ConfigZk, IsrWriteOutcome, KafkaZk, of_topic
from ackproof.broker.server.zk.session import ZkConnectionTimeout
from ackproof.broker.types import BrokerId
from simulation.zookeeper.ensemble import HOST
from tests.support.worlds.partition_writes import isr, write
from tests.support.worlds.zookeeper_worlds import CLIENT, SHORT_MS, SimulatedWorld


def simulated(case, seed=1, **options):
    return SimulatedWorld(seed, **options).run(case)


def test_lagging_server_causes_no_conflict_for_a_better_informed_leader():
    """Test a state that the controller wrote and sent to the leader before the leader's server had
    it."""

    async def case(world):
        async with world.kafka() as controller, world.kafka() as leader:
            orders = ControllerZk(controller)
            tenure = await orders.elect(BrokerId(9))
            await controller.create_topic("orders", {0: [1, 2]}, {})
            await orders.write_states(tenure, [write()])
            await leader.session.sync("/")
            await orders.write_states(tenure, [write(epoch=1, expected=0)])
            assert (await isr(leader, 1)).outcome is IsrWriteOutcome.WRITTEN

    for seed in range(6):
        simulated(case, seed, servers=3, lag_s=0.5)


def test_settings_of_a_new_topic_are_read_through_a_lagging_server():
    """Test that neither the defaults nor the settings of a former topic of that name are used."""

    async def case(world, left):
        async with world.kafka() as controller, world.kafka() as follower:
            if left:
                await ConfigZk(controller).change(of_topic("orders"), lambda _: left)
                await follower.session.sync("/")
            await controller.create_topic("orders", {0: [1, 2]}, {"min.insync.replicas": "3"})
            config = BrokerConfig(broker_id=1, zookeeper_connect=world.connect)
            found = await TopicConfigs(config, follower).load_latest("orders")
            assert found.min_insync_replicas == 3

    for seed in range(6):
        for left in ({}, {"min.insync.replicas": "2"}):
            simulated(partial(case, left=left), seed, servers=3, lag_s=0.5)


def test_unknown_setting_is_ignored_alone(caplog):
    async def case(world):
        async with world.kafka() as zk:
            stored = {"min.insync.replicas": "3", "cleanup.policy": "compact"}
            await ConfigZk(zk).change(of_topic("orders"), lambda _: stored)
            config = BrokerConfig(broker_id=1, zookeeper_connect=world.connect)
            assert (await TopicConfigs(config, zk).load("orders")).min_insync_replicas == 3

    simulated(case, 0)
    assert "/config/topics/orders: cleanup.policy cannot be set there" in caplog.text


@pytest.mark.parametrize("is_expired", [True, False], ids=["expired", "given up"])
def test_changed_settings_are_announced_even_if_the_session_ends(is_expired):
    """Test changes directly before the session expires or its client leaves."""

    async def case(world):
        async with world.kafka() as zk, world.kafka() as other:
            settings = {"min.insync.replicas": "2"}
            changing = asyncio.create_task(
                ConfigZk(zk).change(of_topic("orders"), lambda _: settings)
            )
            peek = world.zookeeper.leader.tree.peek
            while peek(f"{world.root}/config/topics/orders")[0] is None:
                await asyncio.sleep(0.00001)
            if is_expired:
                world.zookeeper.expire(world.zookeeper.sessions_of(CLIENT)[0])
            else:
                changing.cancel()
            await asyncio.wait([changing])
            (note,) = await ConfigZk(other).notes(lambda: None)
            assert await ConfigZk(other).read_note(note) == of_topic("orders")
            assert await ConfigZk(other).read(of_topic("orders")) == settings

    for seed in range(6):
        simulated(case, seed)


@pytest.mark.parametrize("is_lost", [True, False], ids=["lost", "late"])
def test_failed_connection_attempt_is_repeated_and_leaves_nothing(is_lost):
    """Test a first attempt that is lost, or that arrives after later ones."""

    async def case(world):
        world.freeze()
        zk = KafkaZk(world.connect, SHORT_MS, connection_timeout_ms=60_000, client=world.factory)
        starting = asyncio.create_task(zk.start())
        await asyncio.sleep((SHORT_MS if is_lost else 10 * SHORT_MS) / 2000)
        if is_lost:
            world.network.power_lost(HOST)
            world.network.power_restored(HOST)
        world.thaw()
        await starting
        sessions = world.zookeeper.sessions_of(CLIENT)
        assert [session.id for session in sessions] == [zk.session.session_id]
        await zk.close()

    simulated(case)


def test_broker_without_zookeeper_does_not_start():
    async def case(world):
        world.zookeeper.stop()
        zk = KafkaZk("zookeeper:1", 6_000, connection_timeout_ms=300, client=world.factory)
        with pytest.raises(ZkConnectionTimeout):
            await zk.start()
        world.zookeeper.start()
        async with world.kafka() as zk:
            assert await zk.topics() == set()

    simulated(case)
