"""``ackproof why``: what would have prevented a loss, or another failure."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from ackproof.config.suggestions import unknown
from ackproof.harness import directory as places
from ackproof.harness.campaign import validation
from ackproof.harness.commands.errors import fail, reported_errors
from ackproof.harness.counterfactuals.answer import all_looks, in_words, write
from ackproof.harness.counterfactuals.changes import shares_producers, short, variants
from ackproof.harness.counterfactuals.failures import NoCounterfactual, failure
from ackproof.harness.counterfactuals.question import Question
from ackproof.harness.exit_status import ExitStatus
from ackproof.harness.report import verdict
from ackproof.harness.shrinking.judge import DIRECTORY as SHRUNK
from ackproof.harness.shrinking.judge import SMALLEST, NothingToShrink
from ackproof.harness.shrinking.recorded import as_recorded
from ackproof.harness.shrinking.reductions import Candidate
from ackproof.harness.subprocesses import ChildProcesses, PlannedRun, carry_out_all
from ackproof.infra.systems import prepare

_RUNS = 6
"""The least number of runs with which a change can be shown to matter beside seven others, if it
prevents a loss that otherwise comes back every time."""


@click.command(
    epilog="""\b
Examples:
  ackproof why results/latest                    each change six times
  ackproof why results/latest --list             which changes apply, and nothing else
  ackproof why results/latest --guarantee no-duplicates
  ackproof why results/latest --change acks=all --runs 10
  ackproof why results/latest --runs 0           the page alone, of what was run
""",
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--list", "listing", is_flag=True, help="List the changes, and do nothing else.")
@click.option(
    "--runs",
    type=click.IntRange(min=0),
    default=_RUNS,
    show_default=True,
    help="Run the campaign N times as it was, and up to N times with each change.",
)
@click.option("--cell", help="Examine a failure of this cell.  [default: the first that failed]")
@click.option(
    "--guarantee",
    help="Examine why this guarantee was broken.  [default: one that was promised, a loss first]",
)
@click.option(
    "--change",
    "wanted",
    multiple=True,
    help="Try only this change, as --list names it. May be given several times.",
)
@click.pass_context
def why(
    context: click.Context,
    directory: Path,
    listing: bool,
    runs: int,
    cell: str | None,
    guarantee: str | None,
    wanted: tuple[str, ...],
) -> None:
    """Measure what would have prevented a loss or another failure: run the campaign of DIR again
    as it was and with each change, up to N times each.

    The changes are settings, eligible leader replicas, the newest release, another client library,
    and each fault left out. The campaign is DIR/shrink/smallest.yaml if `ackproof shrink` made it,
    or else the recorded run, in both cases with the cell that failed alone, or with all cells if
    they share producers. The result is DIR/why.md and DIR/why.json; a call about another cell or
    guarantee replaces them.

    A change with which the failure still comes is given up as soon as its further runs could not
    show that it helps. Runs are kept: after Ctrl-C, the next call goes on with the rest. Of those
    without the failure only the verdict and the report are kept, to save space. Exits with 0 when
    all runs came to a verdict and the failure came back, else with 3.
    """
    status = ExitStatus.HELD
    with reported_errors():
        found = places.existing(directory)
        try:
            question = _question(found, cell, guarantee)
        except (NoCounterfactual, NothingToShrink) as nothing:
            fail(f"{found}: {nothing}", ExitStatus.USAGE)
        asked = all_looks(found, question.failure, runs)
        question = replace(question, wanted=_chosen(wanted, question), looks=asked)
        if listing:
            for line in question.described:
                click.echo(line)
            return
        places.require_writable(found)
        finished = not runs or _carry_out(question, runs)
        answer = question.answer
        page = write(answer, found)
        for one in (answer.base, *answer.changes):
            inconclusive = f", {one.inconclusive} inconclusive" if one.inconclusive else ""
            happened = question.failure.happened
            found_in = f"{happened} in {in_words(one)}" if one.runs else in_words(one)
            click.echo(f"{one.name}: {found_in}{inconclusive}")
        click.echo(answer.conclusion)
        click.echo(str(page))
        if not finished or not answer.base.failed:
            status = ExitStatus.INCONCLUSIVE
    context.exit(status)


def _question(directory: Path, cell: str | None, guarantee: str | None) -> Question:
    try:
        result = verdict.read_document(directory / verdict.FILE)
    except FileNotFoundError:
        fail(f"{directory} was not checked; run ackproof check {directory}", ExitStatus.USAGE)
    examined = failure(result, cell, guarantee)
    smallest = directory / SHRUNK / SMALLEST
    if smallest.is_file():
        origin = f"The campaign is {SHRUNK}/{SMALLEST}."
        campaign = validation.check(smallest, meant=True).campaign
    else:
        origin = f"The campaign is run {examined.run} as it was recorded."
        campaign = validation.check(directory / places.CAMPAIGN_FILE, meant=True).campaign
        history = directory / "runs" / str(examined.run) / "history"
        campaign = as_recorded(campaign, examined.run, history)
    candidate = Candidate.of(campaign)
    found, left = variants(candidate, examined.cell)
    if shares_producers(candidate, examined.cell):
        origin = f"{origin} It has all its cells, because they share producers."
    else:
        origin = f"{origin} It has this cell alone."
    return Question(
        results=directory,
        campaign=campaign.name,
        seed=campaign.seed or 0,
        origin=origin,
        failure=examined,
        variants=found,
        left=left,
    )


def _chosen(wanted: Sequence[str], question: Question) -> Sequence[str]:
    """Return the whole names of the wanted changes. Each may end before its first comma."""
    changes = [one.name for one in question.variants[1:]]
    untried = {one.name: one.reason for one in question.left}
    chosen = []
    for name in wanted:
        found = [one for one in changes if name in (one, short(one))]
        if len(found) == 1:
            chosen += found
        elif name in untried:
            fail(f"{name} is not tried: {untried[name]}", ExitStatus.USAGE)
        else:
            known = [each for one in changes for each in (short(one), one)]
            reason = unknown("change", name, known, otherwise="--list names all of them")
            fail(reason, ExitStatus.USAGE)
    return chosen


def _carry_out(question: Question, runs: int) -> bool:
    """Carry out the runs, and return whether all came to a verdict."""
    for system in dict.fromkeys(one.system for one in question.chosen):
        prepare(system, click.echo)
    children = ChildProcesses()
    children.install()
    named = (
        PlannedRun(
            name=f"{one.directory.name} of {runs}, {variant.name}",
            run=one,
            outcome=question.outcome,
            held=question.held,
        )
        for variant, one in question.planned(runs)
    )
    return carry_out_all(named, children, click.echo, lambda: question.most_left(runs))
