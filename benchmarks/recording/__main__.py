"""The cost of recording for a client: ``python -m benchmarks.recording``; see docs/benchmarks.md.

The exit status is 0 if everything was measured, and 1 if a client or the cluster failed.
Measurements from before a failure are still shown and saved.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

import click
from rich.console import Console
from rich.table import Table

from benchmarks.recording.runs import Ratios, measure

FAILED = 1


@click.command()
@click.option("--repetitions", default=5, show_default=True, type=click.IntRange(min=1))
@click.option("--records", default=200_000, show_default=True, type=click.IntRange(min=1))
@click.option("--only", default="", help="Only cases whose name contains this.")
@click.option(
    "--output",
    default=Path("results/recording.json"),
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
)
def main(repetitions: int, records: int, only: str, output: Path) -> None:
    """Measure clients that record and their peers in turn, and show ratios."""
    console = Console()
    ratios: list[Ratios] = []
    try:
        for row in measure(repetitions, records, only, console.print):
            ratios.append(row)
    except (subprocess.SubprocessError, TimeoutError) as error:
        click.echo(f"Not measured: {error} {getattr(error, 'stderr', '') or ''}", err=True)
        sys.exit(FAILED)
    finally:
        if ratios:
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text(json.dumps([asdict(row) for row in ratios], indent=1) + "\n")
            console.print(table(ratios), f"All repetitions: {output}")


def table(ratios: Sequence[Ratios]) -> Table:
    """Return a table with the least, middle and greatest ratio of each row."""
    made = Table("case", "figure", title="A client that records / its peer")
    for heading in ("min", "median", "max"):
        made.add_column(heading, justify="right")
    for row in ratios:
        values = (min(row.values), median(row.values), max(row.values))
        made.add_row(row.case, row.figure, *(f"{value:.2f}" for value in values))
    return made


if __name__ == "__main__":
    main()
