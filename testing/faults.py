"""Conformance of a fault: it must take effect, be proven to do so, and be healed."""

import random
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ackproof.nemesis import FAULTS
from ackproof.nemesis.execution import Executor, Ledger, OpenFault
from ackproof.nemesis.interface import Fault, Plan, Proof, as_fault
from ackproof.nemesis.proofs import expiry_ms, prove
from ackproof.nemesis.targets.expressions import parse
from ackproof.nemesis.targets.resolution import resolve
from ackproof.testing.memory.cluster import Memory, Once, memory_cluster
from ackproof.testing.trials import NotConforming

# --- nemesis --------------------------------------------------------------------------------------
#
# Faults on the cluster in memory are aimed, injected, proven and healed in one line each.


class Nemesis:
    """The nemesis of a run in memory, with one ledger and one executor."""

    def __init__(self, memory: Memory, path: Path, patience_s: float = 10.0) -> None:
        self.memory = memory
        self.ledger = Ledger(path)
        self.executor = Executor(memory.cluster, self.ledger, patience_s)
        self._numbers = 0

    def aim(
        self,
        name: str,
        expression: str,
        /,
        *,
        seed: int = 1,
        hold_ms: int | None = None,
        **own: object,
    ) -> OpenFault:
        """Aim and plan the fault of that name, with its ``own`` parameters. The default of
        ``hold_ms`` is the time until a session expires."""
        held_ms = expiry_ms(self.memory.system) if hold_ms is None else hold_ms
        return self.planned(FAULTS[name], expression, own, seed=seed, hold_ms=held_ms)

    def planned(
        self,
        fault: Fault,
        expression: str,
        parameters: Mapping[str, object],
        *,
        seed: int,
        hold_ms: int,
    ) -> OpenFault:
        """Aim and plan a fault, whether a table has it or not."""
        self._numbers += 1
        cluster = self.memory.cluster
        target = resolve(parse(expression), cluster, seed, fault.aim)
        checked = fault.parameters.model_validate(dict(parameters))
        plan = fault.plan(cluster.members, target, checked, random.Random(seed))
        return OpenFault(
            fault_id=self._numbers, fault=fault, target=target, plan=plan, hold_ms=hold_ms
        )

    def strike(self, name: str, expression: str, /, **how: object) -> OpenFault:
        """Aim and inject a fault."""
        entry = self.aim(name, expression, **how)  # type: ignore[arg-type]
        self.executor.inject(entry)
        return entry

    def bitten(self, entry: OpenFault) -> Proof:
        looks = entry.fault.bitten(self.executor.injection(entry))
        return prove(looks, Once(), 0.0, by_itself=True)

    def healed(self, entry: OpenFault) -> Proof:
        looks = entry.fault.healed(self.executor.injection(entry))
        return prove(looks, Once(), 0.0, by_itself=False)

    def through(self, name: str, expression: str, /, **how: object) -> OpenFault:
        """Aim, inject and heal a fault, and heal it once more. Check that it is effective until the
        heal and not longer, and is proven healed no sooner."""
        entry = self.strike(name, expression, **how)
        proof = self.bitten(entry)
        assert proof.proven, proof.observations
        assert not self.healed(entry).proven
        for _ in range(2):
            self.executor.heal(entry)
            assert self.healed(entry).proven
        assert not self.bitten(entry).proven
        return entry


# --- conformance ----------------------------------------------------------------------------------


_PLANS = 3
"""The number of plans of one seed that are compared. Two may be equal by chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A fault that is aimed once and held for ``hold_ms`` milliseconds, or for its full effect if
    that is None."""

    fault: Fault
    target: str
    parameters: Mapping[str, object]
    cluster: Callable[[], Memory]
    hold_ms: int | None
    lasts: bool
    directory: Path = field(compare=False)

    def nemesis(self) -> Nemesis:
        """Return a new cluster without any fault."""
        with tempfile.NamedTemporaryFile(dir=self.directory, delete=False) as ledger:
            return Nemesis(self.cluster(), Path(ledger.name))

    def aim(self, nemesis: Nemesis) -> OpenFault:
        full_ms = self.fault.hold_ms_min(nemesis.memory.system)
        hold_ms = full_ms if self.hold_ms is None else self.hold_ms
        return nemesis.planned(self.fault, self.target, self.parameters, seed=1, hold_ms=hold_ms)

    def require(self, holds: bool, problem: str, proof: Proof | None = None) -> None:
        if not holds:
            held = "for its full effect" if self.hold_ms is None else f"for {self.hold_ms} ms"
            seen = "" if proof is None else f"; seen: {dict(proof.observations)}"
            raise NotConforming(f"{self.fault.name} on {self.target}, held {held}: {problem}{seen}")


def check_fault(
    fault: Fault,
    target: str,
    parameters: Mapping[str, object] | None = None,
    *,
    cluster: Callable[[], Memory] = memory_cluster,
    lasts: bool | None = None,
) -> None:
    """Prove that a fault keeps its contract, held for its full effect and for no time at all.

    1. The table of faults accepts it.
    2. Its plan has effects, is the same for the same seed, and touches nothing.
    3. It is proven to have taken effect after its injection, and not before.
    4. It is not proven to have taken effect on a cluster that ignores every fault.
    5. It is not proven to be healed before it is healed. It is afterwards, also after it was healed
       twice and without an injection, and then nothing of it is left.

    Args:
        target: A target expression; the cluster has the topic ``orders`` with 3 partitions.
        parameters: The fault's own parameters. The others have their defaults.
        cluster: Returns a new cluster in memory, for each proof.
        lasts: Whether its effect can be observed after the heal, as for flipped bits. None stands
            for a fault that destroys ``bits``.

    Raises NotConforming.
    """
    try:
        as_fault(fault, fault.name)
    except ValueError as reason:
        raise NotConforming(f"{fault.name}: {reason}") from None
    with tempfile.TemporaryDirectory(prefix="ackproof-") as directory:
        for hold_ms in (None, 0):
            case = _Case(
                fault=fault,
                target=target,
                parameters=parameters or {},
                cluster=cluster,
                hold_ms=hold_ms,
                lasts=fault.destroys == "bits" if lasts is None else lasts,
                directory=Path(directory),
            )
            _check_plan(case)
            _check_effect(case)
            _check_deaf_cluster(case)
            _check_heal_without_injection(case)


def _check_plan(case: _Case) -> None:
    nemesis = case.nemesis()
    entry, members = case.aim(nemesis), nemesis.memory.cluster.members
    parameters = case.fault.parameters.model_validate(dict(case.parameters))

    def plan() -> Plan:
        return case.fault.plan(members, entry.target, parameters, random.Random(1))

    case.require(bool(entry.plan.effects), "its plan has no effects")
    plans = {repr(plan()) for _ in range(_PLANS)}
    case.require(len(plans) == 1, "its plan differs though the seed is the same")
    touched = nemesis.memory.disturbances or nemesis.memory.backend.calls
    case.require(not touched, f"planning it touches the cluster: {touched}")


def _check_effect(case: _Case) -> None:
    nemesis = case.nemesis()
    entry = case.aim(nemesis)
    case.require(
        not nemesis.bitten(entry).proven, "it is proven to have taken effect before its injection"
    )
    nemesis.executor.inject(entry)
    bitten = nemesis.bitten(entry)
    case.require(bitten.proven, "it is not proven to have taken effect", bitten)
    looks = case.fault.healed(nemesis.executor.injection(entry))
    case.require(case.lasts or bool(looks), "it names nothing that proves that it is healed")
    healed = nemesis.healed(entry)
    case.require(not healed.proven, "it is proven to be healed while it is on", healed)
    for times in ("", " a second time"):
        nemesis.executor.heal(entry)
        healed = nemesis.healed(entry)
        case.require(healed.proven, f"it is not proven to be healed{times}", healed)
    left = nemesis.memory.disturbances
    case.require(not left, f"healed, it leaves behind: {'; '.join(left)}")
    bitten = nemesis.bitten(entry)
    case.require(
        case.lasts or not bitten.proven, "healed, it is still proven to be in effect", bitten
    )


def _check_deaf_cluster(case: _Case) -> None:
    nemesis = case.nemesis()
    entry = case.aim(nemesis)
    nemesis.memory.deafen()
    nemesis.executor.inject(entry)
    bitten = nemesis.bitten(entry)
    case.require(
        not bitten.proven, "it is proven to have taken effect where nothing has any", bitten
    )


def _check_heal_without_injection(case: _Case) -> None:
    nemesis = case.nemesis()
    entry = case.aim(nemesis)
    nemesis.executor.heal(entry)
    healed = nemesis.healed(entry)
    case.require(healed.proven, "healed without an injection, it is not proven to be", healed)
    left = nemesis.memory.disturbances
    case.require(not left, f"healed without an injection, it changes: {'; '.join(left)}")
