"""One fault from its inject to its heal: written down, carried out, proven, held, undone, proven.

What is about to be broken stands in the ledger before it is broken, and leaves the ledger only
when a probe has shown it healed.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from ackproof.harness.campaign.plan.context import fault_limit_ms
from ackproof.harness.campaign.plan.faults import ScheduledFault
from ackproof.harness.running.context import Run
from ackproof.harness.running.deadline import Cancelled, Deadline, StepTimeout
from ackproof.harness.running.servers import check_brokers_left
from ackproof.infra.api.interface import ViewUnavailable
from ackproof.nemesis import FAULTS
from ackproof.nemesis.execution.executor import GateClosed
from ackproof.nemesis.execution.ledger import OpenFault
from ackproof.nemesis.interface import Proof, Target, Unplannable
from ackproof.nemesis.proofs import prove
from ackproof.nemesis.targets import expressions, resolution

UNWANTED = (Cancelled, StepTimeout, GateClosed)
"""The step itself is over: what is open is left to the step ``heal``."""


class Role(Protocol):
    """What a fault is to others that go by it: a step of a story is told when it is over, and held
    for longer than its time."""

    def strikes(self) -> None:
        """It is about to."""

    def injected(self) -> None: ...

    def verified(self, proven: bool) -> None: ...

    def hold(self, deadline: Deadline) -> None:
        """Wait for what it is held until, beside its time."""

    def healed(self, proven: bool) -> None: ...


class Alone:
    """A fault that nobody goes by."""

    def strikes(self) -> None: ...

    def injected(self) -> None: ...

    def verified(self, proven: bool) -> None: ...

    def hold(self, deadline: Deadline) -> None: ...

    def healed(self, proven: bool) -> None: ...


def strike(run: Run, planned: ScheduledFault, deadline: Deadline, role: Role | None = None) -> None:
    """Carry one fault out. What goes wrong with it stands in the history; raises what says that the
    step is over (:data:`UNWANTED`), and nothing else."""
    role = role or Alone()
    record = _Recording(run, planned.fault_id, planned.fault, deadline)
    try:
        entry = _aimed(run, planned, deadline)
        role.strikes()
    except UNWANTED:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, nothing was broken yet
        record("failed", planned.target, error=error)
        return
    record = replace(record, destroys=entry.destroys)
    record("inject", entry.target, seen=run.unsettled.get(planned.fault_id))
    try:
        _hold(run, entry, record, role, deadline)
    except UNWANTED:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, what was done is to be undone
        record("failed", entry.target, error=error)
    deadline.check()
    role.healed(heal(run, entry, deadline))


def not_struck(run: Run, planned: ScheduledFault, why: Exception, deadline: Deadline) -> None:
    """Write down that a planned fault does not come, and why."""
    record = _Recording(run, planned.fault_id, planned.fault, deadline)
    record("failed", planned.target, error=why)


def heal(run: Run, entry: OpenFault, deadline: Deadline) -> bool:
    """Undo a fault, prove that it is healed, take it off the ledger; whether that was proven."""
    record = _Recording(run, entry.fault_id, entry.fault.name, deadline, entry.destroys)
    record("heal", entry.target)
    proven = False
    try:
        run.executor.heal(entry)
        looks = entry.fault.healed(run.executor.injection(entry))
        timeout = deadline.remaining(at_most=limit_s(run))
        again = partial(run.executor.start_again, entry)
        proof = prove(looks, deadline, timeout, by_itself=False, meanwhile=again)
        proven = proof.proven
    except UNWANTED:
        raise
    except Exception as error:  # noqa: BLE001 - it stays open, and the others are to be healed
        record("failed", entry.target, error=error)
        return False
    finally:
        (run.unhealed.discard if proven else run.unhealed.add)(entry.fault_id)
    # Written first: when this thread is left behind between the two, the fault is still open, and
    # the step heal finds it. The other way round it would have no end in the history.
    record("healed", entry.target, proof, shown=False)
    if proof.owed:
        record("lifted", entry.target, proof, shown=False)
    if proof.proven:
        run.executor.pass_on(entry)
        run.ledger.close(entry.fault_id)
    record.show("healed", proof)
    return proof.proven


def limit_s(run: Run) -> float:
    """How long it may take to resolve a target, to prove that a fault bit, or that it is healed."""
    return fault_limit_ms(run.campaign.limits, run.system) / 1000


@dataclass(frozen=True, slots=True)
class _Recording:
    """Writes one fault's events to the history and the display. Raises Cancelled when the step is
    over: a thread that was left behind in it would write after the history was closed."""

    run: Run
    fault_id: int
    fault: str
    deadline: Deadline
    destroys: str | None = None

    def __call__(
        self,
        event: str,
        target: Target | str,
        proof: Proof | None = None,
        error: Exception | None = None,
        *,
        seen: Mapping[str, object] | None = None,
        shown: bool = True,
    ) -> None:
        self.deadline.check()
        fault = FAULTS[self.fault]
        self.run.recorder.fault(
            self.fault_id,
            fault,
            event,
            target=target,
            proof=proof,
            error=error,
            seen=seen,
            destroys=self.destroys,
        )
        if shown:
            self.show(event, proof)

    def show(self, event: str, proof: Proof | None) -> None:
        """On the display: what happened, and what is on from now."""
        unproven = " (not proven)" if proof is not None and not proof.proven else ""
        on = ", ".join(entry.label for entry in reversed(self.run.ledger.still_open()))
        self.run.progress.fault(on or None, f"{self.fault}#{self.fault_id} {event}{unproven}")


def _hold(run: Run, entry: OpenFault, record: _Recording, role: Role, deadline: Deadline) -> None:
    """Inject it, prove that it bit, and let it last."""
    began = run.clock.monotonic()
    run.executor.inject(entry)
    record("injected", entry.target)
    role.injected()
    injection = run.executor.injection(entry)
    looks, struck = entry.fault.bitten(injection), bool(injection.done())
    proof = prove(looks, deadline, limit_s(run), by_itself=True, struck=struck)
    record("verified", entry.target, proof)
    role.verified(proof.proven)
    deadline.wait(max(0.0, entry.hold_ms / 1000 - (run.clock.monotonic() - began)))
    role.hold(deadline)


def _aimed(run: Run, planned: ScheduledFault, deadline: Deadline) -> OpenFault:
    """The fault with its target resolved and its plan made. Raises LookupError when the target
    named nobody in time, Unplannable when the fault could not be made of whom it named.

    Either may change: right after a cut nobody is in sync but the leader, and nobody can be elected
    in its place, until the others have caught up.
    """
    fault, expression = FAULTS[planned.fault], expressions.parse(planned.target)
    found: list[OpenFault] = []
    reasons: list[Exception] = []

    def look() -> bool:
        check_brokers_left(run)
        try:
            resolved = resolution.resolve(expression, run.cluster, planned.seed, fault.aim)
            target = replace(resolved, fault_id=planned.fault_id)
            rng = random.Random(f"{planned.seed}/plan")
            plan = fault.plan(run.cluster.members, target, planned.parameters, rng)
        except (resolution.TargetUnavailable, ViewUnavailable) as reason:
            reasons.append(LookupError(f"the target named nobody in time: {reason}"))
            return False
        except Unplannable as reason:
            reasons.append(reason)
            return False
        found.append(
            OpenFault(
                fault_id=planned.fault_id,
                fault=fault,
                target=target,
                plan=plan,
                hold_ms=planned.hold_ms,
            )
        )
        return True

    if not deadline.until(look, at_most=limit_s(run)):
        raise reasons[-1]
    return found[0]
