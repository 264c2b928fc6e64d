"""What the final read of a partition reports of itself."""

from dataclasses import dataclass

import numpy as np

from ackproof.checkers.arrays import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalRead:
    """The final read of a partition: did it get from ``start`` to ``end`` (exclusive)?

    Attributes:
        listed: The end that ListOffsets gave for it; None where that is not known.
        began: What was acked, or shown to a consumer, before this time was certainly there when
            the final read began; nanoseconds by the clients' clocks, None where that is not known.
    """

    complete: bool
    start: int | None = None
    end: int | None = None
    listed: int | None = None
    began: int | None = None

    def covers(self, times: Array) -> Array:
        """Return which of these times lie before the final read began, for all that is known."""
        before: Array = np.full(times.shape, True) if self.began is None else times < self.began
        return before
