"""A broker is registered in its present session, and counts as registered in no other."""

import asyncio
from contextlib import asynccontextmanager, suppress
from functools import partial

import pytest

from ackproof.broker.config import BrokerConfig
from ackproof.broker.server.controller.control_fence import ControlFence
from ackproof.broker.server.controller.controller_coordinator import Registration
from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.kafka_zk import BrokerIdInUse
from tests.support.fakes.instant_zookeeper import InstantZookeeper
from tests.support.worlds.controller_cluster import run, until

PATH = znodes.broker_id(1)


def config(port=9092):
    listeners = f"PLAINTEXT://h:{port}"
    return BrokerConfig(broker_id=1, zookeeper_connect="x:1", listeners=listeners)


@asynccontextmanager
async def connected(zookeeper):
    """A client, what registers broker 1 by it, and where its epoch is noted."""
    zk = zookeeper.client(1)
    await zk.start()
    fence = ControlFence()
    yield zk, Registration(config(), zk, fence), fence
    await zk.close()


async def done(task):
    """Whether it has ended when all that is ready has been done."""
    for _ in range(50):
        await asyncio.sleep(0)
    return task.done()


def test_broker_registers_in_each_session_and_keeps_the_present_epoch():
    async def main():
        zookeeper = InstantZookeeper()
        async with connected(zookeeper) as (zk, registration, fence):
            asked = asyncio.create_task(registration.registered())
            assert not await done(asked)
            await registration.register()
            assert await done(asked)
            first = zookeeper.node(PATH).czxid
            assert fence.broker_epoch == first
            renewing = asyncio.create_task(registration.renew_forever())
            assert not await done(renewing)
            assert zookeeper.node(PATH).czxid == first
            for _ in range(2):
                zk.expire()
                await until(lambda: zookeeper.node(PATH) is None)
                asked = asyncio.create_task(registration.registered())
                assert not await done(asked), "it is not registered in any session that lives"
                zk.renew()
                await asked
                assert fence.broker_epoch == zookeeper.node(PATH).czxid > first
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing

    run(main())


def test_other_broker_with_the_same_id_keeps_its_registration():
    async def main():
        zookeeper = InstantZookeeper()
        async with connected(zookeeper) as (zk, registration, _):
            await registration.register()
            other = Registration(config(port=9999), zookeeper.client(1), ControlFence())
            await other._zk.start()
            before = zookeeper.node(PATH)
            with pytest.raises(BrokerIdInUse):
                await other.register()
            assert zookeeper.node(PATH) == before
            assert zk.session.session_id == before.owner

    run(main())


def test_a_former_life_s_node_is_waited_for():
    async def main():
        zookeeper = InstantZookeeper()
        async with connected(zookeeper) as (former, first, _):
            await first.register()
            before = zookeeper.node(PATH).czxid
            async with connected(zookeeper) as (_, now, fence):
                registering = asyncio.create_task(now.register())
                assert not await done(registering), "taken for its own, it would go with its owner"
                former.expire()
                await registering
                assert fence.broker_epoch == zookeeper.node(PATH).czxid > before

    run(main())


def at_creation(zk, then):
    """``then`` happens whenever the broker's node was just asked for, before the answer."""
    create = zk.client.create_async

    def asked(path, *args, **kwargs):
        answer = create(path, *args, **kwargs)
        if path == PATH:
            then(answer)
        return answer

    zk.client.create_async = asked


def test_a_registration_that_ended_with_its_session_does_not_count():
    """The answer came all the same, after word of the session's end."""

    async def main():
        zookeeper, ended = InstantZookeeper(), []
        async with connected(zookeeper) as (zk, registration, fence):

            def late(answer, completed):
                zk.expire()
                asyncio.get_running_loop().call_soon(completed, answer)

            def ends(answer):
                if not ended:
                    ended.append(answer.value[1].czxid)
                    soon = asyncio.get_running_loop().call_soon
                    answer.rawlink = partial(soon, late, answer)

            at_creation(zk, ends)
            registering = asyncio.create_task(registration.register())
            assert not await done(registering)
            zk.renew()
            await registering
            assert fence.broker_epoch == zookeeper.node(PATH).czxid > ended[0]

    run(main())


def test_a_session_that_ended_before_the_loop_heard_of_it_is_waited_out():
    """Asked again at once, the loop would never come to hear of it."""

    async def main():
        zookeeper = InstantZookeeper()
        async with connected(zookeeper) as (zk, registration, fence):
            registering = asyncio.create_task(registration.register())
            zk.expire()
            assert not await done(registering)
            zk.renew()
            await registering
            assert fence.broker_epoch == zookeeper.node(PATH).czxid

    run(main())


def test_broker_registers_once_a_session():
    async def main():
        zookeeper, attempts = InstantZookeeper(), []
        async with connected(zookeeper) as (zk, registration, _):
            at_creation(zk, attempts.append)
            await registration.register()
            renewing = asyncio.create_task(registration.renew_forever())
            assert not await done(renewing)
            assert len(attempts) == 1
            renewing.cancel()
            await asyncio.wait([renewing])

    run(main())
