"""When which fault strikes: a pure function of the campaign and the seed.

The same campaign and seed give the same plan. What a seed cannot fix: how long the cluster takes
to show that a fault bit, and who holds a role when its moment comes. A fault that cannot start
because the one before is not healed yet starts after it, with its planned gap.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.campaign.model import Campaign
from harness.campaign.schedule import FaultEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFault:
    """One fault of the plan.

    Attributes:
        fault_id: From 1, in the order of the plan.
        start_ms: Planned start, milliseconds after the workload began.
        gap_ms: Quiet time before it, since the fault before was healed or the workload began.
        hold_ms: How long it is held, from injection to heal.
        seed: For whatever its target leaves open.
    """

    fault_id: int
    fault: str
    target: str
    start_ms: int
    gap_ms: int
    hold_ms: int
    seed: int


def run_seed(seed: int, run: int) -> int:
    """The seed of run number ``run`` of a campaign with ``seed``."""
    return random.Random(f"{seed}/run-{run}").getrandbits(53)


def plan(campaign: Campaign, seed: int, hold_ms_min: Mapping[str, int]) -> tuple[PlannedFault, ...]:
    """The faults of one run, in the order of their start.

    Args:
        campaign: Checked.
        seed: Of the run.
        hold_ms_min: The least hold of each fault by its name, for entries that give none.
    """
    return tuple(_planned(campaign, random.Random(seed), hold_ms_min))


def duration_ms(campaign: Campaign, faults: Sequence[PlannedFault]) -> int:
    """How long the workload lasts at least: the plan, and the tail."""
    end_ms = faults[-1].start_ms + faults[-1].hold_ms if faults else campaign.schedule.warmup
    return end_ms + campaign.schedule.tail


def _planned(
    campaign: Campaign, rng: random.Random, hold_ms_min: Mapping[str, int]
) -> Iterator[PlannedFault]:
    now_ms = 0
    for fault_id, entry in enumerate(_ordered(campaign, rng), start=1):
        gap_ms = campaign.schedule.warmup if fault_id == 1 else rng.randint(*campaign.schedule.gap)
        hold_ms = rng.randint(*_hold_range(entry, hold_ms_min))
        yield PlannedFault(
            fault_id=fault_id,
            fault=entry.fault,
            target=entry.target,
            start_ms=now_ms + gap_ms,
            gap_ms=gap_ms,
            hold_ms=hold_ms,
            seed=rng.getrandbits(53),
        )
        now_ms += gap_ms + hold_ms


def _ordered(campaign: Campaign, rng: random.Random) -> Iterator[FaultEntry]:
    for _ in range(campaign.schedule.rounds):
        faults = list(campaign.faults)
        if campaign.schedule.order == "shuffled":
            rng.shuffle(faults)
        yield from faults


def _hold_range(entry: FaultEntry, hold_ms_min: Mapping[str, int]) -> tuple[int, int]:
    if entry.hold is not None:
        return entry.hold
    least_ms = hold_ms_min[entry.fault]
    return least_ms, least_ms + least_ms // 2
