"""Handles and tasks of the simulated loop: what asyncio has, and what a history needs besides."""

import asyncio
import contextlib
from collections.abc import Callable
from contextvars import Context
from typing import Any

from simulation.ownership import Process


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
