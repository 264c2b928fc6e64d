"""A campaign with several seeds.

``python -m ackproof.harness.nightly campaigns/quick.yaml --seeds 3``

Every night has seeds of its own, derived from the date, so that a night can be repeated. A failure
does not stop the rest; the exit status is the worst of all, and a broken guarantee is the worst.

Asked to stop (Ctrl-C, SIGTERM), the campaign that is under way is asked, and waited for: it heals,
checks and cleans up. No other one is started.
"""

import random
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import click
from rich import box
from rich.table import Table

from ackproof.harness.children import Children, Interrupted
from ackproof.harness.console import console, go_on_unread
from ackproof.harness.exit_status import ExitStatus, worst

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
    children = Children()
    children.install()
    statuses: list[ExitStatus] = []
    with suppress(Interrupted):
        for seed in seeds:
            statuses.append(children.campaign([str(campaign), "--seed", str(seed)]))
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


if __name__ == "__main__":
    go_on_unread()
    main()
