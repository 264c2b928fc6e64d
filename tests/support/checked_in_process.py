"""A check without Spark: the same evidence, items, reconciliation and judgement, in one process."""

import pyarrow as pa

from ackproof.checkers.check import evidence
from ackproof.checkers.engine.reconcile import reconcile as reconcile_all
from ackproof.checkers.engine.results import FOUND, PartitionTotals, Totals
from ackproof.checkers.engine.work_items import WorkItem, work_items
from ackproof.checkers.guarantees.judge import campaign_result
from ackproof.checkers.verdict import CampaignResult
from ackproof.history.storage import AnyPath


def reconcile(item: WorkItem) -> tuple[pa.Table, PartitionTotals]:
    """The anomalies of one partition, rule by rule, and its totals."""
    rows = [FOUND.empty_table()]
    (totals,) = reconcile_all([item], rows.append)
    return pa.concat_tables(rows), totals


def checked(directory: AnyPath) -> CampaignResult:
    """What :func:`checkers.check.check` returns, but for the findings on unplanned runs."""
    runs, gaps = evidence(directory)
    partitions = {}
    for item in (item for run in runs for item in work_items(run)):
        _, partitions[item.key] = reconcile(item)
    return campaign_result(runs, Totals(partitions=partitions), gaps=gaps)
