"""The costs of each fault for each cell, which are lost and duplicated records and the longest
outage, and below that table the outages of the run, each once.

Records are attributed to faults by the checkers. Records that are attributed to several faults
count for the first of them (:func:`harness.report.opportunities.first_of`), with the names of the
others. The others refer to it, so that each record is counted once in the table.

An outage is attributed to the faults that were active when it began, or, without any, to those from
which the cluster had not recovered. If there are several, it stands at each of them as "shared",
because the list of outages has it with its faults. A figure that was not measured is shown as such
and never as 0.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ackproof.checkers.verdict import WORST_FIRST, OutagePeriod
from ackproof.harness.report.causes import COUNTED
from ackproof.harness.report.cell_names import CellKey
from ackproof.harness.report.comparison import seconds
from ackproof.harness.report.opportunities import first_of
from ackproof.harness.report.rows import CellRow
from ackproof.harness.report.timeline import FaultSpan, LeaderChange, fault_anchor
from ackproof.history.messages import several

LINES_MAX = 12
"""The most faults of a run that are shown at once: those that cost most. Of many faults, those that
cost nothing are folded, too."""

NO_FAULT = "no fault was active"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure in words.

    Attributes:
        text: For example ``867 lost`` or ``down 4.1 s``.
        known: Whether it was measured.
        alarming: Whether it breaks a guarantee.
    """

    text: str
    known: bool = True
    alarming: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultLine:
    """The costs of one fault.

    Attributes:
        label: Its name, as ``kill#1``, or that no fault was active.
        anchor: The id of its row; None if it is no recorded fault.
        span: The fault; None if it is no recorded fault.
        costs: The figures of each cell, in the order of the cells. A cell without any figure lost
            nothing and had no outage.
        lost: The number of lost records that count for it.
        longest_ms: The longest outage that began under it alone.
    """

    label: str
    anchor: str | None
    span: FaultSpan | None
    costs: Sequence[Sequence[Figure]]
    lost: int
    longest_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultCosts:
    """The costs of a run's faults.

    Attributes:
        cells: The cells of the run, the worst verdict first.
        shown: The lines that are shown at once, in the order of the faults.
        folded: The other lines.
    """

    cells: Sequence[CellRow]
    shown: Sequence[FaultLine]
    folded: Sequence[FaultLine]


def fault_costs(
    run: int,
    faults: Sequence[FaultSpan],
    cells: Sequence[CellRow],
    losses: Iterable[Mapping[str, Any]],
) -> FaultCosts:
    """Return the costs of the faults of a run.

    Args:
        faults: The faults of the run.
        cells: The cells of all runs.
        losses: Counts by run, cell and fault (:func:`harness.report.losses.by_fault`).
    """
    mine = [cell for cell in cells if cell.run == run]
    mine.sort(key=lambda cell: WORST_FIRST.index(cell.kind))
    counts = _counts(losses)
    spans = {span.label: span for span in sorted(faults, key=lambda span: span.start)}
    labels = dict.fromkeys((*spans, *_further(mine, counts)))
    lines = [_line(run, label, spans.get(label or ""), mine, counts, faults) for label in labels]
    found = [line for line in lines if line.span is not None or _has_figures(line)]
    kept = _shown(found)
    return FaultCosts(
        cells=mine,
        shown=[line for line in found if line.label in kept],
        folded=[line for line in found if line.label not in kept],
    )


def _has_figures(line: FaultLine) -> bool:
    return any(figure.known for figures in line.costs for figure in figures)


_Counts = Mapping[CellKey, Mapping[str | None, Counter[str]]]


def _counts(losses: Iterable[Mapping[str, Any]]) -> _Counts:
    """Return the number of records by cell, faults and anomaly."""
    found: dict[CellKey, dict[str | None, Counter[str]]] = {}
    for row in losses:
        of_cell = found.setdefault((row["run"], row["cell"]), {})
        of_fault = of_cell.setdefault(row["fault"] or None, Counter())
        of_fault.update({name: row[name] for name in COUNTED})
    return found


def _further(cells: Sequence[CellRow], counts: _Counts) -> Iterator[str | None]:
    """Yield the faults that only figures name, then None for figures without a fault."""
    for cell in cells:
        outages = cell.unavailable.by_fault if cell.unavailable else ()
        named = (*counts.get((cell.run, cell.cell), {}), *(one.fault for one in outages))
        for faults in filter(None, named):
            yield from faults.split(",")
    yield None


def _line(
    run: int,
    label: str | None,
    span: FaultSpan | None,
    cells: Sequence[CellRow],
    counts: _Counts,
    faults: Sequence[FaultSpan],
) -> FaultLine:
    own = [_of_fault(counts.get((cell.run, cell.cell), {}), label) for cell in cells]
    outages = [_outages(cell, label, faults) for cell in cells]
    return FaultLine(
        label=label or NO_FAULT,
        anchor=None if span is None else fault_anchor(run, span.fault_id),
        span=span,
        costs=[
            (*_records(cell, of, label), *_down(cell, found))
            for cell, of, found in zip(cells, own, outages, strict=True)
        ],
        lost=sum(
            count["lost"]
            for cell in cells
            for faults, count in counts.get((cell.run, cell.cell), {}).items()
            if first_of(faults) == label
        ),
        longest_ms=max((ms for found in outages for with_, ms in found if not with_), default=0),
    )


def _of_fault(
    counts: Mapping[str | None, Counter[str]], label: str | None
) -> dict[str | None, Counter[str]]:
    """Return the counts that involve a fault, by all the faults that they involve."""
    return {faults: count for faults, count in counts.items() if _others(faults, label) is not None}


def _others(faults: str | None, label: str | None) -> tuple[str, ...] | None:
    """Return the other faults of a figure, or None if it does not involve the fault."""
    named = faults.split(",") if faults else [None]
    return tuple(one for one in named if one and one != label) if label in named else None


def _records(
    cell: CellRow, counts: Mapping[str | None, Counter[str]], label: str | None
) -> Iterator[Figure]:
    for name, what in COUNTED.items():
        unknown = cell.counts.get(name, 0) is None
        found = [(faults, count[name]) for faults, count in counts.items() if count[name]]
        for faults, number in sorted(found, key=lambda one: _others(one[0], label) or ()):
            first = first_of(faults)
            alarming = name == "lost" and cell.kept and first == label
            suffix = _with(_others(faults, label) or ()) if first == label else f" at {first}"
            yield Figure(text=f"{number:,} {what}{suffix}", alarming=alarming)
        if unknown and not found:
            yield Figure(text=f"{what}: unknown", known=False)


_Outages = Sequence[tuple[tuple[str, ...], int]]
"""Outages, each with the other faults that share it, and its length in milliseconds."""


def _outages(cell: CellRow, label: str | None, faults: Sequence[FaultSpan]) -> _Outages:
    """Return the outages of a cell that are attributed to a fault."""
    if cell.unavailable is None:
        return []
    periods = cell.unavailable.periods
    named: list[tuple[str | None, int]] = []
    for one in periods:
        active, healed = faults_at(one, faults)
        named.append((",".join(active or healed) or None, one.length_ms))
    # Only the longest outages of a cell are listed by their times. The longest one of any faults
    # that is not among them is known without.
    listed = {one.fault for one in periods}
    rest = [one for one in cell.unavailable.by_fault if one.fault not in listed]
    named += [(one.fault, one.longest_ms) for one in rest]
    return [(with_, ms) for fault, ms in named if (with_ := _others(fault, label)) is not None]


def _down(cell: CellRow, outages: _Outages) -> Iterator[Figure]:
    if cell.unavailable is None:
        yield Figure(text="outage: not measured", known=False)
    for suffix, some in (
        ("", [ms for with_, ms in outages if not with_]),
        (", shared", [ms for with_, ms in outages if with_]),
    ):
        longest_ms = max(some, default=0)
        if longest_ms:
            yield Figure(text=f"down {seconds(longest_ms)}{suffix}")


def _with(others: Sequence[str]) -> str:
    return f" with {', '.join(others)}" if others else ""


def _shown(lines: Sequence[FaultLine]) -> set[str]:
    """Return the labels of the lines that are shown at once."""
    if len(lines) <= LINES_MAX:
        return {line.label for line in lines}
    costly = [line for line in lines if _has_figures(line)]
    worst = sorted(costly, key=lambda line: (-line.lost, -line.longest_ms))
    return {line.label for line in worst[:LINES_MAX]}


# --- the list of outages --------------------------------------------------------------------------
#
# Each has its times, its partitions, the active faults, and the event that it ended after. Outages
# that overlap under the same faults are one line, because one event stopped them all. The checkers
# list the longest outages of each cell (``checkers.checks.outages``).

OUTAGES_MAX = 10
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
    lines = [_outage_line(of, faults, changes) for of in _groups(cells)]
    longest = sorted(lines, key=lambda line: -line.longest_ms)[:OUTAGES_MAX]
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


def _outage_line(
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
    return f"{len(names)} partitions of {several(cells, 'cell')}"


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
