"""The order of events for :mod:`broker.coordination`, and their sessions.

One task feeds one event after the other. The effects on this broker's replicas run beside it,
partition by partition (:class:`Lanes`). The news that a leader has changed thus waits neither for
other news nor for the start of other replicas, which reads ZooKeeper and syncs files (*Design V2*:
leader changes "are not queued up on any other notifications"). Answers from a session that is over
are dropped. Its end is fed before all waiting events.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from ackproof.broker.coordination.coordinator import Coordinator
from ackproof.broker.coordination.effects import partition_of
from ackproof.broker.coordination.events import (
    Effect,
    Event,
    RegisterBroker,
    SessionExpired,
    SessionStarted,
    Tick,
    Write,
)
from ackproof.broker.probe import NO_PROBE, Probe
from ackproof.broker.server.schedule import Clock
from ackproof.broker.server.zk.session import SessionNumber, ZkSession
from ackproof.broker.types import Millis, TopicPartition

logger = logging.getLogger(__name__)


ANY_SESSION = SessionNumber(-1)


CarryOut = Callable[[Effect], Awaitable[None]]


class Lanes:
    """The running effects: one after the other for each partition, and in parallel for different
    ones.

    An effect that fails is logged, and costs only itself. The next event has news, or a restart
    begins again.
    """

    def __init__(self, carry_out: CarryOut, group: asyncio.TaskGroup) -> None:
        self._carry_out = carry_out
        self._group = group
        self._lanes: dict[TopicPartition, deque[Effect | asyncio.Future[None]]] = {}

    @property
    def busy(self) -> list[TopicPartition]:
        """The partitions with running effects."""
        return list(self._lanes)

    async def attempt(self, effect: Effect) -> None:
        """Carry out an effect now."""
        try:
            await self._carry_out(effect)
        except Exception:
            logger.exception("coordination: %s could not be carried out", effect)

    def put(self, tp: TopicPartition, effect: Effect) -> None:
        """Carry out an effect after the earlier ones of its partition."""
        self._lane(tp).append(effect)

    def after(
        self,
        partitions: Iterable[TopicPartition],
        effect: Effect,
        is_due: Callable[[], bool] = lambda: True,
    ) -> None:
        """Carry out an effect after all earlier ones for ``partitions``, if it is still due by
        then."""
        self._group.create_task(self._after([self._mark(tp) for tp in partitions], effect, is_due))

    async def _after(
        self, marks: list[asyncio.Future[None]], effect: Effect, is_due: Callable[[], bool]
    ) -> None:
        await asyncio.gather(*marks)
        if is_due():
            await self.attempt(effect)

    def _mark(self, tp: TopicPartition) -> asyncio.Future[None]:
        mark: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lane(tp).append(mark)
        return mark

    def _lane(self, tp: TopicPartition) -> deque[Effect | asyncio.Future[None]]:
        if tp not in self._lanes:
            self._lanes[tp] = deque()
            self._group.create_task(self._drain(tp))
        return self._lanes[tp]

    async def _drain(self, tp: TopicPartition) -> None:
        lane = self._lanes[tp]
        while lane:
            due = lane.popleft()
            if isinstance(due, asyncio.Future):
                due.set_result(None)
            else:
                await self.attempt(due)
        del self._lanes[tp]


class EventLoop:
    """The loop that feeds ``core``."""

    def __init__(
        self, core: Coordinator, clock: Clock, session: ZkSession, probe: Probe = NO_PROBE
    ) -> None:
        self._core = core
        self._clock = clock
        self._session = session
        self._probe = probe
        self._waiting: deque[tuple[SessionNumber, Event]] = deque()
        self._woken = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._ticking = False
        session.expired_callbacks.append(self._expired)
        session.established_callbacks.append(self.start_session)

    def put(self, event: Event, session: SessionNumber = ANY_SESSION) -> None:
        """Queue an event, to be dropped if ``session`` is over when its turn comes."""
        self._waiting.append((session, event))
        self._woken.set()

    def start_session(self) -> None:
        """Feed the current session: the first one, or a new one."""
        if self._session.session_id is not None:
            self.put(SessionStarted(session=self._session.session_id), self._session.number)

    async def run(self, carry_out: CarryOut) -> None:
        """Feed events for ever. ``carry_out`` carries out the effects."""
        try:
            async with asyncio.TaskGroup() as group:
                lanes = Lanes(carry_out, group)
                while True:
                    while self._waiting:
                        session, event = self._waiting.popleft()
                        if session in (ANY_SESSION, self._session.number):
                            await self._step(event, lanes)
                    self._woken.clear()
                    self._set_timer()
                    await self._woken.wait()
        finally:
            self._stop_timer()

    async def _step(self, event: Event, lanes: Lanes) -> None:
        """Feed one event. If the step fails, that is logged, and costs only the event."""
        if isinstance(event, Tick):
            self._ticking = False
        try:
            effects = self._core.step(event, self._clock.now())
        except Exception:
            logger.exception("coordination: %s failed", event)
            return
        self._probe.coordinator_stepped(self._core, event, effects)
        touched: dict[TopicPartition, None] = {}
        for effect in effects:
            tp = partition_of(effect)
            if tp is not None:
                touched[tp] = None
                lanes.put(tp, effect)
            elif isinstance(effect, Write):
                lanes.after(touched, effect)
            elif isinstance(effect, RegisterBroker):
                # Not in a later session, which repeats the start-up.
                lanes.after(lanes.busy, effect, partial(self._is_current, self._session.number))
            else:
                await lanes.attempt(effect)

    def _is_current(self, session: SessionNumber) -> bool:
        return session == self._session.number

    def _expired(self) -> None:
        """Feed the expiry before everything else: other brokers may lead already what this one
        leads."""
        self._waiting.appendleft((ANY_SESSION, SessionExpired()))
        self._woken.set()

    def _set_timer(self) -> None:
        self._stop_timer()
        due = self._core.next_tick
        if due is not None and not self._ticking:
            loop = asyncio.get_running_loop()
            wait_ms = max(Millis(1), due - self._clock.now())
            self._timer = loop.call_later(wait_ms / 1000, self._tick)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._ticking = True
        self.put(Tick())
