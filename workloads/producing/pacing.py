"""The choice of the next record of a producer: when it is due, and to which partition it goes."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ackproof.workloads.producing.recorder import SendRecorder
from ackproof.workloads.spec import ProducerSpec
from ackproof.workloads.unresolved import FEW

# --- when records are due -------------------------------------------------------------------------
#
# At a rate, record n is due n intervals after the beginning, and that does not move. A record that
# is sent late is late by its wait, so a latency that is measured from the due time leaves nothing
# out. With a latency from the time of sending, the stall of one record would show once, and not for
# all those that were due meanwhile (coordinated omission).

BACKLOG_SECONDS = 1.0
"""How much of the schedule a producer that waits for no ack catches up after a stall, in seconds;
older records are dropped."""


class Pace(Protocol):
    """The pace of a producer; times are seconds of a clock that only goes forward."""

    def due(self, now: float, /) -> float:
        """Return how many records are due by now, and not taken."""

    def take(self, many: int, /) -> NDArray[np.float64] | None:
        """Take so many of them; return when each was due, or None where there is no schedule."""

    def seconds_to_next(self, now: float, /) -> float:
        """Return how long it is until one is due; 0 where one is."""


class Pacer:
    """A pace of ``rate`` records a second, the first of them one interval after ``now``.

    Args:
        backlog_s: How late a record may be taken, in seconds; later ones are dropped, except the
            last of them.
    """

    def __init__(self, rate: float, now: float, backlog_s: float = BACKLOG_SECONDS) -> None:
        self._rate = rate
        self._start = now
        self._backlog = max(1.0, rate * backlog_s)
        self._number = 0

    def due(self, now: float) -> int:
        behind = math.floor((now - self._start) * self._rate - self._number)
        if behind <= self._backlog:
            return max(0, behind)
        kept = math.floor(self._backlog)
        self._number += behind - kept
        return kept

    def take(self, many: int) -> NDArray[np.float64]:
        first = self._number + 1
        self._number += many
        return self._start + np.arange(first, first + many) / self._rate

    def seconds_to_next(self, now: float) -> float:
        return max(0.0, self._start + (self._number + 1) / self._rate - now)


class UnpacedSchedule:
    """A pace without a schedule: a record is due whenever one is asked for.

    The client decides how fast that is, because it takes no more than it has room for.
    """

    def due(self, _now: float, /) -> float:
        return math.inf

    def take(self, _many: int, /) -> None:
        return None

    def seconds_to_next(self, _now: float, /) -> float:
        return 0.0


# --- which record is next -------------------------------------------------------------------------
#
# Partitions take turns. Where records have keys, the keys do, and a turn is that of the key's
# partition. Each partition may have so many records without an outcome, its share. The turn of a
# partition that has used it up is skipped, and nothing is handed over. So memory is limited, and a
# partition without a leader does not stop the others.
#
# A producer that waits for each ack (``sync``) has one record under way, and drops none. What
# became due meanwhile is sent when its turn comes, as late as it is then.

TURNS_MAX = 1_000
"""The most turns taken at once; then the client library gets its time."""
_NUMBERS = np.arange(TURNS_MAX, dtype=np.int64)
_NONE = np.empty(0, np.int64)
FLAT_OUT_RECORDS = 20_000
FLAT_OUT_BYTES = 32 << 20
"""The most records that a producer without a rate has under way. It is full all the time: more
records would wait longer, and none would be sent sooner."""


class ProducerTurns:
    """The turns of one producer.

    Args:
        share: How many records of a partition the client library has room for.
        clock: Returns seconds of a clock that only goes forward.
        busy: Returns whether the client takes nothing for now: turns are skipped then, too.
        route: The partition of each turn; then it begins again. None for each partition once.
    """

    def __init__(
        self,
        spec: ProducerSpec,
        recorder: SendRecorder,
        share: int,
        clock: Callable[[], float],
        busy: Callable[[], bool] = lambda: False,
        route: NDArray[np.int64] | None = None,
    ) -> None:
        self._recorder = recorder
        self._route = np.arange(spec.partitions) if route is None else route
        self._patient = spec.sync or spec.rate is None
        self._busy = busy
        self._left = math.inf if spec.records is None else spec.records
        self._share = share if spec.rate is not None else min(share, _flat_out_share(spec))
        self._most = 1 if spec.sync else self._share * spec.partitions
        self._clock = clock
        self._pace = _pace(spec, clock())
        self._turn = 0

    def take(self) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
        """Return what must be handed over now: for each record its place in the route, and its
        lateness.

        The lateness is in seconds, or None where there is no schedule. All must be recorded before
        the next call.
        """
        if self._full():
            return _NONE, None
        now, first, among = self._clock(), self._turn, len(self._route)
        room = int(min(self._left, self._most - self._recorder.unresolved))
        due = int(min(TURNS_MAX, self._pace.due(now)))
        share = 0 if self._busy() else self._share
        # With at most one under way, hardly a turn is skipped.
        choose = self._one_by_one if due <= FEW or self._most == 1 else self._at_once
        taken, turns = choose(first, due, share, room)
        places = (first + taken) % among
        times = self._pace.take(turns)
        self._turn = (first + turns) % among
        self._left -= len(taken)
        return places, None if times is None else now - times[taken]

    def seconds_to_next(self) -> float:
        """Return how long it is until there may be another record, in seconds.

        It is infinity where only an outcome can make room.
        """
        return math.inf if self._full() else self._pace.seconds_to_next(self._clock())

    def _at_once(
        self, first: int, due: int, share: int, room: int
    ) -> tuple[NDArray[np.int64], int]:
        """Return those of the next ``due`` turns that are taken, and how many turns that takes.

        The turns begin at place ``first`` of the route, and at most ``room`` of them are taken.
        """
        to = self._route[(first + _NUMBERS[:due]) % len(self._route)]
        has_room = _earlier(to) < (share - self._recorder.waiting)[to]
        taken = np.flatnonzero(has_room)[:room]
        return taken, int(taken[-1]) + 1 if len(taken) == room else due

    def _one_by_one(
        self, first: int, due: int, share: int, room: int
    ) -> tuple[NDArray[np.int64], int]:
        """Return the same; for few turns arrays cost more."""
        waiting, route = self._recorder.waiting, self._route
        taken: list[int] = []
        given: Counter[int] = Counter()
        for number in range(due):
            to = int(route[(first + number) % len(route)])
            if given[to] < share - waiting[to]:
                taken.append(number)
                given[to] += 1
                if len(taken) == room:
                    return np.array(taken), number + 1
        return np.array(taken, np.int64), due

    def _full(self) -> bool:
        if self._left <= 0 or (self._patient and self._busy()):
            return True
        return self._recorder.unresolved >= self._most


class TombstoneDraw:
    """The choice of those records of a producer that are tombstones.

    Whether the nth record is one depends on the seed alone.
    """

    def __init__(self, spec: ProducerSpec) -> None:
        self._share = spec.tombstones
        self._chance = np.random.default_rng([spec.seed, spec.producer])

    def take(self, many: int) -> NDArray[np.bool_] | None:
        """Return which of the next ``many`` records are tombstones, or None if there are none."""
        return self._chance.random(many) < self._share if self._share else None


def _earlier(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how often each value stands before its place."""
    order = np.argsort(values, kind="stable")
    in_order = values[order]
    earlier = np.empty_like(order)
    earlier[order] = np.arange(len(order)) - np.searchsorted(in_order, in_order)
    return earlier


def _pace(spec: ProducerSpec, now: float) -> Pace:
    if spec.rate is None:
        return UnpacedSchedule()
    return Pacer(spec.rate, now, math.inf if spec.sync else BACKLOG_SECONDS)


def _flat_out_share(spec: ProducerSpec) -> int:
    records = min(FLAT_OUT_RECORDS, FLAT_OUT_BYTES // spec.record_bytes_most)
    return max(1, records // spec.partitions)
