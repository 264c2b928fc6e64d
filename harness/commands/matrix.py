"""``ackproof matrix``: a campaign on several systems, side by side."""

import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from ackproof.harness import directory as places
from ackproof.harness.campaign import validation
from ackproof.harness.commands import options
from ackproof.harness.commands.errors import reported_errors
from ackproof.harness.console import console, plain
from ackproof.harness.exit_status import ExitStatus, exit_status, worst
from ackproof.harness.report.terminal import comparison_table
from ackproof.harness.side_by_side import document, page
from ackproof.harness.side_by_side.members import MatrixSystem, carried_out, members, read
from ackproof.harness.side_by_side.page import side_by_side
from ackproof.harness.subprocesses import ChildProcesses, Interrupted
from ackproof.infra.systems import parse, prepare, product

_SEED_BITS = 32


def _systems(_context: click.Context, _option: click.Parameter, text: str) -> tuple[str, ...]:
    try:
        found = tuple(parse(name.strip()).text for name in text.split(","))
    except ValueError as refusal:
        raise click.BadParameter(str(refusal)) from None
    if product.EXTERNAL in found:
        # Before the first run on it, the user must confirm, which is not possible here.
        raise click.BadParameter(
            f"{product.EXTERNAL}: an external cluster is tested with `ackproof run`"
        )
    if len(set(found)) < len(found):
        raise click.BadParameter("a system is given twice")
    return found


@click.command(
    epilog="""\b
Examples:
  ackproof matrix --systems bundled,kafka:3.9.2,kafka:4.4.0 campaigns/quick.yaml
  ackproof matrix --systems bundled,kafka:4.4.0 campaigns/admin.yaml --out /tmp/m    systems that
                                                              have results are not run again
""",
)
@options.campaign("file")
@click.option(
    "--systems",
    required=True,
    callback=_systems,
    metavar="SYSTEM,...",
    help=(
        "The systems to test: bundled, kafka:VERSION, kafka:/DIRECTORY or kafka:image:NAME, "
        "separated by commas."
    ),
)
@click.option(
    "--seed", type=click.IntRange(min=0), help="The seed of the schedule. Default: random."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help=(
        "Directory for the results: a new one, or that of an earlier matrix of this "
        "campaign, which then continues. Default: results/<campaign>-matrix-<UTC time>."
    ),
)
@click.pass_context
def matrix(
    context: click.Context,
    file: Path,
    systems: tuple[str, ...],
    seed: int | None,
    out: Path | None,
) -> None:
    """Run a campaign on several systems, one after the other, with the same seed, and show them
    side by side: losses and duplicates, the unavailability after each fault, latency and
    throughput, cell by cell.

    A system that refuses the campaign is shown as refused. The last line is the path of the report.
    Exits as `ackproof run` does, with the worst status of its systems.
    """
    with reported_errors():
        campaign = validation.load(file)
        directory = (out or places.fresh(f"{campaign.name}-matrix", time.time_ns())).absolute()
        places.require_writable(directory)
        drawn = _seed(directory, file, seed if seed is not None else campaign.seed)
        found = members(file.absolute(), systems, drawn, directory)
        directory.mkdir(parents=True, exist_ok=True)
        click.echo(f"{campaign.name}: seed {drawn}, results in {directory}")

        def keep(known: Sequence[MatrixSystem]) -> Path:
            document.write(directory, document.made(campaign.name, file, drawn, known))
            return page.write(directory, campaign.name, file, drawn, known)

        found, interrupted = _carry_out(found, keep)
        _show(found)
        click.echo(str(keep(found)))
    context.exit(ExitStatus.INCONCLUSIVE if interrupted else _status(found))


def _seed(directory: Path, file: Path, wanted: int | None) -> int:
    """Return the seed of an existing matrix, or else the wanted one, or a drawn one. Raises
    ResultsDirectoryError if the directory has another matrix, or one that cannot be read."""
    known = document.read(directory)
    if known is None:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise places.ResultsDirectoryError(
                f"{directory} is not an empty directory, and has no matrix in it"
            )
        return secrets.randbits(_SEED_BITS) if wanted is None else wanted
    if known.sha256 != document.digest(file):
        raise places.ResultsDirectoryError(
            f"{directory} has a matrix of {known.campaign}, not of {file}"
        )
    if wanted not in (None, known.seed):
        raise places.ResultsDirectoryError(
            f"{directory} has a matrix of seed {known.seed}, not of {wanted}"
        )
    return known.seed


def _carry_out(
    found: list[MatrixSystem], keep: Callable[[Sequence[MatrixSystem]], object]
) -> tuple[list[MatrixSystem], bool]:
    """Return each system with its results, and whether the user asked to stop. The results are
    stored after each system. A killed matrix keeps the finished results and its seed."""
    children = ChildProcesses()
    children.install()
    for index, member in enumerate(found):
        found[index] = read(member)
    keep(found)
    try:
        for index, member in enumerate(found):
            if member.result is None and not member.refused:
                prepare(member.system, click.echo)
                click.echo(f"{member.system}: {member.once.directory}")
            found[index] = carried_out(member, children)
            keep(found)
    except Interrupted:
        click.echo("interrupted; run the command again with --out to continue")
        return found, True
    return found, False


def _show(found: Sequence[MatrixSystem]) -> None:
    for made in (side_by_side(found), page.unavailable(found)):
        if made.groups:
            console().print(comparison_table(made))
    for member in found:
        for reason in member.refused:
            console().print(plain(f"{member.system} refuses it: {reason}"), soft_wrap=True)
        if member.trouble:
            line = f"{member.system}: no verdict: {member.trouble}"
            console().print(plain(line), soft_wrap=True)


def _status(found: Sequence[MatrixSystem]) -> ExitStatus:
    """Return the worst status of the systems that did not refuse the campaign. A system without a
    verdict counts as an infrastructure that failed."""
    return worst(
        ExitStatus.INFRASTRUCTURE if member.result is None else exit_status(member.result)
        for member in found
        if not member.refused
    )
