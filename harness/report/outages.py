"""The outages of a run: each once, with its times, its partitions, the faults that were active, and
the event that it ended after.

Outages that overlap under the same faults are one line, because one event stopped them all. The
checkers list the longest outages of each cell (``checkers.checks.outages``).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ackproof.checkers.verdict import OutagePeriod
from ackproof.harness.report.rows import CellRow
from ackproof.harness.report.timeline import FaultSpan, LeaderChange

SHOWN_MAX = 10
"""The number of lines that are shown at once: the longest. Further ones are folded."""

NAMED_MAX = 3
"""The most partitions of a line that are named."""

OBSERVED_LATE_NS = 1_000_000_000
"""The time by which a change of leader may be observed late (docs/root-causes.md, Evidence)."""

_NEVER = "nothing: no record was acknowledged after it"
_AGAIN = "no observed event: acks resumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageLine:
    """Outages of partitions that overlapped under the same faults.

    Attributes:
        start, end: The first start and the last end, in nanoseconds of the Unix epoch.
        longest_ms: The longest time in which one of the partitions had requests waiting.
        where: The partitions, or their number.
        faults: The faults that were active when it began.
        healed: The faults that were healed by then, and from which it had not recovered.
        later: The faults that began during it.
        ended: What it ended after.
    """

    start: int
    end: int
    longest_ms: int
    where: str
    faults: tuple[str, ...]
    healed: tuple[str, ...]
    later: tuple[str, ...]
    ended: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageLines:
    """The outages of a run, in the order of time: the longest are ``shown``, the others
    ``folded``."""

    shown: Sequence[OutageLine]
    folded: Sequence[OutageLine]


def outage_lines(
    cells: Sequence[CellRow], faults: Sequence[FaultSpan], changes: Sequence[LeaderChange]
) -> OutageLines:
    """Return the outages of the cells of one run, which has these faults and changes of leaders."""
    lines = [_line(of, faults, changes) for of in _groups(cells)]
    longest = sorted(lines, key=lambda line: -line.longest_ms)[:SHOWN_MAX]
    return OutageLines(
        shown=[line for line in lines if line in longest],
        folded=[line for line in lines if line not in longest],
    )


_Placed = tuple[CellRow, OutagePeriod]


def _groups(cells: Sequence[CellRow]) -> list[list[_Placed]]:
    """Return the outages that overlap under the same faults, in the order of time."""
    every = [(cell, one) for cell in cells if cell.unavailable for one in cell.unavailable.periods]
    groups: list[list[_Placed]] = []
    last_of: dict[str | None, list[_Placed]] = {}
    for cell, one in sorted(every, key=lambda placed: placed[1].start):
        group = last_of.get(one.fault)
        if group is None or one.start > max(other.end for _, other in group):
            group = last_of[one.fault] = []
            groups.append(group)
        group.append((cell, one))
    return groups


def _line(
    of: Sequence[_Placed], faults: Sequence[FaultSpan], changes: Sequence[LeaderChange]
) -> OutageLine:
    periods = [one for _, one in of]
    start, end = min(one.start for one in periods), max(one.end for one in periods)
    active, healed = faults_at(periods[0], faults)
    reached = {*active, *healed}
    began = (span.label for span in faults if start < span.start < end)
    return OutageLine(
        start=start,
        end=end,
        longest_ms=max(one.length_ms for one in periods),
        where=_where(of),
        faults=active,
        healed=healed,
        later=tuple(label for label in began if label not in reached),
        ended=_ended([_end(one, faults, changes) for one in periods]),
    )


def faults_at(
    one: OutagePeriod, faults: Iterable[FaultSpan]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the faults that were active when an outage began, and those that were healed by then
    and from which the cluster had not recovered."""
    reached = one.fault.split(",") if one.fault else []
    over = {span.label for span in faults if span.end is not None and span.end < one.start}
    return (
        tuple(label for label in reached if label not in over),
        tuple(label for label in reached if label in over),
    )


def _where(of: Sequence[_Placed]) -> str:
    names = dict.fromkeys(f"{one.partition} ({cell.title})" for cell, one in of)
    if len(names) <= NAMED_MAX:
        return ", ".join(names)
    cells = len({cell.cell for cell, _ in of})
    return f"{len(names)} partitions of {cells} {'cell' if cells == 1 else 'cells'}"


def _end(
    one: OutagePeriod, faults: Sequence[FaultSpan], changes: Sequence[LeaderChange]
) -> tuple[str, str]:
    """Return what an outage ended after: in words that suit several outages, and in detail."""
    if not one.acked:
        return _NEVER, _NEVER
    elected = [
        change
        for change in changes
        if f"{change.topic}-{change.partition}" == one.partition
        and change.leader >= 0
        and one.start < change.time <= one.end + OBSERVED_LATE_NS
    ]
    if elected:
        change = elected[-1]
        epoch = "" if change.leader_epoch is None else f", in epoch {change.leader_epoch}"
        return "other leaders", f"broker-{change.leader} led{epoch}"
    healed = [span for span in faults if span.end is not None and one.start < span.end <= one.end]
    if healed:
        words = f"the heal of {max(healed, key=lambda span: span.end or 0).label}"
        return words, words
    return _AGAIN, _AGAIN


def _ended(ends: Sequence[tuple[str, str]]) -> str:
    """Return what several outages ended after, the most frequent first."""
    details = Counter(detail for _, detail in ends)
    if len(details) == 1:
        return next(iter(details))
    kinds = Counter(kind for kind, _ in ends)
    return ", ".join(_counted(kinds))


def _counted(kinds: Counter[str]) -> Iterator[str]:
    for kind, count in kinds.most_common():
        yield kind if len(kinds) == 1 else f"{kind} ({count})"
