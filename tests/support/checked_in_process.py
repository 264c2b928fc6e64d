"""A check without Spark: the same evidence, items, reconciliation and judgement, in one process."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from checkers.check import evidence
from checkers.items import work_items
from checkers.judge import campaign_result
from checkers.reconcile import RESULTS
from checkers.reconcile import reconcile as found_in
from checkers.totals import PartitionTotals, Totals
from checkers.verdict import CampaignResult
from checkers.work_item import WorkItem
from history.storage import AnyPath


def reconcile(item: WorkItem) -> Iterator[pa.Table]:
    """The anomalies of one partition, rule by rule, then its metrics."""
    told: list[dict[str, Any]] = []
    yield from found_in([item], told)
    yield pa.Table.from_pylist(told, schema=RESULTS)


def checked(directory: AnyPath) -> CampaignResult:
    """What :func:`checkers.check.check` returns, but for the findings on unplanned runs."""
    runs, gaps = evidence(directory)
    partitions = {}
    for item in (item for run in runs for item in work_items(run)):
        *_, metrics = reconcile(item)
        (row,) = metrics.to_pylist()
        partitions[item.run, (item.topic, item.partition)] = PartitionTotals.of(row)
    return campaign_result(runs, Totals(partitions=partitions), gaps=gaps)
