"""Ownership of steps: each step of the simulated loop belongs to one process or to the world.

A :class:`SimulatedProcess` is one run of one program on one host. It is found in the context
(:mod:`contextvars`) in which a step runs. Each task, timer and connection that a step starts
inherits it. A step without a process (None) belongs to the world itself: the network, ZooKeeper or
the plan.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Coroutine
from enum import IntEnum
from typing import Any, TypeVar

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

    :class:`simulation.loop.loop.SimulatedLoop` pauses, resumes and kills it.

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
