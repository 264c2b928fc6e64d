"""The order in which coordination hears of things, and what of a former session it does not."""

import asyncio

from hosts import run, until

from broker.coordination.events import BrokersRead, QueueChanged, SessionExpired, Tick
from broker.server.clock import Clock
from broker.server.coordination.feeding import Feed
from broker.types import Millis


class Session:
    """As much of a session as the feed looks at."""

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
    """Notes what it is fed; fails when it is told to."""

    def __init__(self):
        self.fed = []
        self.next_tick = None
        self.fails = False

    def step(self, event, _now):
        self.fed.append(event)
        if self.fails:
            raise ValueError("a step that fails")
        return ("effect",)


async def feeding(core, session):
    carried = []

    async def carry_out(effect):
        carried.append(effect)
        await asyncio.sleep(0)

    feed = Feed(core, Clock(), session)
    return feed, asyncio.ensure_future(feed.run(carry_out)), carried


def test_what_was_read_in_a_session_that_is_over_is_dropped():
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


def test_it_ticks_when_that_is_wanted():
    async def story():
        core, session = Core(), Session()
        core.next_tick = Millis(Clock().now() + 30)
        _, task, _ = await feeding(core, session)
        await until(lambda: core.fed)
        assert core.fed[0] == Tick()
        task.cancel()

    run(story())
