"""The steps of a run and their meaning for the evidence, the proofs of its faults, and the load on
the servers that keep the metadata."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ackproof.checkers.context.faults import COMMAND, FOREVER, FaultFacts, possible
from ackproof.checkers.context.gaps import Gap
from ackproof.checkers.context.observed import Span
from ackproof.checkers.verdict import Failover, ZooKeeperWork
from ackproof.history.manifest import UNORDERED, PlannedFailover, PlannedFault, PlannedRun
from ackproof.history.schema import INTERRUPTED, RESTARTED_BY

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """The meaning of a step for the evidence.

    Attributes:
        evidence: Whether the experiment is incomplete if the step failed or did not end.
        ours: Whether it does not touch the system under test, so that its failure is one of the
            infrastructure.
        last: Whether the run is incomplete without the end of this step.
    """

    evidence: bool = True
    ours: bool = False
    last: bool = False


STEPS: Mapping[str, Meaning] = {
    "deploy": Meaning(ours=True),
    "ready": Meaning(ours=True),
    "workload": Meaning(),
    "faults": Meaning(),
    "heal": Meaning(),
    "recover": Meaning(),
    "flush": Meaning(),
    "final-read": Meaning(),
    "failover": Meaning(evidence=False),
    "collect": Meaning(evidence=False, ours=True),
    "teardown": Meaning(evidence=False, ours=True, last=True),
}
"""The meaning of each step by its name in :data:`history.schema.PHASES`. An unknown step counts as
evidence."""

LAST = frozenset(step for step, meaning in STEPS.items() if meaning.last)
"""The steps that have ended when a run is complete."""


def failures(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a sentence for each failure of a step."""
    for row in rows:
        if row["event"] == "failed":
            yield f"the step {row['phase']} failed: {row['detail'] or 'no detail is recorded'}"


def gaps(rows: Sequence[Row], identity: str) -> Iterator[str]:
    """Yield the evidence that every cell lacks because of the steps. ``identity`` is that of the
    run (:func:`history.manifest.identity_of`); older histories do not record it."""
    for row in rows:
        if (row["phase"], row["event"]) == ("deploy", "start") and row["detail"] not in (
            None,
            identity,
        ):
            yield f"the history belongs to {row['detail']}, not to {identity}"
    yield from failures([row for row in rows if _meaning(row).evidence])
    told = {row["phase"] for row in rows if row["event"] == "failed"} | ended(rows)
    missing = [step for step, meaning in STEPS.items() if meaning.evidence and step not in told]
    if missing:
        yield f"the step{'s' if len(missing) > 1 else ''} {', '.join(missing)} did not end"


def infrastructure_failures(rows: Sequence[Row]) -> Iterator[str]:
    """Yield why the infrastructure failed: one of the harness's own steps failed, or the run is not
    complete. A run that the user stopped is incomplete, but nothing failed."""
    yield from failures([r for r in rows if _meaning(r).ours and r["detail"] != INTERRUPTED])
    for step, meaning in STEPS.items():
        if meaning.last and not stopped(rows) and step not in ended(rows):
            yield f"the run did not finish: the step {step} did not end"


def stopped(rows: Sequence[Row]) -> bool:
    """Return whether the user stopped the run."""
    return any(row["event"] == "failed" and row["detail"] == INTERRUPTED for row in rows)


def span(rows: Sequence[Row], step: str) -> Span | None:
    """Return the span of a step, or None if it did not complete."""
    mine = [row for row in rows if row["phase"] == step]
    times = {row["event"]: row["time"] for row in mine}
    if times.keys() != {"start", "end"}:
        return None
    return Span(times["start"], times["end"])


def begun(rows: Sequence[Row], step: str) -> int | None:
    """Return the time at which a step began, or None if it did not."""
    starts = [row["time"] for row in rows if row["phase"] == step and row["event"] == "start"]
    return min(starts, default=None)


def began_after(rows: Sequence[Row], step: str, before: str) -> int | None:
    """Return the time at which a step began if that was later than the begin of another step, or
    None if the times do not show that."""
    start, earlier = begun(rows, step), begun(rows, before)
    return start if start is not None and earlier is not None and start > earlier else None


def ended_after(rows: Sequence[Row], step: str, before: str) -> int | None:
    """Return the time at which such a step completed, or None if the times do not show it."""
    told = span(rows, step)
    return None if told is None or began_after(rows, step, before) is None else told.end


def ended(rows: Sequence[Row]) -> set[str]:
    """Return the steps that ended, whether or not they succeeded."""
    return {row["phase"] for row in rows if row["event"] == "end"}


def _meaning(row: Row) -> Meaning:
    return STEPS.get(row["phase"], Meaning())


# --- fault proofs ---------------------------------------------------------------------------------
#
# The proofs of a run's faults, and what planned faults may have done if rows are missing.


def fault_gaps(planned: PlannedRun, faults: Sequence[FaultFacts]) -> Iterator[Gap]:
    """Yield the planned faults without any row, and what is not proven of the others."""
    told = {(fault.fault_id, fault.name) for fault in faults}
    for plan in planned.faults:
        if (plan.fault_id, plan.fault) not in told:
            yield Gap(
                words=f"{possible(plan).label} on {plan.target}: the history has no record of it"
            )
    cells = [planned_cell.cell for planned_cell in planned.cells]
    for fault in faults:
        # A fault that was not injected or not effective did not happen, so the cells that it was
        # meant to touch were not tested by it. Other cells lose nothing.
        touched = frozenset(c.name for c in cells if any(map(fault.touches, c.topic_partitions)))
        said = f": {fault.complaint}" if fault.complaint else ""
        for words in _unproven(fault):
            yield Gap(words=f"{fault.label} on {fault.target}{words}{said}", cells=touched)


def fault_findings(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what a reader must know of faults, from rows of the table ``faults``."""
    yield from _not_settled(rows)
    yield from _unordered(rows)


def _not_settled(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the faults that were injected although the cluster had not settled in the time that the
    campaign allows."""
    for row in rows:
        if row["event"] == "inject" and row["evidence"] is not None:
            yield f"{row['fault']}#{row['fault_id']}: injected before the cluster had settled"


def _unordered(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the restarts of brokers that the campaign did not order, with what had them restarted
    as far as that is known."""
    mine = [row for row in rows if row["fault"] == UNORDERED]
    by = {row["fault_id"]: _restarter(row) for row in mine if row["event"] == "healed"}
    for row in (one for one in mine if one["event"] == "inject"):
        number, who = row["fault_id"], ", ".join(row["servers"] or (row["target"],))
        said = by.get(number, "unknown, and it did not return")
        yield f"{UNORDERED}#{number}: {who} was restarted, not by this campaign; by: {said}"


def _restarter(row: Mapping[str, Any]) -> str:
    try:
        return ", ".join(map(str, json.loads(row["evidence"])[RESTARTED_BY].values()))
    except (ValueError, TypeError, LookupError, AttributeError):
        return "unreadable"


def _unproven(fault: FaultFacts) -> Iterator[str]:
    if not fault.planned:
        yield ": the manifest plans no such fault"
    elif not fault.trusted:
        undeclared = fault.name == COMMAND
        why = "which its campaign does not declare" if undeclared else "which is not known"
        yield f" destroys {fault.destroys!r}, {why}"
    if fault.injected is None:
        yield " was not injected"
    elif not fault.is_effective:
        yield " is not proven to have taken effect"
    if fault.end == FOREVER:
        yield " is not proven healed"


def unrecorded(
    planned: PlannedRun,
    faults: Sequence[FaultFacts],
    phases: Sequence[Mapping[str, Any]],
    incomplete: frozenset[str],
) -> Iterator[FaultFacts]:
    """Yield what planned faults and restarts by others may have done if rows may be missing.

    A fault is recorded before it is injected. If the table is complete and the run was interrupted
    before all faults were injected, no row is missing. If it is not, the missing rows may be of a
    restart that something else ordered in a cluster that existed before.
    """
    told = {(fault.fault_id, fault.name) for fault in faults}
    interrupted = "phases" not in incomplete and span(phases, "faults") is None
    for plan in planned.faults:
        if "faults" in incomplete or ((plan.fault_id, plan.fault) not in told and not interrupted):
            yield possible(plan, external=planned.external)
    if "faults" in incomplete and planned.external:
        by_others = PlannedFault(fault_id=0, fault=UNORDERED, target="any", start_ms=0, hold_ms=0)
        yield possible(by_others, external=True)


# --- costs ----------------------------------------------------------------------------------------
#
# The costs of a run: the load on ZooKeeper, and failover times.
#
# No verdict depends on these. A figure that is missing or incomplete is None and not 0.


_NS_PER_MS = 1_000_000
_EPOCH_BITS = 32

MOMENTS = ("deployed", "ready", "faults", "recovered")
"""The moments at which ZooKeeper is asked in every run (:data:`history.schema.ZOOKEEPER`)."""


def zookeeper_work(rows: Sequence[Row]) -> ZooKeeperWork:
    """Return the load of a run on ZooKeeper, from its table ``zookeeper``."""
    at = _moments(rows)
    return ZooKeeperWork(
        writes_to_create=_writes(at, ("deployed", None), ("ready", None)),
        writes_under_faults=_writes(at, ("faults", None), ("recovered", None)),
        watches=_watches(at, ("ready", None)),
    )


def failovers(
    planned: Sequence[PlannedFailover], rows: Sequence[Row], zookeeper: Sequence[Row]
) -> tuple[Failover, ...]:
    """Return the planned failovers, from the tables ``failovers`` and ``zookeeper``."""
    at = _moments(zookeeper)
    return tuple(_failover(plan.partitions, rows, at) for plan in planned)


def findings(run: PlannedRun, rows: Sequence[Row], zookeeper: Sequence[Row]) -> Iterator[str]:
    """Yield a sentence for each missing measurement."""
    at = _moments(zookeeper)
    missing = [moment for moment in MOMENTS if (moment, None) not in at]
    if missing and run.zookeeper:
        yield f"ZooKeeper's counters are unknown at: {', '.join(missing)}"
    for failover in failovers(run.failovers, rows, zookeeper):
        if failover.led_ms is None or failover.acked_ms is None:
            yield f"the failover of {failover.partitions} partitions was not measured completely"


Moments = Mapping[tuple[str, int | None], Sequence[Row]]


def _moments(rows: Sequence[Row]) -> Moments:
    found: dict[tuple[str, int | None], list[Row]] = {}
    for row in rows:
        found.setdefault((row["moment"], row["partitions"]), []).append(row)
    return found


def _writes(
    at: Moments, before: tuple[str, int | None], after: tuple[str, int | None]
) -> int | None:
    """Return the number of transactions between two moments. Return None if one of them was not
    recorded, or if the ensemble changed its leader in between, because the count then restarts from
    0."""
    if not at.get(before) or not at.get(after):
        return None
    first, last = (max(int(row["zxid"]) for row in at[moment]) for moment in (before, after))
    return last - first if last >> _EPOCH_BITS == first >> _EPOCH_BITS else None


def _watches(at: Moments, moment: tuple[str, int | None]) -> int | None:
    """Return the number of watches of the ensemble without the harness's own, or None if
    unknown."""
    rows = at.get(moment)
    if not rows:
        return None
    all_set = sum(int(row["watches"]) for row in rows)
    return all_set - max(int(row["harness_watches"]) for row in rows)


def _failover(partitions: int, rows: Sequence[Row], at: Moments) -> Failover:
    own_rows = [row for row in rows if row["partitions"] == partitions]
    whole = bool(own_rows) and all(row["moved"] == len(own_rows) for row in own_rows)
    return Failover(
        partitions=partitions,
        moved=len(own_rows) if whole else None,
        led_ms=_slowest(own_rows, "led") if whole else None,
        acked_ms=_slowest(own_rows, "acked") if whole else None,
        writes=_writes(at, ("grown", partitions), ("failed-over", partitions)),
        watches=_watches(at, ("grown", partitions)),
    )


def _slowest(rows: Sequence[Row], what: str) -> int | None:
    """Return the time in milliseconds from the kill until the last of the partitions, or None if
    one of them never recovered."""
    if any(row[what] is None for row in rows):
        return None
    return max(int(row[what]) - int(row["killed"]) for row in rows) // _NS_PER_MS
