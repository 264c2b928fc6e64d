"""An event loop without a machine: time is a number, and nothing happens but by the seed.

Time jumps to the next timer when nothing is ready. Like asyncio's own loop it works in turns: the
timers that are due join the ready handles, and those that were ready when the turn began run in
the order in which they came. A turn takes ``TURN_S``, so that somebody who spins on ``sleep(0)``
does not stop time. What others do in threads (``run_in_executor``) is done at a later moment
between two steps.

A *step* is one handle run. Handles of a dead process are dropped and those of a paused one kept for
later (:mod:`simulation.loop.ownership`). A killed process cleans up nothing: its coroutines are
closed so that Python forgets them, which runs their ``finally`` blocks, at a moment when nothing
that belongs to it has any effect: the loop drops its handles, the network and the disk refuse it.

Two runs of one program are the same, step for step, if the program draws all its randomness from
the seed and lets no set's order reach its behaviour. asyncio itself keeps tasks in sets; hence
tasks hash by their number here, not by their address.
"""

import asyncio
import contextvars
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context
from random import Random
from typing import Any, NamedTuple, NoReturn, Protocol, TypeVar, TypeVarTuple

from simulation.loop.ownership import NOBODY, PROCESS, Killed, Process, State
from simulation.loop.tasks import SimulatedHandle, SimulatedTask, Tasks, bury, carry_out

# --- connections ----------------------------------------------------------------------------------
#
# What a loop asks of its network: those connections that asyncio opens.

Factory = Callable[[], asyncio.BaseProtocol]


class Connections(Protocol):
    """Transport and protocol of each, as asyncio's own loop answers."""

    def attach(self, factory: Factory, accepted: Any, /) -> tuple[Any, Any]:
        """What ``loop.connect_accepted_socket`` does, of what ``loop.sock_accept`` gave."""

    async def connect(self, factory: Factory, host: str, port: int, /) -> tuple[Any, Any]:
        """What ``loop.create_connection`` does. Raises OSError."""


# --------------------------------------------------------------------------------------------------

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

TURN_S = 1e-6
EXECUTOR_S_MAX = 0.005
"""A function given to the executor is run up to so much later."""

PURGE_AT = 100
"""Cancelled timers are thrown out when there are so many, and more of them than of others."""

Observer = Callable[[Process | None], None]
"""Called after a step, with the process that took it. What it raises ends the run."""


class Stalled(Exception):
    """Nothing is ready, no timer is set, and what the run waits for has not happened."""


class OutOfSteps(Exception):
    """The run took more steps than it may."""


class Trouble(NamedTuple):
    """What a callback raised, or what asyncio complained of."""

    at: float
    process: Process | None
    message: str
    exception: BaseException | None


class SimulatedLoop(asyncio.AbstractEventLoop):
    """The loop of one world.

    Args:
        random: how long the executor takes.
        steps_max: OutOfSteps is raised above.
    """

    def __init__(self, random: Random, steps_max: int = 10**12) -> None:
        self.steps = 0
        """Handles run since the world began."""
        self.troubles: list[Trouble] = []
        """What went wrong and nobody handled, but for what dead processes left."""
        self.observer: Observer | None = None
        self.network: Connections | None = None
        """Set by the network that is made for this loop."""
        self.executor_s: dict[str, float] = {}
        """How long the executor takes at most, on hosts where that is not EXECUTOR_S_MAX."""
        self._random = random
        self._steps_max = steps_max
        self._now = 0.0
        self._ready: deque[SimulatedHandle] = deque()
        self._timers: list[tuple[float, int, SimulatedHandle]] = []
        self._cancelled_timers = 0
        self._handles = 0
        self._tasks = Tasks()
        self._failure: BaseException | None = None
        self._stopping = self._running = self._closed = False

    # --- time and handles -------------------------------------------------------------------

    def time(self) -> float:
        """Seconds since the world began."""
        return self._now

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = SimulatedHandle(
            callback,
            args,
            contextvars.copy_context() if context is None else context,
            self._now,
            None,
        )
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        if context is None:
            context = contextvars.copy_context()
        return self.post(self._now + delay, callback, args, context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        if context is None:
            context = contextvars.copy_context()
        return self.post(when, callback, args, context)

    def post(
        self, when: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context
    ) -> SimulatedHandle:
        """``call_at`` for those in a hurry. At one moment, who was posted first comes first."""
        handle = SimulatedHandle(callback, args, context, when, self._timer_cancelled)
        self._handles += 1
        heapq.heappush(self._timers, (when, self._handles, handle))
        return handle

    def _timer_cancelled(self) -> None:
        self._cancelled_timers += 1
        if self._cancelled_timers > PURGE_AT and self._cancelled_timers * 2 > len(self._timers):
            self._keep_timers(lambda _handle: True)

    def _keep_timers(self, wanted: Callable[[SimulatedHandle], bool]) -> None:
        self._timers[:] = [
            timer for timer in self._timers if not timer[2]._cancelled and wanted(timer[2])
        ]
        heapq.heapify(self._timers)
        self._cancelled_timers = 0

    # --- running ----------------------------------------------------------------------------

    def run_forever(self) -> None:
        """Until ``stop`` is called; the turn is finished first.

        Raises:
            Stalled: nothing can happen any more.
            OutOfSteps: more than ``steps_max`` steps were taken.
        """
        if self._running or self._closed:
            raise RuntimeError("the loop is closed, or runs already")
        before = events._get_running_loop()
        self._running = True
        self._stopping = False
        events._set_running_loop(self)
        try:
            while not self._stopping:
                self._turn()
        finally:
            self._running = False
            events._set_running_loop(before)

    def _turn(self) -> None:
        ready, timers = self._ready, self._timers
        if self.steps > self._steps_max:
            raise OutOfSteps(f"{self.steps} steps, at {self._now:.6f} s")
        if ready:
            self._now += TURN_S
        elif timers:
            self._now = max(self._now, timers[0][0])
        else:
            raise Stalled(f"nothing can happen any more, at {self._now:.6f} s")
        now = self._now
        while timers and timers[0][0] <= now:
            handle = heapq.heappop(timers)[2]
            handle.void = None
            if handle._cancelled:
                self._cancelled_timers -= 1
            else:
                ready.append(handle)
        for _ in range(len(ready)):
            self.step(ready.popleft())

    def step(self, handle: SimulatedHandle) -> None:
        if handle._cancelled:
            return
        context = handle._context
        process = context.get(PROCESS)
        if process is not None and process.state:
            if process.state == State.PAUSED:
                process.held.append(handle)
            return
        self.steps += 1
        try:
            context.run(handle._callback, *handle._args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001  as asyncio's loop does
            self._trouble(process, f"{handle._callback!r} failed", error)
        if self._failure is not None:
            self._raise_failure()
        if self.observer is not None:
            self.observer(process)

    def fail(self, error: BaseException) -> None:
        """Ends the run after the current step: ``error`` is raised to whoever runs the loop,
        whatever the code in between does with its own errors."""
        self._failure = self._failure or error

    def _raise_failure(self) -> NoReturn:
        error, self._failure = self._failure, None
        assert error is not None
        raise error

    def run_until_complete(self, future: Any) -> Any:
        """The result of ``future``, which may be a coroutine."""
        task = asyncio.ensure_future(future, loop=self)
        task.add_done_callback(self._done, context=NOBODY)
        try:
            self.run_forever()
        finally:
            task.remove_done_callback(self._done)
        if not task.done():
            raise RuntimeError("the loop was stopped before the future was done")
        return task.result()

    def _done(self, _future: object) -> None:
        self.stop()

    def run_for(self, seconds: float) -> None:
        """Lets so much time pass."""
        end = self.post(self._now + seconds, self.stop, (), NOBODY)
        try:
            self.run_forever()
        finally:
            end.cancel()

    def stop(self) -> None:
        self._stopping = True

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """The end of the world: whoever is left dies."""
        if self._running:
            raise RuntimeError("the loop runs")
        if self._closed:
            return
        for task in self._tasks.pending():
            if task.process is not None:
                task.process.state = State.DEAD
        self._forget(lambda _process: True)
        self._closed = True
        self._ready.clear()
        self._timers.clear()

    def get_debug(self) -> bool:
        return False

    # --- tasks, futures, threads ------------------------------------------------------------

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Any,
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[Any]:
        process = PROCESS.get() if context is None else context.get(PROCESS)
        task = SimulatedTask(
            self._tasks.begun + 1,
            process,
            coro,
            loop=self,
            name=None if name is None else str(name),
            context=context,
        )
        self._tasks.add(task)
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Runs ``func``, cancelled or not, as a thread that has begun would."""
        del executor
        future: asyncio.Future[T] = self.create_future()
        process = PROCESS.get()
        host = "" if process is None else process.host
        takes_s = self._random.random() * self.executor_s.get(host, EXECUTOR_S_MAX)
        self.call_later(takes_s, carry_out, future, func, args)
        return future

    # --- connections ------------------------------------------------------------------------

    async def sock_accept(self, sock: Any) -> tuple[Any, Any]:
        connection, address = await sock.accept()
        return connection, address

    async def connect_accepted_socket(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], sock: Any, **_options: Any
    ) -> tuple[Any, Any]:
        return self._network().attach(protocol_factory, sock)

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        **_options: Any,
    ) -> tuple[Any, Any]:
        return await self._network().connect(protocol_factory, host, port)

    def _network(self) -> Connections:
        if self.network is None:
            raise OSError("this world has no network")
        return self.network

    async def shutdown_asyncgens(self) -> None:
        """There is nothing to shut down."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is no executor."""

    # --- trouble ----------------------------------------------------------------------------

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        task = context.get("task") or context.get("future")
        process = task.process if isinstance(task, SimulatedTask) else PROCESS.get()
        self._trouble(process, str(context.get("message")), context.get("exception"))

    default_exception_handler = call_exception_handler

    def _trouble(
        self, process: Process | None, message: str, exception: BaseException | None
    ) -> None:
        # A future complains when it is collected, in anybody's step: Killed is no one's.
        if not isinstance(exception, Killed) and (process is None or process.state != State.DEAD):
            self.troubles.append(Trouble(self._now, process, message, exception))

    # --- life and death of processes --------------------------------------------------------

    def pause(self, process: Process) -> None:
        """SIGSTOP. A step under way is finished first."""
        if process.state == State.RUNNING:
            process.state = State.PAUSED

    def resume(self, process: Process) -> None:
        """SIGCONT: what fell due meanwhile is done now, in its order."""
        if process.state == State.PAUSED:
            process.state = State.RUNNING
            self._ready.extend(process.held)  # type: ignore[arg-type]
            process.held.clear()

    def kill(self, process: Process) -> None:
        """SIGKILL. A step of its own that is under way is finished, without effect."""
        if process.state == State.DEAD:
            return
        process.state = State.DEAD
        process.held.clear()
        if self._running:  # perhaps in the middle of the very coroutine that is to be closed
            self.call_soon(self._forget, lambda owner: owner is process, context=NOBODY)
        else:
            self._forget(lambda owner: owner is process)

    def _forget(self, dead: Callable[[Process | None], bool]) -> None:
        """Closes the coroutines of the dead, and throws away their timers."""
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            bury(self._tasks, dead)
        finally:
            events._set_running_loop(before)
        self._keep_timers(lambda handle: not dead(handle._context.get(PROCESS)))
