"""Handles and tasks of the simulated loop, with what a reproducible history needs."""

import asyncio
import contextlib
import logging
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any, TypeVar

from simulation.loop.ownership import SimulatedProcess

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


# --------------------------------------------------------------------------------------------------

T = TypeVar("T")

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
