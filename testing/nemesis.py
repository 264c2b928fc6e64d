"""Faults on the cluster in memory, which are aimed, injected, proven and healed in one line
each."""

import random
from collections.abc import Mapping
from pathlib import Path

from ackproof.nemesis import FAULTS
from ackproof.nemesis.execution import Executor, Ledger, OpenFault
from ackproof.nemesis.interface import Fault, Proof
from ackproof.nemesis.proofs import expiry_ms, prove
from ackproof.nemesis.targets.expressions import parse
from ackproof.nemesis.targets.resolution import resolve
from ackproof.testing.memory.cluster import Memory, Once


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
