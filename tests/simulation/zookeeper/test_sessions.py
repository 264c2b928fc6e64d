"""Sessions and connections, and the broker's handling of them, on a real ZooKeeper and the
simulated one."""

import asyncio

import pytest
from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, SessionExpiredError

from ackproof.broker.controller.cluster import BrokerInfo, Endpoint
from ackproof.broker.server.zk.session import SessionExpired
from ackproof.broker.types import BrokerId
from tests.support.worlds.zookeeper_worlds import SHORT_MS, until

# --- sessions in kazoo --------------------------------------------------------------------------


def test_closing_client_deletes_its_ephemeral_nodes(world):
    async def case(world):
        async with world.peer() as zk:
            async with world.peer() as other:
                await other.ask("create", "/parent")
                await other.ask("create", "/parent/e", ephemeral=True)
                await other.ask("create", "/parent/f", ephemeral=True)
                await other.ask("create", "/stays")
                data, stat = await zk.ask("get", "/parent/e", watch=zk.watch("data"))
                assert (data, stat.ephemeralOwner) == (b"", other.session)
                await zk.ask("exists", "/parent/e", watch=zk.watch("existence"))
                await zk.ask("get_children", "/parent", watch=zk.watch("children"))
            await until(lambda: len(zk.events) == 3)
            assert sorted(zk.events) == [
                ("children", "CHILD", "/parent"),
                ("data", "DELETED", "/parent/e"),
                ("existence", "DELETED", "/parent/e"),
            ]
            assert await zk.ask("get_children", "/parent") == []
            assert await zk.ask("exists", "/stays")
            assert other.states == ["CONNECTED", "LOST"]
            assert type(await other.ask("get", "/stays")) is ConnectionClosedError

    world.run(case)


def test_session_survives_a_broken_connection(world):
    async def case(world):
        async with world.peer(60_000) as zk, world.peer(60_000) as other:
            session = zk.session
            await zk.ask("create", "/e", ephemeral=True)
            await other.ask("create", "/n")
            await zk.ask("get", "/n", watch=zk.watch("data"))
            await zk.ask("get_children", "/", watch=zk.watch("children"))
            world.reset()
            await until(lambda: zk.states[-1] == "SUSPENDED")
            await until(lambda: zk.states[-1] == "CONNECTED")
            assert zk.states == ["CONNECTED", "SUSPENDED", "CONNECTED"]
            assert zk.session == session
            assert (await zk.ask("exists", "/e")).ephemeralOwner == session
            await other.ask("set", "/n", b"")
            await other.ask("create", "/m")
            heard = sorted(await zk.hear())
            assert heard == [("children", "NONE", None), ("data", "NONE", None)]

    world.run(case)


def test_requests_of_a_broken_connection_have_an_unknown_outcome(world):
    async def case(world):
        async with world.peer(SHORT_MS) as zk, world.peer() as other:
            world.freeze()
            asked = [zk.submit(lambda c, n=n: c.create_async(f"/n{n}")) for n in range(5)]
            await until(lambda: zk.states[-1] == "SUSPENDED")
            answers = await asyncio.gather(*asked, return_exceptions=True)
            assert {type(answer) for answer in answers} == {ConnectionLoss}
            late = zk.submit(lambda c: c.create_async("/late"))
            world.thaw()
            await until(lambda: zk.states[-1] == "CONNECTED")
            outcome = await asyncio.gather(late, return_exceptions=True)
            if zk.states.count("LOST"):
                assert type(outcome[0]) is SessionExpiredError
                assert await other.ask("exists", "/late") is None
            else:
                assert outcome == ["/late"]

    world.run(case)


def test_session_is_lost_only_when_zookeeper_expires_it(world):
    async def case(world):
        async with world.peer(SHORT_MS) as zk, world.beside() as beside:
            session = zk.session
            states = []
            zk.client.add_listener(lambda state: states.append((state, zk.client.client_state)))
            await zk.ask("create", "/e", ephemeral=True)
            gone = []
            await beside.ask("exists", "/e", watch=gone.append)
            await zk.ask("get", "/e", watch=zk.watch("mine"))
            world.freeze()
            await until(lambda: gone)
            await until(lambda: zk.states[-1] == "SUSPENDED")
            late = zk.submit(lambda c: c.create_async("/late"))
            assert zk.states == ["CONNECTED", "SUSPENDED"]
            assert zk.session is None
            world.thaw()
            await until(lambda: zk.states[-1] == "CONNECTED")
            assert zk.states == ["CONNECTED", "SUSPENDED", "LOST", "CONNECTED"]
            assert states == [
                ("SUSPENDED", "CONNECTING"),
                ("LOST", "EXPIRED_SESSION"),
                ("CONNECTED", "CONNECTED"),
            ]
            assert type((await asyncio.gather(late, return_exceptions=True))[0]) in {
                SessionExpiredError
            }
            assert zk.session not in (None, session)
            assert zk.events == [("mine", "NONE", None)]
            assert await zk.ask("exists", "/e") is None
            assert await zk.ask("exists", "/late") is None

    world.run(case)


# --- sessions in the broker ---------------------------------------------------------------------


def info(port=9092):
    endpoint = Endpoint(host="localhost", port=port)
    return BrokerInfo(broker_id=BrokerId(1), endpoints=(endpoint,), rack=None)


def test_request_of_an_expired_session_is_not_carried_out_in_the_next(world):
    async def case(world):
        async with world.kafka(SHORT_MS) as zk, world.beside() as beside:
            seen = []
            zk.on_disconnected(lambda: seen.append("disconnected"))
            zk.on_session_expired(lambda: seen.append("expired"))
            back = asyncio.Event()
            zk.on_session_established(back.set)
            session = zk.session.number
            first = await zk.register_broker(info())
            watched = asyncio.Event()
            await zk.live_brokers(watched.set)
            gone = []
            await beside.ask("exists", "/brokers/ids/1", watch=gone.append)
            world.freeze()
            writes = [zk.session.create(f"/late-{i}", b"", session) for i in range(200)]
            late = asyncio.gather(*writes, return_exceptions=True)
            await until(lambda: "disconnected" in seen)
            await watched.wait()
            await until(lambda: gone)
            world.thaw()
            await back.wait()
            assert seen == ["disconnected", "expired"]
            assert {type(outcome) for outcome in await late} == {SessionExpired}
            with pytest.raises(SessionExpired):
                await zk.session.create("/late-again", b"", session)
            assert not [n for n in await zk.session.children("/") if n.startswith("late-")]
            assert await zk.register_broker(info()) > first

    world.run(case)
