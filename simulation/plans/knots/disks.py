"""Knots in which the power fails between two operations on a disk: of what belongs together one
part is there and the other is not, or is not sure to stay."""

from dataclasses import replace
from random import Random

from simulation.plans.actions import Action, DeleteRecords, LosePowerAfter, Stop, Who
from simulation.plans.knots.producing import burst, numbered
from simulation.plans.knots.strands import TOPIC, beginning, produce, tied, topic_of_three
from simulation.plans.plan import Plan


def named_and_unsynced(plan: Plan, rng: Random) -> Plan:
    """A log of small segments, each record flushed: the power fails behind a flush of a segment
    whose name may not be there yet, or beside one that is being deleted."""
    topic = topic_of_three(
        plan, rng, min_insync_replicas="1", segment_bytes="500", flush_messages="1"
    )
    t = beginning(plan, rng)
    who = Who(broker=rng.choice(topic.replicas[0]))
    beside = len(plan.producers)
    plan = numbered(plan)
    return tied(
        replace(plan, producers=(*plan.producers, False)),
        [
            (t - 400, burst(100, 50)),
            *((t + 60 * n, replace(produce(1, 1), producer=beside)) for n in range(100)),
            *((t + 1_800 * n, _failing(who, rng, 1_000)) for n in range(4)),
            *((t + at, DeleteRecords(topic=TOPIC, partition=0)) for at in (1_900, 3_700)),
        ],
        topics=[topic],
        settings=(
            ("replica.lag.time.max.ms", "3000"),
            ("zookeeper.session.timeout.ms", "2000"),
        ),
        brokers=3,
        run_ms=t + 9_000,
    )


def ended_and_begun(plan: Plan, rng: Random) -> Plan:
    """A broker ends in good order, begins again, and its power fails at one of the first things
    that it does: what it said of its good end must not be there any more."""
    topic = topic_of_three(plan, rng, min_insync_replicas="1")
    t = beginning(plan, rng)
    who = Who(broker=rng.choice(topic.replicas[0]))
    beside = len(plan.producers)
    plan = numbered(plan)
    ends: list[tuple[float, Action]] = []
    for n in range(3):
        ends += [
            (t + 2_500 * n, Stop(who=who, down_ms=1_200)),
            (t + 2_500 * n + 1_190, _failing(who, rng, 900)),
        ]
    return tied(
        replace(plan, producers=(*plan.producers, False)),
        [
            (t - 400, burst(60, 50)),
            *((t + 60 * n, replace(produce(1, 1), producer=beside)) for n in range(120)),
            *ends,
        ],
        topics=[topic],
        settings=(
            ("controlled.shutdown.retry.backoff.ms", "200"),
            # What is written beside the mark of a good end syncs that, too.
            ("log.flush.offset.checkpoint.interval.ms", "60000"),
            ("log.flush.start.offset.checkpoint.interval.ms", "60000"),
            ("replica.high.watermark.checkpoint.interval.ms", "5000"),
            ("zookeeper.session.timeout.ms", "2000"),
        ),
        brokers=3,
        run_ms=t + 9_000,
    )


def _failing(who: Who, rng: Random, for_ms: int) -> LosePowerAfter:
    return LosePowerAfter(
        who=who,
        operation=rng.choice(("write", "cut", "names", "sync")),
        nth=rng.randint(1, 8),
        for_ms=for_ms,
        down_ms=rng.choice((50, 400)),
    )
