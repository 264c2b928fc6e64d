"""A step that does not end ends the run.

A broker that goes round in circles within a step has its event loop do nothing else: no heartbeat,
no answer. Here nothing would end it, and with it the search would be lost.
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
"""Of the processor: the longest steps take some tenths of a second, the judge's among them."""


class EndlessStep(Exception):
    """A step has taken far longer than any does."""


def _within(frame: FrameType | None) -> str:
    """What the step was about, from where the loop called it.

    Where it was interrupted says little by itself: a loop in the broker that spends its time in
    the library's functions would be named after one of these.
    """
    calls: list[str] = []
    while frame is not None and frame.f_code is not SimulatedLoop.step.__code__:
        calls.append(frame.f_code.co_qualname)
        frame = frame.f_back
    return " > ".join(reversed(calls))


@contextmanager
def steps_end(loop: SimulatedLoop, longest_s: float = STEP_S) -> Iterator[None]:
    """Within, a step that takes longer than that, or not quite twice as long, ends the run.

    Not outside of a program's main thread: no other one is interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen = -1

    def look(_number: int, frame: FrameType | None) -> None:
        nonlocal seen
        if loop.is_running() and loop.steps == seen:
            loop.fail(EndlessStep(f"a step goes on and on, in {_within(frame)}"))
            raise Killed
        seen = loop.steps

    before = signal.signal(signal.SIGVTALRM, look)
    signal.setitimer(signal.ITIMER_VIRTUAL, longest_s, longest_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
