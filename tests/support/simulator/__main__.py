"""Search on the command line: ``PYTHONPATH=tests/support python -m simulator --help``."""

import sys

import click

from ackproof.broker.replication.config import Truncation
from simulator.mutations import MUTATIONS, Found, search
from simulator.simulation import Simulation, SimulationFailed


@click.command()
@click.option("--seed", type=int, help="Run this seed alone.")
@click.option("--first", default=0, show_default=True, help="First seed of a search.")
@click.option("--seeds", default=1_000, show_default=True, help="How many seeds to search.")
@click.option("--steps", default=1_000, show_default=True, help="Random steps per seed.")
@click.option("--mutation", type=click.Choice(list(MUTATIONS)), help="Break replication so.")
@click.option("--high-watermark", is_flag=True, help="Truncate by high watermark.")
@click.option("--trace", is_flag=True, help="With --seed: show every event and its effects.")
def main(
    seed: int | None,
    first: int,
    seeds: int,
    steps: int,
    mutation: str | None,
    high_watermark: bool,
    trace: bool,
) -> None:
    """Look for a seed under which an invariant breaks. Exit status 1 when there is one."""
    truncation = Truncation.HIGH_WATERMARK if high_watermark else Truncation.LEADER_EPOCH
    if mutation is None:
        found = _look(seed, range(first, first + seeds), steps, truncation, trace)
    else:
        with MUTATIONS[mutation].active():
            found = _look(seed, range(first, first + seeds), steps, truncation, trace)
    if found is not None:
        click.echo(f"found after {found.steps} steps: {found.failure}")
        sys.exit(1)
    click.echo("every invariant held")


def _look(
    seed: int | None, seeds: range, steps: int, truncation: Truncation, trace: bool
) -> Found | None:
    if seed is None:
        return search(seeds, steps, truncation)
    try:
        Simulation(seed, truncation, click.echo if trace else None).run(steps).settle()
    except SimulationFailed as failure:
        return Found(failure.step, failure)
    return None


if __name__ == "__main__":
    main()
