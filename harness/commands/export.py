"""``ackproof export``: the history of a run for another checker."""

from collections.abc import Iterator
from pathlib import Path

import click

from ackproof.harness import directory as places
from ackproof.harness.commands.errors import fail, reported_errors
from ackproof.harness.exit_status import ExitStatus
from ackproof.history import jepsen, manifest, reader
from ackproof.history.errors import DamagedFiles
from ackproof.history.manifest import PlannedRun
from ackproof.history.names import FileStem


@click.command(
    epilog="""\b
Examples:
  ackproof export results/latest > history.edn
  ackproof export results/latest --run 2 > history.edn
""",
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--run", "number", type=click.IntRange(min=1), help="The number of the run, if DIR has several."
)
def export(directory: Path, number: int | None) -> None:
    """Print the history of a run in DIR as operations of Jepsen's Kafka workload, one a line (EDN).

    Exits with 2 if DIR holds no such run, and with 3 if its history is incomplete: a checker would
    find nothing wrong with what it does not see.
    """
    with reported_errors():
        results = places.existing(directory)
        run = _chosen(results, manifest.read(results).runs, number)
        history = results / "runs" / str(run.number) / "history"
        if not history.is_dir():
            fail(
                f"{results} has no history of run {run.number}: {history} does not exist",
                ExitStatus.USAGE,
            )
        if absent := dict.fromkeys(_absent(history, run)):
            raise DamagedFiles({history / name: "is missing" for name in absent})
        for line in jepsen.lines(history):
            click.echo(line)


def _chosen(results: Path, runs: tuple[PlannedRun, ...], number: int | None) -> PlannedRun:
    if number is None and len(runs) > 1:
        fail(f"{results} has the runs 1 to {len(runs)}: choose one with --run N", ExitStatus.USAGE)
    chosen = next((run for run in runs if number in (None, run.number)), None)
    if chosen is None:
        fail(f"{results} has no run {number or 1}, only {len(runs)}", ExitStatus.USAGE)
    return chosen


def _absent(history: Path, run: PlannedRun) -> Iterator[str]:
    """Yield the missing files of writers that wrote rows, or never reported their number."""
    empty = {
        (row["table"], row["writer"], row["topic"], row["partition"])
        for row in reader.read(history, "closings").to_pylist()
        if row["rows"] == 0
    }
    for writer in run.writers:
        if writer.instead_of is not None:
            continue
        stems = reader.by_stem(history, writer.table)
        for partition in writer.partitions or (None,):
            stem = FileStem(table=writer.table, writer=writer.writer, partition=partition)
            known_empty = (writer.table, writer.writer, *(partition or (None, None))) in empty
            if stem not in stems and not known_empty:
                yield f"{stem}.parquet"
