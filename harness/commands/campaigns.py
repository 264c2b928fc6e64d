"""``ackproof campaigns`` and ``ackproof demo``: the installed campaigns."""

from collections.abc import Iterator
from pathlib import Path

import click
from rich import box
from rich.table import Table
from rich.text import Text

from ackproof.harness.campaign import validation
from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.model.workload import clients_named
from ackproof.harness.campaign.plan import scheduler
from ackproof.harness.campaign.plan.needs import needs_of
from ackproof.harness.campaign.plan.runs import runs_of
from ackproof.harness.commands import options
from ackproof.harness.commands.run import run
from ackproof.harness.console import console
from ackproof.harness.durations import will_last
from ackproof.history.cell import library_of
from ackproof.infra.api.interface import Capability
from ackproof.infra.clients import builds
from ackproof.infra.systems import parse

_AROUND_A_RUN_S = 40
"""The seconds for the start of the cluster, the final read and the check."""
_AS_ROOT = frozenset(
    {
        Capability.LIMIT_CPU,
        Capability.LIMIT_MEMORY,
        Capability.LOSE_UNSYNCED_WRITES,
        Capability.SLOW_DISKS,
    }
)
"""Capabilities that only root has on the local backend."""
TUTORIAL = "To read what this report means: ackproof explain inconclusive, or any other word of it"
"""The line that a demo ends with."""


@click.command(
    epilog="""\b
Examples:
  ackproof campaigns
  ackproof run quick --dry-run        which faults are injected when
""",
)
def campaigns() -> None:
    """List the installed campaigns with their faults, needs and durations.

    `ackproof run NAME` runs one of them on this machine.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("campaign", "takes at least", "needs"):
        table.add_column(heading, no_wrap=heading == "takes at least")
    table.add_column("what happens")
    for name, file in options.shipped().items():
        campaign = validation.check(file, meant=True).campaign.resolved(seed=1)
        needs = ", ".join(needs_in_words(campaign))
        table.add_row(Text(name), _duration(campaign), needs, Text(options.summary(file)))
    console().print(table)


@click.command()
@click.pass_context
def demo(context: click.Context) -> None:
    """Run the campaign `quick` on this machine: kill a leader, isolate another, pause ZooKeeper.

    It needs no root and no cluster, and takes about three minutes. The last line is the path
    of the report, and the line before it names the tutorial.
    """
    context.invoke(run, campaign_file=Path(options.shipped()["quick"]), hint=TUTORIAL)


def needs_in_words(campaign: Campaign) -> Iterator[str]:
    """Yield the needs of a campaign that not every machine meets."""
    if needed := parse(campaign.cluster.system).needs:
        yield needed
    needs = needs_of(campaign)
    if needs & _AS_ROOT:
        yield "root"
    if Capability.FAKE_CLOCKS in needs:
        yield "libfaketime"
    named = clients_named(campaign.cells, campaign.workload)
    if built := sorted(one for one in named if library_of(one) in builds.LIBRARIES):
        yield f"the client {' and '.join(built)} (make clients)"


def _duration(campaign: Campaign) -> str:
    runs = runs_of(campaign)
    return will_last(
        sum(scheduler.duration_ms(campaign, one.faults) / 1000 + _AROUND_A_RUN_S for one in runs)
    )
