"""``ackproof compare``: the differences between two campaigns' results."""

import json
import os
from pathlib import Path
from urllib.parse import quote

import click

from ackproof.harness.commands.errors import fail, reported_errors
from ackproof.harness.console import console
from ackproof.harness.exit_status import ExitStatus, worst
from ackproof.history.storage import write_text

_PATH = click.Path(path_type=Path)
_STATUSES = {
    "broken": ExitStatus.BROKEN,
    "worse": ExitStatus.UNMET,
    "inconclusive": ExitStatus.INCONCLUSIVE,
}
"""The thresholds of ``--fail-on``, each with its exit status."""


@click.command(
    epilog="""\b
Examples:
  ackproof compare results/quick-20310516T021700Z results/latest
  ackproof compare results/before results/after --html differences.html
  ackproof compare results/before results/after --json > differences.json
  ackproof compare results/main results/branch --fail-on broken --fail-on worse
""",
)
@click.argument("a", metavar="A", type=_PATH)
@click.argument("b", metavar="B", type=_PATH)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
@click.option("--html", "page", metavar="PAGE", type=_PATH, help="Also write a page.")
@click.option(
    "--fail-on",
    "wanted",
    type=click.Choice(list(_STATUSES)),
    multiple=True,
    help=(
        "Fail if B broke a guarantee (exit status 1), if B is worse than A by more than "
        "chance (4), or if B is inconclusive (3). Can be given several times."
    ),
)
@click.pass_context
def compare(
    context: click.Context,
    a: Path,
    b: Path,
    as_json: bool,
    page: Path | None,
    wanted: tuple[str, ...],
) -> None:
    """Show the changes from the results in A to those in B, cell by cell: verdicts, lost and
    duplicated records, latencies, unavailability and throughput, and which of them chance may
    explain.

    Exits with 0 whatever changed, unless --fail-on is given; with 2 if a directory has no verdict,
    or one that was edited or damaged after the check.
    """
    with reported_errors():
        # Arrow and numpy are slow to import.
        from ackproof.harness.comparing import differences, output

        found = differences.compare(a, b)
        if page is not None:
            _write(page, output.render(found, (_report(a, page), _report(b, page))))
    if as_json:
        click.echo(json.dumps(differences.as_document(found), indent=2))
    else:
        output.print_differences(console(), found)
    failures = {name: list(differences.failures(found, name)) for name in dict.fromkeys(wanted)}
    for name, reasons in failures.items():
        for reason in reasons:
            click.echo(f"{name}: {reason}", err=True)
    if "worse" in wanted and not found.tests:
        few = f"{found.runs_needed} runs per side would be enough"
        click.echo(f"worse: only the verdicts were compared: {few}", err=True)
    context.exit(worst(_STATUSES[name] for name, reasons in failures.items() if reasons))


def _report(results: Path, page: Path) -> str:
    """Return the link from a page to the report of results; empty without a report."""
    from ackproof.harness import report  # it is slow to import

    file = results.resolve() / report.PAGE
    if not file.is_file():
        return ""
    return quote(os.fsencode(os.path.relpath(file, page.resolve().parent)))


def _write(page: Path, text: str) -> None:
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        write_text(page, text)
    except OSError as error:
        fail(f"--html {page}: {error.strerror or error}", ExitStatus.USAGE)
