"""What checking a campaign yields: plain data, for the report and for scripts."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa


class Verdict(StrEnum):
    """See ``checkers.guarantees`` for how they are reached."""

    PASS = "pass"
    """The guarantee held, on enough evidence."""
    FAIL = "fail"
    """A guarantee was broken."""
    NOT_GUARANTEED = "not-guaranteed"
    """Nothing was promised; loss was measured."""
    INCONCLUSIVE = "inconclusive"
    """Too little evidence."""


ANOMALIES = pa.schema(
    [
        pa.field("run", pa.int32(), nullable=False),
        pa.field("cell", pa.string(), nullable=False),
        pa.field("anomaly", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64()),
        pa.field("producer", pa.int32()),
        pa.field("sequence", pa.int64()),
        pa.field("time", pa.int64()),
        pa.field("fault", pa.string()),
        pa.field("detail", pa.string()),
    ]
)
"""One row an anomaly. ``time``: of the ack where there was one, else of the invoke, nanoseconds
of the Unix epoch. ``fault``: the faults on at that time (``kill#1``, comma-separated), or null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """One promise of a cell's configuration and what became of it.

    Attributes:
        name: Short name, e.g. ``no-acked-record-lost``.
        promise: In words, with its conditions.
        promised: Whether this cell's configuration promises it under the faults that were on.
        held: Whether it held; None where the evidence does not tell.
        reason: Why it is (not) promised, and what was seen.
    """

    name: str
    promise: str
    promised: bool
    held: bool | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CellResult:
    """One cell of one run: its configuration, its numbers, its verdict.

    sent = acked + failed + indeterminate. lost: distinct acked records absent from the final log;
    duplicated: distinct records at two or more offsets; reordered: records that stand in the log
    behind one that its producer sent later to the same partition.
    """

    run: int
    cell: str
    settings: Mapping[str, str | int | float | bool]
    sent: int
    acked: int
    failed: int
    indeterminate: int
    lost: int | None
    duplicated: int | None
    reordered: int | None
    guarantees: tuple[Guarantee, ...]
    verdict: Verdict
    reasons: tuple[str, ...]
    expected: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignResult:
    """A checked campaign.

    Attributes:
        verdict: The worst of the cells: fail, then inconclusive, then pass; a cell that is
            not-guaranteed never makes it worse.
        anomalies: Count by name, every known name present.
        findings: What else a reader must know (a fault that did not bite, a recovery that did not
            come, a checker that failed), one sentence each.
    """

    verdict: Verdict
    cells: tuple[CellResult, ...]
    anomalies: Mapping[str, int]
    findings: tuple[str, ...]
    infrastructure_failed: bool = False
    baseline: bool = False
