"""The metrics of a run that goes on, in Prometheus' text format.

``prometheus_client`` writes them, as the bundled broker's: it is a dependency already, has none of
its own, and knows the rules of escaping and of OpenMetrics. What was not observed has no sample.
"""

from collections.abc import Callable, Iterator
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from ackproof.harness.report.axis.sends import BOUNDS_S, CellSends
from ackproof.harness.report.live.source import RunState

_COUNTS: tuple[tuple[str, str, Callable[[CellSends], int]], ...] = (
    ("ackproof_sends", "Records that producers sent.", lambda cell: cell.sent),
    ("ackproof_acks", "Records that were acknowledged.", lambda cell: cell.acked),
    ("ackproof_failures", "Records whose send failed.", lambda cell: cell.failed),
    (
        "ackproof_unknown_outcomes",
        "Records that may or may not be in the log.",
        lambda cell: cell.unknown,
    ),
)


class Scrape(Collector):
    """The metrics of a run at a moment, for an encoder of ``prometheus_client``."""

    def __init__(self, run: RunState | None) -> None:
        self._run = run

    def collect(self) -> Iterator[Metric]:
        return metrics(self._run)


def metrics(run: RunState | None) -> Iterator[Metric]:
    """Yield the metrics of a run. Before it has begun there are none."""
    if run is None:
        return
    yield InfoMetricFamily(
        "ackproof_run",
        "The run that goes on.",
        value={
            "campaign": run.campaign,
            "system": run.system,
            "seed": str(run.seed),
            "run": str(run.number),
        },
    )
    step = GaugeMetricFamily("ackproof_run_step", "1 for the step of the run.", labels=["step"])
    step.add_metric([run.step], 1)
    yield step
    yield from _sends(run)
    yield _open_faults(run)
    found = None if run.findings is None else len(run.findings)
    yield CounterMetricFamily("ackproof_findings", "Findings of the run so far.", value=found)
    yield from _partitions(run)
    yield GaugeMetricFamily(
        "ackproof_unreadable_history_files",
        "History files that cannot be read; their rows are not counted.",
        value=len(run.unreadable),
    )


def _sends(run: RunState) -> Iterator[Metric]:
    for name, what, value_of in _COUNTS:
        family = CounterMetricFamily(name, what, labels=["cell"])
        for cell, sends in run.cells.items():
            family.add_metric([cell], value_of(sends))
        yield family
    latency = HistogramMetricFamily(
        "ackproof_ack_latency_seconds",
        "Time from when a record was due until its acknowledgement.",
        labels=["cell"],
    )
    for cell, sends in run.cells.items():
        totals = accumulate(sends.latencies.tolist())
        buckets = list(zip([*map(str, BOUNDS_S), "+Inf"], totals, strict=True))
        latency.add_metric([cell], buckets, sum_value=sends.latency_sum_s)
    yield latency


def _open_faults(run: RunState) -> Metric:
    family = GaugeMetricFamily(
        "ackproof_fault_open",
        "1 for each fault that is not proven healed.",
        labels=["fault", "number", "target"],
    )
    for fault in run.open_faults:
        family.add_metric([fault.name, str(fault.number), fault.target], 1)
    return family


def _partitions(run: RunState) -> Iterator[Metric]:
    labels = ["topic", "partition"]
    isr = GaugeMetricFamily(
        "ackproof_partition_isr_size", "In-sync replicas as last observed.", labels=labels
    )
    leader = GaugeMetricFamily(
        "ackproof_partition_leader",
        "The broker that leads, as last observed; -1 for none.",
        labels=labels,
    )
    for one in run.partitions:
        place = [one.topic, str(one.partition)]
        isr.add_metric(place, len(one.isr))
        if one.leader is not None:
            leader.add_metric(place, one.leader)
    yield from (isr, leader)
