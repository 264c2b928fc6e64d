"""Named scenarios: sequences of actions that chance hardly ever draws, added to a random plan.

In each of them something did go wrong, or would without one line of the broker. The order and the
times of the actions matter. They have a topic of their own, ``k0``, which nothing else in the plan
changes.
"""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Final

from simulation.plans.actions import ClientWork
from simulation.plans.plan import Plan, stream
from simulation.plans.scenarios import isr, leaders, records
from simulation.plans.scenarios.building import Scenario

ODDS: Final = 0.5
"""The probability that a plan has a scenario."""

ALONE: Final = 0.5
"""The probability that nothing else happens to the cluster then."""

EVERY: Final = 2
"""One of so many seeds has a scenario by its turn, in a short run in which nothing else happens.

All are met within twice their number of seeds. By lot alone a third of them is missing by then."""

SHORT_MS: Final = 10_000

SCENARIOS: Final[Mapping[str, Scenario]] = {
    "short watermark": isr.short_watermark,
    "to and fro": leaders.to_and_fro,
    "unheard of": isr.unheard_of,
    "joining in flight": isr.joining_in_flight,
    "left behind": leaders.left_behind,
    "too few left": isr.too_few_left,
    "away and back": isr.away_and_back,
    "late answer": leaders.late_answer,
    "former controller": leaders.former_controller,
    "coordinator away and back": records.coordinator_away_and_back,
    "made again": isr.made_again,
    "cut and repeated": records.cut_and_repeated,
    "joined unseen": isr.joined_unseen,
    "doomed shrink": isr.doomed_shrink,
    "inside a batch": leaders.inside_a_batch,
    "slow claimant": leaders.slow_claimant,
    "coordinator lost": records.coordinator_lost,
    "moved and extended": leaders.moved_and_extended,
    "bounced unseen": isr.bounced_unseen,
    "cut while flushing": records.cut_while_flushing,
    "failed while handing over": records.failed_while_handing_over,
    "cut while flushed in time": records.cut_while_flushed_in_time,
    "twins": leaders.twins,
    "nonsense": leaders.nonsense,
    "placed": leaders.placed,
    "mixed disks": leaders.mixed_disks,
    "many commits": leaders.many_commits,
    "offsets half made": leaders.offsets_half_made,
    "to and fro and to": leaders.to_and_fro_and_to,
    "half deleted": leaders.half_deleted,
    "assignments overtaken": records.assignments_overtaken,
    "sent elsewhere": isr.sent_elsewhere,
    "torn segments": records.torn_segments,
    "named and unsynced": records.named_and_unsynced,
    "overtaken by the leader": isr.overtaken_by_the_leader,
    "written unheard": isr.written_unheard,
    "given-up order": isr.given_up_order,
    "deleted and moved": leaders.deleted_and_moved,
    "named again": leaders.named_again,
    "deleted meanwhile": leaders.deleted_meanwhile,
    "following inside a batch": leaders.following_inside_a_batch,
    "unheard fetch": isr.unheard_fetch,
    "sent on": isr.sent_on,
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
        "left behind",
        "nonsense",
        "offsets half made",
        "unheard of",
    }
)
"""Scenarios that need a controller."""


LED_TURNS: Final = (
    "sent elsewhere",
    "away and back",
    "slow claimant",
    "moved and extended",
    "doomed shrink",
    "coordinator lost",
    "too few left",
    "made again",
    "sent on",
)
"""Scenarios that tell more without a controller, in the order of their turns there."""
LED_TURN_EVERY: Final = 12
LED_TURN: Final = 10
"""In which of so many seeds, of those that are without a controller now and then."""


def led_turn(seed: int) -> str | None:
    """Whose turn it is there."""
    turn, rest = divmod(seed, LED_TURN_EVERY)
    return LED_TURNS[turn % len(LED_TURNS)] if rest == LED_TURN else None


def alone(plan: Plan, rng: Random, scenario: str) -> Plan:
    """The scenario in a short plan in which nothing else happens."""
    return SCENARIOS[scenario](short(quiet(newest(plan))), rng)


def add(plan: Plan, rng: Random, scenario: str | None, *, led: bool) -> Plan:
    """Add this scenario to a plan; with None the one whose turn it is, any, or none.

    ``led``: the plan will have no controller.
    """
    turn, rest = divmod(plan.seed, EVERY)
    if scenario is None and rest:
        scenario = tuple(SCENARIOS)[turn % len(SCENARIOS)]
        if led and scenario in OF_CONTROLLERS:
            scenario = _drawn(plan.seed, led=True)
        return alone(plan, rng, scenario)
    if scenario is None:
        if rng.random() >= ODDS:
            return plan
        scenario = _drawn(plan.seed, led=led)
    if rng.random() < ALONE:
        plan = quiet(plan)
    return SCENARIOS[scenario](plan, rng)


def quiet(plan: Plan) -> Plan:
    """The same without anything that happens to the cluster."""
    kept = (timed for timed in plan.actions if isinstance(timed.action, ClientWork))
    return plan.with_actions(tuple(kept))


def newest(plan: Plan) -> Plan:
    """Return the plan with the newest generation: older ones truncate without leader epochs."""
    kept = ((name, value) for name, value in plan.settings if name != "ackproof.generation")
    return replace(plan, settings=tuple(kept))


def short(plan: Plan) -> Plan:
    """Its beginning."""
    run_ms = min(plan.run_ms, SHORT_MS)
    kept = tuple(timed for timed in plan.actions if timed.at_ms < run_ms)
    return replace(plan, actions=kept, run_ms=run_ms)


def _drawn(seed: int, *, led: bool) -> str:
    """Draw a lot for each: one more scenario changes the plans in which it wins, and no others."""
    scenarios = SCENARIOS.keys() - OF_CONTROLLERS if led else SCENARIOS.keys()
    return min(scenarios, key=lambda scenario: stream(seed, f"scenario {scenario}").random())
