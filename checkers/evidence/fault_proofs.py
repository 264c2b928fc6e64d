"""What is proven of the faults of a run, and what planned ones may have done of which rows may be
missing."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ackproof.checkers.cluster.faults import COMMAND, FOREVER, FaultFacts, possible
from ackproof.checkers.evidence import steps
from ackproof.checkers.evidence.gaps import Gap
from ackproof.history.manifest import PlannedRun


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
    interrupted = "phases" not in incomplete and steps.span(phases, "faults") is None
    for plan in planned.faults:
        if "faults" in incomplete or ((plan.fault_id, plan.fault) not in told and not interrupted):
            yield possible(plan)
