"""Knots in which the power fails between two operations on a disk: of what belongs together one
part is there and the other is not, or is not sure to stay. And of a flush that is under way while
what it flushes is cut."""

from dataclasses import replace
from random import Random

from simulation.plans.actions import (
    Action,
    BreakDisk,
    DeleteRecords,
    ElectPreferred,
    Isolate,
    LosePowerAfter,
    Produce,
    SlowDisk,
    Stop,
    Timed,
    Who,
)
from simulation.plans.knots.leadership import to_and_fro
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


def failed_while_handing_over(plan: Plan, rng: Random) -> Plan:
    """A broker is to end and does not reach the controller. While it waits its disk refuses to
    sync, and when its logs are closed it works again: what was refused was written in the
    background, so that no log knows of it."""
    topic, t = topic_of_three(plan, rng, min_insync_replicas="1"), beginning(plan, rng)
    who = Who(broker=rng.choice(topic.replicas[0]))
    unheard = Isolate(
        who=who,
        peer=Who(role="controller"),
        direction="both",
        clients=False,
        zookeeper=False,
        for_ms=800,
    )
    ends: list[tuple[float, Action]] = []
    for at in (t, t + 4_000):
        fails_ms = rng.randint(200, 400)
        broken = BreakDisk(who=who, operation="fsync", for_ms=fails_ms)
        ends += [
            (at - 10, unheard),
            (at, Stop(who=who, down_ms=500)),
            (at + rng.randint(50, 300), broken),
        ]
    return tied(
        plan,
        [(t - 400, burst(40, 50)), *ends, (t + 4_000, burst(40, 50))],
        topics=[topic],
        settings=(
            ("replica.high.watermark.checkpoint.interval.ms", "100"),
            ("zookeeper.session.timeout.ms", "2000"),
        ),
        brokers=3,
        run_ms=t + 8_000,
    )


def _failing(who: Who, rng: Random, for_ms: int) -> LosePowerAfter:
    return LosePowerAfter(
        who=who,
        operation=rng.choice(("write", "cut", "names", "sync")),
        nth=rng.randint(1, 8),
        for_ms=for_ms,
        down_ms=rng.choice((50, 400)),
    )


def cut_while_flushing(plan: Plan, rng: Random) -> Plan:
    """As in to and fro, and what the second broker is to give up is being flushed: of small
    segments each full one is, in the background, on a disk that is slow by then, and now and then
    whatever has waited for 100 ms.

    What such a flush says to be durable when it is over is not what has come in the place of what
    it began with; nor are the producers that were remembered with it. That is less, and too little
    for another segment: whoever begins one flushes at once, and the flush before counts no more.
    """
    plan = to_and_fro(plan, rng)
    *others, topic = plan.topics
    unflushed = {name: value for name, value in topic.config if name != "flush.messages"}
    begins = min(t.at_ms for t in plan.actions if isinstance(t.action, ElectPreferred))
    ends = max(t.at_ms for t in plan.actions if isinstance(t.action, ElectPreferred))
    slow = SlowDisk(
        who=Who(broker=topic.replicas[0][1]),
        delay_ms=rng.choice((500, 1_000, 2_000)),
        for_ms=plan.run_ms,
    )
    kept = (_few(timed, begins) for timed in plan.actions if not _is_late(timed, ends))
    slow_from = rng.choice((0, begins + rng.randint(800, 1_200)))
    in_time = (("flush.ms", "100"),) if rng.random() < 0.5 else ()
    config = (*unflushed.items(), ("segment.bytes", "400"), *in_time)
    return tied(
        replace(plan, topics=(*others, replace(topic, config=config))).with_actions(tuple(kept)),
        [
            (slow_from, slow),
            *((begins + 500 + 60 * n, produce(1, 3)) for n in range(13)),
        ],
        settings=(
            ("log.flush.offset.checkpoint.interval.ms", "500"),
            ("log.flush.scheduler.interval.ms", "100"),
        ),
    )


def cut_while_flushed_in_time(plan: Plan, rng: Random) -> Plan:
    """As in to and fro, and what the second broker is to give up is being flushed because what lies
    before it has waited for ``flush.ms``: that has to wait no longer than it takes to find out that
    this flush counts no more."""
    plan = to_and_fro(plan, rng)
    *others, topic = plan.topics
    begins = min(t.at_ms for t in plan.actions if isinstance(t.action, ElectPreferred))
    ends = max(t.at_ms for t in plan.actions if isinstance(t.action, ElectPreferred))
    kept = tuple(timed for timed in plan.actions if not _is_late(timed, ends))
    slow = SlowDisk(who=Who(broker=topic.replicas[0][1]), delay_ms=1_000, for_ms=plan.run_ms)
    in_time = replace(topic, config=(("flush.ms", "2500"), ("min.insync.replicas", "1")))
    return tied(
        replace(plan, topics=(*others, in_time)).with_actions(kept),
        [(begins + 700, slow)],
        settings=(("log.flush.scheduler.interval.ms", "100"),),
    )


def _few(timed: Timed, before_ms: int) -> Timed:
    """What the first leader appends is little."""
    action = timed.action
    if not isinstance(action, Produce) or action.topic != TOPIC or timed.at_ms >= before_ms:
        return timed
    return replace(timed, action=replace(action, batches=1))


def _is_late(timed: Timed, after_ms: int) -> bool:
    action = timed.action
    return isinstance(action, Produce) and action.topic == TOPIC and timed.at_ms > after_ms
