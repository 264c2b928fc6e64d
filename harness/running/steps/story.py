"""The execution of a story: its steps wait for their cues, each in a thread of its own.

A cue may be missed: the fault that it waits for failed or was not proven, or the partition did not
reach the required state in time. The step is then not injected, and the history says why. Otherwise
the rest of the story would be a different one.

For the same reason, a story begins only when its partition has enough replicas in sync. Earlier
faults may still keep followers out of the ISR. If a leader is killed while it alone is in sync, no
other replica can be elected, and the state that the later steps wait for cannot come about.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from ackproof.harness.campaign.plan.faults import (
    Act,
    Cue,
    CueCondition,
    Event,
    ScheduledFault,
    StoryPosition,
)
from ackproof.harness.running.context import Run
from ackproof.harness.running.deadline import Deadline, StepTimeout
from ackproof.harness.running.steps.injection import limit_s, not_struck, strike
from ackproof.harness.running.steps.recovery import whole
from ackproof.infra.api.interface import PartitionView, ViewUnavailable
from ackproof.nemesis.proofs import shrink_ms

_POLL_S = 0.05
_LOOK_S = 0.1


class CueMissed(Exception):
    """A cue that can no longer come true."""


def cue_limit_s(run: Run) -> float:
    """Return how long a partition may take to reach the state of a cue, in seconds."""
    return limit_s(run) + shrink_ms(run.system) / 1000


def steps_of(run: Run, act: Act, deadline: Deadline) -> list[Callable[[], None]]:
    """Return the functions that must run at the same time to play a story."""
    stage = _StoryState(run)

    def step(planned: ScheduledFault) -> Callable[[], None]:
        return lambda: _step(run, planned, stage, deadline)

    return [step(planned) for planned in act.faults]


def _step(run: Run, planned: ScheduledFault, stage: "_StoryState", deadline: Deadline) -> None:
    assert planned.part is not None
    part = planned.part
    try:
        if part.begins is None:
            stage.assemble(part, deadline)
        else:
            stage.wait_for(part.begins, part, deadline)
        strike(run, planned, deadline, _StepRole(stage, part))
    except CueMissed as missed:
        not_struck(run, planned, missed, deadline)
    finally:
        stage.over(part.step)


@dataclass(frozen=True, slots=True)
class _StepRole:
    """The role of a step for the other steps."""

    stage: "_StoryState"
    part: StoryPosition

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
            # The fault is healed at once, because there is nothing left to wait for.
            self.stage.run.progress.note(f"{self.part.label} ends now: {missed}")

    def healed(self, proven: bool) -> None:
        if proven:
            self.stage.came(self.part.step, "healed")


class _StoryState:
    """The state of the steps of one story. It is thread-safe."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._lock = threading.Lock()
        self._come: dict[tuple[str, Event], bool] = {}
        """Whether each event came; False if it never will."""
        self._over: set[str] = set()
        self._seen: dict[str, PartitionView | None] = {}
        """The story's partition at the injection of each step."""

    def came(self, step: str, event: Event) -> None:
        with self._lock:
            self._come[step, event] = True

    def missed(self, step: str, event: Event) -> None:
        with self._lock:
            self._come[step, event] = False

    def over(self, step: str) -> None:
        """Note that the missing events of a step will never come."""
        with self._lock:
            self._over.add(step)

    def look_at(self, part: StoryPosition) -> None:
        """Note the state of the partition at the injection of this step."""
        view = self._view(part)
        with self._lock:
            self._seen[part.step] = view

    def assemble(self, part: StoryPosition, deadline: Deadline) -> None:
        """Wait until enough replicas are in sync, as long as for a cue. After that, the step is
        tried in any case."""

        def enough() -> bool:
            view = self._view(part)
            return view is not None and view.leader != -1 and len(view.isr) >= part.in_sync

        if part.partition is not None:
            deadline.until(enough, at_most=cue_limit_s(self.run), poll=_LOOK_S)

    def wait_for(self, cue: Cue, part: StoryPosition, deadline: Deadline) -> None:
        """Wait for a cue. Raises CueMissed, and StepTimeout if the time ends before either is
        known."""
        if not deadline.until(lambda: self._known(cue) is not None, poll=_POLL_S):
            raise StepTimeout(f"{part.label} was still waiting for {cue}")
        if not self._known(cue):
            raise CueMissed(f"{cue.step} was not {cue.event}")
        if cue.when is not None:
            self._wait_until(cue.when, cue, part, deadline)
        deadline.wait(cue.wait_ms / 1000)

    def _known(self, cue: Cue) -> bool | None:
        with self._lock:
            come = self._come.get((cue.step, cue.event))
            return False if come is None and cue.step in self._over else come

    def _wait_until(
        self, when: CueCondition, cue: Cue, part: StoryPosition, deadline: Deadline
    ) -> None:
        look = self._look(when, cue, part)
        if not deadline.until(look, at_most=cue_limit_s(self.run), poll=_LOOK_S):
            raise CueMissed(f"{when} did not happen within {cue_limit_s(self.run):.0f} s")

    def _look(self, when: CueCondition, cue: Cue, part: StoryPosition) -> Callable[[], bool]:
        if when is CueCondition.WHOLE:
            return lambda: whole(self.run)
        with self._lock:
            before = self._seen.get(cue.step)
        watched = _WatchedPartition(before)

        def look() -> bool:
            view = self._view(part)
            return view is not None and watched.shows(when, view)

        return look

    def _view(self, part: StoryPosition) -> PartitionView | None:
        try:
            return None if part.partition is None else self._asked(part.partition)
        except ViewUnavailable:
            return None

    def _asked(self, partition: tuple[str, int]) -> PartitionView | None:
        return self.run.system.view().partitions.get(partition)


class _WatchedPartition:
    """A partition over time. ``before`` is its state at the injection of a step, or None if
    unknown, which shows no difference."""

    def __init__(self, before: PartitionView | None) -> None:
        self._before = before
        self._outside: frozenset[int] = frozenset() if before is None else _out_of_sync(before)

    def shows(self, when: CueCondition, view: PartitionView) -> bool:
        """Return whether ``view`` fulfils the condition."""
        led, before = view.leader != -1, self._before
        # Members are compared, not their number. If a leader's end and a follower's return are
        # recorded shortly after each other, the looks before and after may both have two in sync.
        grown = bool(self._outside & set(view.isr))
        self._outside |= _out_of_sync(view)
        if when in (CueCondition.LED, CueCondition.LEADERLESS):
            return led is (when is CueCondition.LED)
        if when is CueCondition.ISR_IS_LEADER:
            return led and tuple(view.isr) == (view.leader,)
        if when is CueCondition.ISR_GROWN:
            return led and grown
        if when is CueCondition.ANOTHER_LEADS:
            return led and before is not None and view.leader != before.leader
        # Members are compared, not their number. A leader alone in sync is also fewer, but a step
        # that kills it then would wait for another leader without end. And a broker that joins
        # makes up for one that left.
        return before is not None and bool(set(before.isr) - set(view.isr)) and len(view.isr) > 1


def _out_of_sync(view: PartitionView) -> frozenset[int]:
    return frozenset(view.replicas) - set(view.isr)
