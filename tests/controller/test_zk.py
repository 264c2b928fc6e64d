"""KafkaZk against a real ZooKeeper."""

import asyncio
import json
import threading

import pytest
from kazoo.client import KazooClient

from ackproof.broker.controller.cluster import BrokerInfo, Endpoint
from ackproof.broker.server.zk.kafka_zk import (
    BrokerIdInUse,
    ConfigZk,
    IsrWriteOutcome,
    KafkaZk,
    TopicExists,
    of_topic,
)
from ackproof.broker.server.zk.session import SessionExpired, ZkConnectionTimeout
from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition, ZkVersion
from tests.support.worlds.controller_cluster import (
    DEADLINE_S,
    SESSION_MS,
    SHORT_SESSION_MS,
    connected,
    run,
)

pytestmark = pytest.mark.integration

TP = TopicPartition("orders", 0)


def info(broker=1, port=9092):
    return BrokerInfo(
        broker_id=BrokerId(broker), endpoints=(Endpoint(host="localhost", port=port),), rack="r1"
    )


@pytest.fixture
def other_client(zookeeper):
    """A ZooKeeper client that does not go through the code under test."""
    client = KazooClient(zookeeper.connect, timeout=20)
    client.start(DEADLINE_S)
    yield client
    client.stop()
    client.close()


def test_registration_is_kafkas(zookeeper, other_client):
    async def main():
        async with connected(zookeeper, KafkaZk, now_ms=lambda: 42) as (zk,):
            epoch = await zk.register_broker(info())
            data, stat = await asyncio.to_thread(other_client.get, "/brokers/ids/1")
            assert json.loads(data) == {
                "features": {},
                "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
                "endpoints": ["PLAINTEXT://localhost:9092"],
                "jmx_port": -1,
                "port": 9092,
                "host": "localhost",
                "version": 5,
                "timestamp": "42",
                "rack": "r1",
            }
            assert stat.ephemeralOwner != 0
            assert epoch == stat.czxid
            brokers = await zk.live_brokers()
            assert brokers[1].info == info()
            assert brokers[1].epoch == epoch
            assert await zk.register_broker(info()) == epoch
        assert await asyncio.to_thread(other_client.get_children, "/brokers/ids") == []

    run(main())


def test_conflicted_ephemeral_node_is_waited_for(zookeeper, other_client, caplog):
    async def main():
        async with connected(zookeeper, KafkaZk, KafkaZk) as (former, zk):
            old = await former.register_broker(info())
            registering = asyncio.create_task(zk.register_broker(info()))
            done, _ = await asyncio.wait([registering], timeout=0.5)
            assert not done
            await former.close()
            epoch = await registering
            assert epoch > old
            _, stat = await asyncio.to_thread(other_client.get, "/brokers/ids/1")
            assert stat.ephemeralOwner == zk.session.session_id
            assert any(
                record.message.startswith('I wrote this conflicted ephemeral node [{"features"')
                and "at /brokers/ids/1 a while back in a different session" in record.message
                for record in caplog.records
            )

    run(main())


def test_another_brokers_id_is_refused(zookeeper):
    async def main():
        async with connected(zookeeper, KafkaZk, KafkaZk) as (one, other):
            await one.register_broker(info(port=9092))
            with pytest.raises(BrokerIdInUse, match=r"broker\.id=1"):
                await other.register_broker(info(port=9093))

    run(main())


def test_session_expiry_is_noticed_and_fences(way, other_client):
    async def main():
        async with connected(way, KafkaZk, session_ms=SHORT_SESSION_MS) as (zk,):
            seen = []
            zk.on_disconnected(lambda: seen.append("disconnected"))
            zk.on_session_expired(lambda: seen.append("expired"))
            back = asyncio.Event()
            zk.on_session_established(back.set)
            session = zk.session.number
            first = await zk.register_broker(info())
            watched = asyncio.Event()
            await zk.live_brokers(watched.set)
            way.freeze()
            writes = [zk.session.create(f"/late-{i}", b"", session) for i in range(500)]
            late = asyncio.gather(*writes, return_exceptions=True)
            await until(lambda: "disconnected" in seen)
            await watched.wait()
            await until_gone(other_client, "/brokers/ids/1")
            threads = threading.active_count()
            way.thaw()
            await back.wait()
            assert seen == ["disconnected", "expired"]
            assert {type(outcome) for outcome in await late} == {SessionExpired}
            with pytest.raises(SessionExpired):
                await zk.session.create("/late-again", b"", session)
            assert not [n for n in await zk.session.children("/") if n.startswith("late-")]
            assert await zk.register_broker(info()) > first
            assert threading.active_count() <= threads

    run(main())


def test_hung_zookeeper_does_not_block_the_loop(own_zookeeper):
    async def main():
        async with connected(own_zookeeper, KafkaZk, session_ms=SHORT_SESSION_MS) as (zk,):
            threads = threading.active_count()
            own_zookeeper.pause()
            reads = [asyncio.create_task(zk.topics()) for _ in range(1000)]
            worst_s = await longest_pause_s(2 * SHORT_SESSION_MS / 1000)
            assert threading.active_count() == threads
            own_zookeeper.resume()
            assert await asyncio.gather(*reads) == [set()] * 1000
            assert worst_s < 2 * SHORT_SESSION_MS / 1000, "shorter than ZooKeeper hung"

    run(main())


def test_start_without_zookeeper_says_so():
    async def main():
        zk = KafkaZk("127.0.0.1:1", SESSION_MS, connection_timeout_ms=300)
        with pytest.raises(ZkConnectionTimeout, match=r"zookeeper\.connect=127\.0\.0\.1:1 within"):
            await zk.start()

    threads = threading.active_count()
    run(main())
    assert threading.active_count() == threads


def test_start_waits_for_zookeeper(own_zookeeper):
    async def main():
        own_zookeeper.kill()
        # A ZooKeeper that just starts may take a connection and never answer: it is given up
        # after two thirds of the session timeout, and made again.
        zk = KafkaZk(own_zookeeper.connect, 3_000, connection_timeout_ms=120_000)
        starting = asyncio.create_task(zk.start())
        await asyncio.to_thread(own_zookeeper.start)
        await starting
        assert await zk.topics() == set()
        await zk.close()

    run(main())


def test_cluster_id_is_made_once(zookeeper):
    async def main():
        async with connected(zookeeper, KafkaZk, KafkaZk) as (one, other):
            ids = await asyncio.gather(one.cluster_id(), other.cluster_id())
            assert ids[0] == ids[1]
            assert len(ids[0]) == 22

    run(main())


def test_topics(zookeeper, other_client):
    async def main():
        async with connected(zookeeper, KafkaZk) as (zk,):
            changed = asyncio.Event()
            assert await zk.topics(changed.set) == set()
            await zk.create_topic("orders", {0: [1, 2], 1: [2, 1]}, {"min.insync.replicas": "2"})
            await changed.wait()
            assert await zk.topics() == {"orders"}
            with pytest.raises(TopicExists):
                await zk.create_topic("orders", {0: [1]}, {})
            assert await ConfigZk(zk).read(of_topic("orders")) == {"min.insync.replicas": "2"}
            assert await ConfigZk(zk).read(of_topic("no-such")) == {}
            data, _ = await asyncio.to_thread(other_client.get, "/brokers/topics/orders")
            node = json.loads(data)
            assert len(node.pop("topic_id")) == 22
            assert node == {
                "removing_replicas": {},
                "partitions": {"0": [1, 2], "1": [2, 1]},
                "adding_replicas": {},
                "version": 3,
            }
            await zk.add_partitions("orders", {2: [1, 2], 0: [9]})
            stored = (await zk.topic_assignments(["orders", "no-such"]))["orders"]
            assert {p: a.replicas for p, a in stored.partitions.items()} == {
                0: (1, 2),
                1: (2, 1),
                2: (1, 2),
            }

    run(main())


def test_isr_writes_are_conditional(zookeeper, other_client):
    async def main():
        state = {"controller_epoch": 3, "leader": 1, "version": 1, "leader_epoch": 7, "isr": [1, 2]}
        path = "/brokers/topics/orders/partitions/0/state"
        data = json.dumps(state).encode()
        await asyncio.to_thread(other_client.create, path, data, makepath=True)

        def write(zk, isr, version):
            return zk.write_isr(
                TP,
                leader=BrokerId(1),
                leader_epoch=LeaderEpoch(7),
                controller_epoch=ControllerEpoch(3),
                isr=[BrokerId(i) for i in isr],
                zk_version=ZkVersion(version),
            )

        async with connected(zookeeper, KafkaZk) as (zk,):
            result = await write(zk, [1], 0)
            assert (result.outcome, result.zk_version) == (IsrWriteOutcome.WRITTEN, 1)
            again = await write(zk, [1], 0)
            assert (again.outcome, again.zk_version) == (IsrWriteOutcome.WRITTEN, 1)
            assert (await write(zk, [1, 2], 0)).outcome is IsrWriteOutcome.CONFLICT
            stored = (await zk.partition_states([TP]))[TP]
            assert (stored.isr, stored.leader_epoch, stored.zk_version) == ((1,), 7, 1)
            await zk.notify_isr_change([TP])
            names = await zk.session.children("/isr_change_notification")
            assert names == ["isr_change_0000000000"]

    run(main())


async def until(condition):
    """Polls, with the test's own deadline as the limit."""
    while not condition():
        await asyncio.sleep(0.02)


async def until_gone(client, path):
    while await asyncio.to_thread(client.exists, path):
        await asyncio.sleep(0.05)


async def longest_pause_s(duration_s):
    """The longest time the loop needed to come back to this task within ``duration_s``."""
    loop = asyncio.get_running_loop()
    start = last = loop.time()
    worst = 0.0
    while last - start < duration_s:
        await asyncio.sleep(0.01)
        worst, last = max(worst, loop.time() - last), loop.time()
    return worst
