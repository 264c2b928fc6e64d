"""The smallest plan that still fails: delta debugging over all parts of a plan.

The list of actions is reduced first (Zeller and Hildebrandt, *Simplifying and Isolating
Failure-Inducing Input*, ddmin). The other parts follow, one at a time: brokers, partitions,
settings, the size of bursts, the duration of faults. All of this is repeated until nothing can be
removed. A plan counts as failing if it breaks the same invariant anywhere. Whether the cause is the
same is unknown.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, Final, TypeVar

from simulation.plans import actions as act
from simulation.plans.plan import SimulationPlan

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
