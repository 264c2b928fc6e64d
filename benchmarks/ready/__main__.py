"""The time until a cluster is ready: ``python -m benchmarks.ready``; see docs/benchmarks.md.

The exit status is 0 if everything that works here was measured, 1 if a cluster did not start, and 3
if there is nothing to compare.
"""

import json
import sys
from pathlib import Path
from statistics import median

import click
from rich.console import Console
from rich.table import Table

from ackproof.infra.backends.local.enter import can_enter
from benchmarks.ready.waits import NotReady, Ratios, measure

FAILED = 1
MISSING = 3


@click.command()
@click.option("--repetitions", default=5, show_default=True, type=click.IntRange(min=1))
@click.option(
    "--output",
    default=Path("results/ready.json"),
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
)
def main(repetitions: int, output: Path) -> None:
    """Wait for the same cluster on each backend in turn, and show ratios."""
    console = Console(soft_wrap=True)
    if obstacle := can_enter():
        click.echo(f"Cannot compare: {obstacle}", err=True)
        sys.exit(MISSING)
    try:
        ratios = measure(repetitions, console.print)
    except NotReady as failure:
        click.echo(f"Not measured: {failure}", err=True)
        sys.exit(FAILED)
    if not ratios:
        click.echo("Cannot compare: no other backend works here", err=True)
        sys.exit(MISSING)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(ratios, indent=1) + "\n")
    console.print(table(ratios), f"All repetitions: {output}")


def table(ratios: Ratios) -> Table:
    """Return a table with the least, middle and greatest ratio of each row."""
    made = Table("cluster on", title="Command to ready cluster / the same on the backend local")
    for heading in ("min", "median", "max"):
        made.add_column(heading, justify="right")
    for case, values in ratios.items():
        shown = (f"{value:.2f}" for value in (min(values), median(values), max(values)))
        made.add_row(case, *shown)
    return made


if __name__ == "__main__":
    main()
