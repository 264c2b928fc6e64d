"""``ackproof nightly``: a campaign with several seeds.

Every night has seeds of its own, derived from the date, so that a night can be repeated. A failure
does not stop the rest. The exit status is the worst of all, and a broken guarantee is the worst. At
a request to stop (Ctrl-C, SIGTERM), the running campaign is asked to stop, and waited for: it
heals, checks and cleans up. No other one is started.
"""

import random
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import click
from rich import box
from rich.table import Table

from ackproof.harness import directory as places
from ackproof.harness.commands import options
from ackproof.harness.commands.errors import reported_errors
from ackproof.harness.console import console
from ackproof.harness.exit_status import ExitStatus, worst
from ackproof.harness.subprocesses import ChildProcesses, Interrupted
from ackproof.history.storage import AnyPath

_SEED_BITS = 32


def seeds_of(day: str, count: int) -> tuple[int, ...]:
    """Return the seeds of a day such as ``2031-05-17``."""
    rng = random.Random(f"nightly/{day}")
    return tuple(rng.getrandbits(_SEED_BITS) for _ in range(count))


@click.command(
    epilog="""\b
Examples:
  ackproof nightly                        the campaign nightly, as root
  ackproof nightly mine.yaml --seeds 5
  ackproof nightly --backend kubernetes --skip-refused --copy-to s3a://bucket/nights
""",
)
@options.campaign("campaign", default="nightly")
@click.option(
    "--seeds",
    "count",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of seeds to derive from the date.",
)
@click.option(
    "--seed",
    "given",
    type=click.IntRange(min=0),
    multiple=True,
    help="Run exactly this seed. Can be given several times.",
)
@options.backend
@options.system
@options.skip_refused
@click.option(
    "--copy-to",
    "copies",
    metavar="URI",
    help=(
        "Copy the results of each campaign there when it has ended: a directory, or a URI "
        "(s3a:, gs:, hdfs:) with the environment's credentials."
    ),
)
@options.metrics(1)
@click.option("--day", help="The date for the seeds, e.g. 2031-05-17. Default: today (UTC).")
@click.pass_context
def nightly(
    context: click.Context,
    campaign: Path,
    count: int,
    given: tuple[int, ...],
    backend: str | None,
    system: str | None,
    skip_refused: bool,
    copies: str | None,
    metrics_port: int | None,
    metrics_address: str,
    day: str | None,
) -> None:
    """Run CAMPAIGN (nightly) once for each of several seeds, which differ from day to day.

    Prints a table of all seeds at the end, and exits with the worst status of them.
    """
    seeds = given or seeds_of(day or datetime.now(UTC).date().isoformat(), count)
    with reported_errors():
        place = None if copies is None else places.destination(copies)
    click.echo(f"seeds: {', '.join(map(str, seeds))}")
    passed_on = [
        *([] if backend is None else ["--backend", backend]),
        *([] if system is None else ["--system", system]),
        *(["--skip-refused"] if skip_refused else []),
        *([] if metrics_port is None else ["--metrics-port", str(metrics_port)]),
        *([] if metrics_port is None else ["--metrics-address", metrics_address]),
    ]
    children = ChildProcesses()
    children.install()
    statuses: list[ExitStatus] = []
    with suppress(Interrupted):
        for seed in seeds:
            before = _ended_results()
            status = children.campaign([str(campaign), "--seed", str(seed), *passed_on])
            if place is not None and not _copy(_ended_results() - before, place):
                status = worst([status, ExitStatus.INFRASTRUCTURE])
            statuses.append(status)
    _print(seeds, statuses)
    skipped = len(statuses) < len(seeds)
    context.exit(worst([*statuses, *([ExitStatus.INCONCLUSIVE] if skipped else [])]))


def _ended_results() -> set[Path]:
    """Return the directories with the results of campaigns that have ended."""
    found = [path for path in places.RESULTS.glob("*/") if not path.is_symlink()]
    return {
        path
        for path in found
        if (path / places.CAMPAIGN_FILE).is_file() and not places.is_running(path)
    }


def _copy(results: set[Path], place: AnyPath) -> bool:
    """Copy results, and return whether all of them were copied. Prints a line for each."""
    complete = True
    for one in sorted(results):
        try:
            click.echo(f"copied to {places.copy(one, place)}")
        except OSError as error:
            click.echo(f"ackproof: {one} was not copied to {place}: {error}", err=True)
            complete = False
    return complete


def _print(seeds: Sequence[int], statuses: Sequence[ExitStatus]) -> None:
    table = Table("seed", "exit status", "meaning", box=box.SIMPLE_HEAD, pad_edge=False)
    for seed, status in zip(seeds, statuses, strict=False):
        table.add_row(str(seed), str(status.value), status.meaning)
    for seed in seeds[len(statuses) :]:
        table.add_row(str(seed), "", "not started")
    console().print(table)
