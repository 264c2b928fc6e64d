"""The steps of a run: what each means for evidence, what the rows of its faults prove, and what the
servers that keep the metadata were asked."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ackproof.checkers.context.faults import COMMAND, FOREVER, FaultFacts, possible
from ackproof.checkers.context.gaps import Gap
from ackproof.checkers.context.observed import Span
from ackproof.checkers.verdict import Failover, ZooKeeperWork
from ackproof.history.manifest import PlannedFailover, PlannedRun
from ackproof.history.schema import INTERRUPTED

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """Of a step.

    Attributes:
        evidence: Without its end, and with a failure of it, the experiment is incomplete.
        ours: It does nothing to the system under test: its failure is the infrastructure's.
        last: Without its end the run did not come to its own.
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
"""By the names in :data:`history.schema.PHASES`. A step that is not here is taken for evidence."""

LAST = frozenset(step for step, meaning in STEPS.items() if meaning.last)
"""The steps that have ended when a run has come to its end."""


def failures(rows: Sequence[Row]) -> Iterator[str]:
    """What the steps told of, all of them."""
    for row in rows:
        if row["event"] == "failed":
            yield f"the step {row['phase']} failed: {row['detail'] or 'no detail'}"


def gaps(rows: Sequence[Row], identity: str) -> Iterator[str]:
    """What the evidence of every cell lacks for the steps' sake. ``identity``: of the run
    (:func:`history.manifest.identity_of`), which a history of former days does not tell."""
    for row in rows:
        if (row["phase"], row["event"]) == ("deploy", "start") and row["detail"] not in (
            None,
            identity,
        ):
            yield f"the history is that of {row['detail']}, and not of {identity}"
    yield from failures([row for row in rows if _meaning(row).evidence])
    told = {row["phase"] for row in rows if row["event"] == "failed"} | ended(rows)
    missing = [step for step, meaning in STEPS.items() if meaning.evidence and step not in told]
    if missing:
        yield f"the step{'s' if len(missing) > 1 else ''} {', '.join(missing)} did not end"


def infrastructure_failures(rows: Sequence[Row]) -> Iterator[str]:
    """Yield why the infrastructure failed: a step of ours failed, or the run did not come to its
    end. A run that the user stopped is incomplete, but nothing failed."""
    yield from failures([r for r in rows if _meaning(r).ours and r["detail"] != INTERRUPTED])
    for step, meaning in STEPS.items():
        if meaning.last and not stopped(rows) and step not in ended(rows):
            yield f"the run did not come to its end: the step {step} did not end"


def stopped(rows: Sequence[Row]) -> bool:
    """Return whether the user asked the run to stop."""
    return any(row["event"] == "failed" and row["detail"] == INTERRUPTED for row in rows)


def span(rows: Sequence[Row], step: str) -> Span | None:
    """From when to when a step was on; None where it did not end well."""
    mine = [row for row in rows if row["phase"] == step]
    times = {row["event"]: row["time"] for row in mine}
    if times.keys() != {"start", "end"}:
        return None
    return Span(times["start"], times["end"])


def begun(rows: Sequence[Row], step: str) -> int | None:
    """When a step began; None where it did not."""
    starts = [row["time"] for row in rows if row["phase"] == step and row["event"] == "start"]
    return min(starts, default=None)


def began_after(rows: Sequence[Row], step: str, before: str) -> int | None:
    """Return when a step began, if that was later than another step began; None where the times of
    the steps do not tell the two apart."""
    start, earlier = begun(rows, step), begun(rows, before)
    return start if start is not None and earlier is not None and start > earlier else None


def ended_after(rows: Sequence[Row], step: str, before: str) -> int | None:
    """Return when such a step ended well; None where the times of the steps do not tell."""
    told = span(rows, step)
    return None if told is None or began_after(rows, step, before) is None else told.end


def ended(rows: Sequence[Row]) -> set[str]:
    """The steps that came to their end, well or not."""
    return {row["phase"] for row in rows if row["event"] == "end"}


def _meaning(row: Row) -> Meaning:
    return STEPS.get(row["phase"], Meaning())


# --- fault proofs ---------------------------------------------------------------------------------
#
# What is proven of the faults of a run, and what planned ones may have done of which rows may be
# missing.


def fault_gaps(planned: PlannedRun, faults: Sequence[FaultFacts]) -> Iterator[Gap]:
    """Yield which planned faults the history has nothing of, and what is not proven of others."""
    told = {(fault.fault_id, fault.name) for fault in faults}
    for plan in planned.faults:
        if (plan.fault_id, plan.fault) not in told:
            yield Gap(
                words=f"{possible(plan).label} on {plan.target}: the history has nothing of it"
            )
    cells = [planned_cell.cell for planned_cell in planned.cells]
    for fault in faults:
        # What was not injected did not happen, what has not bitten neither; but the cells that it
        # was to touch have not lived through it. Others lose nothing.
        touched = frozenset(c.name for c in cells if any(map(fault.touches, c.topic_partitions)))
        said = f": {fault.complaint}" if fault.complaint else ""
        for words in _unproven(fault):
            yield Gap(words=f"{fault.label} on {fault.target}{words}{said}", cells=touched)


def not_settled(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield which faults struck though the cluster had not settled in the time that the campaign
    allows for it, from rows of the table ``faults``."""
    for row in rows:
        if row["event"] == "inject" and row["evidence"] is not None:
            yield f"{row['fault']}#{row['fault_id']}: struck before the cluster had settled"


def _unproven(fault: FaultFacts) -> Iterator[str]:
    if not fault.planned:
        yield ": the manifest plans no such fault"
    elif not fault.trusted:
        undeclared = fault.name == COMMAND
        why = "which its campaign does not declare" if undeclared else "which is not known"
        yield f" destroys {fault.destroys!r}, {why}"
    if fault.injected is None:
        yield " was not injected"
    elif not fault.bit:
        yield " is not proven to have bitten"
    if fault.end == FOREVER:
        yield " is not proven healed"


def unrecorded(
    planned: PlannedRun,
    faults: Sequence[FaultFacts],
    phases: Sequence[Mapping[str, Any]],
    incomplete: frozenset[str],
) -> Iterator[FaultFacts]:
    """Yield what planned faults may have done of which rows may be missing.

    A fault is written down before it is injected. So none is missing of a whole table where the run
    was interrupted before all of them had their turn.
    """
    told = {(fault.fault_id, fault.name) for fault in faults}
    interrupted = "phases" not in incomplete and span(phases, "faults") is None
    for plan in planned.faults:
        if "faults" in incomplete or ((plan.fault_id, plan.fault) not in told and not interrupted):
            yield possible(plan)


# --- costs ----------------------------------------------------------------------------------------
#
# What a run cost, beside what it kept: work for ZooKeeper, and failover times.
#
# Nothing here makes a verdict. What is not there, or not whole, is None: unknown is not 0.


_NS_PER_MS = 1_000_000
_EPOCH_BITS = 32

MOMENTS = ("deployed", "ready", "faults", "recovered")
"""At which ZooKeeper is asked in every run (:data:`history.schema.ZOOKEEPER`)."""


def zookeeper_work(rows: Sequence[Row]) -> ZooKeeperWork:
    """Of a run, from its table ``zookeeper``."""
    at = _moments(rows)
    return ZooKeeperWork(
        writes_to_create=_writes(at, ("deployed", None), ("ready", None)),
        writes_under_faults=_writes(at, ("faults", None), ("recovered", None)),
        watches=_watches(at, ("ready", None)),
    )


def failovers(
    planned: Sequence[PlannedFailover], rows: Sequence[Row], zookeeper: Sequence[Row]
) -> tuple[Failover, ...]:
    """The failovers that were planned, from the tables ``failovers`` and ``zookeeper``."""
    at = _moments(zookeeper)
    return tuple(_failover(plan.partitions, rows, at) for plan in planned)


def findings(run: PlannedRun, rows: Sequence[Row], zookeeper: Sequence[Row]) -> Iterator[str]:
    """What is missing of the measurements."""
    at = _moments(zookeeper)
    missing = [moment for moment in MOMENTS if (moment, None) not in at]
    if missing and run.zookeeper:
        yield f"what ZooKeeper had counted is unknown at: {', '.join(missing)}"
    for failover in failovers(run.failovers, rows, zookeeper):
        if failover.led_ms is None or failover.acked_ms is None:
            yield f"the failover of {failover.partitions} partitions was not measured whole"


Moments = Mapping[tuple[str, int | None], Sequence[Row]]


def _moments(rows: Sequence[Row]) -> Moments:
    found: dict[tuple[str, int | None], list[Row]] = {}
    for row in rows:
        found.setdefault((row["moment"], row["partitions"]), []).append(row)
    return found


def _writes(
    at: Moments, before: tuple[str, int | None], after: tuple[str, int | None]
) -> int | None:
    """The transactions between two moments; None where one of them was not recorded, and where
    the ensemble had another leader in between: it counts from 0."""
    if not at.get(before) or not at.get(after):
        return None
    first, last = (max(int(row["zxid"]) for row in at[moment]) for moment in (before, after))
    return last - first if last >> _EPOCH_BITS == first >> _EPOCH_BITS else None


def _watches(at: Moments, moment: tuple[str, int | None]) -> int | None:
    """All of the ensemble's but the harness's own."""
    rows = at.get(moment)
    if not rows:
        return None
    all_set = sum(int(row["watches"]) for row in rows)
    return all_set - max(int(row["harness_watches"]) for row in rows)


def _failover(partitions: int, rows: Sequence[Row], at: Moments) -> Failover:
    mine = [row for row in rows if row["partitions"] == partitions]
    whole = bool(mine) and all(row["moved"] == len(mine) for row in mine)
    return Failover(
        partitions=partitions,
        moved=len(mine) if whole else None,
        led_ms=_slowest(mine, "led") if whole else None,
        acked_ms=_slowest(mine, "acked") if whole else None,
        writes=_writes(at, ("grown", partitions), ("failed-over", partitions)),
        watches=_watches(at, ("grown", partitions)),
    )


def _slowest(rows: Sequence[Row], what: str) -> int | None:
    """Milliseconds from the kill until the last of the partitions; None where one never was."""
    if any(row[what] is None for row in rows):
        return None
    return max(int(row[what]) - int(row["killed"]) for row in rows) // _NS_PER_MS
