"""A term of office ends at once, whole and once: what the ended one left says nothing more."""

import asyncio

import pytest
from controller_cluster import cluster_in_memory, run, until
from listening_broker import ListeningBroker
from memory_zookeeper import MemoryZookeeper

from broker.server import zk_nodes
from broker.types import TopicPartition

TP = TopicPartition("orders", 0)


@pytest.fixture
def zookeeper():
    return MemoryZookeeper()


async def settled():
    """All that is ready in the loop has been done, sockets on loopback included."""
    for _ in range(50):
        await asyncio.sleep(0)


def listener(broker_id, zookeeper):
    """A broker that does not contest the office."""
    return ListeningBroker(broker_id, zookeeper.client(broker_id))


def test_nobody_is_elected_before_it_is_registered(zookeeper):
    """The first thing it sees would be the absence of its own broker: of what it leads, others
    would be made leaders."""

    async def main():
        async with cluster_in_memory(zookeeper) as made:
            broker = await made.add(1, zk=zookeeper.client(1))
            await until(lambda: made.active() == [1])
            await broker.zk.create_topic("orders", {0: [1]}, {})
            await until(lambda: TP in broker.roles)
            broker.zk.expire()
            await until(lambda: not made.active())
            broker.zk.renew()
            await settled()
            assert zk_nodes.CONTROLLER not in zookeeper.nodes
            assert not made.active()
            await broker.register()
            await until(lambda: made.active() == [1])
            assert (await made.state(TP, lambda _: True)).leader == 1

    run(main())


async def occupied(runtime):
    """The controller is at a job that does not end by itself; returns what ends it."""
    at_it, over = asyncio.Event(), asyncio.Event()

    async def job(_group):
        at_it.set()
        await over.wait()

    runtime._jobs.put_nowait((None, "a long job", job))
    await at_it.wait()
    return over.set


def test_with_its_session_a_term_ends_at_once(zookeeper):
    """Not when the job in hand is done, nor at the next election: until this broker is registered
    again, which takes as long as its former registration stays, there may be two controllers."""

    async def main():
        async with cluster_in_memory(zookeeper, 1) as made:
            zk, runtime, other = made.brokers[1].zk, made.controllers[1], listener(2, zookeeper)
            other.answering.clear()
            await other.start()
            await zk.create_topic("orders", {0: [2], 1: [2]}, {})
            await made.state(TP, lambda s: s.leader == 2)
            await zk.create_topic("more", {0: [2]}, {})
            await made.state(TopicPartition("more", 0), lambda s: s.leader == 2)
            end_job = await occupied(runtime)
            asked = asyncio.create_task(runtime.elect_leaders(None, unclean=False))
            await settled()
            before = len(other.requests)
            assert not asked.done()
            zk.expire()
            await settled()
            assert runtime.context is None
            assert asked.done()
            assert asked.result() is None
            other.answering.set()
            await settled()
            assert len(other.requests) == before, "said in a term that is over"
            end_job()
            await other.close()

    run(main())


def test_what_an_ended_term_still_watches_is_the_next_ones_business(zookeeper):
    """Its write would be refused, and that refusal taken for the end of the term that now is: with
    ``/controller`` held, and nobody in office."""

    async def main():
        async with cluster_in_memory(zookeeper, 1) as made:
            runtime, other = made.controllers[1], listener(2, zookeeper)
            await other.start()
            await other.zk.create_topic("orders", {0: [2, 1]}, {})
            await until(lambda: other.told_of(TP))
            first = runtime.context
            zookeeper.delete(zk_nodes.CONTROLLER)
            await until(lambda: runtime.context not in (None, first))
            await until(lambda: [r for r in other.requests if r.controller_epoch == 2])
            other.zk.expire()
            state = await made.state(TP, lambda s: s.leader == 1)
            assert state.controller_epoch == 2
            await settled()
            assert made.active() == [1]
            await other.close()

    run(main())
