"""The execution of faults: open faults are recorded, effects are applied, and undone."""

import json
import logging
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ackproof.nemesis.effects import (
    EffectNotBegun,
    OnProcess,
    Passing,
    ProcessClaim,
    concerns_session,
)
from ackproof.nemesis.interface import (
    Cluster,
    Effect,
    Fault,
    Injection,
    OpenEffect,
    Plan,
    Resource,
    Rhythm,
    Target,
)

# --- ledger ---------------------------------------------------------------------------------------
#
# The ledger of open faults: a fault is recorded before it is injected.
#
# Healing follows the ledger, not the schedule. A fault whose injection failed half-way, or whose
# end never came, is therefore healed all the same. Each entry is one JSON line, synced to disk
# before the injection begins; then one for each effect, before it is applied. Only the ledger knows
# which faults are open, for callers in all threads.


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

    @property
    def closed(self) -> frozenset[int]:
        """The faults that were healed, with proof."""
        with self._lock:
            return frozenset(self._begun.keys() - self._open.keys())

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


# --- executor -------------------------------------------------------------------------------------
#
# The execution of plans: it applies the effects of any fault, and undoes them.
#
# Effects are counted by holder. Two faults that cut the same link both hold it. The backend is told
# to cut by the first and to heal by the last. The same applies to a server's process: killed by one
# fault and stopped by another, it runs again when the last of them ends. A fault that keeps a
# broker from ZooKeeper also stands by it, once another fault has started it.
#
# A plan with a rhythm has a thread of its own. The thread undoes its effects and applies them
# again, beat by beat, until healing begins. Between two beats the fault is still open.
#
# Healing closes a gate before it undoes anything. The injecting thread may hang in an effect (a
# host that does not answer) and be left behind. Its next effects are refused, and it undoes the
# effect in which it hung when it returns.


logger = logging.getLogger(__name__)


class HealingBegun(RuntimeError):
    """The refusal of an effect, because healing has begun."""


class HealFailed(RuntimeError):
    """The failure to undo some effects. All others were undone; heal again for the rest."""


@dataclass(slots=True)
class _HeldResource:
    """A resource and the faults that hold it. ``lock`` is held while it is being changed."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    holders: set[int] = field(default_factory=set)
    applied: list[Effect] = field(default_factory=list)


class Executor:
    """The execution of faults on one cluster. Thread-safe: every fault may have a thread of its
    own.

    Args:
        patience_s: How long a heal waits for a running effect on the same resource.
    """

    def __init__(self, cluster: Cluster, ledger: Ledger, patience_s: float = 10.0) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._patience_s = patience_s
        self._gate = threading.Lock()
        self._closed = False
        self._healing: set[int] = set()
        self._resources: dict[Resource, _HeldResource] = {}
        self._rhythms: dict[int, threading.Event] = {}

    def inject(self, entry: OpenFault) -> None:
        """Write the intent into the ledger and apply the effects, one after the other. Raise
        GateClosed as soon as healing begins, and any error of an effect."""
        with self._gate:
            if self._closed:
                raise HealingBegun(entry.label)
            self._ledger.open(entry)
        for effect in entry.plan.effects:
            self._apply(entry, effect)
        if entry.plan.rhythm is not None:
            self._begin(entry, entry.plan.rhythm)

    def heal(self, entry: OpenFault) -> None:
        """Undo the effects, the last first. What other faults hold stays. Idempotent.

        Raise HealFailed when something could not be undone, after trying everything.
        """
        with self._gate:
            self._healing.add(entry.fault_id)
            if (rhythm := self._rhythms.pop(entry.fault_id, None)) is not None:
                rhythm.set()
            planned, begun = entry.plan.effects, self._ledger.begun(entry.fault_id)
            # A server that it stands by is started last, when it can reach the servers from which
            # it was cut.
            effects = [*(effect for effect in begun if effect not in planned), *planned]
            held = [self._resources.get(effect.resource) for effect in effects]
        failures = [self._undone(one, entry.fault_id) for one in reversed(held) if one is not None]
        if reasons := [failure for failure in failures if failure]:
            raise HealFailed("; ".join(reasons))
        self._ledger.undone(entry.fault_id)

    def pass_on(self, entry: OpenFault) -> None:
        """Let the other open faults stand by the servers that this one has started, if they may
        keep these from registering. Call this before the fault leaves the ledger.

        Kafka's brokers end with status 1 when they do not reach ZooKeeper within
        ``zookeeper.connection.timeout.ms`` of their start. Suppose a broker was killed by a fault
        that is healed before its cut from ZooKeeper is. Otherwise nothing would start it again, and
        it would count as ended by itself.
        """
        zookeepers = self._cluster.members.zookeepers
        started = [e for e in self._ledger.done(entry.fault_id) if isinstance(e, OnProcess)]
        for server in {e.ends for e in started if e.ends}.difference(zookeepers):
            stand_by = ProcessClaim(server)
            held = self._held(stand_by.resource)
            with held.lock, self._gate:  # see _take
                for other in self._ledger.still_open():
                    if other.fault_id in {entry.fault_id, *self._healing}:
                        continue
                    begun = self._ledger.begun(other.fault_id)
                    if any(concerns_session(e.resource, server, zookeepers) for e in begun):
                        self._ledger.doing(other.fault_id, stand_by)
                        held.holders.add(other.fault_id)
                        held.applied.append(stand_by)

    def start_again(self, entry: OpenFault) -> None:
        """Start servers that were passed on to this fault and have ended since it was undone. A
        ZooKeeper that has just started does not answer yet, and a broker's time may be over before.

        Others are not started: a broker that ends because a fault has changed its disk must be
        visible.
        """
        begun = self._ledger.begun(entry.fault_id)
        for effect in begun:
            if isinstance(effect, ProcessClaim) and effect not in entry.plan.effects:
                held = self._held(effect.resource)
                with held.lock:
                    if not held.holders:
                        effect.undo(self._cluster)

    def close(self) -> None:
        """Refuse every injection from now on."""
        with self._gate:
            self._closed = True

    def injection(self, entry: OpenFault) -> Injection:
        """Return the fault as its proofs see it."""
        return Injection(
            cluster=self._cluster,
            target=entry.target,
            plan=entry.plan,
            hold_ms=entry.hold_ms,
            done=lambda: self._ledger.done(entry.fault_id),
            others=lambda: self._ledger.others(entry.fault_id),
        )

    def _begin(self, entry: OpenFault, rhythm: Rhythm) -> None:
        over = threading.Event()
        with self._gate:
            if self._closed or entry.fault_id in self._healing:
                raise HealingBegun(entry.label)
            self._rhythms[entry.fault_id] = over
        name = f"rhythm-{entry.fault_id}"
        arguments = (entry, rhythm, over)
        threading.Thread(target=self._beat, args=arguments, name=name, daemon=True).start()

    def _beat(self, entry: OpenFault, rhythm: Rhythm, over: threading.Event) -> None:
        """Run the rhythm until healing begins. If one beat fails, the next tries again. Healing,
        which undoes everything, does not depend on this thread, and neither does the proof."""
        for on_ms, off_ms in rhythm.beats():
            if over.wait(on_ms / 1000):
                return
            self._let_go_of_all(entry)
            if over.wait(off_ms / 1000):
                return
            try:
                for effect in entry.plan.effects:
                    self._apply(entry, effect)
            except HealingBegun:
                return
            except Exception:
                logger.exception("%s: a beat failed", entry.label)

    def _let_go_of_all(self, entry: OpenFault) -> None:
        for effect in reversed(entry.plan.effects):
            if failure := self._undone(self._held(effect.resource), entry.fault_id):
                logger.error("%s: %s: %s", entry.label, effect, failure)

    def _apply(self, entry: OpenFault, effect: Effect) -> None:
        held = self._held(effect.resource)
        with held.lock:
            did_before = effect in self._ledger.done(entry.fault_id)  # in an earlier beat
            self._take(held, entry, effect)
            try:
                if effect not in held.applied and effect.apply(self._cluster):
                    held.applied.append(effect)
                elif not did_before:
                    self._ledger.changed_nothing(entry.fault_id, effect)
                if isinstance(effect, Passing):
                    self._ledger.passed(entry.fault_id, effect)
            except EffectNotBegun:
                # A broker that was not stopped keeps its session. If it counted as stopped, its
                # heal would wait for a new registration that never comes.
                self._ledger.changed_nothing(entry.fault_id, effect)
                raise
            except BaseException:
                # It may be half done: a request can be carried out and its answer be lost.
                held.applied.append(effect)
                raise
            finally:
                # heal() did not get the lock in time and continued: this effect came after it.
                if entry.fault_id in self._healing:
                    self._let_go(held, entry.fault_id)

    def _held(self, resource: Resource) -> _HeldResource:
        with self._gate:
            return self._resources.setdefault(resource, _HeldResource())

    def _take(self, held: _HeldResource, entry: OpenFault, effect: Effect) -> None:
        # Under the gate, so that an effect is either refused or known to the heal that follows.
        with self._gate:
            if self._closed or entry.fault_id in self._healing:
                raise HealingBegun(f"{entry.label}: {effect}")
            held.holders.add(entry.fault_id)
        self._ledger.doing(entry.fault_id, effect)

    def _undone(self, held: _HeldResource, fault_id: int) -> str | None:
        """Undo the effects on a resource. Return the reason if that failed."""
        if not held.lock.acquire(timeout=self._patience_s):
            return "an effect is still in progress; it is undone when it ends"
        try:
            self._let_go(held, fault_id)
        except Exception as error:  # noqa: BLE001 - the other effects must be undone all the same
            return f"{type(error).__name__}: {error}"
        finally:
            held.lock.release()
        return None

    def _let_go(self, held: _HeldResource, fault_id: int) -> None:
        if held.holders == {fault_id}:
            for effect in reversed(held.applied):
                effect.undo(self._cluster)
            held.applied.clear()
        # Only now: what could not be undone keeps its holder, for the next attempt.
        held.holders.discard(fault_id)
