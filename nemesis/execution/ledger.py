"""The ledger of open faults: a fault is recorded before it is injected.

Healing follows the ledger, not the schedule. A fault whose injection failed half-way, or whose end
never came, is therefore healed all the same. Each entry is one JSON line, synced to disk before the
injection begins; then one for each effect, before it is applied. Only the ledger knows which faults
are open, for callers in all threads.
"""

import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ackproof.nemesis.interface import Effect, Fault, OpenEffect, Plan, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFault:
    """A fault that was about to be injected and is not known to be healed."""

    fault_id: int
    fault: Fault
    target: Target
    plan: Plan
    hold_ms: int

    @property
    def label(self) -> str:
        return f"{self.fault.name}#{self.fault_id}"

    @property
    def destroys(self) -> str | None:
        """The loss on the disks of the affected servers; see :class:`Fault`."""
        return self.plan.destroys or self.fault.destroys


class Ledger:
    """An append-only file of intents and ends. Thread-safe.

    Args:
        path: The file, created when absent. Its directory must exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._open: dict[int, OpenFault] = {}
        self._begun: dict[int, list[Effect]] = {}
        self._done: dict[int, list[Effect]] = {}
        self._undone: dict[int, tuple[Effect, ...]] = {}
        self._passed: dict[int, list[Effect]] = {}

    def open(self, entry: OpenFault) -> None:
        """Record the intent. It is on disk when this returns."""
        with self._lock:
            if entry.fault_id in self._begun:
                raise ValueError(f"fault {entry.fault_id} was already opened")
            self._write(
                {
                    "open": entry.fault_id,
                    "fault": entry.fault.name,
                    "target": entry.target.expression,
                    "servers": list(entry.target.servers),
                    "effects": [str(effect) for effect in entry.plan.effects],
                    "facts": dict(entry.target.facts),
                },
                synced=True,
            )
            self._open[entry.fault_id] = entry
            self._begun[entry.fault_id] = []
            self._done[entry.fault_id] = []

    def doing(self, fault_id: int, effect: Effect) -> None:
        """Record that an effect is about to be applied: from now on it may have been."""
        with self._lock:
            self._write({"doing": fault_id, "effect": str(effect)})
            for known in (self._begun[fault_id], self._done[fault_id]):
                if effect not in known:  # it comes and goes, in a rhythm
                    known.append(effect)

    def changed_nothing(self, fault_id: int, effect: Effect) -> None:
        """Record that the state was already so before this fault."""
        with self._lock:
            self._write({"changed nothing": fault_id, "effect": str(effect)})
            self._done[fault_id].remove(effect)

    def passed(self, fault_id: int, effect: Effect) -> None:
        """Record that an effect is over although its fault is open, and that nothing of it is left:
        it explains nothing that happens from now on."""
        with self._lock:
            self._write({"passed": fault_id, "effect": str(effect)})
            self._passed.setdefault(fault_id, []).append(effect)

    def undone(self, fault_id: int) -> None:
        """Record that the effects of a fault's plan are undone: a process that ends from now on
        does not end because of them. The fault stays open until it is proven to be healed."""
        with self._lock:
            if (entry := self._open.get(fault_id)) is not None:
                self._write({"undone": fault_id})
                self._undone[fault_id] = entry.plan.effects

    def close(self, fault_id: int) -> None:
        """Record that the fault was healed, with proof. Idempotent."""
        with self._lock:
            if self._open.pop(fault_id, None) is not None:
                self._write({"close": fault_id}, synced=True)

    def still_open(self) -> tuple[OpenFault, ...]:
        """Return the faults that are not known to be healed, newest first: the order in which to
        heal."""
        with self._lock:
            return tuple(reversed(self._open.values()))

    def begun(self, fault_id: int) -> tuple[Effect, ...]:
        """Return the effects of a fault that were to be applied, whatever their outcome."""
        with self._lock:
            return tuple(self._begun.get(fault_id, ()))

    def done(self, fault_id: int) -> tuple[Effect, ...]:
        """Return the effects of a fault that changed something, or may have."""
        with self._lock:
            return tuple(self._done.get(fault_id, ()))

    def others(self, fault_id: int) -> tuple[OpenEffect, ...]:
        """Return the effects of the other open faults, whether or not they came first."""
        with self._lock:
            return tuple(
                OpenEffect(label=entry.label, effect=effect)
                for entry in self._open.values()
                if entry.fault_id != fault_id
                for effect in self._begun[entry.fault_id]
                if effect not in self._passed.get(entry.fault_id, ())
            )

    def holding(self, server: str) -> int | None:
        """Return the open fault that explains the end of this server's process, or None if it ended
        by itself.

        A pause does not explain an end: a process that dies of it dies by itself. Nor does an
        effect that is undone or has passed. A broker that was started again and crashes has ended
        by itself, though the fault is open until the broker is registered.
        """
        with self._lock:
            ending = (
                entry.fault_id
                for entry in self.still_open()
                if any(
                    effect.ends == server
                    for effect in self._done[entry.fault_id]
                    if effect not in self._undone.get(entry.fault_id, ())
                    and effect not in self._passed.get(entry.fault_id, ())
                )
            )
            return next(ending, None)

    def upon(self, name: str) -> int | None:
        """Return the open fault that holds any part of this server or client, the oldest if there
        are several, or None."""
        with self._lock:
            holding = (
                entry.fault_id
                for entry in self._open.values()
                for effect in self._begun[entry.fault_id]
                if name in effect.resource.at
            )
            return next(holding, None)

    def ending(self, name: str) -> frozenset[int]:
        """Return the faults, open or healed, that ended a server's process or a client, or may
        have."""
        with self._lock:
            return frozenset(
                fault
                for fault, effects in self._done.items()
                if any(effect.ends == name for effect in effects)
            )

    def _write(self, entry: Mapping[str, object], *, synced: bool = False) -> None:
        with self._path.open("a", encoding="utf-8") as ledger:
            ledger.write(json.dumps(entry) + "\n")
            ledger.flush()
            if synced:
                os.fsync(ledger.fileno())
