"""Time and tasks: the clock, the start of tasks, and repeated or postponed actions."""

import asyncio
import time
from collections.abc import Callable, Coroutine

from ackproof.broker.log.disk import Steps
from ackproof.broker.types import Millis


class Clock:
    """Monotonic time for deadlines, and wall-clock time for what is stored."""

    def now(self) -> Millis:
        """Return the milliseconds of a clock that only goes forward."""
        return Millis(time.monotonic_ns() // 1_000_000)

    def wall_ms(self) -> int:
        """Return the milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000


Spawn = Callable[[Coroutine[None, None, None]], asyncio.Task[None]]
"""A function that starts a task which the broker owns: if the task fails, the broker stops."""


async def every(interval_ms: int, action: Callable[[], None]) -> None:
    """Call ``action`` each ``interval_ms``, for ever. Its errors reach the caller."""
    while True:
        await asyncio.sleep(interval_ms / 1000)
        action()


async def carry_out(steps: Steps) -> None:
    """Carry out steps that wait for the disk, off the event loop. An fsync, or the removal of a
    large directory, may take seconds, in which no request would be served."""
    loop = asyncio.get_running_loop()
    try:
        work = next(steps)
        while True:
            try:
                await loop.run_in_executor(None, work)
            except OSError as error:
                work = steps.throw(error)
            else:
                work = next(steps)
    except StopIteration:
        return
    finally:
        steps.close()


def carry_out_later(
    steps: Steps, failed: Callable[[Exception], None], under_way: set[asyncio.Task[None]]
) -> None:
    """Do as ``carry_out``, without waiting for the end. ``under_way`` keeps the task until it is
    done, because the event loop does not."""
    task = asyncio.get_running_loop().create_task(_reporting(steps, failed))
    under_way.add(task)
    task.add_done_callback(under_way.discard)


async def _reporting(steps: Steps, failed: Callable[[Exception], None]) -> None:
    try:
        await carry_out(steps)
    except Exception as error:  # noqa: BLE001 (reported)
        failed(error)
