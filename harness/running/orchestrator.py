"""The execution of a run's steps, even if some of them fail.

Every step runs in a thread of its own, so that a step that hangs can be abandoned. It is then
cancelled and becomes a finding with its name, and the steps that still make sense go on. No
exception of a step ends the run, and the history is closed in any case. When the user asks to stop,
the remaining steps are skipped except those that clean up. A step with a finding has not ended
well.
"""

import logging
import threading
from collections.abc import Callable, Sequence

from ackproof.harness.campaign.plan.scheduler import duration_ms
from ackproof.harness.durations import roughly
from ackproof.harness.interruption import Interruption
from ackproof.harness.running import clients
from ackproof.harness.running.context import Run
from ackproof.harness.running.deadline import Cancelled, Deadline
from ackproof.harness.running.servers import AllBrokersEnded
from ackproof.harness.running.steps.catalogue import STEPS, RunStep
from ackproof.history.manifest import identity_of
from ackproof.history.schema import INTERRUPTED
from ackproof.infra.api.interface import InfraError
from ackproof.workloads.topics import TopicsRefused

LEFT_BEHIND_AFTER_S = 5.0
"""The seconds that a late or cancelled step has to end before it is abandoned."""

STOPPING = (
    "interrupted: healing faults, collecting logs and stopping servers; interrupt "
    "again to end at once"
)
_TICK_S = 0.5
_DEPLOY_S, _READ_AND_CHECK_S = 15.0, 20.0
"""The approximate seconds before and after the schedule, for the displayed remaining time."""
_IN_WORDS = (TimeoutError, InfraError, AllBrokersEnded, TopicsRefused)
"""Errors whose text is meant for the user."""

log = logging.getLogger(__name__)


def carry_out(
    run: Run,
    interruption: Interruption,
    steps: Sequence[RunStep] = STEPS,
    *,
    begins: Callable[[str], None] = lambda _: None,
    left_behind_after_s: float = LEFT_BEHIND_AFTER_S,
) -> None:
    """Carry out ``steps`` one after the other and close the history. ``begins`` is called with the
    name of each step before it begins."""
    began = run.clock.monotonic()
    try:
        for step in steps:
            if _senseless(run, step) or (interruption.asked and not step.cleans_up):
                continue
            begins(step.name)
            try:
                attempt = _Attempt(run, step, began, interruption, left_behind_after_s)
                attempt.carry_out()
            except Exception as error:
                log.exception("around the step %s of run %d", step.name, run.number)
                run.finding(step.name, _in_words(error))
    finally:
        run.recorder.close()


def _senseless(run: Run, step: RunStep) -> bool:
    if not step.planned(run):
        return True
    return step.needs is not None and not run.ended_well.get(step.needs)


class _Attempt:
    """One step that runs in a thread while the calling thread watches it."""

    def __init__(
        self, run: Run, step: RunStep, began: float, interruption: Interruption, patience_s: float
    ) -> None:
        self._run = run
        self._step = step
        self._began = began
        self._interruption = interruption
        self._patience_s = patience_s
        self._limit_s = step.limit_s(run)
        self._deadline = Deadline.after(run.clock, self._limit_s)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._act, name=step.name, daemon=True)

    def carry_out(self) -> None:
        """Carry out the step, and record its beginning and its end."""
        name = self._step.name
        own = self._run
        identity = identity_of(own.number, own.seed) if name == "deploy" else None
        self._run.recorder.phase(name, "start", identity)
        self._tick()
        self._run.progress.phase(name)
        self._thread.start()
        problem = self._watch() or (self._error and _in_words(self._error))
        if problem:
            self._run.finding(name, problem)
        if self._run.ended_well.setdefault(name, True):
            self._run.recorder.phase(name, "end")

    def _act(self) -> None:
        try:
            self._step.act(self._run, self._deadline)
        except BaseException as error:  # a step that raises SystemExit has not ended well either
            log.exception("step %s of run %d", self._step.name, self._run.number)
            self._error = error

    def _watch(self) -> str | None:
        """Wait until the step has ended or is abandoned, and return the reason if it is.

        When this returns, the step has ended or is cancelled. A cancelled step must call
        ``Deadline.check`` before each further action, because the next step begins.
        """
        while self._thread.is_alive():
            self._thread.join(_TICK_S)
            self._tick()
            if self._interruption.is_news():
                self._run.progress.note(STOPPING)
            if self._interruption.asked and not self._step.cleans_up:
                self._cancel()
                return INTERRUPTED
            if self._deadline.remaining() == 0:
                return self._give_up()
        return None

    def _give_up(self) -> str | None:
        self._thread.join(self._patience_s)
        if not self._thread.is_alive():
            return None
        self._cancel()
        return f"did not end within {self._limit_s:.0f} s and was left behind"

    def _cancel(self) -> None:
        self._deadline.cancelled.set()
        self._thread.join(self._patience_s)

    def _tick(self) -> None:
        elapsed_s = self._run.clock.monotonic() - self._began
        acked, shown = clients.done(tuple(self._run.started))
        self._run.progress.tick(elapsed_s, self._left(elapsed_s), acked, shown)

    def _left(self, elapsed_s: float) -> str:
        ended = self._run.ended_well
        if "faults" in ended or not all(ended.values()):  # only the schedule can be estimated
            return ""
        closed = self._run.ledger.closed
        reached_ms = max(
            (one.end_ms for one in self._run.plan if one.fault_id in closed), default=0
        )
        planned_ms = duration_ms(self._run.campaign, self._run.plan)
        return left(planned_ms / 1000, reached_ms / 1000, elapsed_s)


def left(planned_s: float, reached_s: float, elapsed_s: float) -> str:
    """Return how long a run still takes, in words; empty once it takes longer than its plan.

    A plan has the shortest times: the end of a fault waits for ISRs, which may take much longer.
    So the run takes at least as long. After the first fault, the rest of the plan is expected to
    take as much longer as the part before it.

    Args:
        planned_s: The shortest time that the workload lasts.
        reached_s: The planned end of the last fault that is over; 0 before the first.
        elapsed_s: The time since the run began.
    """
    if not reached_s:
        least_s = _DEPLOY_S + planned_s + _READ_AND_CHECK_S - elapsed_s
        return f"at least {roughly(least_s)}" if least_s > 0 else ""
    pace = max(1.0, elapsed_s / (_DEPLOY_S + reached_s))
    return f"about {roughly((planned_s - reached_s) * pace + _READ_AND_CHECK_S)}"


def _in_words(error: BaseException) -> str:
    """Return an error in one line; ``logs/harness.log`` has all of it."""
    if isinstance(error, Cancelled):
        return "cancelled"
    words = next((line for line in str(error).splitlines() if line.strip()), "")
    is_explained = isinstance(error, _IN_WORDS)
    return words if is_explained else f"{type(error).__name__}: {words}"
