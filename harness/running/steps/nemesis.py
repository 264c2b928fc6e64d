"""The steps in which things break and are mended: faults, heal.

What is about to be broken stands in the ledger before it is broken, and leaves the ledger only
when a probe has shown it healed. ``heal`` works through what the ledger still holds, whatever
became of the schedule.
"""

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from harness.campaign.scheduler import ScheduledFault
from harness.campaign.timings import fault_limit_ms
from harness.running.context import Run
from harness.running.deadline import Cancelled, Deadline, StepTimeout
from harness.running.steps.counting import counted
from harness.running.steps.recovering import whole
from infra.interface import ViewUnavailable
from nemesis import FAULTS, expressions, targets
from nemesis.executor import GateClosed
from nemesis.interface import Proof, Target
from nemesis.ledger import OpenFault
from nemesis.proof import prove

_UNWANTED = (Cancelled, StepTimeout, GateClosed)
"""The step itself is over: what is open is left to the step ``heal``."""
_TICK_S = 0.2


def faults(run: Run, deadline: Deadline) -> None:
    """Strike with every planned fault: one after the other those of the sequence, and each in a
    thread of its own those that have a time."""
    counted(run, "faults")
    began = run.clock.monotonic()
    sequence = [planned for planned in run.plan if planned.gap_ms is not None]
    timed = [planned for planned in run.plan if planned.gap_ms is None]
    acts = [partial(_at_its_time, run, planned, began, deadline) for planned in timed]
    if sequence:
        acts.append(partial(_one_by_one, run, sequence, began, deadline))
    _together(acts, deadline)
    if not run.plan:
        deadline.wait(run.campaign.schedule.warmup / 1000)


def heal(run: Run, deadline: Deadline) -> None:
    """Break nothing from now on, and heal whatever the ledger still holds.

    Servers that died by themselves are not looked for here: the watch (:mod:`harness.running.
    servers`) has them from deploy to the final read, and a failed step ``heal`` would take their
    evidence from cells that the dead server had nothing to do with."""
    run.executor.close()
    for entry in run.ledger.still_open():
        _heal(run, entry, deadline)
    for entry in run.ledger.still_open():
        run.finding("heal", f"{entry.label} is not proven to be healed")


@dataclass(frozen=True, slots=True)
class _Recording:
    """Writes one fault's events to the history and the display. Raises Cancelled when the step is
    over: a thread that was left behind in it would write after the history was closed."""

    run: Run
    fault_id: int
    fault: str
    deadline: Deadline

    def __call__(
        self,
        event: str,
        target: Target | str,
        proof: Proof | None = None,
        error: Exception | None = None,
    ) -> None:
        self.write(event, target, proof, error)
        self.show(event, proof)

    def write(
        self,
        event: str,
        target: Target | str,
        proof: Proof | None = None,
        error: Exception | None = None,
    ) -> None:
        """To the history."""
        self.deadline.check()
        self.run.recorder.fault(
            self.fault_id, FAULTS[self.fault], event, target=target, proof=proof, error=error
        )

    def show(self, event: str, proof: Proof | None) -> None:
        """On the display: what happened, and what is on from now."""
        unproven = " (not proven)" if proof is not None and not proof.proven else ""
        on = ", ".join(entry.label for entry in reversed(self.run.ledger.still_open()))
        self.run.progress.fault(on or None, f"{self.fault}#{self.fault_id} {event}{unproven}")


def _together(acts: Sequence[Callable[[], None]], deadline: Deadline) -> None:
    """Carry out all of ``acts`` at once; raise the first thing that any of them raised."""
    if len(acts) == 1:
        acts[0]()
        return
    raised: list[Exception] = []

    def carry_out(act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - carried over to the step's thread
            raised.append(error)

    threads = [
        threading.Thread(target=carry_out, args=(act,), name=f"faults-{number}", daemon=True)
        for number, act in enumerate(acts, start=1)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(_TICK_S)
            deadline.check()
    if raised:
        raise raised[0]


def _one_by_one(
    run: Run, sequence: Sequence[ScheduledFault], began: float, deadline: Deadline
) -> None:
    for planned in sequence:
        until_start = _until_start_s(run, planned, began)
        assert planned.gap_ms is not None
        gap_s = 0.0 if planned is sequence[0] else planned.gap_ms / 1000
        deadline.wait(max(until_start, gap_s if until_start < 0 else 0.0))
        deadline.until(lambda: whole(run), at_most=run.campaign.schedule.settle / 1000)
        _strike(run, planned, deadline)


def _at_its_time(run: Run, planned: ScheduledFault, began: float, deadline: Deadline) -> None:
    deadline.wait(max(0.0, _until_start_s(run, planned, began)))
    _strike(run, planned, deadline)


def _until_start_s(run: Run, planned: ScheduledFault, began: float) -> float:
    return planned.start_ms / 1000 - (run.clock.monotonic() - began)


def _strike(run: Run, planned: ScheduledFault, deadline: Deadline) -> None:
    record = _Recording(run, planned.fault_id, planned.fault, deadline)
    try:
        entry = _aimed(run, planned, deadline)
    except _UNWANTED:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, nothing was broken yet
        record("failed", planned.target, error=error)
        return
    record("inject", entry.target)
    try:
        _hold(run, entry, record, deadline)
    except _UNWANTED:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, what was done is to be undone
        record("failed", entry.target, error=error)
    deadline.check()
    _heal(run, entry, deadline)


def _hold(run: Run, entry: OpenFault, record: _Recording, deadline: Deadline) -> None:
    """Inject it, prove that it bit, and let it last."""
    began = run.clock.monotonic()
    run.executor.inject(entry)
    record("injected", entry.target)
    looks = entry.fault.bitten(run.executor.injection(entry))
    proof = prove(looks, deadline, _limit_s(run), by_itself=True)
    record("verified", entry.target, proof)
    deadline.wait(max(0.0, entry.hold_ms / 1000 - (run.clock.monotonic() - began)))


def _aimed(run: Run, planned: ScheduledFault, deadline: Deadline) -> OpenFault:
    """The fault with its target resolved and its plan made. Raises LookupError when the target
    named nobody in time, Unplannable."""
    fault = FAULTS[planned.fault]
    target = _resolve(run, planned, deadline)
    rng = random.Random(f"{planned.seed}/plan")
    return OpenFault(
        fault_id=planned.fault_id,
        fault=fault,
        target=target,
        plan=fault.plan(run.cluster.members, target, planned.parameters, rng),
        hold_ms=planned.hold_ms,
    )


def _resolve(run: Run, planned: ScheduledFault, deadline: Deadline) -> Target:
    expression = expressions.parse(planned.target)
    found: list[Target] = []
    reasons: list[Exception] = []

    def look() -> bool:
        try:
            found.append(targets.resolve(expression, run.cluster, planned.seed))
        except (targets.TargetUnavailable, ViewUnavailable) as reason:
            reasons.append(reason)
        return bool(found)

    if not deadline.until(look, at_most=_limit_s(run)):
        raise LookupError(f"the target named nobody in time: {reasons[-1]}")
    return found[0]


def _heal(run: Run, entry: OpenFault, deadline: Deadline) -> None:
    record = _Recording(run, entry.fault_id, entry.fault.name, deadline)
    record("heal", entry.target)
    try:
        run.executor.heal(entry)
        looks = entry.fault.healed(run.executor.injection(entry))
        timeout = deadline.remaining(at_most=_limit_s(run))
        proof = prove(looks, deadline, timeout, by_itself=False)
    except _UNWANTED:
        raise
    except Exception as error:  # noqa: BLE001 - it stays open, and the others are to be healed
        record("failed", entry.target, error=error)
        return
    # Written first: when this thread is left behind between the two, the fault is still open, and
    # the step heal finds it. The other way round it would have no end in the history.
    record.write("healed", entry.target, proof)
    if proof.proven:
        run.ledger.close(entry.fault_id)
    record.show("healed", proof)


def _limit_s(run: Run) -> float:
    return fault_limit_ms(run.campaign.limits, run.system) / 1000
