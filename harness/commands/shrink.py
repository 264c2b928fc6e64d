"""``ackproof shrink``: the search for the smallest campaign that still fails."""

from dataclasses import dataclass, field
from pathlib import Path

import click

from ackproof.harness import directory as places
from ackproof.harness.campaign import validation
from ackproof.harness.commands.errors import fail, reported_errors
from ackproof.harness.exit_status import ExitStatus
from ackproof.harness.report import verdict
from ackproof.harness.shrinking.judge import (
    DIRECTORY,
    SMALLEST,
    Judge,
    NothingToShrink,
    RunLimitReached,
    failures_of,
    first_failed_run,
)
from ackproof.harness.shrinking.recorded import as_recorded
from ackproof.harness.shrinking.reductions import WAYS, Candidate
from ackproof.harness.shrinking.search import FailureNotReproduced, RunCounts, Search
from ackproof.harness.subprocesses import ChildProcesses, Interrupted


@click.command(
    epilog="""\b
Examples:
  ackproof shrink results/latest                 the smallest campaign that still fails
  ackproof shrink results/latest --runs-max 20   no more than so many runs; call again to go on
""",
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--run",
    "number",
    type=click.IntRange(min=1),
    help="The number of the run. Default: the first that failed.",
)
@click.option(
    "--doubt",
    type=click.FloatRange(0, 0.5, min_open=True),
    default=0.05,
    show_default=True,
    help=(
        "The accepted probability of keeping a part that is not needed. A lower value takes "
        "more runs."
    ),
)
@click.option(
    "--repeats-max",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="The highest number of runs of one candidate, however seldom the campaign fails.",
)
@click.option(
    "--confirm",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    help="The number of runs of the smallest campaign at the end, to measure how often it fails.",
)
@click.option(
    "--runs-max",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    help="The highest number of runs in total. Run the command again to continue.",
)
@click.pass_context
def shrink(
    context: click.Context,
    directory: Path,
    number: int | None,
    doubt: float,
    repeats_max: int,
    confirm: int,
    runs_max: int,
) -> None:
    """Repeat a failed run in DIR with fewer and shorter faults, fewer cells and servers, and a
    lower rate, until nothing more can go.

    A run failed if it broke a guarantee, or if it did not meet an expectation of its campaign. A
    smaller campaign counts if it fails by one of the same guarantees, or of the same expectations.

    A failure that shows only now and then is repeated as often as its odds ask for. The smallest
    campaign so far is DIR/shrink/smallest.yaml, and how often it failed stands in its first line.
    Interrupted, call it again: what was run is remembered. Exits with 0 when nothing more goes,
    with 3 when it was interrupted, or what failed does not fail again.
    """
    with reported_errors():
        found = places.existing(directory)
        candidate, failures = _begin(found, number)
        children = ChildProcesses()
        children.install()
        judge = Judge(found, failures, children, runs_max)
        search = Search(
            fails=judge.fails,
            ways=WAYS,
            report=SearchProgress(judge, candidate),
            doubt=doubt,
            repeats_max=repeats_max,
        )
        click.echo(f"failed: {', '.join(sorted(failures))}; starting with: {candidate}")
        status = _search(search, candidate, judge, confirm)
        if (smallest := found / DIRECTORY / SMALLEST).exists():
            click.echo(str(smallest))
    context.exit(status)


def _begin(found: Path, number: int | None) -> tuple[Candidate, frozenset[str]]:
    campaign = validation.check(found / places.CAMPAIGN_FILE, meant=True).campaign
    result = verdict.read(found)
    if result is None:
        fail(f"{found} has not been checked; run ackproof check {found}", ExitStatus.USAGE)
    try:
        run = first_failed_run(result) if number is None else number
        failures = failures_of(result, run)
        if not failures:
            raise NothingToShrink(f"run {run} broke no guarantee and met all expectations")
        recorded = as_recorded(campaign, run, found / "runs" / str(run) / "history")
    except NothingToShrink as nothing:
        fail(f"{found}: {nothing}", ExitStatus.USAGE)
    return Candidate.of(recorded), failures


def _search(
    search: Search[Candidate], candidate: Candidate, judge: Judge, confirm: int
) -> ExitStatus:
    try:
        smallest = search.shrink(candidate)
        tally = search.confirm(confirm)
    except FailureNotReproduced as held:
        click.echo(f"nothing to shrink: {held}")
        return ExitStatus.INCONCLUSIVE
    except (Interrupted, RunLimitReached) as ended:
        why = "interrupted" if isinstance(ended, Interrupted) else "the limit of runs is reached"
        click.echo(f"{why}; run the command again to continue")
        return ExitStatus.INCONCLUSIVE
    judge.keep(smallest, tally)
    click.echo(f"smallest: {smallest}; failed {tally} runs")
    return ExitStatus.HELD


@dataclass(slots=True)
class SearchProgress:
    """The progress of a search: one line for each run, and the smallest campaign on disk.

    ``smallest``: the smallest campaign that was announced, which is the recorded one at first.
    """

    judge: Judge
    smallest: Candidate
    runs: int = field(default=0)

    def __call__(self, candidate: Candidate, tally: RunCounts, smallest: bool) -> None:
        self.runs += 1
        if smallest:
            self.judge.keep(candidate, tally)
        better = ", the smallest so far" if smallest and candidate != self.smallest else ""
        if smallest:
            self.smallest = candidate
        click.echo(f"{self.runs}: {candidate}: failed {tally}{better}")
