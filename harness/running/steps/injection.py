"""One fault from its injection to its heal: recorded, injected, proven, held, healed, and proven to
be healed.

A fault is in the ledger before it is injected. It leaves the ledger only when a probe has shown
that it is healed.
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
from ackproof.history.schema import LOST_WITH_POD
from ackproof.infra.api.interface import ViewUnavailable
from ackproof.nemesis import FAULTS
from ackproof.nemesis.execution import HealingBegun, OpenFault
from ackproof.nemesis.interface import Proof, Target, Unplannable
from ackproof.nemesis.process.pods import lost_with_pods, with_lost_storage
from ackproof.nemesis.proofs import prove
from ackproof.nemesis.targets import expressions, resolution

UNWANTED = (Cancelled, StepTimeout, HealingBegun)
"""The exceptions that mean that the step itself is over. Open faults are left to the step
``heal``."""


class FaultRole(Protocol):
    """The role of a fault for others that depend on it. A step of a story is reported to the other
    steps, and is held for longer than its duration."""

    def strikes(self) -> None:
        """Note that the fault is about to be injected."""

    def injected(self) -> None: ...

    def verified(self, proven: bool) -> None: ...

    def hold(self, deadline: Deadline) -> None:
        """Wait for the condition until which the fault is held, beside its duration."""

    def healed(self, proven: bool) -> None: ...


class IndependentFault:
    """The role of a fault on which no other depends."""

    def strikes(self) -> None: ...

    def injected(self) -> None: ...

    def verified(self, proven: bool) -> None: ...

    def hold(self, deadline: Deadline) -> None: ...

    def healed(self, proven: bool) -> None: ...


def strike(
    run: Run, planned: ScheduledFault, deadline: Deadline, role: FaultRole | None = None
) -> None:
    """Carry out one fault. Its errors are recorded in the history. Only exceptions that say that
    the step is over are raised (:data:`UNWANTED`)."""
    role = role or IndependentFault()
    record = _Recording(run, planned.fault_id, planned.fault, deadline)
    try:
        entry = _aimed(run, planned, deadline)
        role.strikes()
    except UNWANTED:
        raise
    except Exception as error:  # noqa: BLE001 - in any case nothing was injected yet
        record("failed", planned.target, error=error)
        return
    record = replace(record, destroys=entry.destroys)
    record("inject", entry.target, seen=run.unsettled.get(planned.fault_id))
    try:
        _hold(run, entry, record, role, deadline)
    except UNWANTED:
        raise
    except Exception as error:  # noqa: BLE001 - in any case the fault must be undone
        record("failed", entry.target, error=error)
    deadline.check()
    role.healed(heal(run, entry, deadline))


def not_struck(run: Run, planned: ScheduledFault, why: Exception, deadline: Deadline) -> None:
    """Record that a planned fault is not injected, and why."""
    record = _Recording(run, planned.fault_id, planned.fault, deadline)
    record("failed", planned.target, error=why)


def heal(run: Run, entry: OpenFault, deadline: Deadline) -> bool:
    """Undo a fault, prove that it is healed, and remove it from the ledger. Return whether that was
    proven."""
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
    except Exception as error:  # noqa: BLE001 - it stays open, and the others must be healed
        record("failed", entry.target, error=error)
        return False
    finally:
        (run.unhealed.discard if proven else run.unhealed.add)(entry.fault_id)
    # The row is written first. If this thread is abandoned after that, the fault is still open, and
    # the step heal finds it. In the other order, it would have no end in the history.
    record("healed", entry.target, proof, shown=False)
    if proof.owed:
        record("lifted", entry.target, proof, shown=False)
    if proof.proven:
        run.executor.pass_on(entry)
        run.ledger.close(entry.fault_id)
    record.show("healed", entry.target, proof)
    return proof.proven


def limit_s(run: Run) -> float:
    """Return the time limit for resolving a target, and for the proof of an effect or a heal, in
    seconds."""
    return fault_limit_ms(run.campaign, run.system) / 1000


@dataclass(frozen=True, slots=True)
class _Recording:
    """The writer of one fault's events to the history and the display. It raises Cancelled if the
    step is over, because an abandoned thread would write after the history was closed."""

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
            self.show(event, target, proof)

    def show(self, event: str, target: Target | str, proof: Proof | None) -> None:
        """Show the event with what it affects on the display, and the faults that are active from
        now."""
        unproven = " (not proven)" if proof is not None and not proof.proven else ""
        open_faults = reversed(self.run.ledger.still_open())
        active = ", ".join(f"{entry.label} on {entry.target}" for entry in open_faults)
        said = f"{self.fault}#{self.fault_id} {event}{unproven} on {target}"
        self.run.progress.fault(active or None, said)


def _hold(
    run: Run, entry: OpenFault, record: _Recording, role: FaultRole, deadline: Deadline
) -> None:
    """Inject the fault, prove that it took effect, and let it last."""
    began = run.clock.monotonic()
    run.executor.inject(entry)
    lost = lost_with_pods(entry.plan, run.cluster)
    record("injected", entry.target, seen={LOST_WITH_POD: lost} if lost else None)
    role.injected()
    injection = run.executor.injection(entry)
    looks, struck = entry.fault.bitten(injection), bool(injection.done())
    proof = prove(looks, deadline, limit_s(run), by_itself=True, struck=struck)
    record("verified", entry.target, proof)
    role.verified(proof.proven)
    deadline.wait(max(0.0, entry.hold_ms / 1000 - (run.clock.monotonic() - began)))
    role.hold(deadline)


def _aimed(run: Run, planned: ScheduledFault, deadline: Deadline) -> OpenFault:
    """Return the fault with its target resolved and its plan made. Raises LookupError if the target
    named no server in time, and Unplannable if no plan was possible for the servers that it named.

    Either may change. Right after a partition heals, for example, only the leader is in sync. No
    replica can be elected in its place until another has caught up.
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
            made = fault.plan(run.cluster.members, target, planned.parameters, rng)
            plan = with_lost_storage(made, run.cluster)
        except (resolution.TargetUnavailable, ViewUnavailable) as reason:
            reasons.append(LookupError(f"the target matched no server in time: {reason}"))
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
