"""What scenarios are made of: a topic of their own, roles, and how actions are added to a plan."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random
from typing import Final

from simulation.plans.actions import (
    Action,
    CreateTopic,
    DeposeController,
    Isolate,
    Produce,
    SlowZooKeeper,
    Timed,
    Who,
)
from simulation.plans.plan import Plan, Settings

TOPIC: Final = "k0"
LEADER, FOLLOWER, STRAGGLER = (
    Who(role="leader", topic=TOPIC),
    Who(role="follower", topic=TOPIC),
    Who(role="straggler", topic=TOPIC),
)
CONTROLLER: Final = Who(role="controller")

Scenario = Callable[[Plan, Random], Plan]


def extended(
    plan: Plan,
    actions: Iterable[tuple[float, Action]],
    *,
    settings: Settings = (),
    topics: Iterable[CreateTopic] = (),
    brokers: int = 1,
    run_ms: int = 0,
) -> Plan:
    """``plan`` with these actions at these times (ms), on at least so many brokers, and at least
    as long."""
    timed = [Timed(at_ms=int(at_ms), action=action) for at_ms, action in actions]
    return replace(
        plan.with_more(timed),
        brokers=max(plan.brokers, brokers),
        settings=tuple({**dict(plan.settings), **dict(settings)}.items()),
        topics=(*plan.topics, *topics),
        run_ms=max(plan.run_ms, run_ms),
    )


def topic_of_three(plan: Plan, rng: Random, brokers: int = 3, **config: str) -> CreateTopic:
    """On three of the brokers."""
    replicas = rng.sample(range(1, max(plan.brokers, brokers) + 1), 3)
    given = tuple((name.replace("_", "."), value) for name, value in config.items())
    return CreateTopic(topic=TOPIC, replicas=(tuple(replicas),), config=given)


def produce(acks: int, batches: int, pause_ms: int = 0) -> Produce:
    """By the plan's first producer; see :func:`plainly`."""
    return Produce(
        producer=0,
        topic=TOPIC,
        partition=0,
        acks=acks,  # type: ignore[arg-type]
        batches=batches,
        records=1,
        pause_ms=pause_ms,
    )


def beginning(plan: Plan, rng: Random) -> int:
    """Draw when a scenario begins, in ms."""
    return rng.randrange(500, max(1_000, plan.run_ms - 8_000))


def plainly(plan: Plan) -> Plan:
    """The first producer is not idempotent: that would wait for all replicas, one batch after the
    other, whatever it is asked for."""
    return replace(plan, producers=(False, *plan.producers[1:]))


def apart(who: Who, peer: Who, for_ms: int) -> Isolate:
    """Two brokers do not reach each other for a while."""
    return Isolate(
        who=who, peer=peer, direction="both", clients=False, zookeeper=False, for_ms=for_ms
    )


UNTIL_LED_MS: Final = 1_500
"""Until a controller that took the office has said what there is."""


def led_from_outside(brokers: Iterable[int], by_ms: float) -> list[tuple[float, Action]]:
    """The controller is none of these by then, which begins :data:`UNTIL_LED_MS` earlier: else
    links that are cut among them, or to ZooKeeper, are its own.

    They hear later than the others that the office is free.
    """
    at_ms = by_ms - UNTIL_LED_MS
    distant = (
        SlowZooKeeper(who=Who(broker=broker), delay_ms=300, for_ms=500) for broker in brokers
    )
    return [*((at_ms, each) for each in distant), (at_ms + 20, DeposeController())]
