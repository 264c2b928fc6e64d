"""Produce requests with acks=-1 that wait for the high watermark.

They are done in the order of the offset they wait for, and expire in that of their deadlines: a
heap for each, so that nothing is ever searched or polled. Offsets grow with the leader's log, but
for the repetitions of idempotent producers. What one heap is done with, the other drops when it
gets there.
"""

from heapq import heappop, heappush
from typing import TypeVar

from ackproof.broker.types import Millis, Offset, value

Key = TypeVar("Key", Millis, Offset)


@value(kw_only=True)
class Waiting:
    """Appended at ``base_offset``; done when the high watermark reaches ``required_offset``."""

    request: int
    base_offset: Offset
    required_offset: Offset
    deadline: Millis


class PendingProduces:
    """Each method but ``add`` removes the requests it returns."""

    def __init__(self) -> None:
        self._waiting: dict[int, Waiting] = {}
        self._offsets: list[tuple[Offset, int]] = []
        self._deadlines: list[tuple[Millis, int]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiting: Waiting) -> None:
        """``waiting.request`` is not waiting yet."""
        self._waiting[waiting.request] = waiting
        heappush(self._offsets, (waiting.required_offset, waiting.request))
        heappush(self._deadlines, (waiting.deadline, waiting.request))

    def reached(self, high_watermark: Offset) -> list[Waiting]:
        """Those that wait for nothing above ``high_watermark``."""
        return self._take(self._offsets, high_watermark)

    def expired(self, now: Millis) -> list[Waiting]:
        """Those whose deadline is not after ``now``, earliest first."""
        return self._take(self._deadlines, now)

    def drain(self) -> list[Waiting]:
        """All of them."""
        everyone = list(self._waiting.values())
        self._waiting.clear()
        self._offsets.clear()
        self._deadlines.clear()
        return everyone

    def _take(self, heap: list[tuple[Key, int]], limit: Key) -> list[Waiting]:
        taken = []
        while heap and (heap[0][0] <= limit or heap[0][1] not in self._waiting):
            _, request = heappop(heap)
            if request in self._waiting:
                taken.append(self._waiting.pop(request))
        return taken
