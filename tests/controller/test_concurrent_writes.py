"""Concurrent writers to ZooKeeper: no confirmed write is overwritten."""

import pytest

from ackproof.broker.controller.cluster import ReplicaAssignment, TopicAssignment
from ackproof.broker.server.zk.controller_zk import ControllerZk
from ackproof.broker.server.zk.kafka_zk import ConfigZk, KafkaZk, TopicExists, of_topic
from ackproof.broker.types import BrokerId
from tests.support.worlds.controller_cluster import connected, run

pytestmark = pytest.mark.integration


class Overtaken(KafkaZk):
    """After it has looked whether a topic is there, ``meanwhile`` happens."""

    async def has_topic(self, topic):
        found = await super().has_topic(topic)
        await self.meanwhile()
        return found


def test_automatic_creation_keeps_a_concurrent_creation_by_an_administrator(zookeeper):
    async def main():
        async with connected(zookeeper, KafkaZk, Overtaken) as (admin, automatic):
            automatic.meanwhile = lambda: admin.create_topic(
                "orders", {0: [1]}, {"min.insync.replicas": "2"}
            )
            with pytest.raises(TopicExists):
                await automatic.create_topic("orders", {0: [2]}, {})
            settings = await ConfigZk(admin).read(of_topic("orders"))
            assert settings == {"min.insync.replicas": "2"}
            assigned = await admin.topic_assignments(["orders"])
            assert assigned["orders"].partitions[0].replicas == (1,)

    run(main())


def test_settings_changed_during_creation_are_replaced_by_those_of_the_topic(zookeeper):
    """Test that settings left by an earlier topic of the name are replaced, however often they
    change."""

    async def main():
        async with connected(zookeeper, KafkaZk, Overtaken) as (other, creating):
            settings = ConfigZk(other)

            async def left_behind():
                await settings.change(of_topic("orders"), lambda _: {"retention.ms": "1"})

            creating.meanwhile = left_behind
            await left_behind()
            await creating.create_topic("orders", {0: [1]}, {"min.insync.replicas": "2"})
            assert await settings.read(of_topic("orders")) == {"min.insync.replicas": "2"}
            assert await other.has_topic("orders")

    run(main())


def moved(topic_id, *brokers):
    replicas = tuple(map(BrokerId, brokers))
    return TopicAssignment(topic_id=topic_id, partitions={0: ReplicaAssignment(replicas=replicas)})


class Interrupted(KafkaZk):
    """After it has read a topic's assignment, ``meanwhile`` happens, once."""

    meanwhile = None

    async def start(self):
        await super().start()
        read = self.session.get

        async def get(path, watch=None):
            node = await read(path, watch)
            if path.startswith("/brokers/topics/") and self.meanwhile is not None:
                happens, self.meanwhile = self.meanwhile, None
                await happens()
            return node

        self.session.get = get


def test_a_move_does_not_take_away_partitions_that_were_just_added(zookeeper):
    async def main():
        async with connected(zookeeper, KafkaZk, Interrupted) as (other, controller):
            await other.create_topic("orders", {0: [1]}, {})
            topic_id = (await other.topic_assignments(["orders"]))["orders"].topic_id
            orders = ControllerZk(controller)
            tenure = await orders.elect(BrokerId(1))
            await other.add_partitions("orders", {1: [2]})
            controller.meanwhile = lambda: other.add_partitions("orders", {2: [3]})
            await orders.write_assignment(tenure, "orders", moved(topic_id, 2, 1))
            stored = (await other.topic_assignments(["orders"]))["orders"]
            assert stored.topic_id == topic_id
            assert {p: a.replicas for p, a in stored.partitions.items()} == {
                0: (2, 1),
                1: (2,),
                2: (3,),
            }

    run(main())


def test_a_move_of_a_topic_that_is_gone_does_not_touch_its_successor(zookeeper):
    async def main():
        async with connected(zookeeper, KafkaZk, KafkaZk) as (other, controller):
            await other.create_topic("orders", {0: [1]}, {})
            before = (await other.topic_assignments(["orders"]))["orders"]
            orders = ControllerZk(controller)
            tenure = await orders.elect(BrokerId(1))
            await orders.delete_topic(tenure, "orders", before.topic_id)
            await orders.write_assignment(tenure, "orders", moved(before.topic_id, 2))
            assert not await other.has_topic("orders")
            await other.create_topic("orders", {0: [3]}, {})
            await orders.write_assignment(tenure, "orders", moved(before.topic_id, 2))
            after = (await other.topic_assignments(["orders"]))["orders"]
            assert after.partitions[0].replicas == (3,)

    run(main())


def test_partitions_added_during_a_move_do_not_take_it_back(zookeeper):
    async def main():
        async with connected(zookeeper, KafkaZk, Interrupted) as (controller, adding):
            await controller.create_topic("orders", {0: [1]}, {})
            topic_id = (await controller.topic_assignments(["orders"]))["orders"].topic_id
            orders = ControllerZk(controller)
            tenure = await orders.elect(BrokerId(1))
            move = moved(topic_id, 2, 1)
            adding.meanwhile = lambda: orders.write_assignment(tenure, "orders", move)
            await adding.add_partitions("orders", {1: [2]})
            stored = (await controller.topic_assignments(["orders"]))["orders"]
            assert {p: a.replicas for p, a in stored.partitions.items()} == {0: (2, 1), 1: (2,)}

    run(main())
