"""Search over seeds on all cores, until the time is over or enough failures are found."""

import multiprocessing
import re
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Final

from simulation.plans.coverage import Coverage
from simulation.plans.plan import SimulationPlan
from simulation.plans.schedule import draw
from simulation.world.world import RunOutcome, run

# --- the story of a run ---------------------------------------------------------------------------
#
# The narrative of a run: its events with their times, and the invariant that broke.

PARTITION: Final = re.compile(r"\b([\w.]+)-(\d+)\b(?=[:, ]|$)")
PROGRESS: Final = re.compile(r"^([\w.]+-\d+) is committed up to")


def narrative(outcome: RunOutcome) -> list[str]:
    """Return the narrative in lines, without the events of partitions that the violation does not
    concern."""
    return [*_cluster(outcome.plan), "", *_events(outcome), "", *_end(outcome)]


def _cluster(plan: SimulationPlan) -> Iterator[str]:
    yield f"Seed {plan.seed}. {plan.brokers} broker{'s' * (plan.brokers > 1)}."
    if plan.zookeeper_servers > 1:
        yield (
            f"{plan.zookeeper_servers} ZooKeeper servers, the followers up to "
            f"{plan.zookeeper_lag_ms} ms behind."
        )
    for topic in plan.topics:
        for number, replicas in enumerate(topic.replicas):
            yield f"{topic.topic}-{number} has its replicas on {list(replicas)}."
        for name, value in topic.config:
            yield f"{topic.topic}: {name}={value}"
    for name, value in plan.settings:
        yield f"{name}={value}"


def _events(outcome: RunOutcome) -> Iterator[str]:
    named = PARTITION.search(outcome.violation.what) if outcome.violation else None
    concerned = None if named is None else named.group(0)
    kept = [(at, what) for at, what in outcome.notes if _concerns(what, concerned)]
    for number, (at, what) in enumerate(kept):
        following = kept[number + 1][1] if number + 1 < len(kept) else ""
        if not (PROGRESS.match(what) and PROGRESS.match(following)):
            yield f"{at:9.3f} s  {what}"


def _concerns(what: str, concerned: str | None) -> bool:
    mentioned = PARTITION.findall(what)
    partitions = {f"{topic}-{number}" for topic, number in mentioned if topic != "broker"}
    return concerned is None or not partitions or concerned in partitions


def _end(outcome: RunOutcome) -> Iterator[str]:
    if outcome.violation is None:
        yield f"All invariants held, in {outcome.virtual_s:.1f} s and {outcome.steps:,} steps."
    else:
        yield f"{outcome.virtual_s:9.3f} s  {outcome.violation}"


# --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class SearchResult:
    """The result of a search, so far or as a whole."""

    seeds: int = 0
    steps: int = 0
    virtual_s: float = 0.0
    coverage: Coverage = field(default_factory=Coverage)
    failures: list[RunOutcome] = field(default_factory=list)

    def add(self, outcome: RunOutcome) -> None:
        self.seeds += 1
        self.steps += outcome.steps
        self.virtual_s += outcome.virtual_s
        self.coverage.update(outcome.coverage)
        if outcome.violation is not None:
            self.failures.append(outcome)


def run_seed(
    seed: int,
    scenario: str | None = None,
    coordination: str = "controller",
) -> RunOutcome:
    """Run one seed in a worker. The notes are dropped; run the seed again to get them."""
    outcome = run(draw(seed, scenario, coordination))
    outcome.notes = []
    return outcome


def search(
    seeds: Iterator[int],
    *,
    jobs: int,
    seconds: float | None,
    run_seed: Callable[[int], RunOutcome],
    failures_max: int,
    report: Callable[[SearchResult], None],
    stopped: Callable[[], bool] = lambda: False,
) -> SearchResult:
    """Run the seeds in order, as far as there is time.

    ``report`` is called after each seed. Once ``stopped`` returns true, no further seed is started.
    Other processes must be able to import ``run_seed``.

    One job runs in this process itself. Its seconds are processor time, so its progress does not
    depend on other load, and it leaves no process behind when it is killed.
    """
    if jobs == 1:
        return _search_in_process(seeds, seconds, run_seed, failures_max, report, stopped)
    result = SearchResult()
    end = None if seconds is None else time.monotonic() + seconds
    context = multiprocessing.get_context("spawn")  # threads of a parent process must not be forked
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_ignore_interrupts) as pool:
        running: set[Future[RunOutcome]] = set()
        while True:
            over = end is not None and time.monotonic() >= end
            over = over or stopped() or len(result.failures) >= failures_max
            while not over and len(running) < 2 * jobs:
                seed = next(seeds, None)
                if seed is None:
                    break
                running.add(pool.submit(run_seed, seed))
            if not running:
                return result
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                result.add(future.result())
                report(result)
            if over:
                for future in running:
                    future.cancel()
                running = {future for future in running if not future.cancelled()}


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C, which a terminal sends to all processes. The main process waits for running
    seeds."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _search_in_process(
    seeds: Iterator[int],
    seconds: float | None,
    run_seed: Callable[[int], RunOutcome],
    failures_max: int,
    report: Callable[[SearchResult], None],
    stopped: Callable[[], bool],
) -> SearchResult:
    result = SearchResult()
    end = None if seconds is None else time.process_time() + seconds
    for seed in seeds:
        result.add(run_seed(seed))
        report(result)
        over = end is not None and time.process_time() >= end
        if over or stopped() or len(result.failures) >= failures_max:
            break
    return result
