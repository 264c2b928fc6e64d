"""The steps in which things break and are mended: faults, heal.

What is about to be broken stands in the ledger before it is broken, and leaves the ledger only
when a probe has shown it healed. ``heal`` works through what the ledger still holds, whatever
became of the schedule.
"""

import random
from dataclasses import dataclass

from harness.campaign.timeline import PlannedFault
from harness.running.context import Run
from harness.running.deadline import Deadline
from harness.running.ends import exit_status
from harness.running.steps.recovering import whole
from infra.interface import InfraError, ProcessState, ViewUnavailable
from nemesis import FAULTS, targets
from nemesis.interface import Evidence, Target
from nemesis.ledger import OpenFault

_FAULT_ERRORS = (InfraError, OSError, RuntimeError)
"""What an injection or a heal may fail with, and the run goes on."""


def faults(run: Run, deadline: Deadline) -> None:
    """Strike with every planned fault, one after the other."""
    began = run.clock.monotonic()
    for planned in run.plan:
        until_start = planned.start_ms / 1000 - (run.clock.monotonic() - began)
        gap_s = planned.gap_ms / 1000 if planned.fault_id > 1 else 0.0
        deadline.wait(max(until_start, gap_s if until_start < 0 else 0.0))
        deadline.until(lambda: whole(run), at_most=run.campaign.schedule.settle / 1000)
        _strike(run, planned, deadline)
    if not run.plan:
        deadline.wait(run.campaign.schedule.warmup / 1000)


def heal(run: Run, deadline: Deadline) -> None:
    """Heal whatever the ledger still holds, and look for servers that died by themselves."""
    for entry in run.ledger.still_open():
        _heal(run, entry, deadline)
    for entry in run.ledger.still_open():
        run.finding("heal", f"{entry.fault.name}#{entry.fault_id} is not proven to be healed")
    for server in (*run.system.brokers, *run.system.zookeepers):
        if server.process.state() is ProcessState.EXITED:
            status = exit_status(server.process)
            run.finding("heal", f"{server.name} is not running: it ended with status {status}")


@dataclass(frozen=True, slots=True)
class _Recording:
    """Writes one fault's events to the history and the display."""

    run: Run
    fault_id: int
    fault: str

    def __call__(
        self,
        event: str,
        target: Target | str,
        evidence: Evidence | None = None,
        error: Exception | None = None,
    ) -> None:
        self.run.recorder.fault(
            self.fault_id, self.fault, event, target=target, evidence=evidence, error=error
        )
        unproven = evidence is not None and not evidence.proven
        said = f"{self.fault}#{self.fault_id} {event}" + (" (not proven)" if unproven else "")
        self.run.progress.fault(None if event in ("healed", "failed") else said, said)


def _strike(run: Run, planned: PlannedFault, deadline: Deadline) -> None:
    record = _Recording(run, planned.fault_id, planned.fault)
    target = _resolve(run, planned, deadline)
    if target is None:
        record("failed", planned.target, error=LookupError("the target named nobody in time"))
        return
    fault = FAULTS[planned.fault]
    record("inject", target)
    run.ledger.open(planned.fault_id, fault, target)
    injected = run.clock.monotonic()
    try:
        fault.inject(run.cluster, target)
        record("injected", target)
        evidence = fault.verify(run.cluster, target, run.campaign.limits.fault / 1000)
        record("verified", target, evidence)
    except _FAULT_ERRORS as error:
        record("failed", target, error=error)
    else:
        held_s = run.clock.monotonic() - injected
        deadline.wait(max(0.0, planned.hold_ms / 1000 - held_s))
    deadline.check()
    _heal(run, OpenFault(fault_id=planned.fault_id, fault=fault, target=target), deadline)


def _resolve(run: Run, planned: PlannedFault, deadline: Deadline) -> Target | None:
    expression = targets.parse(planned.target)
    found: list[Target] = []

    def look() -> bool:
        try:
            found.append(targets.resolve(expression, run.cluster, random.Random(planned.seed)))
        except (targets.TargetUnavailable, ViewUnavailable):
            return False
        return True

    deadline.until(look, at_most=run.campaign.limits.fault / 1000)
    return found[0] if found else None


def _heal(run: Run, entry: OpenFault, deadline: Deadline) -> None:
    record = _Recording(run, entry.fault_id, entry.fault.name)
    record("heal", entry.target)
    try:
        entry.fault.heal(run.cluster, entry.target)
        timeout = deadline.remaining(at_most=run.campaign.limits.fault / 1000)
        evidence = entry.fault.verify_healed(run.cluster, entry.target, timeout)
    except _FAULT_ERRORS as error:
        record("failed", entry.target, error=error)
        return
    record("healed", entry.target, evidence)
    if evidence.proven:
        run.ledger.close(entry.fault_id)
