"""Sessions and connections, with operations that only the simulated ZooKeeper allows."""

import asyncio
from contextlib import asynccontextmanager

from kazoo.exceptions import ConnectionLoss

from simulation.loop import SimulatedProcess
from tests.support.clusters.zookeeper import TICK_MS
from tests.support.worlds.zookeeper_worlds import CLIENT, SHORT_MS, SimulatedWorld, until


def simulated(case, seed=1, **options):
    return SimulatedWorld(seed, **options).run(case)


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
