"""Restarts of brokers in pods that no fault of the run has ordered, such as a roll by Strimzi's
operator.

Such a broker does not end by itself, and the time until its return is disturbed. The history
therefore has each of these restarts as a fault (:data:`history.manifest.UNORDERED`). It begins when
the pod is first seen to end, or to be gone. It is healed when another pod is ready and its broker
answers.

A container that is started again in its pod is none of them: its broker has ended by itself, as
after a crash or for want of memory.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from ackproof.harness.running.recorder import RunRecorder
from ackproof.history.manifest import UNORDERED
from ackproof.history.schema import LOST_WITH_POD, RESTARTED_BY
from ackproof.infra.api.interface import ExternalView, InfraError, PodPlace, PodView, Server
from ackproof.nemesis.execution import Ledger
from ackproof.nemesis.interface import Cluster, Proof, Target
from ackproof.nemesis.targets import expressions, resolution


@dataclass(frozen=True, slots=True)
class UnorderedRestart:
    """The kind of these restarts, as the history names faults."""

    name: ClassVar[str] = UNORDERED
    destroys: ClassVar[None] = None


_KIND = UnorderedRestart()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Restart:
    """A restart that goes on. ``former`` is the pod that was replaced."""

    number: int
    former: PodPlace
    target: Target
    destroys: str | None


class PodRestarts:
    """The watch over the pods of an external cluster's brokers. Thread-safe.

    Args:
        cluster: Returns the cluster.
        ledger: The open faults of the run.
        planned: The numbers of its planned faults.
        tell: Shows a fact to the user.
    """

    def __init__(
        self,
        cluster: Callable[[], Cluster],
        ledger: Ledger,
        recorder: RunRecorder,
        planned: Sequence[int],
        tell: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._recorder = recorder
        self._tell = tell
        self._first = self._next = max(planned, default=0) + 1
        self._lock = threading.Lock()
        self._known: dict[str, PodPlace] = {}
        """The pod of each server before it was seen to end."""
        self._explained: dict[str, str] = {}
        """The uid of the pod of each server that a fault of the run has ended."""
        self._going_on: dict[str, _Restart] = {}
        self._ending: dict[str, frozenset[int]] = {}
        """The faults that had ended each server at the last look."""
        self._used: dict[str, frozenset[int]] = {}
        """The faults that have explained the end of a pod of each server. A fault ends one."""

    @property
    def pods(self) -> Mapping[str, PodView]:
        """Return the pods of brokers, by server; empty outside Kubernetes."""
        views = ((server.name, _pod(server)) for server in self._cluster().system.brokers)
        return {name: view for name, view in views if view is not None}

    @property
    def count(self) -> int:
        """Return the number of such restarts that were seen."""
        return self._next - self._first

    @property
    def over(self) -> bool:
        """Return whether no such restart goes on, as far as was seen."""
        return not self._going_on

    def look(self) -> None:
        """Record the restarts that have begun or ended since the last look. Raises InfraError
        without an answer of Kubernetes."""
        with self._lock:
            pods = self.pods
            if not pods:
                return
            places = next(iter(pods.values())).places()
            for name, view in pods.items():
                self._see(name, view, places.get(name))

    def explaining(self, server: str) -> int | None:
        """Return the number of the restart by which a process of the server has ended just now, or
        None if its pod was not replaced. Raises as :meth:`look`."""
        if server not in self.pods:
            return None
        self.look()
        with self._lock:
            restart = self._going_on.get(server)
            return None if restart is None else restart.number

    def _see(self, name: str, view: PodView, now: PodPlace | None) -> None:
        restart, known = self._going_on.get(name), self._known.get(name)
        ours = self._by_a_fault(name)
        if restart is not None:
            self._await_return(name, view, restart, now)
        elif known is None:
            if now is not None and not now.ends:
                self._known[name] = now
        elif now is None or now.ends or now.uid != known.uid:
            if self._explained.get(name) != known.uid:
                if ours or (now is not None and now.held):
                    self._explained[name] = known.uid
                    self._used[name] = self._used.get(name, frozenset()) | ours
                else:
                    self._begin(name, view, known, now)
                    return
            if now is not None and not now.ends:
                self._known[name] = now
        elif now.restarts > known.restarts:
            self._known[name] = now
            self._end_in_pod(name, now, max(ours, default=None))

    def _end_in_pod(self, name: str, now: PodPlace, fault: int | None) -> None:
        """Record that a broker has ended, and its container was started again in the same pod. With
        an agent, its process is watched."""
        view = self._cluster().server(name).distant
        if view is not None and view.attached:
            return
        code, why = now.last_status, now.last_end
        self._recorder.server(name, "ended", exit_code=code, fault_id=fault, detail=why)
        self._recorder.server(name, "started")
        if fault is None:
            self._tell(f"servers: {name} ended by itself in its pod, exit code {code} ({why})")

    def _by_a_fault(self, name: str) -> frozenset[int]:
        """Return the faults that may explain the end of the server's pod now: those that are open,
        or were since the last look."""
        ending = self._ledger.ending(name)
        lately = ending - self._ending.get(name, frozenset())
        self._ending[name] = ending
        present = {entry.fault_id for entry in self._ledger.still_open()}
        return (ending & (present | lately)) - self._used.get(name, frozenset())

    def _begin(self, name: str, view: PodView, former: PodPlace, now: PodPlace | None) -> None:
        lost = view.lost_storage
        restart = _Restart(
            number=self._next,
            former=former,
            target=self._target(name),
            destroys=None if lost is None else "all",
        )
        self._next += 1
        self._going_on[name] = restart
        last = now if now is not None and now.uid == former.uid else former
        seen = {"pod replaced": {name: f"was on {former.node}"}}
        if last.why is not None:
            seen["said by the pod"] = {name: last.why}
        self._write(restart, "inject")
        self._write(restart, "injected", seen={LOST_WITH_POD: {name: lost}} if lost else None)
        self._write(restart, "verified", proof=Proof(proven=True, observations=seen))
        self._tell(f"servers: the pod of {name} was ended, which this campaign has not ordered")

    def _await_return(
        self, name: str, view: PodView, restart: _Restart, now: PodPlace | None
    ) -> None:
        if now is None or now.uid == restart.former.uid or now.ends or not now.ready:
            return
        server = self._cluster().server(name)
        if server.distant is None or not server.distant.answers():
            return
        by = view.restarter(restart.former)
        seen = {RESTARTED_BY: {name: by}, "pod ready": {name: f"on {now.node}"}}
        self._write(restart, "heal")
        self._write(restart, "healed", proof=Proof(proven=True, observations=seen))
        self._known[name] = now
        del self._going_on[name]
        self._tell(f"servers: {name} is back in another pod; restarted by: {by}")

    def _write(
        self,
        restart: _Restart,
        event: str,
        *,
        proof: Proof | None = None,
        seen: Mapping[str, object] | None = None,
    ) -> None:
        self._recorder.fault(
            restart.number,
            _KIND,
            event,
            target=restart.target,
            proof=proof,
            seen=seen,
            destroys=restart.destroys,
        )

    def _target(self, name: str) -> Target:
        with suppress(LookupError, InfraError):
            return resolution.resolve(expressions.parse(name), self._cluster(), 0)
        return Target(expression=name, nodes=(name,), servers=(name,))


def _pod(server: Server) -> PodView | None:
    view: ExternalView | None = server.distant
    return None if view is None else view.pod
