"""A run as a story: what happened to whom, when, and what did not hold in the end."""

import re
from collections.abc import Iterator
from typing import Final

from simulation.plans.plan import Plan
from simulation.world.world import Outcome

PARTITION: Final = re.compile(r"\b([\w.]+)-(\d+)\b(?=[:, ]|$)")
PROGRESS: Final = re.compile(r"^([\w.]+-\d+) is committed up to")


def story(outcome: Outcome) -> list[str]:
    """Lines; what is of other partitions than the one concerned is left out."""
    return [*_cluster(outcome.plan), "", *_events(outcome), "", *_end(outcome)]


def _cluster(plan: Plan) -> Iterator[str]:
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


def _events(outcome: Outcome) -> Iterator[str]:
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


def _end(outcome: Outcome) -> Iterator[str]:
    if outcome.violation is None:
        yield f"Everything held, in {outcome.virtual_s:.1f} s and {outcome.steps:,} steps."
    else:
        yield f"{outcome.virtual_s:9.3f} s  {outcome.violation}"
