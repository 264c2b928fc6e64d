"""The planned faults of a run, as data."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from ackproof.history.cell import as_text
from ackproof.nemesis import FAULTS
from ackproof.nemesis.interface import Parameters
from ackproof.nemesis.targets.resolution import NO_SERVERS, Count

Event = Literal["injected", "verified", "healed"]
"""The events in the life of a fault, by their names in the history. ``verified`` and ``healed`` are
proven."""


class CueCondition(StrEnum):
    """A condition on the partition of a story for which a step may wait. It is compared with the
    state at the injection of the step that the cue names."""

    LED = "led"
    """The partition has a leader."""
    LEADERLESS = "leaderless"
    """The partition has no leader."""
    ANOTHER_LEADS = "another-leads"
    """The leader is another broker than at that injection."""
    ISR_SHRUNK = "isr-shrunk"
    """A broker has left the ISR since that injection, and the ISR holds another broker beside the
    leader."""
    ISR_IS_LEADER = "isr-is-leader"
    """The ISR holds only the leader."""
    ISR_GROWN = "isr-grown"
    """A broker has joined the ISR that was out of it at that injection, or left it since."""
    WHOLE = "whole"
    """Every partition of every cell, including this one, has a leader and a full ISR."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cue:
    """The condition that a step waits for: ``event`` of the step named ``step``, then ``when``,
    then ``wait_ms`` milliseconds."""

    step: str
    event: Event
    when: CueCondition | None = None
    wait_ms: int = 0

    def __str__(self) -> str:
        parts = [f"{self.step} {self.event}", *([self.when.value] if self.when else [])]
        return ", ".join([*parts, *([f"{self.wait_ms / 1000:g} s"] if self.wait_ms else [])])


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryPosition:
    """The role of a fault in a story.

    Attributes:
        story: The name of the story.
        number: The number of the story in the run, because one story may be played several times.
        step: The step's name, unique in the story.
        seed: The story's seed.
        partition: The partition that the story is about, if any.
        in_sync: The number of replicas that must be in sync when the story begins.
        begins: The condition on which the step begins; None for a step that begins with the story.
        until: A condition that must come true before the step is healed, beside its duration; None
            without one.
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
        """Return a label such as ``crash-loop#1 bounce-2``."""
        return f"{self.story}#{self.number} {self.step}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledFault:
    """One fault of the plan.

    Attributes:
        fault_id: A number from 1, in the order of the planned starts.
        parameters: The fault's own parameters, validated, with its defaults filled in.
        start_ms: The planned start, in milliseconds after the workload began. For a story's later
            steps it is the time at which their conditions are expected to come true.
        gap_ms: The quiet time before it, since the fault before was healed or the workload began;
            None for a fault that has a time of its own.
        hold_ms: The shortest time from injection to heal.
        seed: The seed for whatever its target and its plan leave open.
        lane: The number of its lane, from 1; 0 for a fault that has a time of its own.
        part: Its role in a story; None for a fault by itself.
        affected: The largest number of servers that it affects; for a step of a story, those of the
            whole story.
        expected_ms: The expected time from injection to heal, if the condition that it waits for,
            or the roll that it carries out, takes longer than ``hold_ms``.
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
    part: StoryPosition | None = None
    affected: Count = NO_SERVERS
    expected_ms: int = 0

    @property
    def end_ms(self) -> int:
        return self.start_ms + max(self.hold_ms, self.expected_ms)


def parameters_of(fault: str, given: Mapping[str, object]) -> Parameters:
    """Return the parameters of a fault, with its defaults for those that are not ``given``. Raises
    pydantic.ValidationError if they are invalid."""
    return FAULTS[fault].parameters.model_validate(dict(given))


def as_written(parameters: Mapping[str, Any]) -> str:
    """Return parameters in the notation of a campaign file, ``refuse: true``, without those that
    are not set."""
    given = {name: value for name, value in parameters.items() if value is not None}
    return ", ".join(f"{name}: {as_text(value)}" for name, value in given.items())


@dataclass(frozen=True, slots=True)
class Act:
    """One entry of the plan: a fault, or all steps of a story. It begins and ends as a unit."""

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
    def affected(self) -> Count:
        return self.faults[0].affected

    @property
    def label(self) -> str:
        first = self.faults[0]
        if first.part is None:
            return f"{first.fault}#{first.fault_id}"
        return f"{first.part.story}#{first.part.number}"


def acts(plan: Sequence[ScheduledFault]) -> tuple[Act, ...]:
    """Return the acts of a plan, in the order of their planned starts."""
    found: dict[object, list[ScheduledFault]] = {}
    for fault in plan:
        key = fault.fault_id if fault.part is None else (fault.part.story, fault.part.number)
        found.setdefault(key, []).append(fault)
    return tuple(Act(tuple(faults)) for faults in found.values())


def lanes(plan: Sequence[ScheduledFault]) -> Iterator[tuple[Act, ...]]:
    """Yield the acts of each lane, and each act with a time of its own alone."""
    by_lane: dict[int, list[Act]] = {}
    for act in acts(plan):
        if act.gap_ms is None:
            yield (act,)
        else:
            by_lane.setdefault(act.lane, []).append(act)
    yield from (tuple(one) for _, one in sorted(by_lane.items()))
