"""What is changed in plans once they are drawn, each by a stream of its own, so that whatever else
is drawn stays as it is."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Final

from ackproof.broker.replication.replica_selector import RACK_AWARE
from simulation.plans.actions import (
    AlterTopic,
    CommitALot,
    Consume,
    DeposeController,
    LoseAnswer,
    LosePowerAfter,
    Produce,
    SlowDisk,
    Timed,
    Who,
)
from simulation.plans.plan import Plan

RETAINED: Final = 0.15
"""Of plans that one of their topics keeps little."""
INDEXED: Final = 0.5
"""Of plans that they have indexes."""
UNCLEAN: Final = 0.07
"""Of plans that a topic is set so meanwhile."""
SLOW_DISKS: Final = 0.2
"""Of plans that some disks are slow for a while."""
MID_STEP: Final = 0.3
"""Of plans that power fails in the middle of steps."""
UNANSWERED: Final = 0.2
"""Of plans that ZooKeeper's answers to some writes are lost."""
STATIC: Final = 0.4
"""Of plans that members of groups may be static, and join again meanwhile."""
WRITTEN: Final = (
    "/controller",
    "/brokers/ids",
    "/brokers/topics",
    "/brokers/topics",
    "/admin",
    "/config",
    "/",
)
"""Where those are."""
QUEUES: Final = "/brokers/state"
"""Where they are without a controller."""
FLUSHED: Final = 0.25
"""Of plans that ``flush.ms`` is set."""
OFFSETS_IN_PARTS: Final = 0.6
"""Of plans that ``__consumer_offsets`` has small segments."""
IN_RACKS: Final = 0.85
"""Of plans that brokers are in racks."""


def pipelined(plan: Plan, rng: Random) -> Plan:
    """The same, with several batches of some idempotent producers under way at once."""
    ahead = tuple(rng.choice((1, 5)) for _ in plan.producers)
    return plan.with_actions(
        tuple(
            replace(timed, action=replace(timed.action, in_flight=ahead[timed.action.producer]))
            if isinstance(timed.action, Produce)
            else timed
            for timed in plan.actions
        )
    )


def retained(plan: Plan, rng: Random) -> Plan:
    """The same, or with one topic that keeps little."""
    if rng.random() >= RETAINED:
        return plan
    first, *others = plan.topics
    limit = rng.choice((("retention.ms", "3000"), ("retention.bytes", "1500")))
    config = {name: value for name, value in first.config if name != "retention.ms"}
    config |= dict((("segment.bytes", "500"), limit))
    kept = replace(first, config=tuple(config.items()))
    settings = {**dict(plan.settings), "log.retention.check.interval.ms": "1000"}
    return replace(plan, topics=(kept, *others), settings=tuple(settings.items()))


def indexed(plan: Plan, rng: Random) -> Plan:
    """The same, or with indexes in which a log of some hundred bytes has entries."""
    if rng.random() >= INDEXED:
        return plan
    interval = (("index.interval.bytes", rng.choice(("0", "150"))),)
    topics = (replace(topic, config=(*topic.config, *interval)) for topic in plan.topics)
    return replace(plan, topics=tuple(topics))


def unclean_meanwhile(plan: Plan, rng: Random) -> Plan:
    """The same, or with a topic that may have elections outside the ISR from some time on."""
    if rng.random() >= UNCLEAN:
        return plan
    order = AlterTopic(
        topic=rng.choice(plan.topics).topic, name="unclean.leader.election.enable", value="true"
    )
    timed = Timed(at_ms=rng.randrange(plan.run_ms), action=order)
    return plan.with_more([timed])


def slow_meanwhile(plan: Plan, rng: Random) -> Plan:
    """The same, or with brokers that sync slowly for a while: what waits for no sync goes on, and
    the log is cut, rolled or deleted under one that is under way."""
    if rng.random() >= SLOW_DISKS:
        return plan
    slow = (
        Timed(
            at_ms=rng.randrange(plan.run_ms),
            action=SlowDisk(
                who=Who(broker=rng.randint(1, plan.brokers)),
                delay_ms=rng.choice((50, 500, 2_000)),
                for_ms=rng.choice((2_000, 10_000)),
            ),
        )
        for _ in range(rng.randint(1, 4))
    )
    return plan.with_more(slow)


def failing_mid_step(plan: Plan, rng: Random) -> Plan:
    """The same, or with power that fails between one operation on a disk and the next: behind what
    is rare as often as behind what is done all the time."""
    if rng.random() >= MID_STEP:
        return plan
    failures = (
        Timed(
            at_ms=rng.randrange(plan.run_ms),
            action=LosePowerAfter(
                who=Who(broker=rng.randint(1, plan.brokers)),
                operation=rng.choice(("write", "cut", "names", "names", "sync", "sync")),
                nth=rng.choice((1, 1, 2, 3, 5, 8)),
                for_ms=rng.choice((5_000, 20_000)),
                down_ms=rng.choice((200, 2_000, 8_000)),
            ),
        )
        for _ in range(rng.randint(1, 4))
    )
    return plan.with_more(failures)


def unanswered(plan: Plan, rng: Random) -> Plan:
    """The same, or with answers of ZooKeeper that are lost: who asks again meets what he has done
    himself."""
    if rng.random() >= UNANSWERED:
        return plan
    lost = (
        Timed(
            at_ms=rng.randrange(plan.run_ms),
            action=LoseAnswer(
                who=Who(broker=rng.randint(1, plan.brokers)),
                path=rng.choice(WRITTEN),
                nth=rng.choice((1, 1, 2, 3)),
                expires=rng.random() < 0.3,
                for_ms=rng.choice((5_000, 20_000)),
                carried_out=rng.random() < 0.7,
            ),
        )
        for _ in range(rng.randint(2, 8))
    )
    return plan.with_more([*lost, *_elected_unheard(plan, rng.randrange(plan.run_ms))])


def _elected_unheard(plan: Plan, at_ms: int) -> Iterator[Timed]:
    """Whoever is elected controller next does not hear of it: of those above hardly any meets an
    election."""
    for broker in range(1, plan.brokers + 1):
        lost = LoseAnswer(
            who=Who(broker=broker),
            path="/controller",
            nth=1,
            expires=False,
            for_ms=1_000,
            carried_out=True,
        )
        yield Timed(at_ms=at_ms, action=lost)
    yield Timed(at_ms=at_ms, action=DeposeController())


def static_members(plan: Plan, rng: Random) -> Plan:
    """The same, or with members of groups that are restarted under another id, and keep their
    place; or whose topics change."""
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
    return replace(work, instance=instance if is_static else None, again_ms=tuple(again))


def queues_unheard(plan: Plan, rng: Random) -> Plan:
    """The same without a controller, and each broker loses its connection in the middle of two
    writes to the queues in which brokers leave requests to each other."""
    lost = (
        Timed(
            at_ms=rng.randrange(plan.run_ms),
            action=LoseAnswer(
                who=Who(broker=broker),
                path=QUEUES,
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


def flushed_in_time(plan: Plan, rng: Random) -> Plan:
    """The same, or with logs that are flushed in the background when records have waited long
    enough, whether anything follows them or not."""
    if rng.random() >= FLUSHED:
        return plan
    flush_ms = {"flush.ms": rng.choice(("100", "500", "2000"))}
    topics = (
        replace(topic, config=tuple((flush_ms | dict(topic.config)).items()))
        for topic in plan.topics
    )
    looked = ("log.flush.scheduler.interval.ms", "100")
    return replace(plan, topics=tuple(topics), settings=(*plan.settings, looked))


def in_racks(plan: Plan, rng: Random) -> Plan:
    """The same, or with brokers in racks, and consumers that may read from followers."""
    if rng.random() >= IN_RACKS:
        return plan
    return replace(plan, settings=(*plan.settings, ("replica.selector.class", RACK_AWARE)))


def offsets_in_parts(plan: Plan, rng: Random) -> Plan:
    """The same, or with groups whose log has many segments: it is loaded in many parts, and written
    again, in several batches, long before it has megabytes. Where there are groups at all, some
    more commit meanwhile, so that there is something to be written again."""
    if rng.random() >= OFFSETS_IN_PARTS:
        return plan
    small = ("offsets.topic.segment.bytes", rng.choice(("200", "200", "1000")))
    plan = replace(plan, settings=(small, *plan.settings))
    begun = [timed.at_ms for timed in plan.actions if isinstance(timed.action, Consume)]
    if not begun:
        return plan
    lots = CommitALot(topic=plan.topics[0].topic, groups=10, rounds=5, metadata_bytes=40)
    at_ms = rng.randrange(min(begun), max(plan.run_ms, min(begun) + 1))
    return plan.with_more([Timed(at_ms=at_ms, action=lots)])
