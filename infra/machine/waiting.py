"""The only polling loop of the room: a wait for a condition, with a deadline."""

import time
from collections.abc import Callable


def wait_until(
    condition: Callable[[], bool],
    timeout: float,
    what: str,
    interval: float = 0.02,
) -> None:
    """Return as soon as ``condition()`` is true, called every ``interval`` seconds.

    It is called at least once. Raises TimeoutError naming ``what`` after ``timeout`` seconds.
    Errors of ``condition`` pass through.
    """
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= deadline:
            raise TimeoutError(f"waited {timeout:g} s without success for {what}")
        time.sleep(interval)
