"""Carries out plans: applies the effects of any fault, and undoes them.

Effects are counted by holder. Two faults that cut the same link hold it both; the backend is asked
to cut at the first and to heal at the last. The same for a server's process: killed by one fault
and stopped by another, it runs again when the last of them lets go.

Healing closes a gate before it undoes anything. The thread that injects may hang in an effect (a
host that does not answer) and be left behind: what it would do next is refused, and the effect that
it hung in, it undoes itself when it comes back.
"""

import threading
from dataclasses import dataclass, field

from nemesis.interface import Cluster, Effect, Injection, Resource
from nemesis.ledger import Ledger, OpenFault


class GateClosed(RuntimeError):
    """Healing has begun: nothing is broken any more."""


class HealFailed(RuntimeError):
    """Some effects were not undone. What could be was; heal again for the rest."""


@dataclass(slots=True)
class _Held:
    """A resource and the faults that hold it. ``lock`` is held while it is being changed."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    holders: set[int] = field(default_factory=set)
    applied: list[Effect] = field(default_factory=list)


class Executor:
    """Breaks and mends one cluster. Thread-safe: every fault may have a thread of its own.

    Args:
        patience_s: How long a heal waits for an effect on the same resource that is under way.
    """

    def __init__(self, cluster: Cluster, ledger: Ledger, patience_s: float = 10.0) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._patience_s = patience_s
        self._gate = threading.Lock()
        self._closed = False
        self._healing: set[int] = set()
        self._resources: dict[Resource, _Held] = {}

    def inject(self, entry: OpenFault) -> None:
        """Write the intent into the ledger and apply the effects, one after the other. Raises
        GateClosed as soon as healing begins, and what an effect raises."""
        with self._gate:
            if self._closed:
                raise GateClosed(entry.label)
            self._ledger.open(entry)
        for effect in entry.plan.effects:
            self._apply(entry, effect)

    def heal(self, entry: OpenFault) -> None:
        """Undo what was done, the last first; what other faults hold stays. Idempotent.

        Raises HealFailed when something could not be undone, after trying everything.
        """
        with self._gate:
            self._healing.add(entry.fault_id)
            held = [self._resources.get(effect.resource) for effect in entry.plan.effects]
        failures = [self._undone(one, entry.fault_id) for one in reversed(held) if one is not None]
        if reasons := [failure for failure in failures if failure]:
            raise HealFailed("; ".join(reasons))

    def close(self) -> None:
        """Refuse every injection from now on."""
        with self._gate:
            self._closed = True

    def injection(self, entry: OpenFault) -> Injection:
        """The fault as its proofs see it."""
        return Injection(
            cluster=self._cluster,
            target=entry.target,
            plan=entry.plan,
            hold_ms=entry.hold_ms,
            done=lambda: self._ledger.done(entry.fault_id),
            others=lambda: self._ledger.others(entry.fault_id),
        )

    def _apply(self, entry: OpenFault, effect: Effect) -> None:
        held = self._held(effect.resource)
        with held.lock:
            self._take(held, entry, effect)
            try:
                if effect in held.applied or not effect.apply(self._cluster):
                    self._ledger.changed_nothing(entry.fault_id, effect)
                else:
                    held.applied.append(effect)
            except BaseException:
                # Half of it may be done: a request can be carried out and its answer be lost.
                held.applied.append(effect)
                raise
            finally:
                # heal() waited in vain for the lock and went on: this effect came after it.
                if entry.fault_id in self._healing:
                    self._let_go(held, entry.fault_id)

    def _held(self, resource: Resource) -> _Held:
        with self._gate:
            return self._resources.setdefault(resource, _Held())

    def _take(self, held: _Held, entry: OpenFault, effect: Effect) -> None:
        # Under the gate, so that an effect is either refused or known to the heal that follows.
        with self._gate:
            if self._closed or entry.fault_id in self._healing:
                raise GateClosed(f"{entry.label}: {effect}")
            held.holders.add(entry.fault_id)
        self._ledger.doing(entry.fault_id, effect)

    def _undone(self, held: _Held, fault_id: int) -> str | None:
        """Why not, if so."""
        if not held.lock.acquire(timeout=self._patience_s):
            return "an effect is still under way; it is undone when it ends"
        try:
            self._let_go(held, fault_id)
        except Exception as error:  # noqa: BLE001 - the other effects are to be undone all the same
            return f"{type(error).__name__}: {error}"
        finally:
            held.lock.release()
        return None

    def _let_go(self, held: _Held, fault_id: int) -> None:
        if held.holders == {fault_id}:
            for effect in reversed(held.applied):
                effect.undo(self._cluster)
            held.applied.clear()
        # Only now: what could not be undone keeps its holder, for the next attempt.
        held.holders.discard(fault_id)
