"""``python -m tools.mutation``: examine broken brokers, and write ``docs/detection.md``."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ackproof.config.documents import DocumentRefused
from ackproof.harness.campaign import validation
from ackproof.harness.campaign.backends import BACKENDS
from ackproof.harness.exit_status import ExitStatus
from ackproof.harness.subprocesses import ChildProcesses
from ackproof.infra.api.interface import InfraError
from tools.mutation.campaigns import Campaigns
from tools.mutation.detectors import Detector
from tools.mutation.display import Display
from tools.mutation.mutants import Mutant, UnknownMutant, catalogue, select
from tools.mutation.page import page
from tools.mutation.results import Method
from tools.mutation.session import opened
from tools.mutation.simulator import Simulator
from tools.mutation.sources import SUITES, fingerprint
from tools.mutation.suites import Suite

_CAMPAIGN = Path(__file__).parent / "campaign.yaml"
_SEEDS = 3
_SECONDS = 120.0
_SOUND_STEPS = 10_000_000
_ON_THE_SOURCES = (Method.SIMULATOR, *SUITES)
"""Methods that take seconds for a mutant and need no privileges."""


@click.command(
    epilog="""\b
Examples:
  python -m tools.mutation --list                        list the catalogue
  python -m tools.mutation storage                       one component, in the simulator
  python -m tools.mutation acks-all-answered-at-append   one mutant
  python -m tools.mutation --method conformance groups   one component, by conformance tests alone
  python -m tools.mutation --campaigns fsync-skipped     one mutant, in campaigns, too
  python -m tools.mutation --out docs/detection.md       everything; continues where it was

\b
Exit status: 0 the sound broker held and each mutant was found; 1 the sound broker has a fault, so
that no find counts; 2 bad usage or campaign file; 3 a mutant was not found, the sound broker could
not be judged, or the session was interrupted; 5 a file or a backend could not be used.
""",
)
@click.argument("names", nargs=-1, metavar="[MUTANT|COMPONENT]...")
@click.option("--list", "listing", is_flag=True, help="List the mutants, and do nothing else.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=_SECONDS,
    show_default=True,
    help="Search for each mutant for so many seconds of processor time.",
)
@click.option(
    "--sound-steps",
    type=click.IntRange(min=1),
    default=_SOUND_STEPS,
    show_default=True,
    help="Search the sound broker for so many steps.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    show_default=True,
    help="Run so many searches at once. Campaigns run one at a time.",
)
@click.option(
    "--method",
    "methods",
    multiple=True,
    type=click.Choice([method.value for method in _ON_THE_SOURCES]),
    default=[method.value for method in _ON_THE_SOURCES],
    help="Examine by this method; may be repeated. [default: all of them]",
)
@click.option(
    "--campaigns/--no-campaigns",
    "with_campaigns",
    default=False,
    help="Run campaigns, too; minutes for each mutant, as root.",
)
@click.option(
    "--campaign",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    default=[_CAMPAIGN],
    help="Run this campaign file; may be repeated. [default: tools/mutation/campaign.yaml]",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=_SEEDS,
    show_default=True,
    help="Run each campaign with the seeds 1 to N, until one finds the fault.",
)
@click.option(
    "--results",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("results/mutation"),
    show_default=True,
    help="Keep the results in this directory.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the page to this file. [default: detection.md in the directory of the results]",
)
@click.pass_context
def main(
    context: click.Context,
    names: tuple[str, ...],
    listing: bool,
    seconds: float,
    sound_steps: int,
    jobs: int,
    methods: tuple[str, ...],
    with_campaigns: bool,
    files: tuple[Path, ...],
    seeds: int,
    directory: Path,
    out: Path | None,
) -> None:
    """Break the broker on purpose, one fault at a time, and report what finds it.

    Each patch of the catalogue is applied to a copy of the sources. The simulator, the conformance
    tests, the property tests, and campaigns with --campaigns examine the copy until a rule or a
    guarantee is broken, or a test fails. The sound broker is examined first. Results are kept:
    after Ctrl-C, the same command continues with the rest.
    """
    mutants = catalogue()
    try:
        chosen = select(names, mutants)
    except UnknownMutant as unknown:
        raise click.UsageError(str(unknown)) from unknown
    if listing:
        Console().print(_listed(chosen))
        return
    try:
        if with_campaigns:
            _check(files)
        children = ChildProcesses(die_with_us=True)
        children.install()
        with Display(Console()) as display, opened(directory.absolute(), display) as session:
            detectors: list[Detector] = [
                Simulator(children, session.sound, seconds, sound_steps, jobs)
                if method is Method.SIMULATOR
                else Suite(children, method, jobs)
                for method in _ON_THE_SOURCES
                if method in methods
            ]
            detectors += [
                *([Campaigns(children, files, seeds)] if with_campaigns else []),
            ]
            status = session.carry_out(chosen, detectors, click.echo)
            target = out or directory / "detection.md"
            target.parent.mkdir(parents=True, exist_ok=True)
            sources = fingerprint(Method.SIMULATOR, session.sound)
            text = page(mutants, session, datetime.now(UTC).date(), sources)
            target.write_text(text, encoding="utf-8")
    except DocumentRefused as refused:
        click.echo(str(refused), err=True)
        context.exit(ExitStatus.USAGE)
    except (InfraError, OSError) as failure:
        click.echo(f"mutation: {failure}", err=True)
        context.exit(ExitStatus.INFRASTRUCTURE)
    click.echo(str(target))
    context.exit(status)


def _check(files: Sequence[Path]) -> None:
    """Raise DocumentRefused or InfraError if a campaign cannot be run."""
    for file in files:
        campaign = validation.check(file, meant=True).campaign
        if obstacle := BACKENDS[campaign.cluster.backend].obstacle():
            raise InfraError(obstacle)


def _listed(mutants: Sequence[Mutant]) -> Table:
    headings = ("mutant", "component", "what it breaks", "guarantee", "origin")
    table = Table(*headings, box=box.SIMPLE_HEAD, pad_edge=False)
    for one in mutants:
        cells = (one.name, one.component, one.breaks, one.guarantee or "none", one.origin)
        table.add_row(*map(Text, cells))
    return table


if __name__ == "__main__":
    main()
