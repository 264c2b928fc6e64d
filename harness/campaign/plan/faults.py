"""A run's faults before it begins, as data."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from ackproof.history.cell import as_text
from ackproof.nemesis import FAULTS
from ackproof.nemesis.interface import Parameters
from ackproof.nemesis.targets.bounds import NOBODY, Count

Event = Literal["injected", "verified", "healed"]
"""What becomes of a fault, in the words of the history. ``verified`` and ``healed`` are proven."""


class When(StrEnum):
    """What a step of a story may wait for, of the partition that the story is about."""

    LED = "led"
    """Somebody leads it."""
    ANOTHER_LEADS = "another-leads"
    """Another broker than when the step struck after which it looks."""
    ISR_SHRUNK = "isr-shrunk"
    """Somebody is out of the ISR who was in it when that step struck, and somebody beside the
    leader is in it."""
    ISR_IS_LEADER = "isr-is-leader"
    """Nobody is in sync but the leader."""
    ISR_GROWN = "isr-grown"
    """Somebody has come into the ISR who was out of it when that step struck, or since."""
    WHOLE = "whole"
    """This and every partition of every cell is led, and its ISR full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cue:
    """What must have come about: ``event`` of the step called ``step``, then ``when``, then so much
    time."""

    step: str
    event: Event
    when: When | None = None
    wait_ms: int = 0

    def __str__(self) -> str:
        parts = [f"{self.step} {self.event}", *([self.when.value] if self.when else [])]
        return ", ".join([*parts, *([f"{self.wait_ms / 1000:g} s"] if self.wait_ms else [])])


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a fault is in a story.

    Attributes:
        story: Its name, and its number in the run: one story may be played several times.
        step: The step's name, unique in the story.
        seed: The story's.
        partition: That the story is about, if any.
        in_sync: How many of its replicas are to be in sync when the story begins.
        begins: On what; None for a step that begins when the story does.
        until: What keeps it from being healed, beside the time that it is held; None for nothing.
    """

    story: str
    number: int
    step: str
    seed: int
    partition: tuple[str, int] | None = None
    in_sync: int = 0
    begins: Cue | None = None
    until: Cue | None = None

    @property
    def label(self) -> str:
        """E.g. ``crash-loop#1 bounce-2``."""
        return f"{self.story}#{self.number} {self.step}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledFault:
    """One fault of the plan.

    Attributes:
        fault_id: From 1, in the order of the planned starts.
        parameters: The fault's own, checked, with its defaults filled in.
        start_ms: Planned start, milliseconds after the workload began; of a story's later steps, by
            when their cues may be expected.
        gap_ms: Quiet time before it, since the fault before was healed or the workload began; None
            for a fault that has a time of its own.
        hold_ms: How long it is held at least, from injection to heal.
        seed: For whatever its target and its plan leave open.
        lane: Which of the sequences it is in, from 1; 0 for a fault that has a time of its own.
        part: What it is in a story; None for a fault by itself.
        befalls: How many servers at the most; of a story's step, the whole story.
        expected_ms: How long it is expected to be held, where what it waits for takes longer.
    """

    fault_id: int
    fault: str
    target: str
    parameters: Parameters
    start_ms: int
    gap_ms: int | None
    hold_ms: int
    seed: int
    lane: int = 0
    part: Part | None = None
    befalls: Count = NOBODY
    expected_ms: int = 0

    @property
    def end_ms(self) -> int:
        return self.start_ms + max(self.hold_ms, self.expected_ms)


def parameters_of(fault: str, given: Mapping[str, object]) -> Parameters:
    """The parameters of that fault, with its defaults for what is not ``given``. Raises
    pydantic.ValidationError for those that are not right."""
    return FAULTS[fault].parameters.model_validate(dict(given))


def as_written(parameters: Mapping[str, Any]) -> str:
    """Return parameters as a campaign file has them, ``refuse: true``, without those not set."""
    given = {name: value for name, value in parameters.items() if value is not None}
    return ", ".join(f"{name}: {as_text(value)}" for name, value in given.items())


@dataclass(frozen=True, slots=True)
class Act:
    """What begins and ends as one: a fault, or all steps of a story."""

    faults: tuple[ScheduledFault, ...]

    @property
    def start_ms(self) -> int:
        return self.faults[0].start_ms

    @property
    def end_ms(self) -> int:
        return max(fault.end_ms for fault in self.faults)

    @property
    def gap_ms(self) -> int | None:
        return self.faults[0].gap_ms

    @property
    def lane(self) -> int:
        return self.faults[0].lane

    @property
    def befalls(self) -> Count:
        return self.faults[0].befalls

    @property
    def label(self) -> str:
        first = self.faults[0]
        if first.part is None:
            return f"{first.fault}#{first.fault_id}"
        return f"{first.part.story}#{first.part.number}"


def acts(plan: Sequence[ScheduledFault]) -> tuple[Act, ...]:
    """The acts of a plan, in the order of their planned starts."""
    found: dict[object, list[ScheduledFault]] = {}
    for fault in plan:
        key = fault.fault_id if fault.part is None else (fault.part.story, fault.part.number)
        found.setdefault(key, []).append(fault)
    return tuple(Act(tuple(faults)) for faults in found.values())


def lanes(plan: Sequence[ScheduledFault]) -> Iterator[tuple[Act, ...]]:
    """The acts of each lane, and each act with a time of its own alone."""
    by_lane: dict[int, list[Act]] = {}
    for act in acts(plan):
        if act.gap_ms is None:
            yield (act,)
        else:
            by_lane.setdefault(act.lane, []).append(act)
    yield from (tuple(one) for _, one in sorted(by_lane.items()))
