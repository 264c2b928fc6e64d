"""The only place where the broker asks what time it is."""

import time

from ackproof.broker.types import Millis


class Clock:
    """Monotonic time for deadlines, wall-clock time for what is stored."""

    def now(self) -> Millis:
        """Milliseconds of a clock that only goes forward."""
        return Millis(time.monotonic_ns() // 1_000_000)

    def wall_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000
