"""Stories: faults composed to a sequence that has a name.

A story is a list of steps. Each is an ordinary fault, with an entry of its own in the manifest, the
ledger and the history, and a proof of its own; what makes them a story is when they begin and end:
on what became of another step, and on what the partition that it is about has come to. The roles in
a target are resolved when the step strikes, so that ``leader`` is whoever leads by then.

They are data, ``stories.yaml``. In targets ``{partition}`` stands for the topic and the number of
the partition, ``{topic}`` for the topic alone, ``{each}`` for the server whose turn it is.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal, cast, get_args

import yaml
from pydantic import Field, TypeAdapter, field_validator

from ackproof.config.documents import Worded
from ackproof.harness.campaign.model.section import Section
from ackproof.harness.campaign.model.values.durations import DurationRange
from ackproof.harness.campaign.plan.faults import Event, When
from ackproof.nemesis import FAULTS
from ackproof.nemesis.interface import Members

_EVENTS = get_args(Event)


class CueSpec(Section):
    """What a step waits for."""

    after: str = Field(description="a step and what became of it: shrunk.verified")
    when: Annotated[When, Field(strict=False)] | None = Field(
        default=None, description="and then, what the partition has come to"
    )
    wait: DurationRange = Field(default=(0, 0), description="and then, so much time")

    @field_validator("after")
    @classmethod
    def _names_an_event(cls, after: str) -> str:
        if after.partition(".")[2] not in _EVENTS:
            raise ValueError(f"{after!r} is no <step>.<event>; events: {', '.join(_EVENTS)}")
        return after

    @property
    def step(self) -> str:
        return self.after.partition(".")[0]

    @property
    def event(self) -> Event:
        return cast(Event, self.after.partition(".")[2])


class Step(Section):
    """One fault of a story.

    ``times`` and ``each`` make several steps of it, one after the other, each when the one before
    is healed and ``between`` is true.
    """

    step: Annotated[str, Worded(r"^[a-z][a-z-]*$", "small letters and -, a letter first")]
    fault: str
    target: str
    parameters: Mapping[str, Any] = Field(default_factory=dict)
    begins: CueSpec | None = Field(default=None, description="without it, when the story does")
    hold: DurationRange | None = Field(default=None, description="at least; as a fault's own")
    until: CueSpec | None = Field(default=None, description="held until then besides")
    times: Annotated[int, Field(ge=1)] = 1
    each: Literal["broker", "zookeeper"] | None = None
    between: Annotated[When, Field(strict=False)] | None = None


class Story(Section):
    """A sequence of faults, of one partition where it speaks of one."""

    summary: str
    source: str = Field(description="who tells it")
    replicas: Annotated[int, Field(ge=1)] = Field(default=1, description="needed, at least")
    steps: Annotated[tuple[Step, ...], Field(min_length=1)]

    @property
    def needs_topic(self) -> bool:
        """Whether it is about a partition."""
        return any(
            "{partition}" in step.target or _partition_conditions(step) for step in self.steps
        )


def _partition_conditions(step: Step) -> bool:
    conditions = [cue.when for cue in (step.begins, step.until) if cue is not None]
    return bool({*conditions, step.between} - {None, When.WHOLE})


@cache
def catalogue() -> Mapping[str, Story]:
    """Every story that ships, by name."""
    text = (
        files("ackproof.harness.campaign.plan").joinpath("stories.yaml").read_text(encoding="utf-8")
    )
    # By way of JSON, as campaign files are: strict, and with lists for tuples.
    return TypeAdapter(dict[str, Story]).validate_json(json.dumps(yaml.safe_load(text)))


def unrolled(story: Story, members: Members, seed: int) -> Iterator[Step]:
    """The steps one by one, what ``times`` and ``each`` say written out; ``seed``: for the order in
    which ``each`` goes through the servers."""
    servers = {"broker": members.brokers, "zookeeper": members.zookeepers}
    for step in story.steps:
        rng = random.Random(f"{seed}/{step.step}")
        turns = [""] * step.times
        if step.each is not None:
            turns = rng.sample(servers[step.each], len(servers[step.each])) * step.times
        yield from _turns(step, turns)


def _turns(step: Step, turns: Sequence[str]) -> Iterator[Step]:
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


def target_of(step: Step, partition: tuple[str, int] | None) -> str:
    """Its target, of this partition."""
    topic, number = partition or ("", "")
    return step.target.replace("{partition}", f"{topic}, {number}").replace("{topic}", topic)


def mistakes(story: Story) -> Iterator[str]:
    """What is wrong with it: faults that there are not, steps that there are not, or that wait for
    each other."""
    names = [step.step for step in story.steps]
    if len(set(names)) < len(names):
        yield "two steps have one name"
    for number, step in enumerate(story.steps):
        if step.fault not in FAULTS:
            yield f"{step.step} is {step.fault}, and there is no such fault"
        if step.begins is not None and step.begins.step not in names[:number]:
            yield f"{step.step} begins after {step.begins.step}, which is no step before it"
        if step.until is not None and step.until.step not in names:
            yield f"{step.step} is held until {step.until.after}, and there is no such step"
        if step.until is not None and _waits(story, step.until, step.step):
            yield f"{step.step} is held until {step.until.after}, which waits for it to be healed"


def _waits(story: Story, cue: CueSpec, for_heal_of: str) -> bool:
    """Whether ``cue`` cannot come before that step is healed."""
    by_name = {step.step: step for step in story.steps}
    if (cue.step, cue.event) == (for_heal_of, "healed"):
        return True
    step = by_name.get(cue.step)
    if step is None:
        return False
    ahead = [step.begins, *([step.until] if cue.event == "healed" else [])]
    return any(_waits(story, one, for_heal_of) for one in ahead if one is not None)
