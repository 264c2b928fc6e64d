"""Produce requests with acks=-1 that wait for the high watermark.

A leader's log end only grows, so requests come in the order of the offset they wait for: the
first ones in are the first ones done, and nothing is ever searched or polled. Deadlines come in
any order and have a heap of their own, whose finished entries are dropped when their time comes.
"""

from collections import OrderedDict
from dataclasses import dataclass
from heapq import heappop, heappush

from broker.types import Millis, Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Appended at ``base_offset``; done when the high watermark reaches ``required_offset``."""

    request: int
    base_offset: Offset
    required_offset: Offset
    deadline: Millis


class PendingProduces:
    """Each method but ``add`` removes the requests it returns."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[int, Waiting] = OrderedDict()
        self._deadlines: list[tuple[Millis, int]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiting: Waiting) -> None:
        """Requests must come in the order of their required offsets."""
        self._waiting[waiting.request] = waiting
        heappush(self._deadlines, (waiting.deadline, waiting.request))

    def reached(self, high_watermark: Offset) -> list[Waiting]:
        """Those that wait for nothing above ``high_watermark``."""
        done = []
        while self._waiting:
            first = next(iter(self._waiting.values()))
            if first.required_offset > high_watermark:
                break
            done.append(self._waiting.pop(first.request))
        return done

    def expired(self, now: Millis) -> list[Waiting]:
        """Those whose deadline is not after ``now``, earliest first."""
        late = []
        while self._deadlines and self._deadlines[0][0] <= now:
            _, request = heappop(self._deadlines)
            if request in self._waiting:
                late.append(self._waiting.pop(request))
        return late

    def drain(self) -> list[Waiting]:
        """All of them."""
        everyone = list(self._waiting.values())
        self._waiting.clear()
        self._deadlines.clear()
        return everyone
