"""Malformed nodes in ZooKeeper: brokers log them and go on, the controller above all."""

import asyncio
import json
from contextlib import asynccontextmanager, suppress

import pytest
from kazoo.exceptions import NodeExistsError

from ackproof.broker.config import BrokerConfig
from ackproof.broker.server.admin import ConfigChanges, TopicConfigs
from ackproof.broker.server.zk.kafka_zk import ConfigZk, KafkaZk, of_topic
from ackproof.broker.types import BrokerId, TopicPartition
from tests.support.worlds.controller_cluster import SESSION_MS, cluster, run, until

pytestmark = pytest.mark.integration

TP = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)

NONSENSE = (
    None,
    b"",
    b"\xff",
    b"nonsense",
    b"5",
    b"[]",
    b"{}",
    b'{"partitions": 5}',
    b'{"partitions": [5]}',
    b'{"partitions": [{"topic": 5, "partition": 0, "replicas": [1]}]}',
    b'{"partitions": [{"topic": "../ids", "partition": 0, "replicas": [1]}]}',
    b'{"partitions": [{"topic": "orders", "partition": "0", "replicas": [1]}]}',
    b'{"partitions": [{"topic": "orders", "partition": 99999999999, "replicas": [1]}]}',
)


async def works(made):
    """The controller goes on: a new topic gets a leader."""
    name = f"works-{len(await made.zk.topics())}"
    await made.zk.create_topic(name, {0: sorted(made.brokers)}, {})
    await made.state(TopicPartition(name, 0), lambda s: s.leader in made.brokers)


@asynccontextmanager
async def running(zookeeper, *ids):
    """Brokers with a controller; ``zk`` is the view of one that stays."""
    async with cluster(zookeeper, *ids) as made:
        made.zk = made.brokers[max(ids)].zk
        yield made


def off_loop(call, *args, **kwargs):
    return asyncio.to_thread(call, *args, **kwargs)


def test_malformed_isr_notifications_go_and_sound_ones_count(zookeeper, admin):
    path = "/isr_change_notification"

    async def main():
        async with running(zookeeper, 1, 2) as made:
            await made.zk.create_topic("orders", {0: [1, 2]}, {})
            state = await made.state(TP, lambda s: s.leader == 1)
            await made.zk.write_isr(
                TP,
                leader=1,
                leader_epoch=0,
                controller_epoch=1,
                isr=[1],
                zk_version=state.zk_version,
            )
            for number, data in enumerate(NONSENSE):
                await off_loop(admin.create, f"{path}/isr_change_x{number}", data)
            await off_loop(admin.create, f"{path}/not-ours/below", b"", makepath=True)
            await made.zk.notify_isr_change([TP])
            await until(lambda: made.controllers[1].context.states[TP].isr == (1,))
            while await off_loop(admin.get_children, path):
                await asyncio.sleep(0.02)
            await works(made)
            assert made.active() == [1]

    run(main())


@pytest.mark.parametrize("garbage", [b"", b"nonsense", b'{"leader": "1"}', b'{"leader": 1}'])
def test_a_malformed_state_costs_its_partition_alone_until_it_is_mended(zookeeper, admin, garbage):
    path = "/brokers/topics/orders/partitions/0/state"

    async def main():
        async with running(zookeeper, 1, 2, 3) as made:
            await made.zk.create_topic("orders", {0: [2, 3], 1: [2, 3]}, {})
            await made.state(TP, lambda s: s.leader == 2)
            await made.state(OTHER, lambda s: s.leader == 2)
            sound, _ = await off_loop(admin.get, path)
            await off_loop(admin.set, path, garbage)
            await made.zk.notify_isr_change([TP, OTHER])
            await made.remove(2)
            await made.state(OTHER, lambda s: s.leader == 3)
            assert made.active() == [1]
            await made.remove(1)
            await until(lambda: made.active() == [3])
            await works(made)
            assert (await off_loop(admin.get, path))[0] == garbage
            await off_loop(admin.set, path, sound)
            await made.add(2)
            await until(lambda: TP in made.brokers[2].roles)
            assert made.controllers[3].context.states[TP].leader == 2

    run(main())


def test_malformed_topic_keeps_its_former_state(zookeeper, admin):
    async def main():
        async with running(zookeeper, 1, 2, 3) as made:
            await made.zk.create_topic("orders", {0: [2, 3]}, {})
            await made.state(TP, lambda s: s.leader == 2)
            await off_loop(admin.create, "/brokers/topics/nonsense", b'{"partitions": {"0": []}}')
            for data in NONSENSE[1:]:
                await off_loop(admin.set, "/brokers/topics/orders", data)
            await works(made)
            await made.remove(2)
            await made.state(TP, lambda s: s.leader == 3)
            assert made.active() == [1]
            await made.remove(1)
            await until(lambda: made.active() == [3])
            await works(made)
            assert "nonsense" not in made.controllers[3].context.topics

    run(main())


def test_malformed_registrations_are_ignored(zookeeper, admin):
    nodes = {
        "x": b"",
        "7": b"nonsense",
        "8": b'{"endpoints": []}',
        "9": b'{"endpoints": ["BOGUS://h:1"]}',
        "99999999999": b'{"endpoints": ["PLAINTEXT://h:1"]}',
    }

    async def main():
        async with running(zookeeper, 1, 2) as made:
            for name, data in nodes.items():
                await off_loop(admin.create, f"/brokers/ids/{name}", data)
            await made.add(3)
            await works(made)
            await until(lambda: made.controllers[1].context.live.keys() == {1, 2, 3})
            await made.remove(1)
            await until(made.active)
            await works(made)

    run(main())


def test_malformed_orders_are_removed(zookeeper, admin):
    async def main():
        async with running(zookeeper, 1, 2) as made:
            for path in ("/admin/reassign_partitions", "/admin/preferred_replica_election"):
                for data in NONSENSE:
                    await off_loop(admin.create, path, data)
                    while await off_loop(admin.exists, path):
                        await asyncio.sleep(0.02)
            await off_loop(admin.create, "/admin/delete_topics/x/below", b"", makepath=True)
            while await off_loop(admin.get_children, "/admin/delete_topics"):
                await asyncio.sleep(0.02)
            await works(made)
            assert made.active() == [1]

    run(main())


def test_malformed_controller_node_names_no_controller(zookeeper, admin):
    async def main():
        async with running(zookeeper, 1, 2) as made:
            await off_loop(admin.set, "/controller", b"nonsense")
            await until(lambda: made.active() == [])
            await off_loop(admin.delete, "/controller")
            await until(made.active)
            await works(made)

    run(main())


def have_an_election(admin):
    """Another controller comes and goes. A broker that has not yet stood for election may be
    faster."""
    with suppress(NodeExistsError):
        admin.create("/controller", json.dumps({"brokerid": 9}).encode())
        admin.delete("/controller")


def test_malformed_epoch_prevents_elections_until_it_is_repaired(zookeeper, admin, caplog):
    def in_vain():
        """Return the number of elections that failed at the malformed node."""
        return sum("/controller_epoch" in record.getMessage() for record in caplog.records)

    async def main():
        async with running(zookeeper, 1, 2) as made:
            await off_loop(admin.set, "/controller_epoch", b"nonsense")
            await off_loop(admin.delete, "/controller")
            await until(lambda: in_vain() >= len(made.brokers))
            assert made.active() == []
            await off_loop(admin.set, "/controller_epoch", b"5")
            await off_loop(have_an_election, admin)
            await until(made.active)
            assert (await off_loop(admin.get, "/controller_epoch"))[0] == b"6"
            await works(made)

    run(main())


def test_malformed_notes_of_changed_settings_are_passed_over(zookeeper, admin):
    path = "/config/changes"

    async def main():
        heard = []
        config = BrokerConfig(broker_id=1, zookeeper_connect=zookeeper.connect)
        zk = KafkaZk(zookeeper.connect, SESSION_MS, connection_timeout_ms=20_000)
        await zk.start()
        changes = ConfigChanges(BrokerId(1), zk, TopicConfigs(config, zk), heard.append)
        following = asyncio.create_task(changes.follow_forever())
        try:
            for number, data in enumerate(NONSENSE):
                await off_loop(admin.create, f"{path}/a{number}", data)
            for number, entity in enumerate(("topics/../ids", "topics/", "topics/a/b", 5)):
                note = json.dumps({"version": 2, "entity_path": entity}).encode()
                await off_loop(admin.create, f"{path}/b{number}", note)
            await off_loop(admin.create, f"{path}/c/below", b"", makepath=True)
            await off_loop(admin.create, "/config/topics/orders", b"nonsense")
            await ConfigZk(zk).change(of_topic("orders"), lambda old: {**old, "flush.ms": "7"})
            await until(lambda: following.done() or {"orders"} in heard)
            assert not following.done(), following.exception()
            assert await ConfigZk(zk).read(of_topic("orders")) == {"flush.ms": "7"}
            notes = await ConfigZk(zk).notes(lambda: None)
            await ConfigZk(zk).remove_old_notes(notes, keep_ms=0)
            assert await ConfigZk(zk).notes(lambda: None) == ["c"], "what has children stays"
        finally:
            following.cancel()
            await asyncio.wait([following])
            await zk.close()

    run(main())
