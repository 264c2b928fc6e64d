"""A campaign with several seeds: ``python -m harness.nightly campaigns/quick.yaml --seeds 3``.

Every night has seeds of its own, derived from the date, so that a night can be repeated. A failure
does not stop the rest; the exit status is the worst of all, and a broken guarantee is the worst.
"""

import random
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
from rich import box
from rich.table import Table

from harness.console import console
from harness.exit_status import ExitStatus, worst

_SEED_BITS = 32


def seeds_of(day: str, count: int) -> tuple[int, ...]:
    """The seeds of a day, e.g. ``2031-05-17``."""
    rng = random.Random(f"nightly/{day}")
    return tuple(rng.getrandbits(_SEED_BITS) for _ in range(count))


@click.command()
@click.argument("campaign", type=click.Path(path_type=Path))
@click.option("--seeds", "count", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--seed", "given", type=click.IntRange(min=0), multiple=True, help="Exactly these.")
@click.option("--day", help="The day whose seeds to take, e.g. 2031-05-17. Today (UTC) if absent.")
@click.pass_context
def main(
    context: click.Context, campaign: Path, count: int, given: tuple[int, ...], day: str | None
) -> None:
    """Run CAMPAIGN once a seed; one table at the end."""
    seeds = given or seeds_of(day or datetime.now(UTC).date().isoformat(), count)
    click.echo(f"seeds: {', '.join(map(str, seeds))}")
    statuses = [_run(campaign, seed) for seed in seeds]
    _print(seeds, statuses)
    context.exit(worst(statuses))


def _run(campaign: Path, seed: int) -> ExitStatus:
    command = [sys.executable, "-m", "harness", "run", str(campaign), "--seed", str(seed)]
    status = subprocess.run(command, check=False).returncode
    return ExitStatus(status) if status in set(ExitStatus) else ExitStatus.INCONCLUSIVE


def _print(seeds: Sequence[int], statuses: Sequence[ExitStatus]) -> None:
    table = Table("seed", "exit status", "meaning", box=box.SIMPLE_HEAD, pad_edge=False)
    for seed, status in zip(seeds, statuses, strict=True):
        table.add_row(str(seed), str(status.value), status.name.lower())
    console().print(table)


if __name__ == "__main__":
    main()
