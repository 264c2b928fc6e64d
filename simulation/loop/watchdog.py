"""A watchdog that ends the run when a step does not end.

A broker that loops within a step blocks its event loop: it sends no heartbeat and no answer. In a
simulation nothing else would end such a step, and the whole search would hang.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from simulation.loop.loop import SimulatedLoop
from simulation.loop.ownership import Killed

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
