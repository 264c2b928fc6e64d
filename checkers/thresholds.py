"""Thresholds that a campaign sets on the figures of a cell, and their evaluation.

A threshold is met only by a figure that was measured on complete evidence. More evidence can only
increase the numbers of lost, duplicated and reordered records, and the longest outage. If one of
these exceeds an upper limit, the threshold is therefore not met, whatever else is unknown. In every
other case, missing evidence leaves the threshold undecided.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ackproof.history.manifest import PlannedThreshold

OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
}


class Unit(StrEnum):
    """The unit of a measure."""

    RECORDS = "records"
    MILLISECONDS = "ms"
    PERCENT = "%"
    RECORDS_PER_SECOND = "records/s"

    def words(self, value: float) -> str:
        """Return a value with this unit, exactly: ``3``, ``10.04 s``, ``5 %``, ``99.8/s``."""
        if self is Unit.MILLISECONDS and value >= _MS_PER_S:
            return f"{value / _MS_PER_S:,.15g} s"
        return f"{value:,.15g}{_SUFFIX[self]}"


_MS_PER_S = 1000
OUTAGE_MIN_MS = 500
"""The longest time without an ack for which a partition still counts as available."""

_SUFFIX = {
    Unit.RECORDS: "",
    Unit.MILLISECONDS: " ms",
    Unit.PERCENT: " %",
    Unit.RECORDS_PER_SECOND: "/s",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdMeasure:
    """A figure of a cell that a threshold can be set on.

    Attributes:
        meaning: A sentence for the reference that says what it is.
        read: Returns it from a cell's result, or from its document in ``verdict.json``. None means
            unknown.
        grows: Whether more evidence can only make it larger.
        in_log: Whether it is read from the log, so that it is also known for a run that was cut
            short.
        by_acks: Whether it depends on acks, which with acks=0 are only the client's own claim.
        shown: Whether it is measured by the cell's tail readers.
        none_up_to: Values up to this count as 0.
    """

    meaning: str
    unit: Unit
    read: Callable[[Any], float | None]
    grows: bool = False
    in_log: bool = False
    by_acks: bool = False
    shown: bool = False
    none_up_to: float = 0


def _field(name: str, inner: str | None = None) -> Callable[[Any], float | None]:
    def read(cell: Any) -> float | None:
        outer = getattr(cell, name)
        value = outer if inner is None or outer is None else getattr(outer, inner)
        return None if value is None else float(value)

    return read


def _share(name: str, of: str) -> Callable[[Any], float | None]:
    return lambda cell: _percent(getattr(cell, name), getattr(cell, of))


def _unavailable_share(cell: Any) -> float | None:
    away = cell.unavailable
    return None if away is None else _percent(away.total_ms, away.traffic_ms)


def _percent(part: int | None, whole: int | None) -> float | None:
    """Return a share in percent, rounded to six digits, so that the figure that is compared is the
    one that is printed."""
    return None if part is None or not whole else float(f"{100 * part / whole:.6g}")


def _found(name: str, meaning: str) -> ThresholdMeasure:
    return ThresholdMeasure(
        meaning=meaning, unit=Unit.RECORDS, read=_field(name), grows=True, in_log=True
    )


def _counted(name: str, meaning: str) -> ThresholdMeasure:
    return ThresholdMeasure(meaning=meaning, unit=Unit.RECORDS, read=_field(name))


def _share_of(name: str, of: str) -> ThresholdMeasure:
    meaning = f"`{name}` as a share of the {of} records."
    return ThresholdMeasure(meaning=meaning, unit=Unit.PERCENT, read=_share(name, of))


_LATENCIES = ("p50", "p90", "p99", "p999", "longest")


def _latencies(
    prefix: str, name: str, until: str, **about: bool
) -> Iterator[tuple[str, ThresholdMeasure]]:
    meaning = f"Percentile (p999: 99.9 %) or maximum of the time from a send until {until}."
    for key in _LATENCIES:
        read = _field(name, f"{key}_ms")
        yield (
            f"{prefix}.{key}",
            ThresholdMeasure(meaning=meaning, unit=Unit.MILLISECONDS, read=read, **about),
        )


MEASURES: Mapping[str, ThresholdMeasure] = {
    "lost": _found("lost", "Acknowledged records that are absent from the final log."),
    "lost.share": _share_of("lost", "acked"),
    "duplicated": _found("duplicated", "Records that are in the log more than once."),
    "duplicated.share": _share_of("duplicated", "sent"),
    "reordered": _found("reordered", "Records that are behind one that their producer sent later."),
    "failed": _counted("failed", "Records that certainly were not appended."),
    "failed.share": _share_of("failed", "sent"),
    "indeterminate": _counted("indeterminate", "Records of unknown outcome."),
    "indeterminate.share": _share_of("indeterminate", "sent"),
    "throughput": ThresholdMeasure(
        meaning="Acknowledged records per second, from the first ack to the last.",
        unit=Unit.RECORDS_PER_SECOND,
        read=_field("acks_per_second"),
        by_acks=True,
    ),
    "unavailable.longest": ThresholdMeasure(
        meaning="The longest time in which a partition was sent records and acknowledged none. "
        f"Up to {OUTAGE_MIN_MS} ms counts as 0.",
        unit=Unit.MILLISECONDS,
        read=_field("unavailable", "longest_ms"),
        grows=True,
        by_acks=True,
        none_up_to=OUTAGE_MIN_MS,
    ),
    "unavailable.share": ThresholdMeasure(
        meaning="All such times of all partitions, as a share of their time with traffic.",
        unit=Unit.PERCENT,
        read=_unavailable_share,
        by_acks=True,
    ),
    **dict(_latencies("latency", "ack_latency", "its ack", by_acks=True)),
    **dict(
        _latencies(
            "shown.latency", "shown_latency", "a tail reader is shown the record", shown=True
        )
    ),
}
"""The measures by their keys in ``expect`` of a campaign file. Latencies include only the records
that were acknowledged or read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """A judged threshold on a measure of a cell.

    Attributes:
        measure: A name in :data:`MEASURES`.
        operator: One of :data:`OPERATORS`.
        limit: The limit, in ``unit``.
        measured: The measured value in ``unit``, or None if it was not measured.
        met: Whether it is met, or None if that is unknown.
        reason: Why that is unknown, or an empty string.
    """

    measure: str
    operator: str
    limit: float
    unit: Unit
    measured: float | None
    met: bool | None
    reason: str = ""

    @property
    def bound(self) -> str:
        """The limit as text: ``<= 10 s``."""
        return f"{self.operator} {self.unit.words(self.limit)}"

    @property
    def figure(self) -> str:
        """The measured value as text."""
        if self.measured is None:
            return "not measured"
        return self.unit.words(self.measured)

    @property
    def status(self) -> str:
        """The state as text: met, not met or undecided."""
        return "undecided" if self.met is None else "met" if self.met else "not met"

    @property
    def words(self) -> str:
        """The threshold as a line of text: ``threshold unavailable.longest <= 10 s not met: 28.04
        s``."""
        told = f"{self.figure}, {self.reason}" if self.reason else self.figure
        return f"threshold {self.measure} {self.bound} {self.status}: {told}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The completeness of a cell's evidence.

    Attributes:
        ended: Whether its run completed.
        complete: Whether no evidence is missing that its verdict needs.
        acks: The ``acks`` of its producers.
        tail_readers: Whether it has tail readers.
        shown_min: The number of records that these must have read. With fewer, the latencies of the
            slowest records would be missing.
    """

    ended: bool
    complete: bool
    acks: str
    tail_readers: bool
    shown_min: int = 0


def judged(planned: Iterable[PlannedThreshold], cell: Any, evidence: Evidence) -> list[Threshold]:
    """Return the thresholds of a cell with the measured values. Thresholds with unknown names are
    left out.

    Args:
        planned: The thresholds of the manifest.
        cell: The :class:`checkers.verdict.CellResult`.
        evidence: The completeness of its evidence.
    """
    return [_judged(one, cell, evidence) for one in planned if _is_known(one)]


def unknown(planned: Iterable[PlannedThreshold]) -> Iterator[str]:
    """Yield, for each threshold that cannot be judged, the reason."""
    for one in planned:
        if not _is_known(one):
            yield f"expect: {one.measure} {one.operator} is not a threshold that can be measured"


def _is_known(one: PlannedThreshold) -> bool:
    return one.measure in MEASURES and one.operator in OPERATORS


def _judged(planned: PlannedThreshold, cell: Any, evidence: Evidence) -> Threshold:
    measure = MEASURES[planned.measure]
    reason = _why_not_measured(measure, cell, evidence)
    measured = None if reason else measure.read(cell)
    met: bool | None = None
    if measured is None:
        reason = reason or "the recorded history does not contain it"
    else:
        met = OPERATORS[planned.operator](measured, planned.limit)
        exceeds = measure.grows and not met and planned.operator.startswith("<")
        if not (evidence.complete or exceeds):
            met, reason = None, "the evidence of the cell is incomplete"
    return Threshold(
        measure=planned.measure,
        operator=planned.operator,
        limit=planned.limit,
        unit=measure.unit,
        measured=measured,
        met=met,
        reason=reason,
    )


def never_measured(measure: ThresholdMeasure, acks: str, *, tail_readers: bool) -> str:
    """Return why no run can measure this figure for a cell with these producers and readers, or an
    empty string if a run can."""
    if measure.by_acks and acks == "0":
        return "with acks=0 no broker acknowledges a record"
    if measure.shown and not tail_readers:
        return "the cell has no tail reader"
    return ""


def _why_not_measured(measure: ThresholdMeasure, cell: Any, evidence: Evidence) -> str:
    """Return why a measure is unknown, or an empty string if it is known."""
    if not (evidence.ended or measure.in_log):
        return "the run did not finish"
    if reason := never_measured(measure, evidence.acks, tail_readers=evidence.tail_readers):
        return reason
    if measure.shown and cell.shown_latency and cell.shown_latency.records < evidence.shown_min:
        return "not every record was read by each tail reader"
    return ""


def is_consistent(one: Any, cell: Any) -> bool:
    """Return whether a threshold agrees with the figures of its cell. Both arguments are results,
    or both are documents of ``verdict.json``."""
    if one.measure not in MEASURES or one.operator not in OPERATORS:
        return False
    if one.measured is None:
        return one.met is None
    follows = OPERATORS[one.operator](one.measured, one.limit)
    return one.measured == MEASURES[one.measure].read(cell) and one.met in (follows, None)
