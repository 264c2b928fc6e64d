"""The only polling loop of the room: wait for a condition, with a deadline."""

import time
from collections.abc import Callable


def wait_until(
    condition: Callable[[], bool],
    timeout: float,
    what: str,
    interval: float = 0.02,
) -> None:
    """Return as soon as ``condition()`` is true, asked every ``interval`` seconds.

    It is asked at least once. Raises TimeoutError naming ``what`` after ``timeout`` seconds; what
    ``condition`` raises passes through.
    """
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= deadline:
            raise TimeoutError(f"waited {timeout:g} s in vain for {what}")
        time.sleep(interval)
