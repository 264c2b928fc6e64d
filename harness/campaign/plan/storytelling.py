"""Stories as planned faults: what they leave open is drawn, and when they may be expected to come.

All of it follows from the story's own seed, so that the same story can be told again at another
time, among other faults.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ackproof.harness.campaign.model.schedule import StoryEntry
from ackproof.harness.campaign.plan.faults import Cue, Part, ScheduledFault, When, parameters_of
from ackproof.harness.campaign.plan.ground import Ground
from ackproof.harness.campaign.plan.stories import CueSpec, Step, catalogue, target_of, unrolled
from ackproof.nemesis.proofs.proving import expiry_ms, shrink_ms
from ackproof.nemesis.targets.bounds import NOBODY, Count, everybody


def told(entry: StoryEntry, rng: random.Random, ground: Ground) -> tuple[ScheduledFault, ...]:
    """The faults of a story that begins at 0, in the order of its steps."""
    drawn = rng.getrandbits(53)
    seed = drawn if entry.seed is None else entry.seed
    steps = list(unrolled(catalogue()[entry.story], ground.members, seed))
    partition = _partition(entry, seed, ground)
    faults = [_fault(entry.story, step, partition, seed, ground) for step in steps]
    return _placed(faults, ground)


def most_at_once(entry: StoryEntry, ground: Ground) -> Count:
    """How many servers it befalls at once at the most."""
    return told(entry, random.Random(0), ground)[0].befalls


def partition_of(entry: StoryEntry, seed: int, count: int) -> int:
    """The partition that a story plays on, of so many."""
    drawn = random.Random(f"{seed}/partition").randrange(count)
    return drawn if entry.partition == "any" else entry.partition


def _partition(entry: StoryEntry, seed: int, ground: Ground) -> tuple[str, int] | None:
    if entry.topic is None:
        return None
    return entry.topic, partition_of(entry, seed, ground.partitions[entry.topic])


def _fault(
    story: str, step: Step, partition: tuple[str, int] | None, seed: int, ground: Ground
) -> ScheduledFault:
    rng = random.Random(f"{seed}/{step.step}")
    target = target_of(step, partition)
    return ScheduledFault(
        fault_id=0,
        fault=step.fault,
        target=target,
        parameters=parameters_of(step.fault, step.parameters),
        start_ms=0,
        gap_ms=None,
        hold_ms=rng.randint(*(step.hold or ground.hold_range(step.fault))),
        seed=rng.getrandbits(53),
        befalls=ground.befallen(step.fault, target),
        part=Part(
            story=story,
            number=0,
            step=step.step,
            seed=seed,
            partition=partition,
            in_sync=0 if partition is None else catalogue()[story].replicas,
            begins=_cue(step.begins, rng),
            until=_cue(step.until, rng),
        ),
    )


def _cue(cue: CueSpec | None, rng: random.Random) -> Cue | None:
    if cue is None:
        return None
    return Cue(step=cue.step, event=cue.event, when=cue.when, wait_ms=rng.randint(*cue.wait))


# --- when the steps may be expected --------------------------------------------------------------


def _placed(faults: Sequence[ScheduledFault], ground: Ground) -> tuple[ScheduledFault, ...]:
    expected = _Expected({_part(fault).step: fault for fault in faults}, ground)
    placed = []
    for fault in faults:
        start_ms = expected.start_ms(_part(fault).step)
        lasts_ms = expected.end_ms(_part(fault).step) - start_ms
        placed.append(replace(fault, start_ms=start_ms, expected_ms=lasts_ms))
    placed.sort(key=lambda fault: fault.start_ms)
    return tuple(replace(fault, befalls=_at_once(placed, ground)) for fault in placed)


def _at_once(faults: Sequence[ScheduledFault], ground: Ground) -> Count:
    """How many servers the story befalls at once at the most, as far as can be expected."""
    moments = [
        sum((o.befalls for o in faults if o.start_ms <= one.start_ms <= o.end_ms), NOBODY)
        for one in faults
    ]
    most = Count(max(m.brokers for m in moments), max(m.zookeepers for m in moments))
    return most.capped(everybody(ground.members))


def _part(fault: ScheduledFault) -> Part:
    assert fault.part is not None
    return fault.part


@dataclass(frozen=True, slots=True)
class _Expected:
    """When steps begin and end if all takes as long as the cluster's timeouts say, milliseconds
    since the story began. Their cues never wait for each other in a ring."""

    faults: Mapping[str, ScheduledFault]
    ground: Ground

    def start_ms(self, step: str) -> int:
        cue = _part(self.faults[step]).begins
        return 0 if cue is None else self._come_ms(cue)

    def end_ms(self, step: str) -> int:
        fault = self.faults[step]
        held_ms = self.start_ms(step) + fault.hold_ms
        until = _part(fault).until
        return held_ms if until is None else max(held_ms, self._come_ms(until))

    def _come_ms(self, cue: Cue) -> int:
        return self._event_ms(cue) + self._until_ms(cue.when) + cue.wait_ms

    def _event_ms(self, cue: Cue) -> int:
        if cue.event == "healed":
            return self.end_ms(cue.step)
        fault = self.faults[cue.step]
        full_ms = self.ground.hold_ms_min(fault.fault)
        proof_ms = full_ms if cue.event == "verified" and fault.hold_ms >= full_ms else 0
        return self.start_ms(cue.step) + proof_ms

    def _until_ms(self, when: When | None) -> int:
        if when in (When.ISR_SHRUNK, When.ISR_IS_LEADER):
            return shrink_ms(self.ground.timings)
        return 0 if when is None else expiry_ms(self.ground.timings)
