"""``ackproof export | seal``: results that others can check, with or without Ackproof."""

from pathlib import Path

import click

from ackproof.harness import directory as places
from ackproof.harness.commands.errors import fail, reported_errors
from ackproof.harness.exit_status import ExitStatus
from ackproof.history import jepsen, manifest
from ackproof.history.manifest import PlannedRun


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
        for op in jepsen.recorded(history, run):
            click.echo(jepsen.edn(op))


def _chosen(results: Path, runs: tuple[PlannedRun, ...], number: int | None) -> PlannedRun:
    if number is None and len(runs) > 1:
        fail(f"{results} has the runs 1 to {len(runs)}: choose one with --run N", ExitStatus.USAGE)
    chosen = next((run for run in runs if number in (None, run.number)), None)
    if chosen is None:
        fail(f"{results} has no run {number or 1}, only {len(runs)}", ExitStatus.USAGE)
    return chosen


@click.command(
    epilog="""\b
Examples:
  ackproof seal results/latest
  openssl genpkey -algorithm ed25519 -out key.pem
  ackproof seal results/latest --key key.pem
  openssl pkey -in key.pem -pubout -out public.pem
  python verify/recheck.py results/latest --key public.pem
""",
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--key",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The private key that signs the seal (Ed25519, PEM, without a password).",
)
def seal(directory: Path, key: Path | None) -> None:
    """Write DIR/seal.json: the SHA-256 of every file of checked results, and the verdict.

    It is an in-toto statement in a DSSE envelope. The program verify/recheck.py of the sources
    checks it, and judges the history again without Ackproof's code.
    """
    # The library for keys takes long to import.
    from ackproof.harness import sealing
    from ackproof.harness.report.verdict import FILE as VERDICT

    with reported_errors():
        results = places.existing(directory)
        if not isinstance(results, Path):
            fail(f"{results} is remote: seal a copy on this machine", ExitStatus.USAGE)
        if not (results / VERDICT).is_file():
            fail(f"{results} has no {VERDICT}: ackproof check {results}", ExitStatus.USAGE)
        try:
            signer = None if key is None else sealing.read_key(key)
        except (sealing.BadKey, OSError) as problem:
            fail(f"--key: {problem}", ExitStatus.USAGE)
        click.echo(sealing.seal(results, signer))
