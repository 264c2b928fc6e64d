"""The order in which :mod:`broker.coordination` hears of things, and the sessions they belong to.

One task takes one event after the other, so that what follows from it for this broker's replicas is
done before the next. What was read in a session that is over is dropped; that it is over is told
before all that waits.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from broker.coordination.coordinator import Coordinator
from broker.coordination.events import Effect, Event, SessionExpired, SessionStarted, Tick
from broker.server.clock import Clock
from broker.server.zk.session import SessionNumber, ZkSession
from broker.types import Millis

logger = logging.getLogger(__name__)

ANY_SESSION = SessionNumber(-1)


CarryOut = Callable[[Effect], Awaitable[None]]


class Feed:
    """Feeds ``core``."""

    def __init__(self, core: Coordinator, clock: Clock, session: ZkSession) -> None:
        self._core = core
        self._clock = clock
        self._session = session
        self._waiting: deque[tuple[SessionNumber, Event]] = deque()
        self._woken = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._ticking = False
        session.expired_callbacks.append(self._expired)
        session.established_callbacks.append(self.start_session)

    def put(self, event: Event, session: SessionNumber = ANY_SESSION) -> None:
        """To be fed in its turn; dropped if ``session`` is over by then."""
        self._waiting.append((session, event))
        self._woken.set()

    def start_session(self) -> None:
        """There is a session: the first one, or the next."""
        if self._session.session_id is not None:
            self.put(SessionStarted(session=self._session.session_id), self._session.number)

    async def run(self, carry_out: CarryOut) -> None:
        """The task that feeds, for ever; ``carry_out`` does what is said."""
        try:
            while True:
                while self._waiting:
                    session, event = self._waiting.popleft()
                    if session in (ANY_SESSION, self._session.number):
                        await self._step(event, carry_out)
                self._woken.clear()
                self._set_timer()
                await self._woken.wait()
        finally:
            self._stop_timer()

    async def _step(self, event: Event, carry_out: CarryOut) -> None:
        """One event, with what follows from it. What fails is logged, and costs itself: the next
        event has news, or a restart begins anew."""
        if isinstance(event, Tick):
            self._ticking = False
        try:
            effects = self._core.step(event, self._clock.now())
        except Exception:
            logger.exception("coordination: %s failed", event)
            return
        for effect in effects:
            try:
                await carry_out(effect)
            except Exception:
                logger.exception("coordination: %s could not be carried out", effect)

    def _expired(self) -> None:
        """At once: others may lead already what this broker takes for its own."""
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
