"""The search for a failing seed, and the shrinking of its plan.

The search runs seeds on all cores, until the time is over or enough failures are found.
"""

import multiprocessing
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, TypeVar

from simulation.plans import actions as act
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


# --- shrinking ------------------------------------------------------------------------------------
#
# The smallest plan that still fails: delta debugging over all parts of a plan.
#
# The list of actions is reduced first (Zeller and Hildebrandt, *Simplifying and Isolating
# Failure-Inducing Input*, ddmin). The other parts follow, one at a time: brokers, partitions,
# settings, the size of bursts, the duration of faults. All of this is repeated until nothing can be
# removed. A plan counts as failing if it breaks the same invariant anywhere. Whether the cause is
# the same is unknown.

T = TypeVar("T")

RUNS_MAX: Final = 400
ROUND_MS: Final = (50, 200, 500, 1_000, 5_000)

Failure = Callable[[SimulationPlan], float | None]
"""A function that runs a plan and returns the virtual milliseconds from its beginning to the
violation, or None if the invariant held."""


class ShrinkLimitReached(Exception):
    """The permitted number of runs is reached."""


class Shrinker:
    """A search for the smallest failing plan.

    ``report`` is called after each run with the number of runs and the smallest plan so far.
    """

    def __init__(
        self,
        fails: Failure,
        report: Callable[[int, SimulationPlan], None],
        runs_max: int = RUNS_MAX,
    ) -> None:
        self.runs = 0
        self._fails = fails
        self._report_progress = report
        self._runs_max = runs_max
        self._best: SimulationPlan

    def shrink(self, plan: SimulationPlan) -> SimulationPlan:
        """Return the smallest plan found, or ``plan`` itself if it does not fail again."""
        self._best = plan
        try:
            if self._try(plan):
                self._shrink_fully()
        except ShrinkLimitReached:
            pass
        return self._best

    def _shrink_fully(self) -> None:
        before = None
        while before != self._best:
            before = self._best
            self._fewer_actions()
            for simplify in (_fewer_brokers, _fewer_parts, _fewer_settings, _smaller_actions):
                self._simplify(simplify)

    def _try(self, plan: SimulationPlan) -> bool:
        if self.runs >= self._runs_max:
            raise ShrinkLimitReached
        self.runs += 1
        broke_at = self._fails(plan)
        if broke_at is not None:
            self._best = _without_later_actions(plan, broke_at)
        self._report_progress(self.runs, self._best)
        return broke_at is not None

    def _fewer_actions(self) -> None:
        """Remove large parts of the list of actions first, then smaller ones (ddmin)."""
        parts = 2
        while (actions := self._best.actions) and parts <= 2 * len(actions):
            size = max(1, len(actions) // parts)
            for start in range(0, len(actions), size):
                left = actions[:start] + actions[start + size :]
                if self._try(self._best.with_actions(left)):
                    parts = max(2, parts - 1)
                    break
            else:
                if size == 1:
                    return
                parts *= 2

    def _simplify(self, simplify: Callable[[SimulationPlan], Iterator[SimulationPlan]]) -> None:
        """Try one simplification at a time, and start again from the result whenever one
        succeeds."""
        tried: set[int] = set()
        succeeded = True
        while succeeded:
            succeeded = False
            for plan in simplify(self._best):
                key = hash(plan)
                if key not in tried:
                    tried.add(key)
                    if self._try(plan):
                        succeeded = True
                        break


def _without_later_actions(plan: SimulationPlan, broke_at_ms: float) -> SimulationPlan:
    """Return the plan without the actions after the failure. They had no part in it, and the rest
    of the run is the same."""
    kept = tuple(timed for timed in plan.actions if timed.at_ms <= broke_at_ms)
    return plan.with_actions(kept)


def _without(items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    for number in range(len(items)):
        yield (*items[:number], *items[number + 1 :])


# --- simplifications, the largest first -------------------------------------------------------


def _fewer_brokers(plan: SimulationPlan) -> Iterator[SimulationPlan]:
    """Yield the plan without the last broker and its replicas."""
    if plan.brokers > 1:
        last = plan.brokers
        topics = tuple(_without_broker(topic, last) for topic in plan.topics)
        if all(all(topic.replicas) for topic in topics):
            kept = tuple(t for t in plan.actions if not _names_broker(t.action, last))
            yield replace(
                plan,
                brokers=last - 1,
                topics=topics,
                actions=kept,
                settings=tuple(
                    (name, str(min(int(value), last - 1)) if name.endswith(FACTOR) else value)
                    for name, value in plan.settings
                ),
            )


FACTOR: Final = "topic.replication.factor"


def _without_broker(topic: act.CreateTopicOrder, broker: int) -> act.CreateTopicOrder:
    replicas = tuple(tuple(b for b in ids if b != broker) for ids in topic.replicas)
    return replace(topic, replicas=replicas)


def _names_broker(action: act.Action, broker: int) -> bool:
    target = getattr(action, "target", None)
    if isinstance(target, act.Target) and target.role == "broker" and target.broker == broker:
        return True
    replicas: Any = getattr(action, "replicas", None) or ()
    return any(broker in (ids if isinstance(ids, tuple) else (ids,)) for ids in replicas)


def _fewer_parts(plan: SimulationPlan) -> Iterator[SimulationPlan]:
    for topics in _without(plan.topics):
        if topics:
            yield replace(plan, topics=topics)
    for number, topic in enumerate(plan.topics):
        if len(topic.replicas) > 1:
            fewer = replace(topic, replicas=topic.replicas[:-1])
            yield replace(plan, topics=(*plan.topics[:number], fewer, *plan.topics[number + 1 :]))
    if plan.zookeeper_servers > 1 or plan.zookeeper_lag_ms:
        yield replace(plan, zookeeper_servers=1, zookeeper_lag_ms=0)
    if any(plan.producers):
        yield replace(plan, producers=(False,) * len(plan.producers))


def _fewer_settings(plan: SimulationPlan) -> Iterator[SimulationPlan]:
    for number, topic in enumerate(plan.topics):
        for config in _without(topic.config):
            simpler = replace(topic, config=config)
            yield replace(plan, topics=(*plan.topics[:number], simpler, *plan.topics[number + 1 :]))


def _smaller_actions(plan: SimulationPlan) -> Iterator[SimulationPlan]:
    for number, timed in enumerate(plan.actions):
        for action in _smaller(timed.action):
            smaller = replace(timed, action=action)
            yield plan.with_actions((*plan.actions[:number], smaller, *plan.actions[number + 1 :]))


def _smaller(action: Any) -> Iterator[Any]:
    """Yield the action with smaller or rounder numbers."""
    names = {each.name for each in fields(action)}
    for name, sizes in (("batches", (1, 3)), ("records", (1,)), ("pause_ms", (0,))):
        if name in names:
            for size in sizes:
                if size < getattr(action, name):
                    yield replace(action, **{name: size})
    for name in ("for_ms", "down_ms"):
        if name in names:
            now = getattr(action, name)
            for span in ROUND_MS:
                if span < now and now not in ROUND_MS:
                    yield replace(action, **{name: span})
