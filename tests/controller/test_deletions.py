"""A topic's node, its settings and the order to delete it go together, even if a broker dies in
between."""

import asyncio

import pytest

from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.controller_zk import ControllerZk
from ackproof.broker.server.zk.kafka_zk import KafkaZk
from ackproof.broker.types import BrokerId
from tests.support.worlds.controller_cluster import connected, run
from tests.support.worlds.partition_writes import TP, write

pytestmark = pytest.mark.integration

ORDER = f"{znodes.DELETE_TOPICS}/orders"
NODES = {ORDER, znodes.topic("orders"), znodes.topic_config("orders")}


class Died(Exception):
    """The controller, before its next request."""


class Interrupted(KafkaZk):
    """Dies after so many requests, or does something else after one whose answer is lost."""

    requests_left = 10**9
    lost = None

    async def start(self):
        await super().start()
        once = self.session.request

        async def interrupted(submit, session=None):
            if not self.requests_left:
                raise Died
            self.requests_left -= 1
            answer = await once(submit, session)
            reads = session is None
            if self.lost is None or reads or await self.session.get(ORDER) is not None:
                return answer
            meanwhile, self.lost = self.lost, None
            await meanwhile()
            return await once(submit, session)

        self.session.request = interrupted


async def ordered(zk):
    """A topic of two partitions, with settings, that must be deleted; returns its id."""
    await zk.create_topic("orders", {0: [1], 1: [1]}, {"retention.ms": "1"})
    await zk.delete_topic("orders")
    return await id_of(zk)


async def id_of(zk):
    return (await zk.topic_assignments(["orders"]))["orders"].topic_id


async def there(zk):
    return {path for path in NODES if await zk.session.get(path) is not None}


async def removed(zk, path):
    await zk.session.request(lambda c: c.delete_async(path))


def test_a_controller_that_dies_leaves_all_or_nothing(zookeeper):
    """An order that outlived its topic would delete the next one of that name, and settings would
    be those of the next one."""

    async def main():
        async with connected(zookeeper, Interrupted, KafkaZk) as (zk, other):
            orders = ControllerZk(zk)
            tenure = await orders.elect(BrokerId(1))
            for requests in range(100):
                topic_id = await ordered(other)
                await orders.write_states(tenure, [write()])
                assert (await other.partition_states([TP])).keys() == {TP}
                zk.requests_left = requests
                try:
                    await orders.delete_topic(tenure, "orders", topic_id)
                    return
                except Died:
                    assert await there(other) == NODES
                zk.requests_left = 10**9
                await orders.delete_topic(tenure, "orders", topic_id)
                assert await there(other) == set()

    run(main())


@pytest.mark.parametrize("gone", sorted(NODES))
def test_deletion_tolerates_nodes_removed_by_hand(zookeeper, gone):
    async def main():
        async with connected(zookeeper, KafkaZk) as (zk,):
            orders = ControllerZk(zk)
            tenure = await orders.elect(BrokerId(1))
            topic_id = await ordered(zk)
            await removed(zk, gone)
            await orders.delete_topic(tenure, "orders", topic_id)
            assert await there(zk) == set()

    run(main())


def test_deletion_includes_foreign_nodes_below_the_topic(zookeeper):
    async def main():
        async with connected(zookeeper, KafkaZk) as (zk,):
            orders = ControllerZk(zk)
            tenure = await orders.elect(BrokerId(1))
            topic_id = await ordered(zk)
            await zk.session.ensure(znodes.topic("orders") + "/of/others")
            await zk.session.ensure(znodes.topic_config("orders") + "/of/others")
            await orders.delete_topic(tenure, "orders", topic_id)
            assert await there(zk) == set()

    run(main())


def test_repeated_deletion_does_not_delete_the_next_topic(zookeeper):
    """It is asked for once more, and by then the topic has been created again."""

    async def main():
        async with connected(zookeeper, Interrupted, KafkaZk) as (zk, other):
            orders = ControllerZk(zk)
            tenure = await orders.elect(BrokerId(1))
            topic_id = await ordered(other)
            zk.lost = lambda: other.create_topic("orders", {0: [2]}, {"retention.ms": "2"})
            await orders.delete_topic(tenure, "orders", topic_id)
            assert zk.lost is None
            assert await there(other) == NODES - {ORDER}
            assert await id_of(other) != topic_id

    run(main())


async def listed(zk, *topics):
    """Write the node as *HA design* prints it."""
    data = znodes.encode({"version": 1, "topics": list(topics)})
    await zk.session.put(znodes.DELETE_TOPICS, data, zk.session.number)


def test_a_list_of_topics_becomes_an_order_for_each(zookeeper):
    async def main():
        async with connected(zookeeper, KafkaZk, KafkaZk) as (zk, person):
            orders = ControllerZk(zk)
            tenure = await orders.elect(BrokerId(1))
            looked = []
            assert not await orders.topics_to_delete(tenure, lambda: looked.append(1))
            await person.session.create(
                f"{znodes.DELETE_TOPICS}/topic4", b"", person.session.number
            )
            await listed(person, "topic4", "topic5")
            while not looked:
                await asyncio.sleep(0.01)
            asked = await orders.topics_to_delete(tenure, lambda: None)
            assert asked == {"topic4", "topic5"}
            assert (await zk.session.get(znodes.DELETE_TOPICS))[0] == b""
            for nonsense in (b"nonsense", b'{"topics": ["a/b"]}'):
                await person.session.put(znodes.DELETE_TOPICS, nonsense, person.session.number)
                assert await orders.topics_to_delete(tenure, lambda: None) == asked
                assert (await zk.session.get(znodes.DELETE_TOPICS))[0] == b""

    run(main())


def test_a_controller_that_dies_leaves_the_list_or_its_orders(zookeeper):
    """A list that outlived its orders would delete the next topics of these names."""

    async def main():
        async with connected(zookeeper, Interrupted, KafkaZk) as (zk, person):
            orders = ControllerZk(zk)
            tenure = await orders.elect(BrokerId(1))
            for requests in range(100):
                await listed(person, "topic4", "topic5")
                zk.requests_left = requests
                try:
                    await orders.topics_to_delete(tenure, lambda: None)
                    return
                except Died:
                    data, _ = await person.session.get(znodes.DELETE_TOPICS)
                    children = await person.session.children(znodes.DELETE_TOPICS)
                    assert bool(data) != bool(children)
                zk.requests_left = 10**9
                for child in children:
                    await removed(person, f"{znodes.DELETE_TOPICS}/{child}")

    run(main())
