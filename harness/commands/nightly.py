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

from ackproof.harness.commands import options
from ackproof.harness.console import console
from ackproof.harness.exit_status import ExitStatus, worst
from ackproof.harness.subprocesses import ChildProcesses, Interrupted

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
@options.metrics(1)
@click.option("--day", help="The date for the seeds, e.g. 2031-05-17. Default: today (UTC).")
@click.pass_context
def nightly(
    context: click.Context,
    campaign: Path,
    count: int,
    given: tuple[int, ...],
    metrics_port: int | None,
    metrics_address: str,
    day: str | None,
) -> None:
    """Run CAMPAIGN (nightly) once for each of several seeds, which differ from day to day.

    Prints a table of all seeds at the end, and exits with the worst status of them.
    """
    seeds = given or seeds_of(day or datetime.now(UTC).date().isoformat(), count)
    click.echo(f"seeds: {', '.join(map(str, seeds))}")
    scraped = (
        []
        if metrics_port is None
        else ["--metrics-port", str(metrics_port), "--metrics-address", metrics_address]
    )
    children = ChildProcesses()
    children.install()
    statuses: list[ExitStatus] = []
    with suppress(Interrupted):
        for seed in seeds:
            statuses.append(children.campaign([str(campaign), "--seed", str(seed), *scraped]))
    _print(seeds, statuses)
    skipped = len(statuses) < len(seeds)
    context.exit(worst([*statuses, *([ExitStatus.INCONCLUSIVE] if skipped else [])]))


def _print(seeds: Sequence[int], statuses: Sequence[ExitStatus]) -> None:
    table = Table("seed", "exit status", "meaning", box=box.SIMPLE_HEAD, pad_edge=False)
    for seed, status in zip(seeds, statuses, strict=False):
        table.add_row(str(seed), str(status.value), status.meaning)
    for seed in seeds[len(statuses) :]:
        table.add_row(str(seed), "", "not started")
    console().print(table)
