"""The pace of servers: which share of the time they had a processor when they wanted one.

Kafka's timeouts, and the guarantees that depend on them, assume that servers run when they are
ready to. On a machine that is too small or busy, a broker that was cut off and healed may need 18 s
for work that takes 2 s of processor time, without any bug. So time limits of the checkers are
counted in time that servers could use. The table ``scheduling`` has the waiting time of each
server. The slowest server at each moment sets the pace for all, because a change of leader involves
ZooKeeper, the controller and the brokers.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from ackproof.checkers.context.faults import FOREVER

STARVED = 0.5
"""The share of a run's time that servers may wait without a finding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPeriod:
    """A period from ``start`` until ``end``, in nanoseconds of the Unix epoch, in which the slowest
    server lost the share ``lost`` (0 to 1) of its time."""

    start: int
    end: int
    lost: float


@dataclass(frozen=True, slots=True)
class ServerPace:
    """The periods of a run in which servers waited, in order and without overlaps. An hour has some
    ten thousand, so that they are searched and not walked through."""

    windows: tuple[WaitingPeriod, ...] = ()
    _ends: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _lost: tuple[float, ...] = field(init=False, repr=False, compare=False)
    """The nanoseconds lost before each window, and in all."""

    def __post_init__(self) -> None:
        lost = ((window.end - window.start) * window.lost for window in self.windows)
        object.__setattr__(self, "_ends", tuple(window.end for window in self.windows))
        object.__setattr__(self, "_lost", tuple(accumulate(lost, initial=0.0)))

    def after(self, time: int, duration_ns: int) -> int:
        """Return the time at which a server has had ``duration_ns`` of processor time since
        ``time``.

        Example: in a period in which servers waited for three quarters of their time, 7 s of
        processor time take 28 s.
        """
        if time >= FOREVER:
            return FOREVER
        lost = self._lost_until(time)

        def usable(place: int) -> float:
            return self._ends[place] - time - (self._lost[place + 1] - lost)

        first = bisect_right(self._ends, time)
        place = bisect_left(range(len(self._ends)), float(duration_ns), lo=first, key=usable)
        if place == len(self._ends):
            return min(time + duration_ns + round(self._lost[-1] - lost), FOREVER)
        window = self.windows[place]
        start = max(window.start, time)
        left = duration_ns - (start - time - (self._lost_until(start) - lost))
        # Before the window servers lose nothing.
        return min(start + int(left if left < 0 else left / (1.0 - window.lost)), FOREVER)

    def lost_ns(self, start: int, end: int) -> int:
        """Return how long the slowest server waited for a processor in a span."""
        return max(int(self._lost_until(end) - self._lost_until(start)), 0)

    def _lost_until(self, time: int) -> float:
        place = bisect_right(self._ends, time)
        lost = self._lost[place]
        if place < len(self.windows):
            window = self.windows[place]
            lost += max(time - window.start, 0) * window.lost
        return lost


FULL = ServerPace()
"""The pace of servers that never waited, or whose waiting was not measured."""


def pace_of(rows: Iterable[Mapping[str, Any]]) -> ServerPace:
    """Return the pace from the rows of the table ``scheduling``."""
    looks = [(row["time"] - row["span_ns"], row["time"], lost_share(row)) for row in rows]
    edges = sorted({edge for start, end, _ in looks for edge in (start, end)})
    looks.sort()
    windows: list[WaitingPeriod] = []
    on: list[tuple[int, int, float]] = []
    upcoming = iter(looks)
    following = next(upcoming, None)
    for start, end in pairwise(edges):
        while following is not None and following[0] <= start:
            on.append(following)
            following = next(upcoming, None)
        on = [look for look in on if look[1] > start]
        lost = max((look[2] for look in on), default=0.0)
        if lost > 0:
            windows.append(WaitingPeriod(start=start, end=end, lost=lost))
    return ServerPace(tuple(windows))


def lost_share(row: Mapping[str, Any]) -> float:
    """Return the share of a measured span that a server waited.

    One thread that waits 0.8 s of a second loses a share of 0.8. Several threads together may run
    and wait for longer than the span. The share then is that of the time that they wanted: threads
    that ran for 1 s and waited for 3 s lose 0.75. The result stays below 1, so that a deadline that
    is extended by it stays finite.
    """
    wanted = max(row["span_ns"], row["ran_ns"] + row["waited_ns"])
    return min(row["waited_ns"] / wanted, 0.999) if wanted > 0 else 0.0


WAITED = "the servers waited for a processor"
"""The beginning of a finding about servers that were slow. It makes no figure uncertain."""


def findings(
    rows: Iterable[Mapping[str, Any]], pace: ServerPace, start: int, end: int
) -> Iterator[str]:
    """Yield a sentence for a run whose servers waited for more than :data:`STARVED` of a span.

    Args:
        rows: The rows of the table ``scheduling``.
        pace: The pace from these rows.
    """
    if end <= start or pace.lost_ns(start, end) <= STARVED * (end - start):
        return
    spans: dict[str, float] = {}
    lost: dict[str, float] = {}
    for row in rows:
        spans[row["server"]] = spans.get(row["server"], 0.0) + row["span_ns"]
        lost[row["server"]] = lost.get(row["server"], 0.0) + row["span_ns"] * lost_share(row)
    shares = sorted(((lost[one] / spans[one], one) for one in spans if spans[one]), reverse=True)
    named = ", ".join(f"{one} {share:.0%}" for share, one in shares)
    yield (
        f"{WAITED} for most of the time ({named}): the machine is "
        "too small for this campaign, or is busy with other work. Every time limit of the "
        "servers was extended by the time that they waited"
    )
