"""Knots of flushes that are under way while something happens to what is flushed."""

from dataclasses import replace
from random import Random

from simulation.plans.actions import ElectPreferred, Produce, SlowDisk, Timed, Who
from simulation.plans.knots.leadership import to_and_fro
from simulation.plans.knots.strands import TOPIC, produce, tied
from simulation.plans.plan import Plan


def cut_while_flushing(plan: Plan, rng: Random) -> Plan:
    """As in to and fro, and what the second broker is to give up is being flushed: of small
    segments each full one is, in the background, on a disk that is slow by then.

    What such a flush says to be durable when it is over is not what has come in the place of what
    it began with; nor are the producers that were remembered with it. That is less, and too little
    for another segment: whoever begins one flushes at once, and the flush before counts no more.
    """
    plan = to_and_fro(plan, rng)
    *others, topic = plan.topics
    unflushed = {name: value for name, value in topic.config if name != "flush.messages"}
    config = (*unflushed.items(), ("segment.bytes", "400"))
    begins = min(t.at_ms for t in plan.actions if isinstance(t.action, ElectPreferred))
    ends = max(t.at_ms for t in plan.actions if isinstance(t.action, ElectPreferred))
    slow = SlowDisk(
        who=Who(broker=topic.replicas[0][1]),
        delay_ms=rng.choice((500, 1_000, 2_000)),
        for_ms=plan.run_ms,
    )
    kept = (_few(timed, begins) for timed in plan.actions if not _is_late(timed, ends))
    return tied(
        replace(plan, topics=(*others, replace(topic, config=config))).with_actions(tuple(kept)),
        [
            (rng.choice((0, begins + rng.randint(800, 1_200))), slow),
            *((begins + 500 + 60 * n, produce(1, 3)) for n in range(13)),
        ],
        settings=(("log.flush.offset.checkpoint.interval.ms", "500"),),
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
