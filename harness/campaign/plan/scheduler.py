"""When which fault strikes: a pure function of the campaign, the cluster and the seed.

The same campaign and seed give the same plan. What a seed cannot fix: how long the cluster takes
to show that a fault bit, and who holds a role when its moment comes. A fault without a time of its
own that cannot start because the one before is not healed yet starts after it, with its planned
gap; a fault with a time strikes then, whatever else is on, and a step of a story on its cue.

Planned is in the order of time: first what has a time of its own, then always the lane that is the
first to go on. What would befall more servers than may suffer at once, together with what is
planned to be on by then, is planned for later; see :class:`harness.campaign.model.schedule.AtMost`.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.model.schedule import FAULTS_MAX, Entry, FaultEntry, StoryEntry
from ackproof.harness.campaign.plan import stories
from ackproof.harness.campaign.plan.context import Ground
from ackproof.harness.campaign.plan.faults import Act, Part, ScheduledFault, parameters_of
from ackproof.nemesis.targets.bounds import UNLIMITED
from ackproof.nemesis.targets.expressions import on_topic


def run_seed(seed: int, run: int) -> int:
    """The seed of run number ``run`` of a campaign with ``seed``."""
    return random.Random(f"{seed}/run-{run}").getrandbits(53)


def plan(campaign: Campaign, seed: int, ground: Ground) -> tuple[ScheduledFault, ...]:
    """The faults of one run, in the order of their planned starts; of a plan that is too long, a
    few more than :data:`FAULTS_MAX`.

    Args:
        campaign: Checked.
        seed: Of the run.
        ground: The run's.
    """
    planned = list(_at_times(campaign, seed, ground))
    count = sum(len(act.faults) for act in planned)
    limited = ground.room != UNLIMITED
    ahead = list(planned) if limited else []  # with what is over by now nothing can meet
    lanes = [_Lane(campaign, seed, number, ground) for number in _numbers(campaign)]
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
    """How long the workload lasts at least: the plan, and the tail."""
    end_ms = max((fault.end_ms for fault in faults), default=campaign.schedule.warmup)
    return end_ms + campaign.schedule.tail


def _numbers(campaign: Campaign) -> range:
    listed = any(entry.at is None for entry in campaign.faults)
    return range(1, campaign.schedule.lanes + 1) if listed else range(0)


def _numbered(planned: Sequence[Act]) -> tuple[ScheduledFault, ...]:
    """Faults and stories get their numbers by their planned starts."""
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


def _renumbered(part: Part | None, number: int) -> Part | None:
    return None if part is None else replace(part, number=number)


def _at_times(campaign: Campaign, seed: int, ground: Ground) -> Iterator[Act]:
    """Each draws for itself, so that one entry more changes nothing of the others."""
    timed = [entry for entry in campaign.faults if entry.at is not None]
    for number, entry in enumerate(timed, start=1):
        rng = random.Random(f"{seed}/at-{number}")
        act = _act(entry, rng, ground)
        assert entry.at is not None
        yield _moved(act, rng.randint(*entry.at), gap_ms=None, lane=0)


@dataclass(slots=True)
class _Lane:
    """A sequence, as far as it is planned: until ``now_ms``."""

    campaign: Campaign
    seed: int
    number: int
    ground: Ground
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
        """The next one, given what is planned so far; None when the lane is over."""
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
        """The next one that fits, as soon as there is one."""
        if self.campaign.schedule.order != "drawn":
            act = _moved(_act(self.ahead.pop(0), self.rng, self.ground), start_ms)
            while not _fits(act, planned, self.ground):
                act = _moved(act, _earliest_end(act, planned) - act.start_ms)
            return act
        while True:
            left = list(self.entries)
            ends = []
            while left:
                entry = self.rng.choices(left, [one.weight or 1.0 for one in left])[0]
                act = _moved(_act(entry, self.rng, self.ground), start_ms)
                if _fits(act, planned, self.ground):
                    return act
                left.remove(entry)
                ends.append(_earliest_end(act, planned))
            start_ms = min(ends)


def _act(entry: Entry, rng: random.Random, ground: Ground) -> Act:
    """An entry with what it leaves open drawn; begins at 0."""
    if isinstance(entry, StoryEntry):
        return Act(stories.told(entry, rng, ground))
    hold_ms = rng.randint(*_hold_range(entry, ground))
    drawn = rng.getrandbits(53)
    seed = drawn if entry.seed is None else entry.seed
    target = on_topic(entry.target, _any_topic(seed, ground))
    fault = ScheduledFault(
        fault_id=0,
        fault=entry.fault,
        target=target,
        parameters=parameters_of(entry.fault, entry.parameters),
        start_ms=0,
        gap_ms=None,
        hold_ms=hold_ms,
        seed=seed,
        befalls=ground.befallen(entry.fault, target),
    )
    return Act((fault,))


def _any_topic(seed: int, ground: Ground) -> str:
    return random.Random(f"{seed}/topic").choice(sorted(ground.partitions))


def _hold_range(entry: FaultEntry, ground: Ground) -> tuple[int, int]:
    return entry.hold if entry.hold is not None else ground.hold_range(entry.fault)


def _moved(act: Act, by_ms: int, gap_ms: int | None = None, lane: int = 0) -> Act:
    return Act(
        tuple(
            replace(fault, start_ms=fault.start_ms + by_ms, gap_ms=gap_ms, lane=lane)
            for fault in act.faults
        )
    )


# --- how many suffer at once -------------------------------------------------------------------


def _fits(act: Act, planned: Sequence[Act], ground: Ground) -> bool:
    """Whether there is room for it, as planned; alone it has."""
    beside = _beside(act, planned)
    moments = [act.start_ms, *(one.start_ms for one in beside if one.start_ms > act.start_ms)]
    return all(
        sum((one.befalls for one in beside if _on(one, moment)), act.befalls).within(ground.room)
        for moment in (moments if beside else ())
    )


def _earliest_end(act: Act, planned: Sequence[Act]) -> int:
    return min(_end_ms(one) for one in _beside(act, planned))


def _beside(act: Act, planned: Sequence[Act]) -> list[Act]:
    """What is planned to be on together with it, at some time."""
    return [p for p in planned if p.start_ms < _end_ms(act) and act.start_ms < _end_ms(p)]


def _on(act: Act, moment_ms: int) -> bool:
    return act.start_ms <= moment_ms < _end_ms(act)


def _end_ms(act: Act) -> int:
    """What is healed at once is on for a moment."""
    return max(act.end_ms, act.start_ms + 1)
