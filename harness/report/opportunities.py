"""Opportunities to lose a record: the conclusions that a campaign without a loss permits about the
next one.

Records are not independent trials. A fault loses thousands of them at once, in every partition that
it reaches, or none at all. So a fault of a run is one trial, however many partitions and cells it
reached. It counts only if it gave records a chance to be lost: it changed the leader of a partition
or destroyed data, and records were acknowledged in the time before that.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ackproof.harness.report import chance
from ackproof.harness.report.rows import CellRow
from ackproof.harness.report.timeline import NS_PER_S, FaultSpan, Timeline

NO_FAULT = "no fault"
"""The class of losses without a fault."""

WANTED = 0.01
"""The risk at a fault for which the report names the number of loss-free campaigns that would show
it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opportunity:
    """A fault of a run that could have cost a cell acknowledged records.

    Attributes:
        fault: Its name, as ``kill#1``; None for losses without a fault.
        lost: The number of records that it cost that cell.
    """

    run: int
    cell: str
    fault: str | None
    lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """The frequency with which faults of one class lost a record.

    Attributes:
        fault: The class, as ``kill``; ``all`` for all of them.
        faults: The number of faults with the opportunity.
        lossy: The number of faults that lost a record.
        campaigns: The number of such campaigns without a loss that would show a risk below
            :data:`WANTED`; None if a record was lost.
    """

    fault: str
    faults: int
    lossy: int
    campaigns: int | None

    @property
    def words(self) -> str:
        """Return the bounds of the risk in words, such as ``at most 15 % each``."""
        return chance.bound(self.lossy, self.faults)


def opportunities(
    cells: Iterable[tuple[int, str, str]],
    timelines: Mapping[int, Timeline | str],
    losses: Iterable[Mapping[str, Any]],
) -> list[Opportunity] | None:
    """Return the opportunities of every cell, or None if the history of a run cannot be read.

    Args:
        cells: The run, name and topic of each cell.
        timelines: The timelines by run.
        losses: Counts by run, cell and fault (:func:`harness.report.losses.by_fault`). A fault that
            lost a record had the opportunity in any case.
    """
    counts: dict[tuple[int, str], Counter[str | None]] = {}
    for row in losses:
        of_cell = counts.setdefault((row["run"], row["cell"]), Counter())
        of_cell[first_of(row["fault"])] += row["lost"]
    found = []
    for run, cell, topic in cells:
        timeline = timelines.get(run)
        if not isinstance(timeline, Timeline):
            return None
        # A fault that duplicated records shows no opportunity to lose one.
        of_cell = +counts.get((run, cell), Counter())
        faults = dict.fromkeys((*_faults(timeline, cell, topic), *of_cell))
        found += [
            Opportunity(run=run, cell=cell, fault=fault, lost=of_cell[fault])
            for fault in sorted(faults, key=_by_number)
        ]
    return found


def first_of(faults: str | None) -> str | None:
    """Return the first of several faults, which counts for all of them because their effects are
    one event."""
    return faults.partition(",")[0] if faults else None


def risks(found: Sequence[Opportunity], cells: Sequence[CellRow]) -> list[Risk]:
    """Return the risk at a fault by its class, then that of all classes. Without an opportunity
    there is none. A fault is counted once, whichever of ``cells`` it reached."""
    wanted = {(cell.run, cell.cell) for cell in cells}
    lost: dict[tuple[int, str | None], int] = {}
    for one in found:
        if (one.run, one.cell) in wanted:
            key = one.run, one.fault
            lost[key] = lost.get(key, 0) + one.lost
    classes: dict[str, list[int]] = {}
    for (_, fault), count in lost.items():
        classes.setdefault(fault.partition("#")[0] if fault else NO_FAULT, []).append(count)
    if not classes:
        return []
    ordered = [(name, classes[name]) for name in sorted(classes)]
    everything = [("all", list(lost.values()))] if len(ordered) > 1 else []
    return [_risk(name, counts) for name, counts in (*ordered, *everything)]


def in_words(found: Sequence[Opportunity] | None, cells: Sequence[CellRow]) -> str:
    """Return a sentence on the conclusion from the lost records of ``cells``, if there are none."""
    if found is None:
        return "It is unknown how many faults could have lost a record."
    all_risks = risks(found, cells)
    if not all_risks:
        return (
            "No fault changed a leader or destroyed data while these records were "
            "acknowledged, so this says nothing about faults that do."
        )
    one = all_risks[-1]
    if one.lossy:
        return f"{one.lossy} of {one.faults} faults that could have lost a record lost one."
    return (
        f"0 losses in {_several(one.faults, 'fault')} that changed a leader or destroyed data "
        f"while records were acknowledged, so such a fault loses records with a probability of "
        f"{one.words}. {_several(one.campaigns or 0, 'such campaign')} without a loss would bound "
        f"it by {100 * WANTED:.0f} %."
    )


def _risk(name: str, counts: Sequence[int]) -> Risk:
    lossy = sum(1 for count in counts if count)
    needed = None if lossy else -(-chance.trials(WANTED) // len(counts))
    return Risk(fault=name, faults=len(counts), lossy=lossy, campaigns=needed)


def _several(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _by_number(fault: str | None) -> int:
    return int(fault.rpartition("#")[2]) if fault else 0


def _faults(timeline: Timeline, cell: str, topic: str) -> Iterable[str]:
    """Yield the faults that changed a leader of the topic or destroyed data of it. The cell must
    have had acks in the second before the fault began or later."""
    faults = sorted(timeline.faults, key=lambda fault: fault.start)
    starts = [fault.start for fault in faults]
    acks = sorted(timeline.acks.get(cell, ()))
    for time in (one.time for one in timeline.leader_changes if one.topic == topic):
        # A leader change after the heal belongs to the last fault that began before it.
        place = bisect_right(starts, time) - 1
        if place >= 0 and _acked(acks, faults[place], time):
            yield faults[place].label
    for fault in faults:
        if fault.proven and fault.takes_from(topic) and _acked(acks, fault, fault.start):
            yield fault.label


def _acked(acks: Sequence[int], fault: FaultSpan, until: int) -> bool:
    place = bisect_left(acks, fault.start // NS_PER_S - 1)
    return place < len(acks) and acks[place] <= until // NS_PER_S
