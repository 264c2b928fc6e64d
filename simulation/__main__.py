"""``python -m simulation``: run a seed, search for one that fails, or replay a plan."""

import itertools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import (
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from simulation.plans.coverage import table
from simulation.plans.plan import SimulationPlan, from_json, to_json
from simulation.plans.scenarios import NEED_CONTROLLER, SCENARIOS
from simulation.plans.schedule import COORDINATION, draw
from simulation.search import SearchResult, Shrinker, narrative, run_seed, search
from simulation.world.world import RunOutcome, run

FAILURES_MAX: Final = 3

console = Console(highlight=False)


@click.command()
@click.option("--seed", type=int, help="Run one seed, and print its narrative.")
@click.option("--replay", type=click.Path(exists=True, path_type=Path), help="Run a saved plan.")
@click.option(
    "--seconds",
    type=float,
    help="Limit the search in seconds; with one job, in seconds of processor time.",
)
@click.option("--seeds", type=int, help="Limit the number of seeds.")
@click.option("--first", default=0, show_default=True, help="Set the first seed of a search.")
@click.option("--jobs", default=os.cpu_count() or 1, show_default=True, help="Set the parallelism.")
@click.option(
    "--scenario", type=click.Choice(list(SCENARIOS)), help="Add this scenario to every plan."
)
@click.option(
    "--coordination",
    type=click.Choice(COORDINATION),
    default="mixed",
    show_default=True,
    help="Choose the coordination of leaders.",
)
@click.option("--shrink/--no-shrink", default=True, help="Search for the smallest failing plan.")
@click.option(
    "--save",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("results/simulation"),
    show_default=True,
    help="Save failing plans in this directory.",
)
@click.option(
    "--coverage/--no-coverage", default=True, help="Show how often each kind of event occurred."
)
@click.option(
    "--failures",
    type=click.IntRange(min=1),
    default=FAILURES_MAX,
    show_default=True,
    help="End a search after this number of failures.",
)
@click.option(
    "--summary",
    type=click.Path(path_type=Path),
    help="Write the result to this file as JSON after every seed.",
)
def main(
    seed: int | None,
    replay: Path | None,
    seconds: float | None,
    seeds: int | None,
    first: int,
    jobs: int,
    scenario: str | None,
    coordination: str,
    shrink: bool,
    save: Path,
    coverage: bool,
    failures: int,
    summary: Path | None,
) -> None:
    """Run whole brokers in a simulated world. The exit status is 1 if an invariant broke.

    A search that is asked to stop (Ctrl-C, SIGTERM) finishes its current seeds and reports the
    result. A second request ends it at once.
    """
    began = time.monotonic()
    if scenario in NEED_CONTROLLER and coordination.startswith("leader"):
        raise click.UsageError(f"--scenario {scenario!r} needs a controller")
    if replay is not None:
        result = _run(from_json(replay.read_text()))
        shrink = False
    elif seed is not None:
        result = _run(draw(seed, scenario, coordination))
    else:
        span = itertools.count(first) if seeds is None else range(first, first + seeds)
        each = partial(run_seed, scenario=scenario, coordination=coordination)
        result = _search(iter(span), jobs, seconds, each, failures, summary)
    _write_summary(result, summary)
    for failure in result.failures:
        _report_failure(failure, shrink, save)
    if coverage:
        console.print(table(result.coverage))
    _print_summary(result, time.monotonic() - began)
    sys.exit(1 if result.failures else 0)


def _run(plan: SimulationPlan) -> SearchResult:
    result = SearchResult()
    outcome = run(plan)
    result.add(outcome)
    if outcome.violation is None:
        console.print("\n".join(narrative(outcome)), markup=False)
    return result


def _search(
    seeds: Iterator[int],
    jobs: int,
    seconds: float | None,
    run_seed: Callable[[int], RunOutcome],
    failures_max: int,
    summary: Path | None,
) -> SearchResult:
    stop_requested = _stop_requests()
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=None)

        def report(result: SearchResult) -> None:
            _write_summary(result, summary)
            progress.update(
                task,
                description=f"{result.seeds:,} seeds, {result.steps:,} steps, "
                f"{len(result.failures)} failed",
            )

        return search(
            seeds,
            jobs=jobs,
            seconds=seconds,
            run_seed=run_seed,
            failures_max=failures_max,
            report=report,
            stopped=stop_requested,
        )


def _stop_requests() -> Callable[[], bool]:
    """Return a function that says whether the user has asked to stop since this call.

    It also works where SIGINT was ignored, as it is in the background.
    """
    stop_requested = threading.Event()

    def request_stop(number: int, _frame: object) -> None:
        stop_requested.set()
        signal.signal(number, signal.SIG_DFL)  # a seed of a broken broker may run for ever

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, request_stop)
    return stop_requested.is_set


def _write_summary(result: SearchResult, summary: Path | None) -> None:
    if summary is not None:
        summary.write_text(json.dumps(_summary_of(result), indent=2) + "\n", encoding="utf-8")


def _report_failure(failure: RunOutcome, shrink: bool, save: Path) -> None:
    """Print the narrative of a failure, of its shrunk plan if requested, and the command to replay
    it."""
    assert failure.violation is not None
    console.print(
        f"\nseed {failure.plan.seed}: {failure.violation}", markup=False, style="bold red"
    )
    plan = _shrunk(failure) if shrink else failure.plan
    report = run(plan)
    console.print("\n".join(narrative(report)), markup=False)
    save.mkdir(parents=True, exist_ok=True)
    path = save / f"seed-{plan.seed}.json"
    path.write_text(to_json(plan))
    console.print(f"\nreplay: python -m simulation --replay {path}", markup=False)


def _shrunk(failure: RunOutcome) -> SimulationPlan:
    broken = failure.violation
    assert broken is not None

    def fails(plan: SimulationPlan) -> float | None:
        outcome = run(plan)
        same = outcome.violation is not None and outcome.violation.invariant == broken.invariant
        return outcome.broke_at_ms if same else None

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("shrinking", total=None)

        def report(runs: int, best: SimulationPlan) -> None:
            progress.update(
                task, description=f"shrinking: {len(best.actions)} actions after {runs} runs"
            )

        return Shrinker(fails, report).shrink(failure.plan)


def _summary_of(result: SearchResult) -> dict[str, Any]:
    """Return the summary for programs: the extent of the search, its processor time and the
    failures.

    ``processor_s`` covers the search only if it ran as one job.
    """
    return {
        "seeds": result.seeds,
        "steps": result.steps,
        "processor_s": round(time.process_time(), 1),
        "failures": [
            {
                "seed": failure.plan.seed,
                "invariant": failure.violation.invariant,
                "what": failure.violation.what,
            }
            for failure in result.failures
            if failure.violation is not None
        ],
    }


def _print_summary(result: SearchResult, seconds: float) -> None:
    seeds = f"{result.seeds:,} seed{'s' * (result.seeds != 1)}"
    console.print(
        f"{seeds}, {result.steps:,} steps, {result.virtual_s:,.0f} s of virtual time "
        f"in {seconds:.1f} s ({result.steps / seconds:,.0f} steps/s); "
        f"{len(result.failures)} failed"
    )


if __name__ == "__main__":
    main()
