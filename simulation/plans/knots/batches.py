"""Knots of logs that end inside a batch of their leader's, in the generations that truncate by
watermark."""

from random import Random

from simulation.plans.actions import ElectPreferred, Reassign
from simulation.plans.knots.leadership import inside_a_batch
from simulation.plans.knots.strands import TOPIC
from simulation.plans.plan import Plan


def following_inside_a_batch(plan: Plan, rng: Random) -> Plan:
    """As in "inside a batch", and the leader stays: what the others have of its batch they must
    give up, and are sent it as a whole."""
    plan = inside_a_batch(plan, rng)
    last = max(t.at_ms for t in plan.actions if _is_of_topic(t.action))
    kept = (
        t for t in plan.actions if not (isinstance(t.action, ElectPreferred) and t.at_ms > last)
    )
    return plan.with_actions(tuple(kept))


def _is_of_topic(action: object) -> bool:
    return isinstance(action, Reassign) and action.topic == TOPIC
