"""What takes a while to find out and never changes, found out once for all hosts."""

import threading
from collections.abc import Callable
from functools import cache, wraps
from typing import TypeVar

T = TypeVar("T")


def once(find: Callable[[], T]) -> Callable[[], T]:
    """``find``, whose result is kept. Of threads that ask at the same time, one finds out and the
    others wait for it: with ``functools.cache`` alone each would."""
    kept = cache(find)
    lock = threading.Lock()

    @wraps(find)
    def found() -> T:
        with lock:
            return kept()

    return found
