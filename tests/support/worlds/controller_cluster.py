"""Controllers of several brokers against a real ZooKeeper, and brokers that listen to them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Protocol

from ackproof.broker.config import BrokerConfig
from ackproof.broker.server.controller.runtime import ControllerRuntime
from ackproof.broker.server.zk.kafka_zk import KafkaZk
from tests.support.fakes.listening_broker import ListeningBroker

SESSION_MS = 60_000
"""No session ends by itself, on a machine that stalls either."""
SHORT_SESSION_MS = 1500
"""For whose session is to end."""
DEADLINE_S = 120


class Cluster:
    """Brokers with their controllers, by id."""

    def __init__(self, connect, stack):
        self._connect = connect
        self._stack = stack
        self.brokers = {}
        self.controllers = {}
        self._tasks = {}

    async def add(self, broker_id, connect=None, session_ms=SESSION_MS, zk=None):
        connect = connect or self._connect
        zk = zk or KafkaZk(connect, session_ms, connection_timeout_ms=20_000)
        broker = ListeningBroker(broker_id, zk)
        await broker.start()
        self.brokers[broker_id] = broker
        self._stack.push_async_callback(self.remove, broker_id)
        config = BrokerConfig(broker_id=broker_id, zookeeper_connect=connect)
        runtime = ControllerRuntime(config, broker.zk, broker.registered)
        self.controllers[broker_id] = runtime
        self._tasks[broker_id] = asyncio.create_task(runtime.run())
        return broker

    async def remove(self, broker_id):
        if broker_id not in self.brokers:
            return
        task = self._tasks.pop(broker_id)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled(), task.exception()
        del self.controllers[broker_id]
        await self.brokers.pop(broker_id).close()

    def active(self):
        return [b for b, runtime in self.controllers.items() if runtime.active]

    async def state(self, tp, condition, seen_by=None):
        """The partition's state as soon as ``condition`` holds for it."""
        zk = self.brokers[seen_by or min(self.brokers)].zk
        while True:
            state = (await zk.partition_states([tp])).get(tp)
            if state is not None and condition(state):
                return state
            await asyncio.sleep(0.02)


@asynccontextmanager
async def cluster(zookeeper, *ids):
    """Brokers with these ids; the first is the controller before the others are there."""
    async with AsyncExitStack() as stack:
        made = Cluster(zookeeper.connect, stack)
        for broker_id in ids:
            await made.add(broker_id)
            await until(made.active)
        yield made


@asynccontextmanager
async def cluster_in_memory(zookeeper, *ids):
    """Yield a cluster like :func:`cluster`, with an :class:`instant_zookeeper.InstantZookeeper`."""
    async with AsyncExitStack() as stack:
        made = Cluster("memory:1", stack)
        for broker_id in ids:
            await made.add(broker_id, zk=zookeeper.client(broker_id))
            await until(made.active)
        yield made


async def until(condition):
    while not condition():
        await asyncio.sleep(0.02)


def run(main):
    asyncio.run(asyncio.wait_for(main, DEADLINE_S))


# The broker's ZooKeeper clients, connected for the time of a test.


class Way(Protocol):
    """Whatever leads to a ZooKeeper: itself, or something between."""

    @property
    def connect(self) -> str: ...


@asynccontextmanager
async def connected(
    zookeeper: Way, *kinds: type[KafkaZk], session_ms: int = SESSION_MS, **options: Any
) -> AsyncIterator[list[Any]]:
    """One client of each of these kinds, each with a session of its own."""
    made = [
        kind(zookeeper.connect, session_ms, connection_timeout_ms=20_000, **options)
        for kind in kinds
    ]
    for zk in made:
        await zk.start()
    try:
        yield made
    finally:
        for zk in made:
            await zk.close()
