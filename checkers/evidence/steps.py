"""What the steps of a run mean for evidence: the one place that says so.

A step that recorded ``failed`` has not ended well, whether or not it went on to its ``end``: that
is how a step tells of what it found.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ackproof.checkers.cluster.observed import Span
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
