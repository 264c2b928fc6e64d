"""``ackproof run --dry-run``: the timeline of every run, as a table, with nothing started."""

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from harness.campaign import scheduler
from harness.campaign.model import Campaign
from harness.campaign.runs import RunPlan, runs_of
from harness.campaign.scheduler import ScheduledFault
from history.cell import as_text


def timelines(campaign: Campaign) -> Group:
    """The timeline of every run of ``campaign``, whose seed is drawn."""
    runs = runs_of(campaign)
    return Group(*(part for run in runs for part in _run(campaign, run, len(runs))))


def _run(campaign: Campaign, run: RunPlan, runs: int) -> Iterator[Text | Table]:
    lasts = _seconds(scheduler.duration_ms(campaign, run.faults))
    swept = "".join(f", {name}={as_text(value)}" for name, value in run.swept.items())
    yield Text(f"{campaign.name} {run.number}/{runs}{swept}: the workload lasts {lasts} or longer")
    yield _table(run.faults) if run.faults else Text("no faults")
    if any(planned.gap_ms is not None for planned in run.faults):
        yield Text("+ or later: when the one before is healed, and the cluster has settled")
    for failover in run.failovers:
        yield Text(f"then, with {failover.partitions:,} partitions, a kill of {failover.target}")


def _table(plan: Sequence[ScheduledFault]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("time", "hold"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("fault", no_wrap=True)
    table.add_column("target", overflow="fold")
    table.add_column("parameters", overflow="fold")
    for planned in plan:
        table.add_row(
            _seconds(planned.start_ms) + (" " if planned.gap_ms is None else "+"),
            _seconds(planned.hold_ms),
            f"{planned.fault}#{planned.fault_id}",
            Text(planned.target),
            Text(", ".join(f"{k}: {v}" for k, v in planned.parameters.model_dump().items())),
        )
    return table


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:.1f} s"
