"""The order in which coordination hears of things, and what of a former session it does not."""

import asyncio

from ackproof.broker.coordination.events import (
    BrokersRead,
    Dequeue,
    QueueChanged,
    RegisterBroker,
    SessionExpired,
    StartReplica,
    Tell,
    Tick,
    Write,
)
from ackproof.broker.replication.events import Resigned
from ackproof.broker.server.coordination.event_loop import EventLoop
from ackproof.broker.server.schedule import Clock
from ackproof.broker.types import BrokerId, LeaderEpoch, Millis, TopicPartition
from tests.support.worlds.replica_hosts import run, until


class Session:
    """The part of a session that the feed uses."""

    def __init__(self):
        self.number = 0
        self.session_id = 7
        self.expired_callbacks = []
        self.established_callbacks = []

    def expire(self):
        self.number += 1
        for callback in self.expired_callbacks:
            callback()


class Core:
    """Notes what it is fed; fails when it is told to. ``says``: what follows from each event."""

    def __init__(self):
        self.fed = []
        self.next_tick = None
        self.fails = False
        self.says = {}

    def step(self, event, _now):
        self.fed.append(event)
        if self.fails:
            raise ValueError("a step that fails")
        return self.says.get(event, ("effect",))


async def feeding(core, session):
    carried = []

    async def carry_out(effect):
        carried.append(effect)
        await asyncio.sleep(0)

    feed = EventLoop(core, Clock(), session)
    return feed, asyncio.ensure_future(feed.run(carry_out)), carried


def test_event_read_in_an_expired_session_is_dropped():
    async def story():
        core, session = Core(), Session()
        feed, task, carried = await feeding(core, session)
        old = BrokersRead(live=frozenset({1}))
        feed.put(old, session.number)
        feed.put(QueueChanged())
        session.expire()
        new = BrokersRead(live=frozenset({2}))
        feed.put(new, session.number)
        await until(lambda: new in core.fed)
        assert core.fed == [SessionExpired(), QueueChanged(), new], "the end of it comes first"
        await until(lambda: len(carried) == 3)
        task.cancel()

    run(story())


def test_a_step_that_fails_costs_itself(caplog):
    async def story():
        core, session = Core(), Session()
        feed, task, _ = await feeding(core, session)
        core.fails = True
        feed.put(QueueChanged())
        await until(lambda: core.fed)
        core.fails = False
        feed.put(QueueChanged())
        await until(lambda: len(core.fed) == 2)
        assert "a step that fails" in caplog.text
        task.cancel()

    run(story())


def test_feed_ticks_at_the_requested_time():
    async def story():
        core, session = Core(), Session()
        core.next_tick = Millis(Clock().now() + 30)
        _, task, _ = await feeding(core, session)
        await until(lambda: core.fed)
        assert core.fed[0] == Tick()
        task.cancel()

    run(story())


A, B = TopicPartition("a", 0), TopicPartition("b", 0)
SLOW, NEXT = (
    StartReplica(partition=A),
    Tell(partition=A, event=Resigned(leader_epoch=LeaderEpoch(1))),
)
OTHER = Tell(partition=B, event=Resigned(leader_epoch=LeaderEpoch(1)))
TAKEN_OUT = Write(token=1, ops=(Dequeue(broker=BrokerId(1), name="request-0"),), session=7)
REGISTER = RegisterBroker()


class Disk:
    """Starts replicas when it is told to, and carries out all else at once."""

    def __init__(self):
        self.done = []
        self.answers = asyncio.Event()

    async def __call__(self, effect):
        if isinstance(effect, StartReplica):
            await self.answers.wait()
        self.done.append(effect)


async def slow_start(session, *later):
    """A replica that is being started, while the events ``later`` come with their effects."""
    core, disk = Core(), Disk()
    feed = EventLoop(core, Clock(), session)
    task = asyncio.ensure_future(feed.run(disk))
    core.says[QueueChanged()] = (SLOW, TAKEN_OUT)
    feed.put(QueueChanged())
    for number, effect in enumerate(later):
        event = BrokersRead(live=frozenset({number}))
        core.says[event] = (effect,)
        feed.put(event)
    await until(lambda: len(core.fed) == 1 + len(later))
    return disk, task


def test_effects_wait_for_their_own_partition_alone():
    async def story():
        disk, task = await slow_start(Session(), NEXT, OTHER)
        await until(lambda: disk.done)
        assert disk.done == [OTHER]
        disk.answers.set()
        await until(lambda: len(disk.done) == 4)
        assert disk.done.index(SLOW) < min(disk.done.index(NEXT), disk.done.index(TAKEN_OUT))
        task.cancel()

    run(story())


def test_broker_is_registered_when_all_its_replicas_are_started():
    async def story():
        disk, task = await slow_start(Session(), REGISTER, OTHER)
        await until(lambda: disk.done)
        assert disk.done == [OTHER]
        disk.answers.set()
        await until(lambda: len(disk.done) == 4)
        assert disk.done.index(SLOW) < disk.done.index(REGISTER)
        task.cancel()

    run(story())


def test_broker_is_not_registered_in_a_later_session_by_an_earlier_start():
    async def story():
        session = Session()
        disk, task = await slow_start(session, REGISTER)
        session.expire()
        disk.answers.set()
        await until(lambda: TAKEN_OUT in disk.done)
        for _ in range(5):
            await asyncio.sleep(0)
        assert REGISTER not in disk.done
        task.cancel()

    run(story())
