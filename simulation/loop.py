"""A deterministic event loop: time is a number, and the seed decides everything that happens.

Time jumps to the next timer when nothing is ready. Like asyncio's own loop it works in turns. The
timers that are due join the ready handles, and the handles that were ready when the turn began run
in the order in which they came. A turn takes ``TURN_S``, so a task that spins on ``sleep(0)`` does
not stop time. A function given to a thread (``run_in_executor``) runs at a later moment between two
steps.

A *step* is one handle that the loop runs. It belongs to one :class:`SimulatedProcess`, or to the
world. The loop drops the handles of a dead process and keeps those of a paused process for later.
A killed process cleans up nothing. Its coroutines are closed so that Python forgets them, which
runs their ``finally`` blocks. At that moment nothing that belongs to the process has any effect:
the loop drops its handles, and the network and the disk refuse it.

Two runs of one program are the same, step for step, if the program draws all its randomness from
the seed and its behaviour does not depend on the order of any set. asyncio itself keeps tasks in
sets. Therefore a task here is hashed by its number, not by its address.
"""

import asyncio
import contextlib
import contextvars
import heapq
import logging
import signal
import threading
import warnings
from asyncio import events
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import Context
from enum import IntEnum
from random import Random
from types import FrameType
from typing import Any, Final, NamedTuple, NoReturn, Protocol, TypeVar, TypeVarTuple

# --- ownership of steps ---------------------------------------------------------------------------
#
# A :class:`SimulatedProcess` is one run of one program on one host. It is found in the context
# (:mod:`contextvars`) in which a step runs. Each task, timer and connection that a step starts
# inherits it. A step without a process (None) belongs to the world itself: the network, ZooKeeper
# or the plan.

T = TypeVar("T")


class Killed(BaseException):
    """The process is dead.

    It is raised when code of the dead process calls the disk or the network, so that the step in
    which the process was killed does not continue.
    """


class ProcessState(IntEnum):
    """The state of a process. Only RUNNING is false."""

    RUNNING = 0
    PAUSED = 1
    DEAD = 2


class SimulatedProcess:
    """One run of a program on a host.

    :class:`simulation.loop.SimulatedLoop` pauses, resumes and kills it.

    Args:
        host: The name by which other processes reach it.
        incarnation: The number of the run on this host, counted from 1.
    """

    __slots__ = ("__weakref__", "context", "deferred", "host", "incarnation", "state")

    def __init__(self, host: str, incarnation: int = 1) -> None:
        self.host = host
        self.incarnation = incarnation
        self.state = ProcessState.RUNNING
        self.deferred: deque[asyncio.Handle] = deque()
        """The steps that fell due in a pause, in their order."""
        self.context = contextvars.Context()
        """A context that holds only this process. Tasks get copies of it."""
        self.context.run(PROCESS.set, self)

    def __repr__(self) -> str:
        return f"<{self.host}#{self.incarnation} {self.state.name.lower()}>"

    @property
    def is_dead(self) -> bool:
        """Return whether the process was killed or has ended."""
        return self.state == ProcessState.DEAD

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task of this process in the running loop."""
        context = self.context.copy()
        return asyncio.get_running_loop().create_task(work, context=context)


PROCESS: contextvars.ContextVar[SimulatedProcess | None] = contextvars.ContextVar(
    "PROCESS", default=None
)
"""The process that runs the current step, or None for the world."""

NO_PROCESS = contextvars.Context()
"""The context of steps that belong to no process. No code may set a variable in it."""


# --- handles and tasks ----------------------------------------------------------------------------

# --- silence --------------------------------------------------------------------------------------
#
# Logging is switched off for a while.


@contextmanager
def without_logs() -> Iterator[None]:
    """Disable all loggers inside this context."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def without_logs_and_warnings() -> Iterator[None]:
    """Disable loggers and the warnings about coroutines that were never awaited.

    Brokers log the faults that they meet, which the plan shows already. A killed broker leaves
    coroutines that it created and never awaited.
    """
    with without_logs(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
        yield


CLOSES_MAX = 1_000
"""The number of times that a closed coroutine may continue before the loop gives it up."""

PRUNE_AT = 1_000
"""The number of further tasks after which the finished ones are dropped."""


class SimulatedHandle(asyncio.TimerHandle):
    """A callback that is ready, or becomes ready at ``when``.

    ``on_cancel`` is called when the handle is cancelled. It is None once the handle has left the
    timers.
    """

    __slots__ = ("on_cancel",)

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context,
        when: float,
        void: Callable[[], None] | None,
    ) -> None:
        self._callback = callback
        self._args = args
        self._context = context
        self._when = when
        self._cancelled = False
        self.on_cancel = void

    def __repr__(self) -> str:
        return f"<{type(self).__name__} when={self._when} {self._callback!r} {self._args!r}>"

    def cancel(self) -> None:
        """Do what asyncio.Handle does."""
        if self._cancelled:
            return
        self._cancelled = True
        self._callback, self._args = _nothing, ()
        if self.on_cancel is not None:
            self.on_cancel()


def _nothing() -> None:
    """Do nothing: the callback of a cancelled handle."""


class SimulatedTask(asyncio.Task[Any]):
    """A task whose place in a set is the same in every run."""

    __slots__ = ("number", "process")

    def __init__(
        self, number: int, process: SimulatedProcess | None, coro: Any, **how: Any
    ) -> None:
        self.number = number
        self.process = process
        super().__init__(coro, **how)

    def __hash__(self) -> int:
        return self.number

    def close(self) -> bool:
        """Close the coroutine, and return whether nothing of it is left.

        It runs the rest of the coroutine up to its next wait, as Python does when it forgets a
        coroutine.
        """
        self._log_destroy_pending = False
        context = Context() if self.process is None else self.process.context.copy()
        coroutine: Any = self.get_coro()
        # "coroutine ignored GeneratorExit" is raised if it waits again
        with contextlib.suppress(BaseException):
            context.run(coroutine.close)
        return getattr(coroutine, "cr_frame", None) is None


class Tasks:
    """All tasks of a loop, held until they are done or buried.

    asyncio itself holds tasks weakly. Without timers and handles, the tasks of a dead process would
    be collected by Python at an arbitrary moment, and their ``finally`` blocks would run in the
    middle of another process's step.
    """

    def __init__(self) -> None:
        self.begun = 0
        """The number of all tasks that were ever started."""
        self._held: list[SimulatedTask] = []
        self._prune_at = PRUNE_AT

    def add(self, task: SimulatedTask) -> None:
        self.begun += 1
        self._held.append(task)
        if len(self._held) > self._prune_at:
            self._held = self.pending()
            self._prune_at = 2 * len(self._held) + PRUNE_AT

    def pending(self) -> list[SimulatedTask]:
        """Return the tasks that are not done, in the order in which they began."""
        return [task for task in self._held if not task.done()]

    def forget(self, tasks: Collection[SimulatedTask]) -> None:
        self._held = [task for task in self.pending() if task not in tasks]


def close_tasks(tasks: Tasks, dead: Callable[[SimulatedProcess | None], bool]) -> None:
    """Close the coroutines of dead processes, including those that begin during the closing."""
    closed: set[SimulatedTask] = set()
    try:
        with without_logs():
            for _ in range(CLOSES_MAX):
                left = [t for t in tasks.pending() if dead(t.process) and t not in closed]
                if not left:
                    return
                closed.update(task for task in left if task.close())
    finally:
        tasks.forget(closed)


def run_and_resolve(
    future: asyncio.Future[T], func: Callable[..., T], args: tuple[Any, ...]
) -> None:
    """Run a function that was given to the executor, and put its result into the future."""
    try:
        result = func(*args)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001  the future passes it on
        if not future.done():
            future.set_exception(error)
    else:
        if not future.done():
            future.set_result(result)


# --- the loop -------------------------------------------------------------------------------------

# --- connections ----------------------------------------------------------------------------------
#
# The part of the network that the loop needs: the connections that asyncio opens.

Factory = Callable[[], asyncio.BaseProtocol]


class ConnectionFactory(Protocol):
    """A source of pairs of transport and protocol, as asyncio's own loop returns them."""

    def attach(self, factory: Factory, accepted: Any, /) -> tuple[Any, Any]:
        """Do what ``loop.connect_accepted_socket`` does with a socket from ``loop.sock_accept``."""

    async def connect(self, factory: Factory, host: str, port: int, /) -> tuple[Any, Any]:
        """Do what ``loop.create_connection`` does. Raises OSError."""


Ts = TypeVarTuple("Ts")

TURN_S = 1e-6
EXECUTOR_S_MAX = 0.005
"""The longest delay before a function given to the executor runs, in seconds."""

PURGE_AT = 100
"""The number of cancelled timers above which they are removed, if they are also the majority."""

StepObserver = Callable[[SimulatedProcess | None], None]
"""A function called after a step with the process that took it. An exception that it raises ends
the run."""


class Stalled(Exception):
    """Nothing is ready, no timer is set, and what the run waits for has not happened."""


class OutOfSteps(Exception):
    """The run took more steps than its limit."""


class UnhandledError(NamedTuple):
    """An exception raised by a callback, or a complaint of asyncio."""

    at: float
    process: SimulatedProcess | None
    message: str
    exception: BaseException | None


class SimulatedLoop(asyncio.AbstractEventLoop):
    """The event loop of one world.

    Args:
        random: The source of the executor's delays.
        steps_max: The number of steps above which OutOfSteps is raised.
    """

    def __init__(self, random: Random, steps_max: int = 10**12) -> None:
        self.steps = 0
        """The number of handles run since the world began."""
        self.unhandled_errors: list[UnhandledError] = []
        """The errors that no code handled, except those of dead processes."""
        self.observer: StepObserver | None = None
        self.network: ConnectionFactory | None = None
        """The network of this loop, which sets this attribute itself."""
        self.executor_s: dict[str, float] = {}
        """The longest delay of the executor by host, in seconds, where it is not EXECUTOR_S_MAX."""
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
        """Return the seconds since the world began."""
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
        """Do what ``call_at`` does, but faster. Handles posted for the same time run in the order
        in which they were posted."""
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
        """Run until ``stop`` is called, and finish the turn first.

        Raises:
            Stalled: Nothing can happen any more.
            OutOfSteps: More than ``steps_max`` steps were taken.
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
            handle.on_cancel = None
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
            if process.state == ProcessState.PAUSED:
                process.deferred.append(handle)
            return
        self.steps += 1
        try:
            context.run(handle._callback, *handle._args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001  as asyncio's loop does
            self._record_error(process, f"{handle._callback!r} failed", error)
        if self._failure is not None:
            self._raise_failure()
        if self.observer is not None:
            self.observer(process)

    def fail(self, error: BaseException) -> None:
        """End the run after the current step.

        ``error`` is raised to the caller of the loop, no matter how the code in between handles its
        own errors.
        """
        self._failure = self._failure or error

    def _raise_failure(self) -> NoReturn:
        error, self._failure = self._failure, None
        assert error is not None
        raise error

    def run_until_complete(self, future: Any) -> Any:
        """Run until ``future``, which may be a coroutine, is done, and return its result."""
        task = asyncio.ensure_future(future, loop=self)
        task.add_done_callback(self._done, context=NO_PROCESS)
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
        """Let ``seconds`` of virtual time pass."""
        end = self.post(self._now + seconds, self.stop, (), NO_PROCESS)
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
        """End the world: kill every process that is left."""
        if self._running:
            raise RuntimeError("the loop runs")
        if self._closed:
            return
        for task in self._tasks.pending():
            if task.process is not None:
                task.process.state = ProcessState.DEAD
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
        """Run ``func`` even if the future is cancelled, as a thread that has begun would."""
        del executor
        future: asyncio.Future[T] = self.create_future()
        process = PROCESS.get()
        host = "" if process is None else process.host
        takes_s = self._random.random() * self.executor_s.get(host, EXECUTOR_S_MAX)
        self.call_later(takes_s, run_and_resolve, future, func, args)
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

    def _network(self) -> ConnectionFactory:
        if self.network is None:
            raise OSError("this world has no network")
        return self.network

    async def shutdown_asyncgens(self) -> None:
        """Do nothing: the loop keeps no list of asynchronous generators."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Do nothing: there is no executor."""

    # --- errors -----------------------------------------------------------------------------

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        task = context.get("task") or context.get("future")
        process = task.process if isinstance(task, SimulatedTask) else PROCESS.get()
        self._record_error(process, str(context.get("message")), context.get("exception"))

    default_exception_handler = call_exception_handler

    def _record_error(
        self, process: SimulatedProcess | None, message: str, exception: BaseException | None
    ) -> None:
        # A future complains when it is garbage-collected, which may be in a step of any process.
        # Killed is no error of that process.
        if not isinstance(exception, Killed) and (
            process is None or process.state != ProcessState.DEAD
        ):
            self.unhandled_errors.append(UnhandledError(self._now, process, message, exception))

    # --- life and death of processes --------------------------------------------------------

    def pause(self, process: SimulatedProcess) -> None:
        """Pause a process (SIGSTOP). A step that is under way is finished first."""
        if process.state == ProcessState.RUNNING:
            process.state = ProcessState.PAUSED

    def resume(self, process: SimulatedProcess) -> None:
        """Resume a process (SIGCONT). The steps that fell due in the pause run now, in their
        order."""
        if process.state == ProcessState.PAUSED:
            process.state = ProcessState.RUNNING
            self._ready.extend(process.deferred)  # type: ignore[arg-type]
            process.deferred.clear()

    def kill(self, process: SimulatedProcess) -> None:
        """Kill a process (SIGKILL). A step of its own that is under way is finished, without
        effect."""
        if process.state == ProcessState.DEAD:
            return
        process.state = ProcessState.DEAD
        process.deferred.clear()
        if self._running:  # the step that runs may be in the very coroutine that must be closed
            self.call_soon(self._forget, lambda owner: owner is process, context=NO_PROCESS)
        else:
            self._forget(lambda owner: owner is process)

    def _forget(self, dead: Callable[[SimulatedProcess | None], bool]) -> None:
        """Close the coroutines of dead processes, and drop their timers."""
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            close_tasks(self._tasks, dead)
        finally:
            events._set_running_loop(before)
        self._keep_timers(lambda handle: not dead(handle._context.get(PROCESS)))


# --- watchdog -------------------------------------------------------------------------------------
#
# A broker that loops within a step blocks its event loop: it sends no heartbeat and no answer. In a
# simulation nothing else would end such a step, and the whole search would hang.

STEP_S: Final = 20.0
"""The longest step allowed, in seconds of processor time. The longest sound steps, which are the
judge's, take some tenths of a second."""


class EndlessStep(Exception):
    """A step took far longer than any sound step does."""


def _call_path(frame: FrameType | None) -> str:
    """Return the calls of the step from the loop down to the interrupted frame.

    The interrupted function alone says little. A loop in the broker that spends its time in library
    functions would be named after one of them.
    """
    calls: list[str] = []
    while frame is not None and frame.f_code is not SimulatedLoop.step.__code__:
        calls.append(frame.f_code.co_qualname)
        frame = frame.f_back
    return " > ".join(reversed(calls))


@contextmanager
def step_watchdog(loop: SimulatedLoop, longest_s: float = STEP_S) -> Iterator[None]:
    """End the run if a step inside this context takes longer than ``longest_s``.

    The limit is checked at intervals of ``longest_s``, so a step may take almost twice as long.
    Outside the main thread of a program there is no limit, because signals interrupt only the main
    thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen = -1

    def look(_number: int, frame: FrameType | None) -> None:
        nonlocal seen
        if loop.is_running() and loop.steps == seen:
            loop.fail(EndlessStep(f"a step goes on and on, in {_call_path(frame)}"))
            raise Killed
        seen = loop.steps

    before = signal.signal(signal.SIGVTALRM, look)
    signal.setitimer(signal.ITIMER_VIRTUAL, longest_s, longest_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
