"""Changes of plans that are already drawn. Each has a stream of its own and leaves the other draws
as they are."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Final

from ackproof.broker.replication.replica_selector import RACK_AWARE
from simulation.plans.actions import (
    AlterTopicOrder,
    CommitMany,
    Consume,
    DeposeController,
    LoseAnswer,
    LosePowerAfter,
    ProduceBatches,
    SlowDisk,
    Target,
    Timed,
)
from simulation.plans.plan import SimulationPlan

RETAINED: Final = 0.15
"""The share of plans with a topic that retains little."""
INDEXED: Final = 0.5
"""The share of plans with indexes."""
UNCLEAN: Final = 0.07
"""The share of plans in which a topic begins to allow unclean elections."""
SLOW_DISKS: Final = 0.2
"""The share of plans with slow disks."""
MID_STEP: Final = 0.3
"""The share of plans with power failures in the middle of steps."""
LOST_ANSWERS: Final = 0.2
"""The share of plans in which ZooKeeper's answers to some writes are lost."""
STATIC: Final = 0.4
"""The share of plans in which members of groups may be static, and join again."""
WRITTEN_PATHS: Final = (
    "/controller",
    "/brokers/ids",
    "/brokers/topics",
    "/brokers/topics",
    "/admin",
    "/config",
    "/",
)
"""The paths of such writes."""
QUEUE_PATH: Final = "/brokers/state"
"""The path of such writes without a controller."""
FLUSHED: Final = 0.25
"""The share of plans with ``flush.ms``."""
OFFSETS_SEGMENTS: Final = 0.6
"""The share of plans with small segments of ``__consumer_offsets``."""
IN_RACKS: Final = 0.85
"""The share of plans with brokers in racks."""


def with_pipelining(plan: SimulationPlan, rng: Random) -> SimulationPlan:
    """Let some idempotent producers have several unanswered batches."""
    ahead = tuple(rng.choice((1, 5)) for _ in plan.producers)
    return plan.with_actions(
        tuple(
            replace(timed, action=replace(timed.action, in_flight=ahead[timed.action.producer]))
            if isinstance(timed.action, ProduceBatches)
            else timed
            for timed in plan.actions
        )
    )


def with_retention(plan: SimulationPlan, rng: Random) -> SimulationPlan:
    """Let one topic retain little, in some plans."""
    if rng.random() >= RETAINED:
        return plan
    first, *others = plan.topics
    limit = rng.choice((("retention.ms", "3000"), ("retention.bytes", "1500")))
    config = {name: value for name, value in first.config if name != "retention.ms"}
    config |= dict((("segment.bytes", "500"), limit))
    kept = replace(first, config=tuple(config.items()))
    settings = {**dict(plan.settings), "log.retention.check.interval.ms": "1000"}
    return replace(plan, topics=(kept, *others), settings=tuple(settings.items()))


def with_indexes(plan: SimulationPlan, rng: Random) -> SimulationPlan:
    """Make indexes so dense that a log of some hundred bytes has entries, in some plans."""
    if rng.random() >= INDEXED:
        return plan
    interval = (("index.interval.bytes", rng.choice(("0", "150"))),)
    topics = (replace(topic, config=(*topic.config, *interval)) for topic in plan.topics)
    return replace(plan, topics=tuple(topics))


def with_unclean_elections(plan: SimulationPlan, rng: Random) -> SimulationPlan:
    """Allow elections outside the ISR for a topic from some time on, in some plans."""
    if rng.random() >= UNCLEAN:
        return plan
    order = AlterTopicOrder(
        topic=rng.choice(plan.topics).topic, name="unclean.leader.election.enable", value="true"
    )
    timed = Timed(at_ms=rng.randrange(plan.run_ms), action=order)
    return plan.with_more([timed])


def with_slow_disks(plan: SimulationPlan, rng: Random) -> SimulationPlan:
    """Make the syncs of some brokers slow for a while, in some plans.

    Work that does not wait for a sync continues meanwhile, and logs are truncated, rolled or
    deleted during a sync.
    """
    if rng.random() >= SLOW_DISKS:
        return plan
    slow = (
        Timed(
            at_ms=rng.randrange(plan.run_ms),
            action=SlowDisk(
                target=Target(broker=rng.randint(1, plan.brokers)),
                delay_ms=rng.choice((50, 500, 2_000)),
                for_ms=rng.choice((2_000, 10_000)),
            ),
        )
        for _ in range(rng.randint(1, 4))
    )
    return plan.with_more(slow)


def with_power_failures(plan: SimulationPlan, rng: Random) -> SimulationPlan:
    """Let the power fail between two operations on a disk, in some plans.

    Rare kinds of operations are followed by a failure as often as frequent ones.
    """
    if rng.random() >= MID_STEP:
        return plan
    failures = (
        Timed(
            at_ms=rng.randrange(plan.run_ms),
            action=LosePowerAfter(
                target=Target(broker=rng.randint(1, plan.brokers)),
                operation=rng.choice(("write", "cut", "names", "names", "sync", "sync")),
                nth=rng.choice((1, 1, 2, 3, 5, 8)),
                for_ms=rng.choice((5_000, 20_000)),
                down_ms=rng.choice((200, 2_000, 8_000)),
            ),
        )
        for _ in range(rng.randint(1, 4))
    )
    return plan.with_more(failures)


def with_lost_answers(plan: SimulationPlan, rng: Random) -> SimulationPlan:
    """Lose some of ZooKeeper's answers, in some plans. A client that repeats the write then meets
    its own earlier write."""
    if rng.random() >= LOST_ANSWERS:
        return plan
    lost = (
        Timed(
            at_ms=rng.randrange(plan.run_ms),
            action=LoseAnswer(
                target=Target(broker=rng.randint(1, plan.brokers)),
                path=rng.choice(WRITTEN_PATHS),
                nth=rng.choice((1, 1, 2, 3)),
                expires=rng.random() < 0.3,
                for_ms=rng.choice((5_000, 20_000)),
                carried_out=rng.random() < 0.7,
            ),
        )
        for _ in range(rng.randint(2, 8))
    )
    return plan.with_more([*lost, *_lost_election_answers(plan, rng.randrange(plan.run_ms))])


def _lost_election_answers(plan: SimulationPlan, at_ms: int) -> Iterator[Timed]:
    """Lose the answer to the next election of a controller. The other lost answers hardly ever meet
    an election."""
    for broker in range(1, plan.brokers + 1):
        lost = LoseAnswer(
            target=Target(broker=broker),
            path="/controller",
            nth=1,
            expires=False,
            for_ms=1_000,
            carried_out=True,
        )
        yield Timed(at_ms=at_ms, action=lost)
    yield Timed(at_ms=at_ms, action=DeposeController())


def with_static_members(plan: SimulationPlan, rng: Random) -> SimulationPlan:
    """Let members of groups be static and restart, or change their topics, in some plans.

    A static member returns under another member id and keeps its partitions.
    """
    if rng.random() >= STATIC:
        return plan
    return plan.with_actions(
        tuple(
            replace(timed, action=_static(timed.action, f"static-{number}", rng))
            if isinstance(timed.action, Consume)
            else timed
            for number, timed in enumerate(plan.actions)
        )
    )


def _static(work: Consume, instance: str, rng: Random) -> Consume:
    again = sorted(rng.randrange(max(work.for_ms, 1)) for _ in range(rng.randint(1, 3)))
    is_static = rng.random() < 0.7
    return replace(work, instance=instance if is_static else None, rejoin_ms=tuple(again))


def with_lost_queue_answers(plan: SimulationPlan, rng: Random) -> SimulationPlan:
    """Break each broker's connection in the middle of two writes to the queues for requests between
    brokers.

    The plan has no controller.
    """
    lost = (
        Timed(
            at_ms=rng.randrange(plan.run_ms),
            action=LoseAnswer(
                target=Target(broker=broker),
                path=QUEUE_PATH,
                nth=rng.choice((1, 1, 2)),
                expires=False,
                for_ms=20_000,
                carried_out=carried_out,
            ),
        )
        for broker in range(1, plan.brokers + 1)
        for carried_out in (False, True)
    )
    return plan.with_more(lost)


def with_flush_ms(plan: SimulationPlan, rng: Random) -> SimulationPlan:
    """Flush logs in the background when records have waited long enough, in some plans. No later
    record is needed for that."""
    if rng.random() >= FLUSHED:
        return plan
    flush_ms = {"flush.ms": rng.choice(("100", "500", "2000"))}
    topics = (
        replace(topic, config=tuple((flush_ms | dict(topic.config)).items()))
        for topic in plan.topics
    )
    looked = ("log.flush.scheduler.interval.ms", "100")
    return replace(plan, topics=tuple(topics), settings=(*plan.settings, looked))


def with_racks(plan: SimulationPlan, rng: Random) -> SimulationPlan:
    """Put brokers into racks, and let consumers read from followers, in some plans."""
    if rng.random() >= IN_RACKS:
        return plan
    return replace(plan, settings=(*plan.settings, ("replica.selector.class", RACK_AWARE)))


def with_offsets_segments(plan: SimulationPlan, rng: Random) -> SimulationPlan:
    """Give ``__consumer_offsets`` many segments, in some plans.

    It is then loaded in many parts, and rewritten in several batches long before it has megabytes.
    If the plan has groups, more of them commit meanwhile, so that there is something to rewrite.
    """
    if rng.random() >= OFFSETS_SEGMENTS:
        return plan
    small = ("offsets.topic.segment.bytes", rng.choice(("200", "200", "1000")))
    plan = replace(plan, settings=(small, *plan.settings))
    begun = [timed.at_ms for timed in plan.actions if isinstance(timed.action, Consume)]
    if not begun:
        return plan
    lots = CommitMany(topic=plan.topics[0].topic, groups=10, rounds=5, metadata_bytes=40)
    at_ms = rng.randrange(min(begun), max(plan.run_ms, min(begun) + 1))
    return plan.with_more([Timed(at_ms=at_ms, action=lots)])
