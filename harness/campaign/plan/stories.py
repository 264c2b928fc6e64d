"""Stories: named sequences of faults.

A story is a list of steps. Each step is an ordinary fault, with its own entry in the manifest, the
ledger and the history, and its own proof. Steps differ from other faults in when they begin and
end: on an event of another step, and on the state of the story's partition. The roles in a target
are resolved when the step begins, so that ``leader`` is the leader at that moment.

Stories are data, in ``stories.yaml``. In targets ``{partition}`` stands for the topic and the
number of the partition, ``{topic}`` for the topic alone, ``{rack}`` for the rack, and ``{each}``
for the server whose turn it is.
"""

import json
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal, cast, get_args

import yaml
from pydantic import Field, TypeAdapter, field_validator

from ackproof.config.documents import PatternDescription
from ackproof.harness.campaign.model.schedule import StoryEntry
from ackproof.harness.campaign.model.values import DurationRange, Section
from ackproof.harness.campaign.plan.context import PlanContext
from ackproof.harness.campaign.plan.faults import (
    Cue,
    CueCondition,
    Event,
    ScheduledFault,
    StoryPosition,
    parameters_of,
)
from ackproof.nemesis import FAULTS
from ackproof.nemesis.interface import Members
from ackproof.nemesis.proofs import expiry_ms, shrink_ms
from ackproof.nemesis.targets.expressions import ANY
from ackproof.nemesis.targets.resolution import NO_SERVERS, Count, all_servers

# --- stories --------------------------------------------------------------------------------------

_EVENTS = get_args(Event)


class CueSpec(Section):
    """The condition that a step waits for."""

    after: str = Field(description="a step and its event: shrunk.verified")
    when: Annotated[CueCondition, Field(strict=False)] | None = Field(
        default=None, description="the state that the partition must also have reached"
    )
    wait: DurationRange = Field(default=(0, 0), description="a time to wait after that")

    @field_validator("after")
    @classmethod
    def _names_an_event(cls, after: str) -> str:
        if after.partition(".")[2] not in _EVENTS:
            raise ValueError(f"{after!r} is not <step>.<event>; events: {', '.join(_EVENTS)}")
        return after

    @property
    def step(self) -> str:
        return self.after.partition(".")[0]

    @property
    def event(self) -> Event:
        return cast(Event, self.after.partition(".")[2])


class StoryStep(Section):
    """One fault of a story.

    ``times`` and ``each`` make several steps of it, one after the other. Each begins when the one
    before is healed and the condition ``between`` is true.
    """

    step: Annotated[
        str, PatternDescription(r"^[a-z][a-z-]*$", "small letters and -, a letter first")
    ]
    fault: str
    target: str
    parameters: Mapping[str, Any] = Field(default_factory=dict)
    begins: CueSpec | None = Field(
        default=None, description="without it, the step begins with the story"
    )
    hold: DurationRange | None = Field(
        default=None, description="the least time; as for the fault itself"
    )
    until: CueSpec | None = Field(default=None, description="the step also lasts until then")
    times: Annotated[int, Field(ge=1)] = 1
    each: Literal["broker", "zookeeper"] | None = None
    between: Annotated[CueCondition, Field(strict=False)] | None = None


class Story(Section):
    """A sequence of faults, which may be about one partition, or about the brokers of one rack."""

    summary: str = Field(description="up to the first semicolon its headline in the catalogue")
    source: str = Field(description="the source of the observation")
    replicas: Annotated[int, Field(ge=1)] = Field(default=1, description="the least number needed")
    steps: Annotated[tuple[StoryStep, ...], Field(min_length=1)]

    @property
    def needs_topic(self) -> bool:
        """Return whether the story is about a partition."""
        return any(
            "{partition}" in step.target or _partition_conditions(step) for step in self.steps
        )

    @property
    def needs_rack(self) -> bool:
        """Return whether the story is about a rack."""
        return any("{rack}" in step.target for step in self.steps)


def _partition_conditions(step: StoryStep) -> bool:
    conditions = [cue.when for cue in (step.begins, step.until) if cue is not None]
    return bool({*conditions, step.between} - {None, CueCondition.WHOLE})


@cache
def catalogue() -> Mapping[str, Story]:
    """Return every built-in story, by name."""
    text = (
        files("ackproof.harness.campaign.plan").joinpath("stories.yaml").read_text(encoding="utf-8")
    )
    # The catalogue is validated as JSON, as campaign files are: strictly, and with lists for
    # tuples.
    return TypeAdapter(dict[str, Story]).validate_json(json.dumps(yaml.safe_load(text)))


def unrolled(story: Story, members: Members, seed: int) -> Iterator[StoryStep]:
    """Yield the steps one by one, with ``times`` and ``each`` expanded. ``seed`` decides the order
    in which ``each`` goes through the servers."""
    servers = {"broker": members.brokers, "zookeeper": members.zookeepers}
    for step in story.steps:
        rng = random.Random(f"{seed}/{step.step}")
        turns = [""] * step.times
        if step.each is not None:
            turns = rng.sample(servers[step.each], len(servers[step.each])) * step.times
        yield from _turns(step, turns)


def _turns(step: StoryStep, turns: Sequence[str]) -> Iterator[StoryStep]:
    for number, server in enumerate(turns, start=1):
        name = step.step if len(turns) == 1 else f"{step.step}-{number}"
        before = CueSpec(after=f"{step.step}-{number - 1}.healed", when=step.between)
        yield step.model_copy(
            update={
                "step": name,
                "target": step.target.replace("{each}", server),
                "begins": step.begins if number == 1 else before,
            }
        )


def target_of(step: StoryStep, partition: tuple[str, int] | None, rack: str | None) -> str:
    """Return the target of a step, with the partition and the rack filled in."""
    topic, number = partition or ("", "")
    target = step.target.replace("{partition}", f"{topic}, {number}").replace("{topic}", topic)
    return target.replace("{rack}", rack or ANY)


def rack_of(entry: StoryEntry, seed: int, racks: Collection[str]) -> str | None:
    """Return the rack that a story is about, of the ``racks`` of the brokers; None without any."""
    if entry.rack is not None or not racks:
        return entry.rack
    return random.Random(f"{seed}/rack").choice(sorted(set(racks)))


def mistakes(story: Story) -> Iterator[str]:
    """Yield the mistakes of a story: unknown faults, unknown steps, and steps that wait for each
    other."""
    names = [step.step for step in story.steps]
    if len(set(names)) < len(names):
        yield "two steps have the same name"
    for number, step in enumerate(story.steps):
        if step.fault not in FAULTS:
            yield f"{step.step} uses the fault {step.fault}, which does not exist"
        if step.begins is not None and step.begins.step not in names[:number]:
            yield f"{step.step} begins after {step.begins.step}, which is not an earlier step"
        if step.until is not None and step.until.step not in names:
            yield f"{step.step} lasts until {step.until.after}, but there is no such step"
        if step.until is not None and _waits(story, step.until, step.step):
            yield (
                f"{step.step} lasts until {step.until.after}, which waits for {step.step} "
                "to be healed"
            )


def _waits(story: Story, cue: CueSpec, for_heal_of: str) -> bool:
    """Return whether ``cue`` cannot come true before the step ``for_heal_of`` is healed."""
    by_name = {step.step: step for step in story.steps}
    if (cue.step, cue.event) == (for_heal_of, "healed"):
        return True
    step = by_name.get(cue.step)
    if step is None:
        return False
    ahead = [step.begins, *([step.until] if cue.event == "healed" else [])]
    return any(_waits(story, one, for_heal_of) for one in ahead if one is not None)


# --- stories as planned faults --------------------------------------------------------------------
#
# Everything follows from the story's own seed, so that a story can be repeated at another time and
# among other faults.


def story_faults(
    entry: StoryEntry, rng: random.Random, context: PlanContext
) -> tuple[ScheduledFault, ...]:
    """Return the faults of a story that begins at 0, in the order of its steps."""
    drawn = rng.getrandbits(53)
    seed = drawn if entry.seed is None else entry.seed
    steps = list(unrolled(catalogue()[entry.story], context.members, seed))
    partition = _partition(entry, seed, context)
    rack = rack_of(entry, seed, context.members.racks.values())
    faults = [
        _fault(entry.story, step, target_of(step, partition, rack), partition, seed, context)
        for step in steps
    ]
    return _placed(faults, context)


def most_at_once(entry: StoryEntry, context: PlanContext) -> Count:
    """Return the largest number of servers that a story affects at once."""
    return story_faults(entry, random.Random(0), context)[0].affected


def partition_of(entry: StoryEntry, seed: int, count: int) -> int:
    """Return the number of the partition that a story is about, given the ``count`` of
    partitions."""
    drawn = random.Random(f"{seed}/partition").randrange(count)
    return drawn if entry.partition == "any" else entry.partition


def _partition(entry: StoryEntry, seed: int, context: PlanContext) -> tuple[str, int] | None:
    if entry.topic is None:
        return None
    return entry.topic, partition_of(entry, seed, context.partitions[entry.topic])


def _fault(
    story: str,
    step: StoryStep,
    target: str,
    partition: tuple[str, int] | None,
    seed: int,
    context: PlanContext,
) -> ScheduledFault:
    rng = random.Random(f"{seed}/{step.step}")
    return ScheduledFault(
        fault_id=0,
        fault=step.fault,
        target=target,
        parameters=parameters_of(step.fault, step.parameters),
        start_ms=0,
        gap_ms=None,
        hold_ms=rng.randint(*(step.hold or context.hold_range(step.fault))),
        seed=rng.getrandbits(53),
        affected=context.affected_servers(step.fault, target),
        part=StoryPosition(
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


def _placed(faults: Sequence[ScheduledFault], context: PlanContext) -> tuple[ScheduledFault, ...]:
    expected = _ExpectedTimes({_part(fault).step: fault for fault in faults}, context)
    placed = []
    for fault in faults:
        start_ms = expected.start_ms(_part(fault).step)
        lasts_ms = expected.end_ms(_part(fault).step) - start_ms
        placed.append(replace(fault, start_ms=start_ms, expected_ms=lasts_ms))
    placed.sort(key=lambda fault: fault.start_ms)
    return tuple(replace(fault, affected=_at_once(placed, context)) for fault in placed)


def _at_once(faults: Sequence[ScheduledFault], context: PlanContext) -> Count:
    """Return the largest number of servers that the story is expected to affect at once."""
    moments = [
        sum((o.affected for o in faults if o.start_ms <= one.start_ms <= o.end_ms), NO_SERVERS)
        for one in faults
    ]
    most = Count(max(m.brokers for m in moments), max(m.zookeepers for m in moments))
    return most.capped(all_servers(context.members))


def _part(fault: ScheduledFault) -> StoryPosition:
    assert fault.part is not None
    return fault.part


@dataclass(frozen=True, slots=True)
class _ExpectedTimes:
    """The expected begin and end of each step, in milliseconds since the story began, if everything
    takes as long as the cluster's timeouts. Conditions never wait for each other in a circle."""

    faults: Mapping[str, ScheduledFault]
    context: PlanContext

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
        full_ms = self.context.hold_ms_min(fault.fault)
        proof_ms = full_ms if cue.event == "verified" and fault.hold_ms >= full_ms else 0
        return self.start_ms(cue.step) + proof_ms

    def _until_ms(self, when: CueCondition | None) -> int:
        if when in (CueCondition.ISR_SHRUNK, CueCondition.ISR_IS_LEADER):
            return shrink_ms(self.context.timings)
        return 0 if when is None else expiry_ms(self.context.timings)
