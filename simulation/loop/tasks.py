"""Handles and tasks of the simulated loop: what asyncio has, and what a history needs besides."""

import asyncio
import contextlib
import logging
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any, TypeVar

from simulation.loop.ownership import Process

# --- silence --------------------------------------------------------------------------------------
#
# Nothing is said for a while.


@contextmanager
def silence() -> Iterator[None]:
    """Within, no logger says anything."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def quiet() -> Iterator[None]:
    """Brokers log what they suffer; here that is the plan. What a killed one was about to start
    was never awaited."""
    with silence(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
        yield


# --------------------------------------------------------------------------------------------------

T = TypeVar("T")

CLOSES_MAX = 1_000
"""How often a coroutine may go on after being closed, before it is left alone."""

PRUNE_AT = 1_000
"""Tasks that are done are let go when there are so many more."""


class SimulatedHandle(asyncio.TimerHandle):
    """A callback that is ready, or becomes so at ``when``.

    ``void`` is called when it is cancelled; None when it is not among the timers any more.
    """

    __slots__ = ("void",)

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
        self.void = void

    def __repr__(self) -> str:
        return f"<{type(self).__name__} when={self._when} {self._callback!r} {self._args!r}>"

    def cancel(self) -> None:
        """See asyncio.Handle."""
        if self._cancelled:
            return
        self._cancelled = True
        self._callback, self._args = _nothing, ()
        if self.void is not None:
            self.void()


def _nothing() -> None:
    """What a cancelled handle would call."""


class SimulatedTask(asyncio.Task[Any]):
    """A task that has the same place in a set in every run."""

    __slots__ = ("number", "process")

    def __init__(self, number: int, process: Process | None, coro: Any, **how: Any) -> None:
        self.number = number
        self.process = process
        super().__init__(coro, **how)

    def __hash__(self) -> int:
        return self.number

    def close(self) -> bool:
        """Runs what is left of the coroutine, as Python does when it forgets one, up to where it
        waits again. True once nothing is left."""
        self._log_destroy_pending = False
        context = Context() if self.process is None else self.process.context.copy()
        coroutine: Any = self.get_coro()
        with contextlib.suppress(BaseException):  # "coroutine ignored GeneratorExit": it waits
            context.run(coroutine.close)
        return getattr(coroutine, "cr_frame", None) is None


class Tasks:
    """All tasks of a loop, held until they are done or buried.

    asyncio itself holds them weakly: of the dead, whose timers and handles are gone, Python would
    collect some by itself, at whatever moment, and run their ``finally`` blocks in the middle of
    somebody else's step.
    """

    def __init__(self) -> None:
        self.begun = 0
        """How many there were, ever."""
        self._held: list[SimulatedTask] = []
        self._prune_at = PRUNE_AT

    def add(self, task: SimulatedTask) -> None:
        self.begun += 1
        self._held.append(task)
        if len(self._held) > self._prune_at:
            self._held = self.pending()
            self._prune_at = 2 * len(self._held) + PRUNE_AT

    def pending(self) -> list[SimulatedTask]:
        """Those that are not done, in the order in which they began."""
        return [task for task in self._held if not task.done()]

    def forget(self, tasks: Collection[SimulatedTask]) -> None:
        self._held = [task for task in self.pending() if task not in tasks]


def bury(tasks: Tasks, dead: Callable[[Process | None], bool]) -> None:
    """Closes the coroutines of the dead, among them those that begin meanwhile."""
    closed: set[SimulatedTask] = set()
    try:
        with silence():
            for _ in range(CLOSES_MAX):
                left = [t for t in tasks.pending() if dead(t.process) and t not in closed]
                if not left:
                    return
                closed.update(task for task in left if task.close())
    finally:
        tasks.forget(closed)


def carry_out(future: asyncio.Future[T], func: Callable[..., T], args: tuple[Any, ...]) -> None:
    """Does what was given to the executor."""
    try:
        result = func(*args)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001  whoever awaits the future gets it
        if not future.done():
            future.set_exception(error)
    else:
        if not future.done():
            future.set_result(result)
