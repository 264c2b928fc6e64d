"""How much of a span servers could use: what they had to wait for a processor is no time of theirs.

Kafka's time-outs, and the promises that rest on them, expect servers that run when they are ready
to. On a machine that is too small, or busy with other work, a broker that was cut off and is healed
may need 18 s for what takes it 2 s, and has no bug. Table ``scheduling`` tells how long each server
waited; the slowest one of each moment sets the pace, since what a change of leader takes goes over
ZooKeeper, the controller and the brokers."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ackproof.checkers.context.faults import FOREVER

STARVED = 0.5
"""Above this share of a run, waiting is worth a finding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """From ``start`` until ``end``, nanoseconds of the Unix epoch, the slowest server lost the
    share ``lost`` (0 to 1) of its time."""

    start: int
    end: int
    lost: float


@dataclass(frozen=True, slots=True)
class Pace:
    """The windows of a run in which servers had to wait, in order and without overlaps."""

    windows: tuple[Window, ...] = ()

    def after(self, time: int, duration_ns: int) -> int:
        """Return by when a server has had ``duration_ns`` of its own since ``time``.

        Example: in a window in which servers waited for three quarters of their time, 7 s of
        their own take 28 s.
        """
        if time >= FOREVER:
            return FOREVER
        left, at = float(duration_ns), time
        for window in self.windows:
            if window.end <= at:
                continue
            if at + left <= window.start:
                break
            left -= max(window.start - at, 0)
            at = max(at, window.start)
            own = 1.0 - window.lost
            if (window.end - at) * own >= left > 0:
                return min(at + int(left / own), FOREVER)
            left -= (window.end - at) * own
            at = window.end
        return min(at + max(round(left), 0), FOREVER)

    def lost_ns(self, start: int, end: int) -> int:
        """Return how much of a span the slowest server waited for a processor."""
        return int(
            sum(
                max(min(end, window.end) - max(start, window.start), 0) * window.lost
                for window in self.windows
            )
        )


FULL = Pace()
"""Nobody had to wait, or nobody measured it."""


def pace_of(rows: Iterable[Mapping[str, Any]]) -> Pace:
    """Return the pace that rows of the table ``scheduling`` tell."""
    looks = [(row["time"] - row["span_ns"], row["time"], lost_share(row)) for row in rows]
    edges = sorted({edge for start, end, _ in looks for edge in (start, end)})
    looks.sort()
    windows: list[Window] = []
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
            windows.append(Window(start=start, end=end, lost=lost))
    return Pace(tuple(windows))


def lost_share(row: Mapping[str, Any]) -> float:
    """Return which share of a look's span a server had to wait.

    One thread that waits 0.8 s of a second loses 0.8 of it. Of many threads, which wait for more
    than the span together, each loses what they waited as a share of what they wanted: those that
    ran 1 s and waited 3 s are served at a quarter of the speed.
    """
    wanted = max(row["span_ns"], row["ran_ns"] + row["waited_ns"])
    return min(row["waited_ns"] / wanted, 0.999) if wanted > 0 else 0.0


def findings(rows: Iterable[Mapping[str, Any]], pace: Pace, start: int, end: int) -> Iterator[str]:
    """Yield a sentence for a run whose servers waited for more than :data:`STARVED` of a span.

    Args:
        rows: Of the table ``scheduling``.
        pace: What these rows come to.
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
        f"the servers waited for a processor for most of the time ({named}): the machine is too "
        "small for this campaign, or does other work. What servers must do within a time-out was "
        "given that much longer"
    )
