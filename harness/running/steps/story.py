"""A story being played: its steps wait for their cues, each in a thread of its own.

A cue that cannot come any more, because the fault that it waits for failed or was not proven, or
because the partition did not come to what it should in time, is missed. The step does not strike
then, and the history says why: the rest of the story would be another one.

For the same reason it begins when the partition has as many in sync as the story needs. What was
broken before may still keep followers out, and a leader that is killed while it is alone in sync
has nobody to follow it: what the rest waits for would not come about.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from ackproof.harness.campaign.plan.faults import Act, Cue, Event, Part, ScheduledFault, When
from ackproof.harness.running.context import Run
from ackproof.harness.running.deadline import Deadline, StepTimeout
from ackproof.harness.running.steps.injection import limit_s, not_struck, strike
from ackproof.harness.running.steps.recovery import whole
from ackproof.infra.api.interface import PartitionView, ViewUnavailable
from ackproof.nemesis.proofs import shrink_ms

_POLL_S = 0.05
_LOOK_S = 0.1


class CueMissed(Exception):
    """What the step waits for does not come."""


def cue_limit_s(run: Run) -> float:
    """How long a partition may take to come to what a cue asks for."""
    return limit_s(run) + shrink_ms(run.system) / 1000


def steps_of(run: Run, act: Act, deadline: Deadline) -> list[Callable[[], None]]:
    """What is to be done at once to play a story."""
    stage = _Stage(run)

    def step(planned: ScheduledFault) -> Callable[[], None]:
        return lambda: _step(run, planned, stage, deadline)

    return [step(planned) for planned in act.faults]


def _step(run: Run, planned: ScheduledFault, stage: "_Stage", deadline: Deadline) -> None:
    assert planned.part is not None
    part = planned.part
    try:
        if part.begins is None:
            stage.assemble(part, deadline)
        else:
            stage.wait_for(part.begins, part, deadline)
        strike(run, planned, deadline, _OnStage(stage, part))
    except CueMissed as missed:
        not_struck(run, planned, missed, deadline)
    finally:
        stage.over(part.step)


@dataclass(frozen=True, slots=True)
class _OnStage:
    """A step, as the others see it."""

    stage: "_Stage"
    part: Part

    def strikes(self) -> None:
        self.stage.look_at(self.part)

    def injected(self) -> None:
        self.stage.came(self.part.step, "injected")

    def verified(self, proven: bool) -> None:
        if proven:
            self.stage.came(self.part.step, "verified")
        else:
            self.stage.missed(self.part.step, "verified")

    def hold(self, deadline: Deadline) -> None:
        if self.part.until is None:
            return
        try:
            self.stage.wait_for(self.part.until, self.part, deadline)
        except CueMissed as missed:
            # Healed at once: there is nothing left to wait for.
            self.stage.run.progress.note(f"{self.part.label} is held no longer: {missed}")

    def healed(self, proven: bool) -> None:
        if proven:
            self.stage.came(self.part.step, "healed")


class _Stage:
    """What has become of the steps of one story. Thread-safe."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._lock = threading.Lock()
        self._come: dict[tuple[str, Event], bool] = {}
        """False: it will never."""
        self._over: set[str] = set()
        self._seen: dict[str, PartitionView | None] = {}
        """The story's partition when each step struck."""

    def came(self, step: str, event: Event) -> None:
        with self._lock:
            self._come[step, event] = True

    def missed(self, step: str, event: Event) -> None:
        with self._lock:
            self._come[step, event] = False

    def over(self, step: str) -> None:
        """What has not come of it never will."""
        with self._lock:
            self._over.add(step)

    def look_at(self, part: Part) -> None:
        """The partition, as it is when this step strikes."""
        view = self._view(part)
        with self._lock:
            self._seen[part.step] = view

    def assemble(self, part: Part, deadline: Deadline) -> None:
        """Wait until enough are in sync, as long as for a cue; then it is tried all the same."""

        def enough() -> bool:
            view = self._view(part)
            return view is not None and view.leader != -1 and len(view.isr) >= part.in_sync

        if part.partition is not None:
            deadline.until(enough, at_most=cue_limit_s(self.run), poll=_LOOK_S)

    def wait_for(self, cue: Cue, part: Part, deadline: Deadline) -> None:
        """Raises CueMissed, and StepTimeout when the time ends before either is known."""
        if not deadline.until(lambda: self._known(cue) is not None, poll=_POLL_S):
            raise StepTimeout(f"{part.label} still waited for {cue}")
        if not self._known(cue):
            raise CueMissed(f"{cue.step} was not {cue.event}")
        if cue.when is not None:
            self._wait_until(cue.when, cue, part, deadline)
        deadline.wait(cue.wait_ms / 1000)

    def _known(self, cue: Cue) -> bool | None:
        with self._lock:
            come = self._come.get((cue.step, cue.event))
            return False if come is None and cue.step in self._over else come

    def _wait_until(self, when: When, cue: Cue, part: Part, deadline: Deadline) -> None:
        look = self._look(when, cue, part)
        if not deadline.until(look, at_most=cue_limit_s(self.run), poll=_LOOK_S):
            raise CueMissed(f"{when} did not come about in {cue_limit_s(self.run):.0f} s")

    def _look(self, when: When, cue: Cue, part: Part) -> Callable[[], bool]:
        if when is When.WHOLE:
            return lambda: whole(self.run)
        with self._lock:
            before = self._seen.get(cue.step)
        watched = _Watched(before)

        def look() -> bool:
            view = self._view(part)
            return view is not None and watched.shows(when, view)

        return look

    def _view(self, part: Part) -> PartitionView | None:
        try:
            return None if part.partition is None else self._asked(part.partition)
        except ViewUnavailable:
            return None

    def _asked(self, partition: tuple[str, int]) -> PartitionView | None:
        return self.run.system.view().partitions.get(partition)


class _Watched:
    """A partition over time, from ``before``: as it was when a step struck; None if unknown, which
    shows no difference to it."""

    def __init__(self, before: PartitionView | None) -> None:
        self._before = before
        self._outside: frozenset[int] = frozenset() if before is None else _out_of_sync(before)

    def shows(self, when: When, view: PartitionView) -> bool:
        """Whether this is what one waits for."""
        led, before = view.leader != -1, self._before
        # By who it is, not by how many: when the leader's end is written down and the follower's
        # return soon after, the look before may have had two in sync and the one after, too.
        grown = bool(self._outside & set(view.isr))
        self._outside |= _out_of_sync(view)
        if when is When.LED:
            return led
        if when is When.ISR_IS_LEADER:
            return led and tuple(view.isr) == (view.leader,)
        if when is When.ISR_GROWN:
            return led and grown
        if when is When.ANOTHER_LEADS:
            return led and before is not None and view.leader != before.leader
        # Not by how many there are. The leader alone in sync is fewer, too: whoever kills it then
        # waits in vain for another to lead. And one that comes in makes up for one that went.
        return before is not None and bool(set(before.isr) - set(view.isr)) and len(view.isr) > 1


def _out_of_sync(view: PartitionView) -> frozenset[int]:
    return frozenset(view.replicas) - set(view.isr)
