"""``ackproof selftest``: what finds a broker that is broken on purpose."""

import os
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
from rich import box
from rich.table import Table
from rich.text import Text

from ackproof.harness.backends import BACKENDS
from ackproof.harness.campaign import validation
from ackproof.harness.children import Children
from ackproof.harness.commands.errors import fail, told
from ackproof.harness.console import console
from ackproof.harness.exit_status import ExitStatus
from ackproof.harness.selftest import session, table
from ackproof.harness.selftest.attempt import Way
from ackproof.harness.selftest.campaigns import Campaigns
from ackproof.harness.selftest.catalogue import Bug, UnknownBug, catalogue, chosen
from ackproof.harness.selftest.display import Display
from ackproof.harness.selftest.looking import Looking
from ackproof.harness.selftest.rounds import opened
from ackproof.harness.selftest.simulator import Simulator
from ackproof.harness.selftest.sources import has_simulation
from ackproof.infra.interface import InfraError

_CAMPAIGN = Path("campaigns/selftest.yaml")
_SEEDS = 6
_SECONDS = 120.0
"""Knots have a turn each in one minute of a search, and some are found in every other turn."""


@click.command(
    epilog="""\b
Examples:
  ackproof selftest --list                                the catalogue of broken brokers
  ackproof selftest --bugs log --without campaign         one family, in the simulator alone
  ackproof selftest --bugs acks-all-answered-at-append    one bug, both ways
  ackproof selftest --out docs/detection.md               everything: hours; goes on where it was

\b
Exit status: 0 the sound broker held and each broken one was found; 1 a guarantee of the sound
broker was broken, so that no find is worth anything; 2 bad usage or campaign file; 3 a broken
broker was found by nobody, the sound one was inconclusive, or it was interrupted.
""",
)
@click.option(
    "--bugs", "names", multiple=True, metavar="NAME", help="A bug or a family; may be repeated."
)
@click.option(
    "--campaign",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    default=[_CAMPAIGN],
    show_default=True,
    help="Whose faults to let loose; may be repeated.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=_SEEDS,
    show_default=True,
    help="Run each campaign with the seeds 1 to N, until one finds the bug.",
)
@click.option(
    "--simulation",
    "seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=_SECONDS,
    show_default=True,
    help="Seconds that the simulator searches for each bug.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    show_default=True,
    help="Simulated searches at once. Campaigns run one at a time.",
)
@click.option(
    "--without",
    multiple=True,
    type=click.Choice([way.value for way in Way]),
    help="Leave this way of looking out; the page has what is known of it.",
)
@click.option(
    "--results",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("results/selftest"),
    show_default=True,
    help="What is known is kept there, a file a bug and way.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the page there. [default: detection.md in the directory of the results]",
)
@click.option("--list", "listing", is_flag=True, help="List the bugs, and do nothing.")
@click.pass_context
def selftest(
    context: click.Context,
    names: tuple[str, ...],
    files: tuple[Path, ...],
    seeds: int,
    seconds: float,
    jobs: int,
    without: tuple[str, ...],
    directory: Path,
    out: Path | None,
    listing: bool,
) -> None:
    """Break the broker on purpose, a bug at a time, and see what finds it.

    Each bug is put into a copy of the sources. The copy goes through the campaigns, and through the
    simulator where the sources have it, until a guarantee or an invariant is broken. The sound
    broker goes first, and what the simulator finds is known before any campaign begins. What is
    known is kept: after Ctrl-C, the next call goes on with the rest.
    """
    try:
        bugs = catalogue()
        wanted = chosen(names, bugs)
    except UnknownBug as unknown:
        fail(str(unknown), ExitStatus.USAGE)
    if listing:
        console().print(_listed(wanted))
        return
    with told():
        children = Children(die_with_us=True)
        children.install()
        with Display(console()) as display, opened(directory.absolute(), display) as rounds:
            looking = _ways(without, files, children, rounds.sound, seconds, seeds, jobs)
            status = session.carry_out(wanted, looking, rounds, display, click.echo)
            page = out or directory / "detection.md"
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(table.page(bugs, rounds, datetime.now(UTC).date()), encoding="utf-8")
        click.echo(str(page))
    context.exit(status)


def _ways(
    without: Collection[str],
    files: Sequence[Path],
    children: Children,
    sound: Path,
    seconds: float,
    seeds: int,
    jobs: int,
) -> list[Looking]:
    """Raises DocumentRefused, InfraError where a campaign cannot be run."""
    ways: list[Looking] = []
    if Way.SIMULATOR.value not in without:
        if has_simulation():
            ways.append(Simulator(children, sound, seconds, jobs))
        else:
            click.echo(
                "no simulator here: it is a development tool, in the sources and not installed"
            )
    if Way.CAMPAIGN.value not in without:
        _check(files)
        ways.append(Campaigns(children, files, seeds))
    if not ways and len(without) < len(Way):
        fail("nothing is left to look with", ExitStatus.USAGE)
    return ways


def _check(files: Sequence[Path]) -> None:
    for file in files:
        campaign = validation.check(file, meant=True).campaign
        if obstacle := BACKENDS[campaign.cluster.backend].obstacle():
            raise InfraError(obstacle)


def _listed(bugs: Sequence[Bug]) -> Table:
    shown = Table("bug", "family", "what it breaks", "seen by", box=box.SIMPLE_HEAD, pad_edge=False)
    for bug in bugs:
        shown.add_row(*map(Text, (bug.name, bug.family, bug.breaks, ", ".join(bug.seen_by))))
    return shown
