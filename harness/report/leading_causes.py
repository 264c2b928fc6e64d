"""The causes of a verdict, the most important first, each in one sentence.

One entry stands for a cause in all cells, anomalies and guarantees that it concerns: "broker-4 was
elected outside the ISR [5]; 867 promised records lost in 3 cells, attributed to kill#4". The
sources, in this order, are:

1. root causes of records that break a guarantee;
2. broken guarantees without a root cause;
3. other reasons of the verdicts, such as a threshold that is not met or missing evidence.

A root cause is told by its mechanism in a few words, which stand for the causes of several
partitions and cells at once. :attr:`checkers.verdict.Cause.sentence` tells the same with every
epoch, offset and time.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ackproof.checkers.checks.catalogue import CATALOGUE
from ackproof.checkers.root_cause.causes import MORE, attributed_faults
from ackproof.checkers.root_cause.kinds import CauseKind
from ackproof.checkers.verdict import WORST_FIRST, CampaignResult, Cause, Guarantee, Verdict
from ackproof.harness.report.causes import WHAT
from ackproof.harness.report.cell_names import CellKey
from ackproof.harness.report.losses import LOST, Row
from ackproof.harness.report.pictures.sentences import clock
from ackproof.harness.report.remedies import advice_against, remedies
from ackproof.harness.report.rows import CellRow
from ackproof.harness.report.similar_texts import kind_of, more_of_this_kind
from ackproof.history.messages import several

SHOWN_MAX = 5
"""The number of causes that are shown at the top of a report and at the end of a terminal."""

CELLS_NAMED_MAX = 2
"""The most cells of a cause that are named. For more, their number is given."""

NAMED_MAX = 3
"""The most cells with a common reason that are named."""

FAULTS_NAMED_MAX = 3

CONSEQUENCES = ("offset-mismatch", "watermark-regressed")
"""The anomalies that follow whenever acknowledged records are truncated. In a cell that lost
promised records they are part of that cause."""

PERMITTED = "permitted"
"""The label of a cause that has no influence on the verdict."""

FirstRows = Mapping[tuple[int, str, str], Row]
"""The earliest row of ``anomalies.parquet``, by run, cell and anomaly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadingCause:
    """A cause of the verdict, over all its cells.

    Attributes:
        kind: The worst verdict of its cells, which decides the colour.
        words: That verdict in words.
        sentence: The cause, its extent and its faults.
        run: The run; None if it concerns several.
        cells: Its cells.
        records: The number of records or other anomalies that break a guarantee. It is 0 if the
            cause is none of records.
        faults: The faults that are involved.
        guarantees: The guarantees that it broke.
        causes: The root causes of its records.
        remedies: The advice of Kafka's documentation against it: a setting, or that there is none.
            There are several if the settings of its cells differ, and none if the root cause is not
            known.
        anomaly: If there is no root cause: the anomaly that broke the guarantee. Else empty.
        example: If there is no root cause: the meaning of the anomaly, and what was seen in its
            first row. Else empty.
    """

    kind: Verdict
    words: str
    sentence: str
    run: int | None
    cells: tuple[CellKey, ...]
    records: int = 0
    faults: tuple[str, ...] = ()
    guarantees: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()
    remedies: tuple[str, ...] = ()
    anomaly: str = ""
    example: str = ""

    @property
    def times(self) -> tuple[int, int] | None:
        """Return the times of the first and last ack or read of its records, in nanoseconds of the
        Unix epoch, or None if they are unknown."""
        firsts = [one.first_time for one in self.causes if one.first_time is not None]
        lasts = [one.last_time for one in self.causes if one.last_time is not None]
        return (min(firsts), max(lasts)) if firsts and lasts else None

    @property
    def as_document(self) -> dict[str, Any]:
        """Return the cause as in ``leading_causes`` of ``verdict.json``."""
        return {
            "verdict": self.kind.value,
            "sentence": self.sentence,
            "run": self.run,
            "cells": list(dict.fromkeys(name for _, name in self.cells)),
            "records": self.records,
            "faults": list(self.faults),
            "guarantees": list(self.guarantees),
            "kinds": list(dict.fromkeys(cause.kind for cause in self.causes)),
            "remedies": list(self.remedies),
            "example": self.example,
        }


def leading_causes(
    result: CampaignResult, cells: Sequence[CellRow], first_rows: FirstRows
) -> list[LeadingCause]:
    """Return the causes of the verdict. There are none if all cells came out as they should."""
    by_key = {(cell.run, cell.cell): cell for cell in cells}
    causes = [cause for cause in result.causes if _is_decisive(cause, by_key)]
    rooted = [_of_causes(of, result.causes, by_key) for of in _groups(causes)]
    known = {(cause.run, cause.cell, cause.anomaly) for cause in causes}
    return [
        *sorted(rooted, key=lambda one: (not _is_unexpected(one, by_key), -one.records)),
        *_of_guarantees(cells, known, first_rows),
        *_of_reasons(cells),
    ]


def permitted_causes(result: CampaignResult, cells: Sequence[CellRow]) -> list[LeadingCause]:
    """Return the causes of the records that were lost, duplicated or changed without an influence
    on the verdict, because the settings permit it."""
    by_key = {(cell.run, cell.cell): cell for cell in cells}
    decisive = {_key(cause) for cause in result.causes if _is_decisive(cause, by_key)}
    others = [cause for cause in result.causes if _key(cause) not in decisive]
    found = [
        replace(
            _of_causes(of, (), by_key),
            kind=Verdict.NOT_GUARANTEED,
            words=PERMITTED,
            guarantees=(),
        )
        for of in _groups(others)
    ]
    return sorted(found, key=lambda one: -one.records)


# --- root causes ----------------------------------------------------------------------------------


def _is_decisive(cause: Cause, cells: Mapping[CellKey, CellRow]) -> bool:
    """Return whether a cause breaks a guarantee, or makes a cell come out unlike expected."""
    cell = cells.get((cause.run, cause.cell))
    surprising = cell is not None and cell.verdict_counts_as is Verdict.FAIL and not cell.is_broken
    return cause.promised > 0 or surprising


def _key(cause: Cause) -> tuple[object, ...]:
    return cause.run, cause.kind, cause.faults


def _groups(causes: Iterable[Cause]) -> list[list[Cause]]:
    """Return the causes by run, kind and faults."""
    groups: dict[tuple[object, ...], list[Cause]] = {}
    for cause in causes:
        groups.setdefault(_key(cause), []).append(cause)
    return list(groups.values())


def _of_causes(
    causes: Sequence[Cause], every: Iterable[Cause], cells: Mapping[CellKey, CellRow]
) -> LeadingCause:
    """Return the entry of causes of one group. ``every`` has all causes, for further records of the
    same group."""
    first = causes[0]
    alike = [cause for cause in every if _key(cause) == _key(first)] or causes
    keys = tuple(dict.fromkeys((cause.run, cause.cell) for cause in causes))
    anomalies = {cause.anomaly for cause in causes}
    broken = [
        one
        for key in keys
        for one in (cells[key].guarantees if key in cells else ())
        if one.is_broken and (one.anomaly in anomalies or _follows(one, anomalies))
    ]
    where = cells_in_words([cells[key].title if key in cells else key[1] for key in keys])
    records = sum(cause.promised or cause.records for cause in causes)
    extent = f"{_counted(causes)} {where}"
    if other := sum(cause.records for cause in alike) - records:
        extent += f", and {other:,} that no guarantee covers"
    is_known = attributed_faults(first) is not None
    during = "" if first.kind == MORE else f", {faults_in_words(first.faults, is_known=is_known)}"
    kind, words = _worst(cells[key] for key in keys if key in cells)
    return LeadingCause(
        kind=kind,
        words=words,
        sentence=f"{mechanism(causes)}; {extent}{during}",
        run=first.run,
        cells=keys,
        records=records,
        faults=first.faults,
        guarantees=tuple(dict.fromkeys(one.name for one in broken)),
        causes=tuple(alike),
        remedies=_remedies(causes, [cells[key] for key in keys if key in cells]),
    )


def _remedies(causes: Sequence[Cause], cells: Iterable[CellRow]) -> tuple[str, ...]:
    """Return the advice against causes of one kind. Where the cause is not known, a setting of acks
    prevents losses, and no other anomaly."""
    first = causes[0]
    unknown = first.kind in (CauseKind.UNKNOWN, CauseKind.UNEXPLAINED)
    if unknown and all(cause.anomaly != LOST for cause in causes):
        return ()
    return remedies(first.kind, (cell.settings for cell in cells), first.faults)


def _follows(guarantee: Guarantee, anomalies: Collection[str]) -> bool:
    """Return whether a guarantee is broken because records with these anomalies were lost."""
    return LOST in anomalies and guarantee.anomaly in CONSEQUENCES


def _counted(causes: Sequence[Cause]) -> str:
    """Return the records of causes by anomaly: ``867 promised records lost``."""
    counts: dict[str, int] = {}
    for cause in causes:
        count = cause.promised or cause.records
        counts[cause.anomaly] = counts.get(cause.anomaly, 0) + count
    parts = [f"{count:,} {WHAT.get(anomaly, anomaly)}" for anomaly, count in counts.items()]
    number, _, what = parts[0].partition(" ")
    promised = "promised " if all(cause.promised for cause in causes) else ""
    noun = "record" if number == "1" else "records"
    return " and ".join((f"{number} {promised}{noun} {what}", *parts[1:]))


def _is_unexpected(found: LeadingCause, cells: Mapping[CellKey, CellRow]) -> bool:
    return any(cells[key].is_broken for key in found.cells if key in cells)


def _worst(cells: Iterable[CellRow]) -> tuple[Verdict, str]:
    """Return the verdict of the first cell that is broken unexpectedly, or else of any."""
    found = sorted(cells, key=lambda cell: not cell.is_broken)
    return (found[0].kind, found[0].words) if found else (Verdict.FAIL, Verdict.FAIL.value)


def cells_in_words(titles: Sequence[str]) -> str:
    """Return where something happened: ``in 2 cells (acks=0; acks=1)``."""
    if len(titles) == 1:
        return f"in {titles[0]}"
    named = f" ({'; '.join(titles)})" if len(titles) <= CELLS_NAMED_MAX else ""
    return f"in {len(titles)} cells{named}"


def faults_in_words(faults: Sequence[str], *, is_known: bool = True) -> str:
    """Return the faults that something is attributed to, which it may have outlasted:
    ``attributed to kill#4 and pause#5``. If the cause is not known, nothing is attributed to the
    faults that were active: ``while kill#4 and pause#5 were active``."""
    if not faults:
        return "while no fault was active"
    shown, left = list(faults[:FAULTS_NAMED_MAX]), len(faults) - FAULTS_NAMED_MAX
    if left > 0:
        shown.append(f"{left} more faults" if left > 1 else "1 more fault")
    *others, last = shown
    named = f"{', '.join(others)} and {last}" if others else last
    if is_known:
        return f"attributed to {named}"
    return f"while {named} {'were' if others else 'was'} active"


# --- broken guarantees without a root cause -------------------------------------------------------


def _of_guarantees(
    cells: Sequence[CellRow], known: set[tuple[int, str, str]], first_rows: FirstRows
) -> Iterator[LeadingCause]:
    explained = {(run, cell) for run, cell, anomaly in known if anomaly == LOST}
    groups: dict[tuple[int, str], list[tuple[CellRow, Guarantee]]] = {}
    for cell in cells:
        for one in cell.guarantees if cell.is_broken else ():
            anomaly = one.anomaly or ""
            key = cell.run, cell.cell
            follows = anomaly in CONSEQUENCES and key in explained
            if one.is_broken and not follows and (*key, anomaly) not in known:
                groups.setdefault((cell.run, one.name), []).append((cell, one))
    for of in groups.values():
        yield _of_guarantee(of, first_rows)


def _of_guarantee(
    broken: Sequence[tuple[CellRow, Guarantee]], first_rows: FirstRows
) -> LeadingCause:
    one = broken[0][1]
    rows = [first_rows.get((cell.run, cell.cell, one.anomaly or "")) for cell, _ in broken]
    first = min((row for row in rows if row), key=lambda row: row["time"] or 0, default=None)
    faults = tuple(first["fault"].split(",")) if first and first["fault"] else ()
    count = sum(guarantee.broken for _, guarantee in broken)
    if one.anomaly in WHAT:
        what = f"{several(count, 'promised record')} {WHAT[one.anomaly]}"
    elif one.anomaly:
        what = f"{several(count, 'case')} of {one.anomaly}"
    else:
        what = several(count, "violation")
    what += _others([guarantee for _, guarantee in broken])
    where = cells_in_words([cell.title for cell, _ in broken])
    # The time of a record that was never sent to its partition is unknown, and so are the faults.
    is_dated = first is not None and first["time"] is not None
    when = f", the first {faults_in_words(faults)}" if faults or is_dated else ""
    kind, words = _worst(cell for cell, _ in broken)
    return LeadingCause(
        kind=kind,
        words=words,
        sentence=f"{one.name} was broken: {what} {where}{when}",
        run=broken[0][0].run,
        cells=tuple((cell.run, cell.cell) for cell, _ in broken),
        records=count,
        faults=faults,
        guarantees=(one.name,),
        remedies=advice_against(
            one.anomaly or "", sorted({name for cell, _ in broken for name in cell.libraries})
        ),
        anomaly=one.anomaly or "",
        example=_example(one.anomaly or "", first) if first else "",
    )


def _others(broken: Sequence[Guarantee]) -> str:
    """Return the anomalies that break nothing, or of which that is unknown, beside those that do:
    `` of 235 found (34 undecided)``."""
    found, undecided = (
        sum(getattr(one, name) for one in broken) for name in ("found", "undecided")
    )
    excused = found - undecided - sum(one.broken for one in broken)
    parts = [
        f"{number:,} {words}"
        for number, words in ((undecided, "undecided"), (max(excused, 0), "not covered"))
        if number
    ]
    return f" of {found:,} found ({', '.join(parts)})" if parts else ""


def _example(anomaly: str, row: Row) -> str:
    """Return what an anomaly means, and what was seen in a row of it."""
    meaning = f"{anomaly}: {CATALOGUE[anomaly].summary}. " if anomaly in CATALOGUE else ""
    when = "" if row.get("time") is None else f", at {clock(row['time'])} (UTC)"
    known = row.get("topic") is not None and row.get("partition") is not None
    where = f" in {row['topic']}-{row['partition']}" if known else ""
    at = "" if row.get("offset") is None else f" at offset {row['offset']:,}"
    return f"{meaning}The first{when}{where}{at}: {row.get('detail') or 'no details'}."


# --- other reasons --------------------------------------------------------------------------------


_STEP_FAILED = re.compile(r"the step \S+ failed: ")


def _of_reasons(cells: Sequence[CellRow]) -> Iterator[LeadingCause]:
    """Yield the reasons of failed and undecided cells that name no broken guarantee, by kind. If a
    step of the run failed, the other reasons follow from that, and only that is yielded."""
    groups: dict[tuple[str, str], list[tuple[CellRow, str]]] = {}
    for cell in sorted(cells, key=lambda cell: WORST_FIRST.index(cell.kind)):
        if cell.counts_as in (Verdict.FAIL, Verdict.INCONCLUSIVE):
            failed = [reason for reason in cell.reasons if _STEP_FAILED.match(reason)]
            for reason in failed or _of_no_guarantee(cell):
                groups.setdefault((cell.words, kind_of(reason)), []).append((cell, reason))
    for (words, _), of in groups.items():
        concerned = {(cell.run, cell.cell): cell for cell, _ in of}
        texts = dict.fromkeys(reason for _, reason in of)
        named = _named(list(concerned.values()), len(cells))
        yield LeadingCause(
            kind=of[0][0].kind,
            words=words,
            sentence=f"{named}: {of[0][1]}{more_of_this_kind(len(texts) - 1)}",
            run=None,
            cells=tuple(concerned),
        )


def _of_no_guarantee(cell: CellRow) -> Sequence[str]:
    """Return the reasons of a cell that name no broken guarantee. Gaps of the evidence are no
    reason for the failure of a cell that broke one."""
    if not cell.is_broken:
        return cell.reasons
    broken = tuple(f"{one.name}: " for one in cell.guarantees if one.is_broken)
    if not any(reason.startswith(broken) for reason in cell.reasons):
        return cell.reasons
    unmet = [one.words for one in cell.thresholds if not one.met]
    return [reason for reason in cell.reasons if reason in unmet]


def _named(cells: Sequence[CellRow], total: int) -> str:
    """Return the names of cells that have a reason in common, out of ``total`` cells."""
    if len(cells) == total > 1:
        return "every cell"
    names = [cell.title for cell in cells]
    if len(names) > NAMED_MAX:
        names[NAMED_MAX - 1 :] = [f"{len(names) - NAMED_MAX + 1} more cells"]
    return "; ".join(names)


# --- mechanisms -----------------------------------------------------------------------------------

BROKERS_NAMED_MAX = 3


def mechanism(causes: Sequence[Cause]) -> str:
    """Return what happened to the records of causes of the same kind. There is at least one."""
    kind = causes[0].kind
    return _PHRASES[kind](causes) if kind in _PHRASES else kind


def brokers(numbers: Iterable[int]) -> str:
    """Return brokers in words: ``broker-1 and broker-2``, or their number if they are many."""
    named = [f"broker-{number}" for number in dict.fromkeys(numbers)]
    if len(named) > BROKERS_NAMED_MAX:
        return f"{len(named)} brokers"
    *others, last = named or ["an unknown broker"]
    return f"{', '.join(others)} and {last}" if others else last


def _leaders(causes: Sequence[Cause]) -> list[int]:
    return list(dict.fromkeys(leader for cause in causes for leader in cause.leaders))


def _next(causes: Sequence[Cause]) -> list[int]:
    found = dict.fromkeys(cause.next_leader for cause in causes)
    return [leader for leader in found if leader is not None]


def _were(numbers: Sequence[int]) -> str:
    return "were" if len(numbers) > 1 else "was"


def _deposed(causes: Sequence[Cause]) -> str:
    found = _next(causes)
    after = f"after {brokers(found) if len(found) == 1 else 'another leader'} had been elected"
    return f"{brokers(_leaders(causes))} still acknowledged records {after}"


def _unclean(causes: Sequence[Cause]) -> str:
    found = _next(causes)
    isrs = {cause.isr_before for cause in causes}
    isr = f" {list(*isrs)}" if len(isrs) == 1 and isrs != {()} else ""
    return f"{brokers(found)} {_were(found)} elected outside the ISR{isr}"


def _disk(causes: Sequence[Cause]) -> str:
    return f"{brokers(_next(causes) or _leaders(causes))} lost data from the disk"


def _truncated(causes: Sequence[Cause]) -> str:
    found = _next(causes)
    return f"{brokers(found)} truncated acknowledged records and {_were(found)} then elected"


def _expanded(causes: Sequence[Cause]) -> str:
    found = _next(causes)
    return f"{brokers(found)} joined the ISR without all records and {_were(found)} then elected"


def _not_replicated(causes: Sequence[Cause]) -> str:
    found = _next(causes)
    only = f"that only {brokers(_leaders(causes))} had"
    return f"{brokers(found)} {_were(found)} elected without records {only}"


def _unexplained(causes: Sequence[Cause]) -> str:
    found = _next(causes)
    unexplained = "and no recorded event explains it"
    if not found:
        return "No recorded event explains it"
    return f"{brokers(found)} led without records of {brokers(_leaders(causes))}, {unexplained}"


def _two_leaders(causes: Sequence[Cause]) -> str:
    return f"{brokers(_leaders(causes))} led in the same leader epoch"


_PHRASES: Mapping[str, Callable[[Sequence[Cause]], str]] = {
    CauseKind.DEPOSED_LEADER: _deposed,
    CauseKind.UNCLEAN_ELECTION: _unclean,
    CauseKind.LOST_FROM_DISK: _disk,
    CauseKind.TRUNCATED_BEFORE_LEADING: _truncated,
    CauseKind.ISR_EXPANDED_TOO_EARLY: _expanded,
    CauseKind.NOT_REPLICATED: _not_replicated,
    CauseKind.UNANSWERED: lambda _: "No broker answered for the records (acks=0)",
    CauseKind.DEDUPLICATED: lambda causes: (
        f"{brokers(_leaders(causes))} took new records for retries of earlier ones"
    ),
    CauseKind.BELOW_LOG_START: lambda _: "The beginning of the log was deleted",
    CauseKind.DELETED_TOO_EARLY: lambda _: "Retention deleted the records before their time",
    CauseKind.TOMBSTONE_TOO_EARLY: lambda _: "Cleaners removed tombstones before their time",
    CauseKind.RETRIED: lambda _: "A producer without idempotence sent records again",
    CauseKind.RETRIED_AT_NEXT_LEADER: lambda _: (
        "A producer without idempotence sent records again to the next leader"
    ),
    CauseKind.NEW_SESSION: lambda _: "An idempotent producer sent records again in another session",
    CauseKind.RENUMBERED: lambda _: (
        "An idempotent producer sent records again with other sequence numbers"
    ),
    CauseKind.FORGOTTEN: lambda causes: (
        f"{brokers(_leaders(causes))} did not recognise records that were sent again"
    ),
    CauseKind.NOT_TRUNCATED: lambda _: "A replica kept records of an earlier leader epoch",
    CauseKind.REFILLED: lambda causes: (
        f"{brokers(_leaders(causes))} lost data and filled the same offsets again"
    ),
    CauseKind.TWO_LEADERS: _two_leaders,
    CauseKind.DAMAGED: lambda _: "A fault changed data on the disk of a replica",
    CauseKind.NOT_FETCHED: lambda _: "A replica truncated its log and did not fetch it again",
    CauseKind.UNEXPLAINED: _unexplained,
    CauseKind.UNKNOWN: lambda _: "The recorded evidence does not show the cause",
    MORE: lambda _: "Further causes, which are listed in root-causes.parquet",
}
