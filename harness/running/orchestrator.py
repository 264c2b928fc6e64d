"""Carries out the steps of a run, whatever becomes of each.

Every step runs in a thread of its own, so that one that hangs can be left behind: it is cancelled,
becomes a finding that names it, and the steps that still make sense go on. Nothing that a step
raises ends the run, and the history is closed in any case. Ctrl-C skips to the steps that clean up.
"""

import logging
import threading
from collections.abc import Sequence
from enum import Enum, auto

from harness.campaign.timeline import duration_ms
from harness.running.clients import exit_status
from harness.running.context import Run
from harness.running.deadline import Cancelled, Deadline
from harness.running.steps.catalogue import STEPS, Step

LEFT_BEHIND_AFTER_S = 5.0
"""How long a cancelled step has to come to its end before it is left behind."""

_TICK_S = 1.0
_AROUND_THE_SCHEDULE_S = 35.0
"""What deploying, reading back and checking take, roughly, for the remaining time on display."""

log = logging.getLogger(__name__)


class StepEnd(Enum):
    """What became of a step."""

    ENDED = auto()
    FAILED = auto()
    INTERRUPTED = auto()


def carry_out(run: Run, steps: Sequence[Step] = STEPS) -> bool:
    """Carry out ``steps`` one after the other and close the history; False after Ctrl-C."""
    began = run.clock.monotonic()
    interrupted = False
    try:
        for step in steps:
            if _senseless(run, step) or (interrupted and not step.cleans_up):
                continue
            end = _Attempt(run, step, began).end()
            run.ended_well[step.name] = end is StepEnd.ENDED
            interrupted |= end is StepEnd.INTERRUPTED
    finally:
        run.recorder.close()
    return not interrupted


def _senseless(run: Run, step: Step) -> bool:
    return step.needs is not None and not run.ended_well.get(step.needs)


class _Attempt:
    """One step, being carried out in a thread while this one watches."""

    def __init__(self, run: Run, step: Step, began: float) -> None:
        self._run = run
        self._step = step
        self._began = began
        self._deadline = Deadline.after(run.clock, step.limit_s(run))
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._act, name=step.name, daemon=True)

    def end(self) -> StepEnd:
        """Carry the step out, and record how it began and ended."""
        self._run.recorder.phase(self._step.name, "start")
        self._tick()
        self._run.progress.phase(self._step.name)
        try:
            self._watch()
        except KeyboardInterrupt:
            self._cancel()
            self._run.finding(self._step.name, "interrupted")
            return StepEnd.INTERRUPTED
        if self._error is not None:
            self._run.finding(self._step.name, _in_words(self._error))
            return StepEnd.FAILED
        self._run.recorder.phase(self._step.name, "end")
        return StepEnd.ENDED

    def _act(self) -> None:
        try:
            self._step.act(self._run, self._deadline)
        except Exception as error:
            log.exception("step %s of run %d", self._step.name, self._run.number)
            self._error = error

    def _watch(self) -> None:
        self._thread.start()
        while self._thread.is_alive():
            self._thread.join(_TICK_S)
            self._tick()
            if self._deadline.remaining() == 0:
                self._give_up()
                return

    def _give_up(self) -> None:
        self._thread.join(LEFT_BEHIND_AFTER_S)
        if self._thread.is_alive():
            self._cancel()
            limit_s = self._step.limit_s(self._run)
            self._error = TimeoutError(f"did not end within {limit_s:.0f} s and was left behind")

    def _cancel(self) -> None:
        self._deadline.cancelled.set()
        self._thread.join(LEFT_BEHIND_AFTER_S)

    def _tick(self) -> None:
        elapsed_s = self._run.clock.monotonic() - self._began
        counts = [producer.counts() for producer in tuple(self._run.producers)]
        acked = sum(count.get("acked", 0) for count in counts)
        self._run.progress.tick(elapsed_s, self._left_s(elapsed_s), acked)
        if self._step.sending:
            self._report_dead_producers()

    def _left_s(self, elapsed_s: float) -> float | None:
        if not all(self._run.ended_well.values()):
            return None
        planned_s = duration_ms(self._run.campaign, self._run.plan) / 1000
        return max(0.0, planned_s + _AROUND_THE_SCHEDULE_S - elapsed_s)

    def _report_dead_producers(self) -> None:
        for producer in [one for one in self._run.producers if not one.alive()]:
            self._run.producers.remove(producer)
            status = exit_status(producer.process)
            self._run.finding(
                "workload", f"the client {producer.client.name} ended by itself, status {status}"
            )


def _in_words(error: Exception) -> str:
    """One line; ``logs/harness.log`` has everything."""
    if isinstance(error, Cancelled):
        return "cancelled"
    lines = [line for line in str(error).splitlines() if line.strip()]
    words = " ... ".join(dict.fromkeys([*lines[:1], *lines[-1:]]))
    return words if isinstance(error, TimeoutError) else f"{type(error).__name__}: {words}"
