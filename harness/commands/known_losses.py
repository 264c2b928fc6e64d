"""``ackproof known-losses``: the reproduction of losses that released versions of Apache Kafka are
known for."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import click

from ackproof.config.suggestions import unknown
from ackproof.harness import directory as places
from ackproof.harness.commands import options
from ackproof.harness.commands.errors import fail, reported_errors
from ackproof.harness.exit_status import ExitStatus
from ackproof.harness.known_losses import (
    ANSWERS,
    ANSWERS_SUFFIX,
    FINDINGS,
    LossCounts,
    LossRuns,
    LossSystem,
    held,
    outcome,
    page,
    read,
    words,
)
from ackproof.harness.subprocesses import (
    ChildProcesses,
    PlannedRun,
    carry_out_all,
    read_findings,
    write_findings,
)
from ackproof.history.storage import write_text
from ackproof.infra.systems import prepare

_FILE = Path("campaigns/known-losses/stories.yaml")


@click.command(
    name="known-losses",
    epilog="""\b
Examples:
  ackproof known-losses --runs 5                 every story, on every release, five times
  ackproof known-losses kip-966 --runs 3         one of them
  ackproof known-losses --runs 0                 the page alone, of what was run
""",
)
@click.argument("wanted", metavar="[STORY]...", nargs=-1)
@click.option(
    "--runs",
    "seeds",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Run each story on each of its systems with the seeds 1 to N.",
)
@click.option(
    "--stories",
    "file",
    type=click.Path(path_type=Path),
    default=_FILE,
    show_default=True,
    help="The file of stories; their campaigns are in the same directory.",
)
@options.kept_results(Path("results/known-losses"), "known-losses.md")
@click.pass_context
def known_losses(
    context: click.Context,
    wanted: tuple[str, ...],
    seeds: int,
    file: Path,
    results: Path,
    out: Path | None,
) -> None:
    """Run the stories of known losses on the releases that have them and on those that have fixed
    them, and write a page of the results.

    Results are kept: after Ctrl-C, the next call goes on with the rest. Of a run without the loss
    only the verdict and the report are kept, to save space. The findings of all runs
    are in a file beside the page (known-losses.json), and need not be run again on another
    machine. So are the answers of `ackproof why` about these runs (known-losses-why.json). Exits
    with 0 whatever the results are, with 3 when it was interrupted or a run came to no verdict.
    """
    status = ExitStatus.HELD
    with reported_errors():
        known = read(file)
        names = _chosen(wanted, list(known))
        made = out or results / "known-losses.md"
        for directory in (results, made.parent):
            places.require_writable(directory)
        kept = made.with_suffix(".json")
        answers = made.with_name(made.stem + ANSWERS_SUFFIX)
        runs = LossRuns(
            stories=known,
            campaigns=file.parent,
            results=results.absolute(),
            before=read_findings(kept, FINDINGS),
            answered=read_findings(answers, ANSWERS),
        )
        runs.check(names)
        if seeds and not _carry_out(runs, names, seeds):
            status = ExitStatus.INCONCLUSIVE
        made.parent.mkdir(parents=True, exist_ok=True)
        write_findings(kept, runs.all_findings, FINDINGS)
        write_findings(answers, runs.all_answers, ANSWERS)
        write_text(made, page(runs))
        for name, side, tally in _tallies(runs, names):
            click.echo(f"{name}: {side.name}: {words(tally).replace('*', '')}")
        click.echo(str(made))
    context.exit(status)


def _chosen(wanted: Sequence[str], known: Sequence[str]) -> Sequence[str]:
    for name in wanted:
        if name not in known:
            fail(unknown("story", name, known), ExitStatus.USAGE)
    return wanted or known


def _carry_out(runs: LossRuns, names: Sequence[str], seeds: int) -> bool:
    """Carry out the planned runs, and return whether all came to a verdict."""
    systems = (side.system for name in names for side in runs.stories[name].sides)
    for system in dict.fromkeys(systems):
        prepare(system, click.echo)
    children = ChildProcesses()
    children.install()
    planned = [
        PlannedRun(
            name=f"{name} on {side.name}, seed {one.seed}",
            run=one,
            outcome=partial(outcome, shows=shows),
            held=partial(held, shows=shows),
        )
        for name, side, one in runs.planned(names, seeds)
        for shows in [runs.stories[name].shown(side)]
    ]
    return carry_out_all(
        planned, children, click.echo, lambda: sum(one.run.result is None for one in planned)
    )


def _tallies(runs: LossRuns, names: Sequence[str]) -> Iterator[tuple[str, LossSystem, LossCounts]]:
    for name in names:
        for side in runs.stories[name].sides:
            yield name, side, runs.tally(name, side)
