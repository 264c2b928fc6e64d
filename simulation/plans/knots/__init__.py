"""Knots: what a plan drawn at random hardly ever has, tied into one on purpose.

Each is a way in which something did go wrong, or would without one line of the broker: actions
that mean something in this order and within this time only. They have a topic of their own,
``k0``, so that what else the plan does to its topics does not undo them.
"""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Final

from simulation.plans.actions import ClientWork
from simulation.plans.knots import (
    clusters,
    conflicts,
    deletions,
    disks,
    groups,
    leadership,
    producing,
    replication,
    unanswered,
)
from simulation.plans.knots.strands import Knot
from simulation.plans.plan import Plan, stream

ODDS: Final = 0.5
"""Of a plan that it has a knot."""

ALONE: Final = 0.5
"""Of a knot that nothing else happens to the cluster."""

EVERY: Final = 2
"""One of so many seeds has a knot by its turn, in a short run in which nothing else happens: all
are tied within twice their number of seeds. By lot alone a third of them is missing by then."""

SHORT_MS: Final = 10_000

KNOTS: Final[Mapping[str, Knot]] = {
    "short watermark": replication.short_watermark,
    "to and fro": leadership.to_and_fro,
    "unheard of": replication.unheard_of,
    "joining in flight": replication.joining_in_flight,
    "left behind": leadership.left_behind,
    "too few left": replication.too_few_left,
    "away and back": replication.away_and_back,
    "answers lost": producing.answers_lost,
    "late answer": leadership.late_answer,
    "former controller": leadership.former_controller,
    "coordinator away and back": groups.coordinator_away_and_back,
    "made again": replication.made_again,
    "cut and repeated": producing.cut_and_repeated,
    "joined unseen": replication.joined_unseen,
    "doomed shrink": replication.doomed_shrink,
    "member asleep": groups.member_asleep,
    "inside a batch": leadership.inside_a_batch,
    "slow claimant": leadership.slow_claimant,
    "coordinator lost": groups.coordinator_lost,
    "moved and extended": clusters.moved_and_extended,
    "bounced unseen": replication.bounced_unseen,
    "cut while flushing": disks.cut_while_flushing,
    "failed while handing over": disks.failed_while_handing_over,
    "cut while flushed in time": disks.cut_while_flushed_in_time,
    "twins": clusters.twins,
    "nonsense": clusters.nonsense,
    "placed": clusters.placed,
    "mixed disks": clusters.mixed_disks,
    "many commits": clusters.many_commits,
    "offsets half made": clusters.offsets_half_made,
    "many groups": groups.many_groups,
    "to and fro and to": leadership.to_and_fro_and_to,
    "half deleted": clusters.half_deleted,
    "assignments overtaken": groups.assignments_overtaken,
    "sent elsewhere": replication.sent_elsewhere,
    "torn segments": producing.torn_segments,
    "leaderless": leadership.leaderless,
    "far behind": producing.far_behind,
    "passed over": leadership.passed_over,
    "taken out": replication.taken_out,
    "too many messages": replication.too_many_messages,
    "named and unsynced": disks.named_and_unsynced,
    "ended and begun": disks.ended_and_begun,
    "overtaken by the leader": conflicts.overtaken_by_the_leader,
    "written unheard": unanswered.written_unheard,
    "given-up order": unanswered.given_up_order,
    "deleted and moved": deletions.deleted_and_moved,
    "named again": deletions.named_again,
    "deleted meanwhile": deletions.deleted_meanwhile,
    "commits overdue": groups.commits_overdue,
    "following inside a batch": leadership.following_inside_a_batch,
    "unheard fetch": unanswered.unheard_fetch,
    "preferred and left behind": conflicts.preferred_and_left_behind,
    "sent on": conflicts.sent_on,
    "counting cut short": conflicts.counting_cut_short,
    "offered in vain": conflicts.offered_in_vain,
}
"""In the order of their turns; those come first whose bugs nothing else finds."""


OF_CONTROLLERS: Final = frozenset(
    {
        "bounced unseen",
        "deleted and moved",
        "failed while handing over",
        "former controller",
        "given-up order",
        "half deleted",
        "leaderless",
        "left behind",
        "nonsense",
        "offsets half made",
        "passed over",
        "preferred and left behind",
        "unheard of",
    }
)
"""Knots that say nothing where there is no controller."""


LED_TURNS: Final = (
    "sent elsewhere",
    "away and back",
    "slow claimant",
    "counting cut short",
    "moved and extended",
    "doomed shrink",
    "coordinator lost",
    "too few left",
    "made again",
    "taken out",
    "sent on",
)
"""Knots that have more to say where there is no controller, in the order of their turns there."""
LED_TURN_EVERY: Final = 12
LED_TURN: Final = 10
"""In which of so many seeds, of those that are without a controller now and then."""


def led_turn(seed: int) -> str | None:
    """Whose turn it is there."""
    turn, rest = divmod(seed, LED_TURN_EVERY)
    return LED_TURNS[turn % len(LED_TURNS)] if rest == LED_TURN else None


def alone(plan: Plan, rng: Random, knot: str) -> Plan:
    """The knot in a short plan in which nothing else happens."""
    return KNOTS[knot](short(quiet(newest(plan))), rng)


def tie(plan: Plan, rng: Random, knot: str | None, *, led: bool) -> Plan:
    """``plan`` with this knot; None: with that whose turn it is, any, or none. ``led``: there will
    be no controller."""
    turn, rest = divmod(plan.seed, EVERY)
    if knot is None and rest:
        knot = tuple(KNOTS)[turn % len(KNOTS)]
        if led and knot in OF_CONTROLLERS:
            knot = _drawn(plan.seed, led=True)
        return alone(plan, rng, knot)
    if knot is None:
        if rng.random() >= ODDS:
            return plan
        knot = _drawn(plan.seed, led=led)
    if rng.random() < ALONE:
        plan = quiet(plan)
    return KNOTS[knot](plan, rng)


def quiet(plan: Plan) -> Plan:
    """The same without anything that happens to the cluster."""
    kept = (timed for timed in plan.actions if isinstance(timed.action, ClientWork))
    return plan.with_actions(tuple(kept))


def newest(plan: Plan) -> Plan:
    """The same of the newest generation, unless its knot is one of an older: what is about leader
    epochs says nothing where logs are cut by watermark."""
    kept = ((name, value) for name, value in plan.settings if name != "ackproof.generation")
    return replace(plan, settings=tuple(kept))


def short(plan: Plan) -> Plan:
    """Its beginning."""
    run_ms = min(plan.run_ms, SHORT_MS)
    kept = tuple(timed for timed in plan.actions if timed.at_ms < run_ms)
    return replace(plan, actions=kept, run_ms=run_ms)


def _drawn(seed: int, *, led: bool) -> str:
    """Each draws a lot, so that one more knot changes the plans in which it wins, and no others."""
    knots = KNOTS.keys() - OF_CONTROLLERS if led else KNOTS.keys()
    return min(knots, key=lambda knot: stream(seed, f"knot {knot}").random())
