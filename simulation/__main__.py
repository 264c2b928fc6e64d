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
from simulation.plans.plan import Plan, from_json, to_json
from simulation.plans.scenarios import OF_CONTROLLERS, SCENARIOS
from simulation.plans.schedule import COORDINATION, draw
from simulation.search.search import Found, run_seed, search, story
from simulation.search.shrink import Shrinker
from simulation.world.world import Outcome, run

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
    if scenario in OF_CONTROLLERS and coordination.startswith("leader"):
        raise click.UsageError(f"--scenario {scenario!r} needs a controller")
    if replay is not None:
        found = _run(from_json(replay.read_text()))
        shrink = False
    elif seed is not None:
        found = _run(draw(seed, scenario, coordination))
    else:
        span = itertools.count(first) if seeds is None else range(first, first + seeds)
        each = partial(run_seed, scenario=scenario, coordination=coordination)
        found = _search(iter(span), jobs, seconds, each, failures, summary)
    _write(found, summary)
    for failure in found.failures:
        _tell(failure, shrink, save)
    if coverage:
        console.print(table(found.coverage))
    _sum_up(found, time.monotonic() - began)
    sys.exit(1 if found.failures else 0)


def _run(plan: Plan) -> Found:
    found = Found()
    outcome = run(plan)
    found.take(outcome)
    if outcome.violation is None:
        console.print("\n".join(story(outcome)), markup=False)
    return found


def _search(
    seeds: Iterator[int],
    jobs: int,
    seconds: float | None,
    run_seed: Callable[[int], Outcome],
    failures_max: int,
    summary: Path | None,
) -> Found:
    asked = _asked_to_stop()
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=None)

        def told(found: Found) -> None:
            _write(found, summary)
            progress.update(
                task,
                description=f"{found.seeds:,} seeds, {found.steps:,} steps, "
                f"{len(found.failures)} failed",
            )

        return search(
            seeds,
            jobs=jobs,
            seconds=seconds,
            run_seed=run_seed,
            failures_max=failures_max,
            told=told,
            stopped=asked,
        )


def _asked_to_stop() -> Callable[[], bool]:
    """Return a function that says whether the user has asked to stop since this call.

    It also works where SIGINT was ignored, as it is in the background.
    """
    asked = threading.Event()

    def ask(number: int, _frame: object) -> None:
        asked.set()
        signal.signal(number, signal.SIG_DFL)  # a seed of a broken broker may run for ever

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)
    return asked.is_set


def _write(found: Found, summary: Path | None) -> None:
    if summary is not None:
        summary.write_text(json.dumps(_summary(found), indent=2) + "\n", encoding="utf-8")


def _tell(failure: Outcome, shrink: bool, save: Path) -> None:
    """Print the narrative of a failure, of its shrunk plan if requested, and the command to replay
    it."""
    assert failure.violation is not None
    console.print(
        f"\nseed {failure.plan.seed}: {failure.violation}", markup=False, style="bold red"
    )
    plan = _shrunk(failure) if shrink else failure.plan
    told = run(plan)
    console.print("\n".join(story(told)), markup=False)
    save.mkdir(parents=True, exist_ok=True)
    path = save / f"seed-{plan.seed}.json"
    path.write_text(to_json(plan))
    console.print(f"\nreplay: python -m simulation --replay {path}", markup=False)


def _shrunk(failure: Outcome) -> Plan:
    broken = failure.violation
    assert broken is not None

    def fails(plan: Plan) -> float | None:
        outcome = run(plan)
        same = outcome.violation is not None and outcome.violation.invariant == broken.invariant
        return outcome.broke_at_ms if same else None

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("shrinking", total=None)

        def told(runs: int, best: Plan) -> None:
            progress.update(
                task, description=f"shrinking: {len(best.actions)} actions after {runs} runs"
            )

        return Shrinker(fails, told).shrink(failure.plan)


def _summary(found: Found) -> dict[str, Any]:
    """Return the summary for programs: the extent of the search, its processor time and the
    failures.

    ``processor_s`` covers the search only if it ran as one job.
    """
    return {
        "seeds": found.seeds,
        "steps": found.steps,
        "processor_s": round(time.process_time(), 1),
        "failures": [
            {
                "seed": failure.plan.seed,
                "invariant": failure.violation.invariant,
                "what": failure.violation.what,
            }
            for failure in found.failures
            if failure.violation is not None
        ],
    }


def _sum_up(found: Found, seconds: float) -> None:
    console.print(
        f"{found.seeds:,} seeds, {found.steps:,} steps, {found.virtual_s:,.0f} s of virtual time "
        f"in {seconds:.1f} s ({found.steps / seconds:,.0f} steps/s); {len(found.failures)} failed"
    )


if __name__ == "__main__":
    main()
