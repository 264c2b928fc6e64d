"""When which fault strikes: a pure function of the campaign and the seed.

The same campaign and seed give the same plan. What a seed cannot fix: how long the cluster takes
to show that a fault bit, and who holds a role when its moment comes. A fault without a time of its
own that cannot start because the one before is not healed yet starts after it, with its planned
gap; a fault with a time strikes then, whatever else is on.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.campaign.model import Campaign
from harness.campaign.schedule import FaultEntry
from nemesis import FAULTS
from nemesis.interface import Parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledFault:
    """One fault of the plan.

    Attributes:
        fault_id: From 1, in the order of the planned starts.
        parameters: The fault's own, checked, with its defaults filled in.
        start_ms: Planned start, milliseconds after the workload began.
        gap_ms: Quiet time before it, since the fault before was healed or the workload began; None
            for a fault that has a time of its own.
        hold_ms: How long it is held, from injection to heal.
        seed: For whatever its target and its plan leave open.
    """

    fault_id: int
    fault: str
    target: str
    parameters: Parameters
    start_ms: int
    gap_ms: int | None
    hold_ms: int
    seed: int

    @property
    def end_ms(self) -> int:
        return self.start_ms + self.hold_ms


def run_seed(seed: int, run: int) -> int:
    """The seed of run number ``run`` of a campaign with ``seed``."""
    return random.Random(f"{seed}/run-{run}").getrandbits(53)


def plan(
    campaign: Campaign, seed: int, hold_ms_min: Mapping[str, int]
) -> tuple[ScheduledFault, ...]:
    """The faults of one run, in the order of their planned starts.

    Args:
        campaign: Checked.
        seed: Of the run.
        hold_ms_min: The least hold of each fault by its name, for entries that give none.
    """
    faults = [*_one_by_one(campaign, seed, hold_ms_min), *_at_times(campaign, seed, hold_ms_min)]
    in_order = sorted(faults, key=lambda fault: fault.start_ms)
    return tuple(replace(fault, fault_id=number) for number, fault in enumerate(in_order, start=1))


def duration_ms(campaign: Campaign, faults: Sequence[ScheduledFault]) -> int:
    """How long the workload lasts at least: the plan, and the tail."""
    end_ms = max((fault.end_ms for fault in faults), default=campaign.schedule.warmup)
    return end_ms + campaign.schedule.tail


def _one_by_one(
    campaign: Campaign, seed: int, hold_ms_min: Mapping[str, int]
) -> Iterator[ScheduledFault]:
    rng = random.Random(seed)
    now_ms = 0
    for number, entry in enumerate(_ordered(campaign, rng)):
        gap_ms = campaign.schedule.warmup if number == 0 else rng.randint(*campaign.schedule.gap)
        fault = _planned(entry, rng, hold_ms_min)
        yield replace(fault, start_ms=now_ms + gap_ms, gap_ms=gap_ms)
        now_ms += gap_ms + fault.hold_ms


def _at_times(
    campaign: Campaign, seed: int, hold_ms_min: Mapping[str, int]
) -> Iterator[ScheduledFault]:
    """Each draws for itself, so that one entry more changes nothing of the others."""
    timed = [entry for entry in campaign.faults if entry.at is not None]
    for number, entry in enumerate(timed, start=1):
        rng = random.Random(f"{seed}/at-{number}")
        fault = _planned(entry, rng, hold_ms_min)
        assert entry.at is not None
        yield replace(fault, start_ms=rng.randint(*entry.at))


def _planned(
    entry: FaultEntry, rng: random.Random, hold_ms_min: Mapping[str, int]
) -> ScheduledFault:
    return ScheduledFault(
        fault_id=0,
        fault=entry.fault,
        target=entry.target,
        parameters=FAULTS[entry.fault].parameters.model_validate(dict(entry.parameters)),
        start_ms=0,
        gap_ms=None,
        hold_ms=rng.randint(*_hold_range(entry, hold_ms_min)),
        seed=rng.getrandbits(53),
    )


def _ordered(campaign: Campaign, rng: random.Random) -> Iterator[FaultEntry]:
    for _ in range(campaign.schedule.rounds):
        faults = [entry for entry in campaign.faults if entry.at is None]
        if campaign.schedule.order == "shuffled":
            rng.shuffle(faults)
        yield from faults


def _hold_range(entry: FaultEntry, hold_ms_min: Mapping[str, int]) -> tuple[int, int]:
    if entry.hold is not None:
        return entry.hold
    least_ms = hold_ms_min[entry.fault]
    return least_ms, least_ms + least_ms // 2
