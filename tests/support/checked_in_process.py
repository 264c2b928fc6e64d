"""A check without Spark: the same evidence, items, reconciliation and judgement, in one process."""

from pathlib import Path

from checkers.check import evidence
from checkers.items import work_items
from checkers.judge import campaign_result
from checkers.reconcile import reconcile
from checkers.totals import PartitionTotals, Totals
from checkers.verdict import CampaignResult


def checked(directory: Path) -> CampaignResult:
    """What :func:`checkers.check.check` returns, but for the findings on unplanned runs."""
    runs, gaps = evidence(directory)
    partitions = {}
    for item in (item for run in runs for item in work_items(run)):
        *_, metrics = reconcile(item)
        (row,) = metrics.to_pylist()
        partitions[item.run, (item.topic, item.partition)] = PartitionTotals.of(row)
    return campaign_result(runs, Totals(partitions=partitions), gaps=gaps)
