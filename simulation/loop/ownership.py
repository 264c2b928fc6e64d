"""Whose work is whose: every step of the simulated loop belongs to a process, or to nobody.

A :class:`Process` is one life of one program on one host. It is found in the context
(:mod:`contextvars`) in which a step runs; whatever a step starts, a task, a timer, a connection,
inherits it. What belongs to nobody (None) is the world's own: the network, ZooKeeper, the plan.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Coroutine
from enum import IntEnum
from typing import Any, TypeVar

T = TypeVar("T")


class Killed(BaseException):
    """The process is dead. Raised where what is left of it asks for something, so that a step in
    whose middle it was killed does not go on."""


class State(IntEnum):
    """Of a process. False only when it runs."""

    RUNNING = 0
    PAUSED = 1
    DEAD = 2


class Process:
    """One life of a program. :class:`simulation.loop.loop.SimulatedLoop` pauses, resumes and kills
    it.

    Args:
        host: the name under which others reach it.
        incarnation: which of the host's lives, counted from 1.
    """

    __slots__ = ("__weakref__", "context", "held", "host", "incarnation", "state")

    def __init__(self, host: str, incarnation: int = 1) -> None:
        self.host = host
        self.incarnation = incarnation
        self.state = State.RUNNING
        self.held: deque[asyncio.Handle] = deque()
        """Steps that fell due while it was paused, in their order."""
        self.context = contextvars.Context()
        """Holds this process and nothing else; tasks get copies."""
        self.context.run(PROCESS.set, self)

    def __repr__(self) -> str:
        return f"<{self.host}#{self.incarnation} {self.state.name.lower()}>"

    @property
    def is_dead(self) -> bool:
        """Whether it was killed, or has ended."""
        return self.state == State.DEAD

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Starts a task of this process in the running loop."""
        context = self.context.copy()
        return asyncio.get_running_loop().create_task(work, context=context)


PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("PROCESS", default=None)
"""The process on whose behalf the code runs."""

NOBODY = contextvars.Context()
"""The context of steps that belong to no process. Nobody may set a variable in it."""
