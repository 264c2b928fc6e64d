"""Knots: what a plan drawn at random hardly ever has, tied into one on purpose.

Each is a way in which something did go wrong, or would without one line of the broker: actions
that mean something in this order and within this time only. They have a topic of their own,
``k0``, so that what else the plan does to its topics does not undo them.
"""

from collections.abc import Iterable, Mapping
from random import Random
from typing import Final

from simulation.plans.actions import CLIENT_WORK
from simulation.plans.knots import clusters, groups, leadership, producing, replication
from simulation.plans.knots.strands import Knot
from simulation.plans.plan import Plan, stream

ODDS: Final = 0.5
"""Of a plan that it has a knot."""

ALONE: Final = 0.5
"""Of a knot that nothing else happens to the cluster."""

KNOTS: Final[Mapping[str, Knot]] = {
    "joined unseen": replication.joined_unseen,
    "joining in flight": replication.joining_in_flight,
    "former controller": leadership.former_controller,
    "left behind": leadership.left_behind,
    "doomed shrink": replication.doomed_shrink,
    "twins": clusters.twins,
    "moved and extended": clusters.moved_and_extended,
    "nonsense": clusters.nonsense,
    "placed": clusters.placed,
    "mixed disks": clusters.mixed_disks,
    "many commits": clusters.many_commits,
    "offsets half made": clusters.offsets_half_made,
    "short watermark": replication.short_watermark,
    "to and fro": leadership.to_and_fro,
    "late answer": leadership.late_answer,
    "made again": replication.made_again,
    "too few left": replication.too_few_left,
    "away and back": replication.away_and_back,
    "inside a batch": leadership.inside_a_batch,
    "slow claimant": leadership.slow_claimant,
    "unheard of": replication.unheard_of,
    "answers lost": producing.answers_lost,
    "cut and repeated": producing.cut_and_repeated,
    "coordinator away and back": groups.coordinator_away_and_back,
    "coordinator lost": groups.coordinator_lost,
    "member asleep": groups.member_asleep,
    "many groups": groups.many_groups,
}


OF_CONTROLLERS: Final = frozenset(
    {"former controller", "left behind", "nonsense", "offsets half made", "unheard of"}
)
"""Knots that say nothing where there is no controller."""


def tie(plan: Plan, rng: Random, knot: str | None, *, led: bool) -> Plan:
    """``plan`` with this knot; None: with any or none. ``led``: there will be no controller."""
    if knot is None:
        if rng.random() >= ODDS:
            return plan
        knot = _drawn(plan.seed, KNOTS.keys() - OF_CONTROLLERS if led else KNOTS.keys())
    if rng.random() < ALONE:
        kept = (timed for timed in plan.actions if isinstance(timed.action, CLIENT_WORK))
        plan = plan.with_actions(tuple(kept))
    return KNOTS[knot](plan, rng)


def _drawn(seed: int, knots: Iterable[str]) -> str:
    """Each draws a lot, so that one more knot changes the plans in which it wins, and no others."""
    return min(knots, key=lambda knot: stream(seed, f"knot {knot}").random())
