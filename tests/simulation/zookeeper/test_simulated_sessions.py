"""Sessions and connections, with operations that only the simulated ZooKeeper allows."""

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from random import Random

import pytest
from kazoo.exceptions import ConnectionLoss, KazooException, NodeExistsError

from ackproof.broker.config import BrokerConfig
from ackproof.broker.server.admin import TopicConfigs
from ackproof.broker.server.zk.controller_zk import ControllerZk
from ackproof.broker.server.zk.kafka_zk import ConfigZk, IsrWriteOutcome, KafkaZk, of_topic
from ackproof.broker.server.zk.session import ZkConnectionTimeout
from ackproof.broker.types import BrokerId
from simulation.loop import SimulatedProcess
from simulation.zookeeper.ensemble import HOST
from tests.support.clusters.zookeeper import TICK_MS
from tests.support.worlds.partition_writes import isr, write
from tests.support.worlds.zookeeper_worlds import CLIENT, SHORT_MS, SimulatedWorld, until


def simulated(case, seed=1, **options):
    return SimulatedWorld(seed, **options).run(case)


def test_session_can_be_expired_by_the_simulation():
    async def case(world):
        async with world.peer() as zk, world.peer() as other:
            await zk.ask("create", "/e", ephemeral=True)
            await other.ask("exists", "/e", watch=other.watch("e"))
            mine, others = world.zookeeper.sessions_of(CLIENT)
            assert (mine.id, others.id) == (zk.session, other.session)
            world.zookeeper.expire(mine)
            await until(lambda: other.events)
            await until(lambda: zk.states[-1] == "CONNECTED" and len(zk.states) > 1)
            assert zk.states == ["CONNECTED", "SUSPENDED", "LOST", "CONNECTED"]
            assert other.states == ["CONNECTED"]

    simulated(case)


def test_reset_loses_answers_and_requests():
    """Test that some requests in flight have been carried out and some never will be."""

    async def case(world):
        async with world.peer() as zk, world.peer() as other:
            asked = []
            for number in range(20):
                asked.append(zk.submit(lambda c, n=number: c.create_async(f"/n{n}")))
                await asyncio.sleep(0.0001)
            world.zookeeper.drop_connection(world.zookeeper.sessions_of(CLIENT)[0])
            answers = await asyncio.gather(*asked, return_exceptions=True)
            await until(lambda: zk.states[-1] == "CONNECTED" and len(zk.states) > 1)
            there = set(await other.ask("get_children", "/"))
            unknown = [n for n, answer in enumerate(answers) if type(answer) is ConnectionLoss]
            assert zk.states == ["CONNECTED", "SUSPENDED", "CONNECTED"]
            assert {f"/n{n}" for n in range(20)} >= {a for a in answers if isinstance(a, str)}
            assert all(f"n{n}" in there for n in range(20) if n not in unknown)
            return [f"n{n}" in there for n in unknown]

    fates = [fate for seed in range(10) for fate in simulated(case, seed)]
    assert set(fates) == {True, False}


def test_stopped_ensemble_expires_no_session():
    async def case(world):
        async with world.peer(SHORT_MS) as zk:
            await zk.ask("create", "/e", ephemeral=True)
            world.zookeeper.stop()
            await until(lambda: zk.states[-1] == "SUSPENDED")
            await asyncio.sleep(10 * SHORT_MS / 1000)
            assert zk.states == ["CONNECTED", "SUSPENDED"]
            world.zookeeper.start()
            await until(lambda: zk.states[-1] == "CONNECTED")
            assert zk.states == ["CONNECTED", "SUSPENDED", "CONNECTED"]
            assert (await zk.ask("exists", "/e")).ephemeralOwner == zk.session

    simulated(case)


def test_slow_ensemble_answers_late_and_in_order():
    async def case(world):
        loop = asyncio.get_running_loop()
        async with world.peer() as zk:
            world.zookeeper.slowness_s = 1.0
            began = loop.time()
            slow = [zk.submit(lambda c, n=n: c.create_async(f"/n{n}")) for n in range(3)]
            await asyncio.sleep(0.5)
            world.zookeeper.slowness_s = 0.0
            assert await zk.ask("get_children", "/") == ["barriers", "n0", "n1", "n2"]
            assert 1.0 <= loop.time() - began < 1.1
            await asyncio.gather(*slow)
            world.zookeeper.slowness_s = 30.0
            hung = zk.submit(lambda c: c.create_async("/hung"))
            await until(lambda: zk.states[-1] == "SUSPENDED")
            assert type(await _error(hung)) is ConnectionLoss

    simulated(case)


async def _error(future):
    return (await asyncio.gather(future, return_exceptions=True))[0]


@asynccontextmanager
async def in_a_process(world, session_ms=SHORT_MS):
    """Start a client in a process, with an ephemeral node that a peer without a process watches.

    ``gone`` is the time at which that node disappears.
    """
    process, living = SimulatedProcess(CLIENT), asyncio.Future()

    async def live():
        async with world.peer(session_ms) as zk:
            await zk.ask("create", "/e", ephemeral=True)
            living.set_result(zk)
            try:
                await asyncio.Event().wait()
            finally:
                zk.client.create_async("/from-the-dead")

    task = process.spawn(live())
    zk = await living
    async with world.beside() as other:
        gone = asyncio.Event()
        await other.ask("exists", "/e", watch=lambda _event: gone.set())
        try:
            yield process, zk, gone
        finally:
            assert await other.ask("exists", "/from-the-dead") is None
            world.loop.kill(process)
    del task


def test_session_of_a_killed_process_lasts_for_its_timeout():
    """Test that ZooKeeper learns of the death only by the timeout."""

    async def case(world):
        loop = asyncio.get_running_loop()
        async with in_a_process(world) as (process, zk, gone):
            await asyncio.sleep(10 * SHORT_MS / 1000)
            assert zk.states == ["CONNECTED"], "it pings"
            world.loop.kill(process)
            killed = loop.time()
            await gone.wait()
            passed_ms = (loop.time() - killed) * 1000
            assert SHORT_MS / 3 < passed_ms < SHORT_MS + 2 * TICK_MS
            assert zk.states == ["CONNECTED"]

    simulated(case)


def test_process_paused_beyond_its_session_learns_it_after_resuming():
    async def case(world):
        async with in_a_process(world) as (process, zk, gone):
            world.loop.pause(process)
            await gone.wait()
            await asyncio.sleep(10 * SHORT_MS / 1000)
            assert zk.states == ["CONNECTED"]
            world.loop.resume(process)
            await until(lambda: zk.states[-1] == "CONNECTED" and len(zk.states) > 1)
            assert zk.states == ["CONNECTED", "SUSPENDED", "LOST", "CONNECTED"]

    simulated(case)


def test_briefly_paused_process_keeps_its_session():
    async def case(world):
        async with in_a_process(world, 10 * SHORT_MS) as (process, zk, gone):
            world.loop.pause(process)
            await asyncio.sleep(5 * SHORT_MS / 1000)
            world.loop.resume(process)
            await asyncio.sleep(20 * SHORT_MS / 1000)
            assert "LOST" not in zk.states
            assert zk.states[-1] == "CONNECTED"
            assert not gone.is_set()

    simulated(case)


def test_client_never_reconnects_to_a_server_behind_its_last_read():
    async def case(world):
        async with world.peer() as zk:
            await zk.ask("create", "/n")
            for number in range(20):
                value = b"%d" % number
                await zk.ask("set", "/n", value)
                world.reset()
                await until(lambda: zk.states[-1] == "SUSPENDED")
                await until(lambda: zk.states[-1] == "CONNECTED")
                assert (await zk.ask("get", "/n"))[0] == value

    simulated(case, servers=3, lag_s=2.0)


def test_lagging_server_answers_pipelined_requests_in_order():
    async def case(world):
        async with world.peer() as zk:
            asked = []
            for number in range(20):
                path = f"/n{number}"
                asked.append(zk.submit(lambda c, path=path: c.create_async(path)))
                asked.append(zk.submit(lambda c, path=path: c.exists_async(path)))
            answers = await asyncio.gather(*asked)
            assert answers[::2] == [f"/n{number}" for number in range(20)]
            assert all(stat.numChildren == 0 for stat in answers[1::2])

    for seed in range(6):
        simulated(case, seed, servers=3, lag_s=0.1)


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


def test_abandoned_connection_has_no_watches():
    async def case(world):
        async with world.peer(10 * SHORT_MS) as zk:
            await zk.ask("exists", "/n", watch=zk.watch("n"))
            world.network.cut(HOST, CLIENT)
            await until(lambda: zk.states[-1] == "SUSPENDED")
            await asyncio.sleep(1)
            assert world.zookeeper.watches == 0
            world.thaw()
            await until(lambda: zk.states[-1] == "CONNECTED")

    simulated(case)


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


def test_simulated_ensemble_counts_requests():
    async def case(world):
        async with world.peer() as zk, world.peer() as other:
            ensemble = world.zookeeper
            writes, before = ensemble.writes, dict(ensemble.requests)
            await zk.ask("create", "/n")
            await zk.ask("create", "/n")
            await zk.commit(("set_data", ("/n", b""), {}), ("check", ("/n", 1), {}))
            await zk.commit(("set_data", ("/n", b""), {}), ("check", ("/n", 1), {}))
            assert ensemble.writes == writes + 2
            for peer in (zk, other):
                await peer.ask("get", "/n", watch=peer.watch("n"))
                await peer.ask("exists", "/n", watch=peer.watch("n"))
                await peer.ask("get_children", "/n", watch=peer.watch("n"))
                await peer.ask("get", "/no", watch=peer.watch("no"))
            assert ensemble.watches == 4
            asked = {k: v - before.get(k, 0) for k, v in ensemble.requests.items()}
            wanted = {"Create": 2, "Transaction": 2, "GetData": 4, "Exists": 2, "GetChildren": 2}
            assert {k: v for k, v in asked.items() if k in wanted} == wanted
            await zk.ask("set", "/n", b"")
            assert ensemble.watches == 2
            ensemble.drop_connection(ensemble.sessions_of(CLIENT)[0])
            assert ensemble.watches == 1
            await other.ask("delete", "/n")
            assert ensemble.watches == 0

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


@pytest.mark.parametrize("options", [{}, {"servers": 3, "lag_s": 0.1}], ids=["alone", "lagging"])
def test_same_seed_yields_the_same_history(options):
    async def case(world):
        rng, loop = Random(7), asyncio.get_running_loop()
        history = []

        async def live(name):
            async with world.peer(SHORT_MS) as zk:
                zk.client.add_listener(lambda state: history.append((loop.time(), name, state)))
                for number in range(60):
                    answer = await zk.ask("create", f"/n{rng.randrange(20)}", ephemeral=True)
                    known = type(answer) if isinstance(answer, KazooException) else answer
                    watch = zk.watch((name, number))
                    children = await zk.ask("get_children", "/", watch=watch)
                    history.append((loop.time(), name, known, str(children)))
                    if rng.random() < 0.1:
                        await _disturb(world, rng)
                history.extend(zk.events)

        await asyncio.gather(live("a"), live("b"), live("c"))
        return history

    histories = [simulated(case, 5, **options) for _ in range(2)]
    assert histories[0] == histories[1]
    seen = {each for event in histories[0] for each in event}
    assert {"SUSPENDED", "LOST", "CONNECTED", NodeExistsError, "CHILD", "NONE"} <= seen
    assert simulated(case, 6, **options) != histories[0]


async def _disturb(world, rng):
    sessions = world.zookeeper.sessions_of(CLIENT)
    kind = rng.randrange(4) if sessions else 3
    if kind == 0:
        world.zookeeper.expire(rng.choice(sessions))
    elif kind == 1:
        world.zookeeper.drop_connection(rng.choice(sessions))
    else:
        world.freeze() if kind == 2 else world.zookeeper.stop()
        await asyncio.sleep(rng.random() * 2)
        world.thaw() if kind == 2 else world.zookeeper.start()
