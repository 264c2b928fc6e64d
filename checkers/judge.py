"""From evidence and totals to the result of a campaign.

Joins what the runs' small tables tell with what reconciling found; what follows from that is
decided in ``checkers.guarantees`` alone.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from checkers.catalogue import CHECKERS
from checkers.evidence import Row, RunEvidence
from checkers.guarantees import Configuration, Facts, campaign_verdict, guarantees, verdict
from checkers.reconcile import COUNTS, HISTORY
from checkers.result import CampaignResult, CellResult
from checkers.totals import Totals


def campaign_result(
    runs: Sequence[RunEvidence],
    totals: Totals,
    *,
    unlisted: Mapping[int, str],
    gaps: tuple[str, ...],
) -> CampaignResult:
    """The result of a campaign.

    Args:
        runs: The evidence of each run.
        totals: What reconciling found.
        unlisted: By run, why its partitions could not be listed.
        gaps: What the campaign as a whole lacks, one sentence each.
    """
    cells = tuple(
        _cell(run, row, totals, unlisted.get(run.number))
        for run in runs
        for _, row in sorted(run.cells.items())
    )
    counted: Counter[str] = Counter()
    for anomalies in totals.anomalies.values():
        counted.update(anomalies)
    cellless = tuple(f"run {run.number} tells of no cell" for run in runs if not run.cells)
    return CampaignResult(
        verdict=campaign_verdict((cell.verdict for cell in cells), gaps + cellless),
        cells=cells,
        anomalies={name: counted[name] for name in CHECKERS},
        findings=gaps + tuple(_findings(runs, unlisted, totals)),
    )


def _findings(
    runs: Sequence[RunEvidence], unlisted: Mapping[int, str], totals: Totals
) -> Iterator[str]:
    for run in runs:
        told = [*run.findings, *([unlisted[run.number]] if run.number in unlisted else [])]
        for (number, _), problems in sorted(totals.problems.items()):
            told += [problem.message for problem in problems if number == run.number]
        yield from (f"run {run.number}: {finding}" for finding in told)


def _cell(run: RunEvidence, row: Row, totals: Totals, unlisted: str | None) -> CellResult:
    key = (run.number, row["cell"])
    counts = totals.counts.get(key, dict.fromkeys(COUNTS, 0))
    anomalies = totals.anomalies.get(key, {})
    facts = Facts(
        configuration=_configuration(row),
        disks_lost=run.disks_lost(row["replication_factor"]),
        anomalies=anomalies,
        reordered_acked=counts["reordered_acked"],
        crashed=frozenset(p.checker for p in totals.problems.get(key, ())) - {HISTORY},
        gaps=tuple(_cell_gaps(run, row, totals, unlisted)),
    )
    judged = guarantees(facts)
    conclusion, reasons = verdict(facts, judged)
    untold = None if list(run.unread_partitions(row)) else 0
    return CellResult(
        run=run.number,
        cell=row["cell"],
        settings={
            name: row[column]
            for name, column in (
                ("acks", "acks"),
                ("min.insync.replicas", "min_insync_replicas"),
                ("replication.factor", "replication_factor"),
                ("unclean.leader.election.enable", "unclean_leader_election"),
            )
        },
        sent=counts["sent"],
        acked=counts["acked"],
        failed=counts["failed"],
        indeterminate=counts["indeterminate"],
        lost=anomalies.get("lost", untold),
        duplicated=anomalies.get("duplicated", untold),
        reordered=anomalies.get("reordered", untold),
        guarantees=judged,
        verdict=conclusion,
        reasons=reasons,
    )


def _configuration(row: Row) -> Configuration:
    names: dict[str, Any] = {name: row[name] for name in Configuration.__dataclass_fields__}
    return Configuration(**names)


def _cell_gaps(run: RunEvidence, row: Row, totals: Totals, unlisted: str | None) -> Iterator[str]:
    """What the evidence of a cell lacks."""
    key = (run.number, row["cell"])
    yield from run.gaps
    yield from run.unread_partitions(row)
    if unlisted:
        yield unlisted
    for problem in totals.problems.get(key, ()):
        if problem.checker == HISTORY:
            yield problem.message
    if key not in totals.counts:
        yield "nothing of this cell was reconciled"
        return
    acked, needed = totals.counts[key]["acked"], max(1, row["minimum_acked"])
    if acked < needed:
        yield f"{acked} acked records, at least {needed} are needed"
