"""Cases that run on a real ZooKeeper and on the simulated one.

A world has clients (:class:`Peer`), all below a root of the world's own, and a way between them and
ZooKeeper that can be frozen. A case is a coroutine function of its world.
"""

import asyncio
import itertools
from contextlib import asynccontextmanager
from functools import partial
from random import Random

from kazoo.exceptions import KazooException

from ackproof.broker.server.zk.kafka_zk import KafkaZk
from ackproof.broker.server.zk.session import kazoo_client
from simulation.loop import SimulatedLoop
from simulation.network import SimulatedNetwork
from simulation.zookeeper.client import client_factory
from simulation.zookeeper.ensemble import HOST, SimulatedZooKeeper
from tests.support.clusters.zookeeper import TICK_MS
from tests.support.fakes.freezing_proxy import FreezableWay

SESSION_MS = 10_000
"""No session ends by itself."""
SHORT_MS = 2 * TICK_MS
"""For whose session is to end."""
DEADLINE_S = 120
CLIENT = "client-1"

_roots = itertools.count()


async def until(condition):
    while not condition():
        await asyncio.sleep(0.01)


class Peer:
    """A client at the level of kazoo's: what it was answered, and what it was told unasked."""

    def __init__(self, client):
        self.client = client
        self.states = []
        self.events = []
        """``(name of the watch, type, path)``."""
        self._barriers = itertools.count()
        client.add_listener(self.states.append)

    @property
    def session(self):
        return self.client.client_id[0] if self.client.client_id else None

    def submit(self, start):
        """A future of the answer to what ``start`` starts on the client."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def completed(result):
            loop.call_soon_threadsafe(settle, result)

        def settle(result):
            if future.done():
                return
            if result.successful():
                future.set_result(result.value)
            else:
                future.set_exception(result.exception)

        start(self.client).rawlink(completed)
        return future

    async def ask(self, method, *args, **options):
        """The answer to ``<method>_async``, which may be one of kazoo's exceptions."""
        try:
            return await self.submit(lambda c: getattr(c, f"{method}_async")(*args, **options))
        except KazooException as error:
            return error

    async def commit(self, *operations):
        """The answer to a transaction of ``(method, args, options)``."""

        def start(client):
            transaction = client.transaction()
            for method, args, options in operations:
                getattr(transaction, method)(*args, **options)
            return transaction.commit_async()

        try:
            return await self.submit(start)
        except KazooException as error:
            return error

    def watch(self, name):
        return partial(self._fired, name)

    def _fired(self, name, event):
        self.events.append((name, event.type, event.path))

    async def hear(self):
        """All events so far: those sent before now have been heard when this returns."""
        path = f"/barriers/{self.session}-{next(self._barriers)}"
        passed = []
        await self.ask("exists", path, watch=passed.append)
        await self.ask("create", path)
        await until(lambda: passed)
        await self.ask("delete", path)
        return list(self.events)


class _World:
    connect = None
    factory = None
    root = ""

    @asynccontextmanager
    async def peer(self, session_ms=SESSION_MS, root=None, connect=None, factory=None):
        path = self.root if root is None else root
        client = (factory or self.factory)((connect or self.connect) + path, session_ms)
        peer = Peer(client)
        client.start_async()
        try:
            await until(lambda: client.connected)
            yield peer
        finally:
            await asyncio.to_thread(client.stop)
            await asyncio.to_thread(client.close)

    @asynccontextmanager
    async def kafka(self, session_ms=SESSION_MS, kind=KafkaZk, **options):
        """The broker's own hand in ZooKeeper."""
        zk = kind(
            self.connect + self.root,
            session_ms,
            connection_timeout_ms=60_000,
            client=self.factory,
            **options,
        )
        await zk.start()
        try:
            yield zk
        finally:
            await zk.close()

    async def _carry_out(self, case):
        self.root = f"/world-{next(_roots)}"
        async with asyncio.timeout(DEADLINE_S):
            async with self.peer(root="") as maker:
                await maker.ask("ensure_path", f"{self.root}/barriers")
            return await case(self)


class RealWorld(_World):
    """``server`` is a running ZooKeeper."""

    factory = staticmethod(kazoo_client)

    def __init__(self, server):
        self._server = server
        self._way = None

    def run(self, case):
        self._way = FreezableWay(self._server.port)
        self.connect = self._way.connect
        try:
            return asyncio.run(self._carry_out(case))
        finally:
            self._way.close()

    def freeze(self):
        self._way.freeze()

    def thaw(self):
        self._way.thaw()

    def reset(self):
        self._way.reset()

    def beside(self):
        """A client that reaches ZooKeeper by another way."""
        return self.peer(connect=self._server.connect)


class SimulatedWorld(_World):
    """``options`` are :class:`ZooKeeper`'s. While a case runs, the ensemble is ``zookeeper``."""

    connect = f"{HOST}:2181"

    def __init__(self, seed=1, **options):
        self._seed = seed
        self._options = {"tick_ms": TICK_MS, **options}

    def run(self, case):
        rng = Random(self._seed)
        self.loop = SimulatedLoop(rng)
        self.network = SimulatedNetwork(self.loop, rng)
        for host in (HOST, CLIENT, "beside"):
            self.network.add_host(host)
        self.zookeeper = SimulatedZooKeeper(self.loop, self.network, rng, **self._options)
        self.factory = client_factory(self.zookeeper, CLIENT, self.loop)
        try:
            outcome = self.loop.run_until_complete(self._carry_out(case))
        finally:
            self.loop.close()
        assert not self.loop.unhandled_errors
        return outcome

    def freeze(self):
        self.network.cut(CLIENT, HOST)
        self.network.cut(HOST, CLIENT)

    def thaw(self):
        self.network.heal_all()

    def reset(self):
        for session in self.zookeeper.sessions_of(CLIENT):
            self.zookeeper.drop_connection(session)

    def beside(self):
        """A client that reaches ZooKeeper by another way."""
        return self.peer(factory=client_factory(self.zookeeper, "beside", self.loop))
