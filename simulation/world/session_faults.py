"""Faults of brokers' sessions with ZooKeeper: they expire, or answers are lost.

An answer is lost on purpose directly after the write that it would report. In virtual time, a
connection that breaks at some time hardly ever does so within the two milliseconds of one write.
The broker's handling of its own first attempt would then never be tested. Alternatively the
connection breaks when the write has arrived, and the write is not carried out. The client cannot
distinguish the two cases.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from kazoo.protocol.serialization import CheckVersion

from simulation.loop.loop import SimulatedLoop
from simulation.loop.ownership import NO_PROCESS
from simulation.machines.node import BrokerNode
from simulation.model.observer import ClusterObserver
from simulation.plans.actions import LoseAnswer
from simulation.zookeeper.ensemble import SimulatedZooKeeper
from simulation.zookeeper.server import ZkSession
from simulation.zookeeper.znodes import Change, Txn


class SessionFaults:
    """The session faults of one world's brokers."""

    def __init__(
        self, loop: SimulatedLoop, zookeeper: SimulatedZooKeeper, observer: ClusterObserver
    ) -> None:
        self._loop = loop
        self._zookeeper = zookeeper
        self._observer = observer
        self._armed: dict[str, LoseAnswer] = {}
        """The pending fault by host."""
        self._left: dict[str, int] = {}
        """The number of writes until the fault, by host."""
        self._watch()

    def expire(self, node: BrokerNode) -> None:
        """Expire all sessions of a host."""
        for session in self._zookeeper.sessions_of(node.host):
            self._note(session, "loses its ZooKeeper session")
            self._zookeeper.expire(session)

    def drop_connection(self, node: BrokerNode) -> None:
        """Drop the connections of a host. Its sessions stay."""
        for session in self._zookeeper.sessions_of(node.host):
            self._note(session, "loses its connection to ZooKeeper")
            self._zookeeper.drop_connection(session)

    def arm(self, node: BrokerNode, action: LoseAnswer) -> None:
        """Lose an answer in the next ``for_ms``. This replaces the pending fault of the host."""
        self._armed[node.host], self._left[node.host] = action, action.nth
        self._loop.call_later(
            action.for_ms / 1000, self._is_over, node.host, action, context=NO_PROCESS
        )

    def heal(self) -> None:
        """Cancel all pending faults."""
        self._armed.clear()

    def _is_over(self, host: str, action: LoseAnswer) -> None:
        if self._armed.get(host) is action:
            del self._armed[host]

    def _note(self, session: ZkSession, what: str) -> None:
        self._observer.note(f"{session.host.replace('-', ' ')} {what}")

    def _watch(self) -> None:
        """Observe the writes that the leader is about to carry out and has carried out, before any
        client learns of them."""

        def written(changes: list[Change], txn: Txn) -> None:
            session = self._zookeeper.sessions.get(txn.session)
            if session is not None:
                self._written(session, [path for _, path in changes], carried_out=True)

        self._zookeeper.leader.after_write.append(written)
        self._zookeeper.before_write = lambda session, request: self._written(
            session, [*_paths(request)], carried_out=False
        )

    def _written(self, session: ZkSession, paths: Sequence[str], *, carried_out: bool) -> None:
        """Drop the connection if this is the write that the fault waits for."""
        action = self._armed.get(session.host)
        if action is None or action.carried_out is not carried_out:
            return
        if any(path.startswith(action.path) for path in paths):
            self._left[session.host] -= 1
            if not self._left[session.host]:
                self._lose(session, action, paths[0])

    def _lose(self, session: ZkSession, action: LoseAnswer, path: str) -> None:
        """Drop the connection. If the session must expire, it does so a moment later, after the
        write is carried out."""
        del self._armed[session.host]
        what = "is written" if action.carried_out else "is not written"
        self._note(session, f"gets no answer that {path} {what}")
        self._zookeeper.drop_connection(session)
        if action.expires:
            self._loop.call_soon(self._zookeeper.expire, session, context=NO_PROCESS)


def _paths(request: Any) -> Iterator[str]:
    """Yield the paths that a request writes, which is one operation or a transaction of several."""
    for operation in getattr(request, "operations", (request,)):
        if type(operation) is not CheckVersion:
            yield operation.path
