"""The schedule of faults: a pure function of the campaign, the cluster and the seed.

The same campaign and seed give the same plan. A seed cannot fix how long the cluster takes to show
that a fault took effect, nor which server has a role when the fault begins. A fault without a time
of its own waits until the one before is healed, and keeps its planned gap. A fault with a time
begins then, whatever else is active. A step of a story begins on its cue.

Faults are planned in the order of time: first those with a time of their own, then always the next
one of the lane that is the earliest to continue. A fault is planned for later if, together with the
faults planned to be active by then, it would affect too many servers; see
:class:`harness.campaign.model.schedule.AtMost`.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.model.schedule import FAULTS_MAX, Entry, FaultEntry, StoryEntry
from ackproof.harness.campaign.plan import stories
from ackproof.harness.campaign.plan.context import PlanContext
from ackproof.harness.campaign.plan.faults import Act, ScheduledFault, StoryPosition, parameters_of
from ackproof.nemesis.interface import Parameters
from ackproof.nemesis.process.rolling import Rolled, roll_expected_ms
from ackproof.nemesis.targets.expressions import on_topic
from ackproof.nemesis.targets.resolution import UNLIMITED, Count


def run_seed(seed: int, run: int) -> int:
    """Return the seed of run number ``run`` of a campaign with ``seed``."""
    return random.Random(f"{seed}/run-{run}").getrandbits(53)


def plan(campaign: Campaign, seed: int, context: PlanContext) -> tuple[ScheduledFault, ...]:
    """Return the faults of one run, in the order of their planned starts. A plan that is too long
    ends a few faults above :data:`FAULTS_MAX`.

    Args:
        campaign: The validated campaign.
        seed: The seed of the run.
        context: The context of the run.
    """
    planned = list(_at_times(campaign, seed, context))
    count = sum(len(act.faults) for act in planned)
    limited = context.room != UNLIMITED
    ahead = list(planned) if limited else []  # acts that are over cannot overlap with later ones
    lanes = [_Lane(campaign, seed, number, context) for number in _numbers(campaign)]
    while going := [lane for lane in lanes if lane.goes_on]:
        lane = min(going, key=lambda one: (one.now_ms, one.number))
        ahead = [act for act in ahead if _end_ms(act) > lane.now_ms]
        act = lane.next(ahead)
        if act is not None:
            planned.append(act)
            ahead += [act] if limited else []
            count += len(act.faults)
        if count > FAULTS_MAX:
            break
    return _numbered(planned)


def duration_ms(campaign: Campaign, faults: Sequence[ScheduledFault]) -> int:
    """Return the shortest time that the workload lasts, in milliseconds: the plan and the tail."""
    end_ms = max((fault.end_ms for fault in faults), default=campaign.schedule.warmup)
    return end_ms + campaign.schedule.tail


def _numbers(campaign: Campaign) -> range:
    listed = any(entry.at is None for entry in campaign.faults)
    return range(1, campaign.schedule.lanes + 1) if listed else range(0)


def _numbered(planned: Sequence[Act]) -> tuple[ScheduledFault, ...]:
    """Return the faults, numbered with their stories in the order of the planned starts."""
    in_order = sorted(planned, key=lambda act: act.start_ms)
    stories = [act for act in in_order if act.faults[0].part is not None]
    numbers = {id(act): number for number, act in enumerate(stories, start=1)}
    faults = [
        replace(fault, part=_renumbered(fault.part, numbers.get(id(act), 0)))
        for act in in_order
        for fault in act.faults
    ]
    in_time = sorted(faults, key=lambda fault: fault.start_ms)
    return tuple(replace(fault, fault_id=number) for number, fault in enumerate(in_time, start=1))


def _renumbered(part: StoryPosition | None, number: int) -> StoryPosition | None:
    return None if part is None else replace(part, number=number)


def _at_times(campaign: Campaign, seed: int, context: PlanContext) -> Iterator[Act]:
    """Yield the acts that have a time. Each has a random generator of its own, so that another
    entry does not change the draws of the others."""
    timed = [entry for entry in campaign.faults if entry.at is not None]
    for number, entry in enumerate(timed, start=1):
        rng = random.Random(f"{seed}/at-{number}")
        act = _act(entry, rng, context)
        assert entry.at is not None
        yield _moved(act, rng.randint(*entry.at), gap_ms=None, lane=0)


@dataclass(slots=True)
class _Lane:
    """A sequence of acts, planned up to ``now_ms``."""

    campaign: Campaign
    seed: int
    number: int
    context: PlanContext
    now_ms: int = 0
    begun: int = 0
    goes_on: bool = True
    rng: random.Random = field(init=False)
    entries: list[Entry] = field(init=False)
    ahead: list[Entry] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        first = self.number == 1
        self.rng = random.Random(self.seed if first else f"{self.seed}/lane-{self.number}")
        self.entries = [entry for entry in self.campaign.faults if entry.at is None]

    def next(self, planned: Sequence[Act]) -> Act | None:
        """Return the next act, given the acts that are planned so far, or None at the end of the
        lane."""
        schedule = self.campaign.schedule
        if schedule.order != "drawn" and not self.ahead:
            self.ahead = self._round()
        gap_ms = schedule.warmup if self.begun == 0 else self.rng.randint(*schedule.gap)
        act = self._fitting(self.now_ms + gap_ms, planned)
        if schedule.lasts is not None and act.start_ms > schedule.lasts:
            self.goes_on = False
            return None
        act = _moved(act, 0, gap_ms=act.start_ms - self.now_ms, lane=self.number)
        self.begun += 1
        self.now_ms = act.end_ms
        self.goes_on = schedule.lasts is not None or (
            self.begun < schedule.rounds * len(self.entries)
        )
        return act

    def _round(self) -> list[Entry]:
        entries = list(self.entries)
        if self.campaign.schedule.order == "shuffled":
            self.rng.shuffle(entries)
        return entries

    def _fitting(self, start_ms: int, planned: Sequence[Act]) -> Act:
        """Return the next act, at the earliest time at which the limits allow one."""
        if self.campaign.schedule.order != "drawn":
            act = _moved(_act(self.ahead.pop(0), self.rng, self.context), start_ms)
            while not _fits(act, planned, self.context):
                act = _moved(act, _earliest_end(act, planned) - act.start_ms)
            return act
        while True:
            left = list(self.entries)
            ends = []
            while left:
                entry = self.rng.choices(left, [one.weight or 1.0 for one in left])[0]
                act = _moved(_act(entry, self.rng, self.context), start_ms)
                if _fits(act, planned, self.context):
                    return act
                left.remove(entry)
                ends.append(_earliest_end(act, planned))
            start_ms = min(ends)


def _act(entry: Entry, rng: random.Random, context: PlanContext) -> Act:
    """Return an act that begins at 0, with every open choice of its entry drawn."""
    if isinstance(entry, StoryEntry):
        return Act(stories.story_faults(entry, rng, context))
    hold_ms = rng.randint(*_hold_range(entry, context))
    drawn = rng.getrandbits(53)
    seed = drawn if entry.seed is None else entry.seed
    target = on_topic(entry.target, _any_topic(seed, context))
    parameters = parameters_of(entry.fault, entry.parameters)
    affected = context.affected_servers(entry.fault, target)
    fault = ScheduledFault(
        fault_id=0,
        fault=entry.fault,
        target=target,
        parameters=parameters,
        start_ms=0,
        gap_ms=None,
        hold_ms=hold_ms,
        seed=seed,
        affected=affected,
        expected_ms=_roll_ms(parameters, affected, context),
    )
    return Act((fault,))


def _roll_ms(parameters: Parameters, affected: Count, context: PlanContext) -> int:
    """Return how long a roll of the affected servers is expected to take, in milliseconds; 0 for
    any other fault."""
    if not isinstance(parameters, Rolled):
        return 0
    numbers = affected.brokers, affected.zookeepers
    # A server that is both counts as both.
    return roll_expected_ms(parameters, max(numbers) if context.members.combined else sum(numbers))


def _any_topic(seed: int, context: PlanContext) -> str:
    return random.Random(f"{seed}/topic").choice(sorted(context.partitions))


def _hold_range(entry: FaultEntry, context: PlanContext) -> tuple[int, int]:
    return entry.hold if entry.hold is not None else context.hold_range(entry.fault)


def _moved(act: Act, by_ms: int, gap_ms: int | None = None, lane: int = 0) -> Act:
    return Act(
        tuple(
            replace(fault, start_ms=fault.start_ms + by_ms, gap_ms=gap_ms, lane=lane)
            for fault in act.faults
        )
    )


# --- how many suffer at once -------------------------------------------------------------------


def _fits(act: Act, planned: Sequence[Act], context: PlanContext) -> bool:
    """Return whether the plan leaves room for the act within the limits. An act alone always
    fits."""
    beside = _beside(act, planned)
    moments = [act.start_ms, *(one.start_ms for one in beside if one.start_ms > act.start_ms)]
    return all(
        sum((one.affected for one in beside if _on(one, moment)), act.affected).within(context.room)
        for moment in (moments if beside else ())
    )


def _earliest_end(act: Act, planned: Sequence[Act]) -> int:
    return min(_end_ms(one) for one in _beside(act, planned))


def _beside(act: Act, planned: Sequence[Act]) -> list[Act]:
    """Return the planned acts that overlap with ``act``."""
    return [p for p in planned if p.start_ms < _end_ms(act) and act.start_ms < _end_ms(p)]


def _on(act: Act, moment_ms: int) -> bool:
    return act.start_ms <= moment_ms < _end_ms(act)


def _end_ms(act: Act) -> int:
    """Return the end of an act. An act that is healed at once counts as active for 1 ms."""
    return max(act.end_ms, act.start_ms + 1)
