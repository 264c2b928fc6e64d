"""Ackproof's broker compared with Apache Kafka: ``python -m benchmarks.speed``; see
docs/benchmarks.md.

The exit status is 0 if everything was measured, 1 if a cluster failed, and 3 if something is
missing. Measurements from before a failure are still shown and saved.
"""

import sys
from pathlib import Path

import click
from rich.console import Console

from benchmarks.speed.cases import FULL, QUICK
from benchmarks.speed.load import LoadFailed
from benchmarks.speed.report import save, table
from benchmarks.speed.runs import Ratios, measure
from tests.support.clusters.apache_kafka import KafkaToolFailed

FAILED = 1
MISSING = 3


@click.command()
@click.option("--repetitions", default=5, show_default=True, type=click.IntRange(min=1))
@click.option("--quick", is_flag=True, help="A fifth of the records: for a look, not for a claim.")
@click.option("--only", default="", help="Only cases whose name contains this.")
@click.option(
    "--output",
    default=Path("results/speed.json"),
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
)
def main(repetitions: int, quick: bool, only: str, output: Path) -> None:
    """Measure both clusters in turn, and show ratios."""
    console = Console()
    ratios: list[Ratios] = []
    try:
        for row in measure(repetitions, QUICK if quick else FULL, only, console.print):
            ratios.append(row)
    except (KafkaToolFailed, FileNotFoundError) as error:
        click.echo(f"Cannot compare: {error}", err=True)
        sys.exit(MISSING)
    except (LoadFailed, TimeoutError) as error:
        click.echo(f"Not measured: {error}", err=True)
        sys.exit(FAILED)
    finally:
        if ratios:
            save(ratios, output)
            console.print(table(ratios), f"All repetitions: {output}")


if __name__ == "__main__":
    main()
