"""``ackproof run --dry-run``: the timeline of every run, as a table, with nothing started."""

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from harness.campaign import timeline
from harness.campaign.model import Campaign
from harness.campaign.timeline import PlannedFault
from harness.campaign.timings import CampaignTimings
from nemesis import FAULTS


def timelines(campaign: Campaign) -> Group:
    """The timeline of every run of ``campaign``, whose seed is drawn."""
    return Group(
        *(part for number in range(1, campaign.runs + 1) for part in _run(campaign, number))
    )


def _run(campaign: Campaign, number: int) -> Iterator[Text | Table]:
    assert campaign.seed is not None
    timings = CampaignTimings(campaign.cluster)
    holds = {name: fault.hold_ms_min(timings) for name, fault in FAULTS.items()}
    plan = timeline.plan(campaign, timeline.run_seed(campaign.seed, number), holds)
    lasts = _seconds(timeline.duration_ms(campaign, plan))
    yield Text(f"{campaign.name} {number}/{campaign.runs}: the workload lasts {lasts} or longer")
    yield _table(plan) if plan else Text("no faults")
    if any(planned.gap_ms is not None for planned in plan):
        yield Text("+ or later: when the one before is healed, and the cluster has settled")


def _table(plan: Sequence[PlannedFault]) -> Table:
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
