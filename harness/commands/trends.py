"""``ackproof history add | trend``: results in a small file, from night to night."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from ackproof.harness.commands.errors import fail, reported_errors
from ackproof.harness.console import console
from ackproof.harness.directory import ResultsDirectoryError
from ackproof.harness.exit_status import ExitStatus
from ackproof.history.messages import printable
from ackproof.history.storage import write_text

_PATH = click.Path(path_type=Path)


@click.group(
    epilog="""\b
Examples:
  ackproof history add results/latest --to history.jsonl
  ackproof history trend history.jsonl --html trend.html
""",
)
def history() -> None:
    """Keep the figures of results from night to night in a small file, and show their trends.

    The file has one line of JSON for each result. A CI job caches it, while the results themselves
    may be thrown away.
    """


@history.command(
    short_help="Add the figures of results to a history file.",
    epilog="""\b
Examples:
  ackproof history add results/latest --to history.jsonl
  ackproof history add results/nightly-* --to history.jsonl --keep 90
""",
)
@click.argument("results", metavar="RESULTS...", nargs=-1, required=True, type=_PATH)
@click.option(
    "--to",
    "file",
    metavar="FILE",
    required=True,
    type=_PATH,
    help="The history file. It is created if it does not exist.",
)
@click.option(
    "--keep",
    metavar="N",
    type=click.IntRange(min=1),
    help="Keep the newest N nights of each campaign, and drop the older ones.",
)
@click.pass_context
def add(context: click.Context, results: tuple[Path, ...], file: Path, keep: int | None) -> None:
    """Add the figures of each RESULTS directory to a history file, one line each.

    A result that is in the file already is not added again. If it was checked again since, its line
    is replaced. A line that this version cannot read is kept as it is, and named.

    Exits with 0 whatever the verdicts are. Results that were never checked, or were changed after
    the check, are refused: the others are added, and the exit status is 2.
    """
    # The report takes a while to import.
    from ackproof.harness.report.trends import night_file

    nights, refused = [], []
    for directory in results:
        try:
            nights.append(night_file.night(directory))
        except ResultsDirectoryError as error:
            refused.append(str(error))
    for reason in refused:
        click.echo(f"ackproof: {printable(reason)}", err=True)
    if not nights:
        context.exit(ExitStatus.USAGE)
    with _usage(file):
        done = night_file.add(file, nights, keep)
    for trouble in night_file.troubles(file, done.lines):
        click.echo(f"ackproof: {printable(trouble)}", err=True)
    counts = {
        "added": len(done.added),
        "replaced after a new check": len(done.replaced),
        "already present": len(done.known),
        "dropped because of their age": done.dropped,
    }
    words = "; ".join(f"{count} {what}" for what, count in counts.items() if count)
    click.echo(f"{printable(str(file))}: {words or 'nothing added'}")
    context.exit(ExitStatus.USAGE if refused else ExitStatus.HELD)


@history.command(
    short_help="Print the nights of a history file, newest last.",
    epilog="""\b
Examples:
  ackproof history trend history.jsonl
  ackproof history trend history.jsonl --last 90 --html trend.html
  ackproof history trend history.jsonl --fail-on worse
""",
)
@click.argument("file", metavar="FILE", type=_PATH)
@click.option(
    "--last",
    metavar="N",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="Show the last N nights of each campaign.",
)
@click.option("--html", "page", metavar="PAGE", type=_PATH, help="Also write a page with charts.")
@click.option(
    "--fail-on",
    "wanted",
    type=click.Choice(["worse"]),
    help=(
        "Exit with 4 if the last night has a worse verdict, or lost more guaranteed "
        "records, than every earlier night of the same campaign and system. The last night "
        "is the 12 hours up to the newest result."
    ),
)
@click.pass_context
def trend(
    context: click.Context, file: Path, last: int, page: Path | None, wanted: str | None
) -> None:
    """Print the nights of a history file, the newest at the bottom: verdicts, lost records,
    outages, latencies, and how many cells were inconclusive.

    A + says that a figure is unknown for some cell, so that the true one is at least this. A line
    that this version cannot read is named and passed over.

    Exits with 0 whatever the verdicts are, unless --fail-on is given.
    """
    # The report takes a while to import.
    from ackproof.harness.report.trends import night_file
    from ackproof.harness.report.trends.trend import (
        not_compared,
        print_nights,
        render,
        worse_than_before,
    )

    if page is not None and page.resolve() == file.resolve():
        fail(f"--html: {page} is the history file itself", ExitStatus.USAGE)
    with _usage(file):
        lines = night_file.read(file)
    nights = night_file.nights(lines)
    troubles = list(night_file.troubles(file, lines))
    if page is not None:
        with _usage(page):
            page.parent.mkdir(parents=True, exist_ok=True)
            write_text(page, printable(render(nights, troubles, last)))
    for trouble in troubles:
        click.echo(f"ackproof: {printable(trouble)}", err=True)
    if not nights:
        click.echo(f"{printable(str(file))} has no nights yet")
    print_nights(console(), nights, last)
    if page is not None:
        click.echo(printable(str(page)))
    reasons = list(worse_than_before(nights)) if wanted else []
    notes = [f"not compared: {one}" for one in not_compared(nights)] if wanted else []
    for words in (*(f"worse: {one}" for one in reasons), *notes):
        click.echo(printable(words), err=True)
    context.exit(ExitStatus.UNMET if reasons else ExitStatus.HELD)


@contextmanager
def _usage(file: Path) -> Iterator[None]:
    """Print the problem of a path that the user has named, with the exit status of bad usage."""
    from ackproof.harness.report.trends.night_file import NightFileError

    with reported_errors():
        try:
            yield
        except FileNotFoundError:
            hint = f"ackproof history add RESULTS --to {file}"
            fail(f"{file} does not exist; to create it: {hint}", ExitStatus.USAGE)
        except (IsADirectoryError, NotADirectoryError, FileExistsError, PermissionError) as error:
            fail(f"{file} cannot be used: {error.strerror}", ExitStatus.USAGE)
        except NightFileError as error:
            fail(str(error), ExitStatus.USAGE)
