"""Exposure: the events at which a cluster could have lost what it had acknowledged, the faults that
caused them, and the conclusions that a campaign without a loss permits about the next one.

Records are not independent trials. A fault loses thousands of them at once, in every partition that
it reaches, or none at all. So a fault of a run is one trial, however many partitions and cells it
reached. It counts only if an event of its kind came while the cell had acknowledgements: from the
second before the fault began until the event, or from 30 seconds before for what is lost with a
disk or truncated (:data:`_WINDOWS_S`).

Events after the heal belong to the last fault that began before them. Events before the first fault
belong to none and are not counted. A loss counts for the first of the faults that it is attributed
to (``losses`` of ``verdict.json``), as everywhere in the report.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ackproof.checkers.checks.catalogue import (
    COMMIT_LOST,
    COMMIT_REGRESSED,
    LOST_COMMIT,
    TORN,
    ZOMBIE,
)
from ackproof.harness.report import chance
from ackproof.harness.report.cell_names import CellKey
from ackproof.harness.report.document import VerdictDocument
from ackproof.harness.report.timeline import NS_PER_S, FaultSpan, Timeline
from ackproof.history.messages import several

NO_FAULT = "no fault"
"""The class of losses without a fault."""

ANY = "any fault"
"""The class of all faults that could have lost a record."""

WANTED = 0.01
"""The risk at a fault for which the report names the number of loss-free nights that would show
it."""

# --- exposure -------------------------------------------------------------------------------------


class ExposureKind(StrEnum):
    """A kind of event at which acknowledged data can be lost."""

    LEADER_CHANGES = "leader changes"
    LOST_DISKS = "lost disks"
    TRUNCATIONS = "truncations"
    COORDINATOR_CHANGES = "coordinator changes"
    FENCED_PRODUCERS = "fenced producers"
    NONE_SEEN = "no event seen"
    """Records were lost to the fault, but none of the events above was observed."""


MEANINGS: Mapping[ExposureKind, str] = {
    ExposureKind.LEADER_CHANGES: "A partition of the cell got another leader, or none.",
    ExposureKind.LOST_DISKS: "A fault destroyed data of the cell's topic, proven.",
    ExposureKind.TRUNCATIONS: (
        "A follower logged that it truncated its log to that of a new leader. Apache Kafka also "
        "logs truncations that remove nothing."
    ),
    ExposureKind.COORDINATOR_CHANGES: (
        "A partition of __consumer_offsets or __transaction_state got another leader while the "
        "cell's groups or transactions committed."
    ),
    ExposureKind.FENCED_PRODUCERS: (
        "A new instance of a transactional producer fenced the one before."
    ),
    ExposureKind.NONE_SEEN: "Records were lost to the fault, but no event was observed.",
}
"""The events that are counted, in one sentence each."""

_LOST = frozenset({"lost"})
_BROKEN_BY: Mapping[ExposureKind, frozenset[str]] = {
    **dict.fromkeys(ExposureKind, _LOST),
    ExposureKind.COORDINATOR_CHANGES: frozenset({COMMIT_LOST, COMMIT_REGRESSED, LOST_COMMIT, TORN}),
    ExposureKind.FENCED_PRODUCERS: frozenset({ZOMBIE, LOST_COMMIT, TORN}),
}
"""The anomalies that are a loss at each kind of event: of records, or of commits."""

_OF_RECORDS = (ExposureKind.LEADER_CHANGES, ExposureKind.LOST_DISKS, ExposureKind.NONE_SEEN)
"""The kinds that make a fault an opportunity to lose records. A truncation is a consequence of a
leader change or of a destroyed disk, and no further opportunity."""

_WINDOWS_S: Mapping[ExposureKind, int] = {
    **dict.fromkeys(ExposureKind, 1),
    ExposureKind.LOST_DISKS: 30,
    ExposureKind.TRUNCATIONS: 30,
}
"""The time before a fault in which acknowledged data is at risk, in seconds. Brokers do not sync
what they acknowledge, and the kernel writes it after 30 s (``vm.dirty_expire_centisecs``). The
leader that loses it may have stopped acknowledging before, because its ISR had shrunk (KIP-966)."""

_SHARED = (ExposureKind.COORDINATOR_CHANGES,)
"""Kinds whose events are the same for all cells of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """The events of one kind that a fault of a run caused for a cell with acknowledgements.

    Attributes:
        fault: The name of the fault, as ``kill#1``; None for losses without a fault, and where the
            events are unknown.
        events: The number of events; None if they are unknown for the whole run, as truncations
            are without the brokers' logs or without leader epochs.
        lost: The number of the cell's anomalies of this kind that are attributed to the fault.
    """

    run: int
    cell: str
    kind: ExposureKind
    fault: str | None
    events: int | None
    lost: int = 0


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


Anomalies = Mapping[tuple[int, str, str | None, str], int]
"""The number of rows of ``anomalies.parquet`` by run, cell, faults and anomaly."""


def exposures(
    cells: Iterable[tuple[int, str, str]],
    timelines: Mapping[int, Timeline | str],
    anomalies: Anomalies,
) -> list[Exposure] | None:
    """Return the exposure of every cell, or None if the history of a run cannot be read.

    Args:
        cells: The run, name and topic of each cell.
        timelines: The timelines by run.
        anomalies: The anomalies by fault (:func:`harness.report.losses.by_anomaly`).
    """
    lost: dict[CellKey, Counter[tuple[str | None, str]]] = {}
    for (run, cell, faults, anomaly), count in anomalies.items():
        lost.setdefault((run, cell), Counter())[first_of(faults), anomaly] += count
    found: list[Exposure] = []
    for run, cell, topic in cells:
        timeline = timelines.get(run)
        if not isinstance(timeline, Timeline):
            return None
        found += _of_cell(run, cell, topic, timeline, lost.get((run, cell), Counter()))
    return found


def _of_cell(
    run: int, cell: str, topic: str, timeline: Timeline, lost: Counter[tuple[str | None, str]]
) -> Iterator[Exposure]:
    events: Counter[tuple[ExposureKind, str | None]] = Counter(_events(timeline, cell, topic))
    opportune = {fault for kind, fault in events if kind in _OF_RECORDS}
    # A fault that duplicated records shows no opportunity to lose one.
    others = {fault for (fault, name), count in lost.items() if name in _LOST and count} - opportune
    kinds: list[tuple[ExposureKind, str | None]] = [*events]
    kinds += [(ExposureKind.NONE_SEEN, fault) for fault in others]
    order = list(ExposureKind)
    for kind, fault in sorted(kinds, key=lambda one: (order.index(one[0]), _number(one[1]))):
        yield Exposure(
            run=run,
            cell=cell,
            kind=kind,
            fault=fault,
            events=events[kind, fault],
            lost=sum(lost[fault, name] for name in _BROKEN_BY[kind]),
        )
    if timeline.truncations is None:
        kind = ExposureKind.TRUNCATIONS
        yield Exposure(run=run, cell=cell, kind=kind, fault=None, events=None)


def first_of(faults: str | None) -> str | None:
    """Return the first of several faults, which counts for all of them because their effects are
    one event."""
    return faults.partition(",")[0] if faults else None


def opportunities(found: Iterable[Exposure]) -> list[Opportunity]:
    """Return the faults that could have cost a cell acknowledged records, once for each cell, in
    the order of their numbers."""
    lost = {(one.run, one.cell, one.fault): one.lost for one in found if one.kind in _OF_RECORDS}
    cells = list(dict.fromkeys((run, cell) for run, cell, _ in lost))
    ordered = sorted(lost, key=lambda one: (cells.index(one[:2]), _number(one[2])))
    return [
        Opportunity(run=run, cell=cell, fault=fault, lost=lost[run, cell, fault])
        for run, cell, fault in ordered
    ]


def _number(fault: str | None) -> int:
    return int(fault.rpartition("#")[2]) if fault else 0


def _events(timeline: Timeline, cell: str, topic: str) -> Iterator[tuple[ExposureKind, str]]:
    """Yield each event that concerns a cell with acknowledgements, with its fault."""
    faults = sorted(timeline.faults, key=lambda fault: fault.start)
    starts = [fault.start for fault in faults]
    acks = sorted(timeline.acks.get(cell, ()))
    commits = sorted({*timeline.commits.get(cell, ()), *timeline.commits.get(topic, ())})
    kinds = ExposureKind
    timed: list[tuple[ExposureKind, Iterable[int], Sequence[int]]] = [
        (kinds.LEADER_CHANGES, (c.time for c in timeline.leader_changes if c.topic == topic), acks),
        (kinds.TRUNCATIONS, (timeline.truncations or {}).get(topic, ()), acks),
        (kinds.COORDINATOR_CHANGES, timeline.coordinator_changes, commits),
        (kinds.FENCED_PRODUCERS, timeline.fencings.get(cell, ()), acks),
    ]
    for kind, times, acked in timed:
        for time in times:
            # An event after the heal belongs to the last fault that began before it.
            place = bisect_right(starts, time) - 1
            if place >= 0 and _acked(acked, faults[place], time, _WINDOWS_S[kind]):
                yield kind, faults[place].label
    for fault in faults:
        window_s = _WINDOWS_S[kinds.LOST_DISKS]
        took = fault.proven and fault.takes_from(topic)
        if took and _acked(acks, fault, fault.start, window_s):
            yield kinds.LOST_DISKS, fault.label


def _acked(acks: Sequence[int], fault: FaultSpan, until: int, before_s: int) -> bool:
    """Return whether an ack came from ``before_s`` seconds before the fault until then."""
    place = bisect_left(acks, fault.start // NS_PER_S - before_s)
    return place < len(acks) and acks[place] <= until // NS_PER_S


# --- risk -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """The frequency with which faults of one class lost something.

    Attributes:
        what: The kind of event, or the class of faults, as ``kill``.
        events: The number of events; 0 for a class of several kinds.
        faults: The number of faults that had such an event.
        lossy: The number of these faults that lost something.
        nights: The number of results that it rests on.
    """

    what: str
    events: int
    faults: int
    lossy: int
    nights: int

    @property
    def words(self) -> str:
        """Return the bound of the risk in words, such as ``at most 15 % (95 % confidence)``."""
        return chance.bound(self.lossy, self.faults)

    @property
    def more_nights(self) -> int | None:
        """Return the number of further such nights without a loss that would show a risk below
        :data:`WANTED`; None if something was lost."""
        if self.lossy:
            return None
        lacking = max(0, chance.trials(WANTED) - self.faults)
        return -(-lacking * self.nights // self.faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureSummary:
    """The risk over some results.

    Attributes:
        total: The risk at any fault that could have lost a record; None without such a fault.
        kinds: The risk at each kind of event, then at each class of faults by kind.
        faults: The risk of each kind of event at each class of faults.
        unknown: The kinds of which a run does not say how many there were.
    """

    total: Risk | None
    kinds: Sequence[Risk]
    faults: Mapping[str, Sequence[Risk]]
    unknown: Sequence[str]

    @property
    def lines(self) -> Sequence[Risk]:
        """Return the risk at any fault and at each kind of event."""
        return [*([self.total] if self.total else []), *self.kinds]

    @property
    def absent(self) -> Sequence[str]:
        """Return the kinds of events that were looked for in all runs, and not observed."""
        seen = {*(risk.what for risk in self.kinds), *self.unknown, ExposureKind.NONE_SEEN.value}
        return [kind.value for kind in ExposureKind if kind.value not in seen]


def summary(nights: Sequence[Sequence[Exposure]], cells: Sequence[set[CellKey]]) -> ExposureSummary:
    """Return the risk over some results.

    Args:
        nights: The exposure of each result.
        cells: The cells that count, of each result. A fault is counted once, whichever of them it
            reached.
    """
    counted = [
        (night, one)
        for night, (found, wanted) in enumerate(zip(nights, cells, strict=True))
        for one in found
        if (one.run, one.cell) in wanted
    ]
    known = [(night, one) for night, one in counted if one.events is not None]
    seen = [kind for kind in ExposureKind if any(one.kind is kind for _, one in known)]
    named = [kind for kind in seen if kind is not ExposureKind.NONE_SEEN]
    of_kind = {kind: [(n, one) for n, one in known if one.kind is kind] for kind in named}
    of_records = [(n, one) for n, one in known if one.kind in _OF_RECORDS]
    many = len(nights)
    return ExposureSummary(
        total=replace(_risk(ANY, of_records, many), events=0) if of_records else None,
        kinds=[_risk(kind.value, some, many) for kind, some in of_kind.items()],
        faults={kind.value: _by_class(some, many) for kind, some in of_kind.items()},
        unknown=sorted({one.kind.value for _, one in counted if one.events is None}),
    )


_Counted = Sequence[tuple[int, Exposure]]
"""Exposure with the place of its result."""


def _by_class(some: _Counted, nights: int) -> list[Risk]:
    classes: dict[str, list[tuple[int, Exposure]]] = {}
    for night, one in some:
        name = one.fault.partition("#")[0] if one.fault else NO_FAULT
        classes.setdefault(name, []).append((night, one))
    return [_risk(name, classes[name], nights) for name in sorted(classes)]


def _risk(what: str, some: _Counted, nights: int) -> Risk:
    events: dict[tuple[int, int, str | None], int] = {}
    lossy = set()
    for night, one in some:
        key = night, one.run, one.fault
        combine: Callable[[int, int], int] = max if one.kind in _SHARED else int.__add__
        events[key] = combine(events.get(key, 0), one.events or 0)
        if one.lost:
            lossy.add(key)
    return Risk(
        what=what,
        events=sum(events.values()),
        faults=len(events),
        lossy=len(lossy),
        nights=nights,
    )


def of_documents(documents: Sequence[VerdictDocument]) -> ExposureSummary:
    """Return the risk over the results that say what their exposure was, in the cells that
    guarantee that no acknowledged record is lost."""
    known = [(one, one.exposure) for one in documents if one.exposure is not None]
    kinds = {kind.value: kind for kind in ExposureKind}
    return summary(
        [
            [
                Exposure(**{**one.model_dump(), "kind": kinds[one.kind]})
                for one in found
                if one.kind in kinds
            ]
            for _, found in known
        ],
        [
            {(cell.run, cell.cell) for cell in document.cells if cell.promises_no_loss}
            for document, _ in known
        ],
    )


def in_words(found: Sequence[Exposure] | None, cells: set[CellKey]) -> str:
    """Return a sentence on the conclusion from the lost records of ``cells``, if there are none."""
    if found is None:
        return "It is unknown how many faults could have lost a record."
    one = summary([found], [cells]).total
    if one is None:
        return (
            "No fault changed a leader or destroyed data while these records were "
            "acknowledged, so this says nothing about faults that do."
        )
    if one.lossy:
        return f"{one.lossy} of {one.faults} faults that could have lost a record lost one."
    return (
        f"0 losses in {several(one.faults, 'fault')} that changed a leader or destroyed data "
        f"while records were acknowledged, so such a fault loses records with a probability of "
        f"{one.words}. {several(one.more_nights or 0, 'more such campaign')} without a loss would "
        f"bound it by {100 * WANTED:.0f} %."
    )
