"""What happens to brokers' sessions with ZooKeeper: they end, or their answers are lost.

An answer is lost on purpose right behind what was to be answered. In virtual time a connection that
breaks at some time hardly ever does so within the two milliseconds of one write, and what a broker
makes of its own first attempt is never met. Or it breaks when the write has come and is not carried
out, which its client cannot tell from the other.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from kazoo.protocol.serialization import CheckVersion

from simulation.loop.loop import SimulatedLoop
from simulation.loop.ownership import NOBODY
from simulation.machines.node import Node
from simulation.model.observer import Observer
from simulation.plans.actions import LoseAnswer
from simulation.zookeeper.ensemble import ZooKeeper
from simulation.zookeeper.server import Session
from simulation.zookeeper.znodes import Change, Txn


class Sessions:
    """Those of one world's brokers."""

    def __init__(self, loop: SimulatedLoop, zookeeper: ZooKeeper, observer: Observer) -> None:
        self._loop = loop
        self._zookeeper = zookeeper
        self._observer = observer
        self._armed: dict[str, LoseAnswer] = {}
        """By host."""
        self._left: dict[str, int] = {}
        """Writes until then."""
        self._watch()

    def expire(self, node: Node) -> None:
        """All that there are of a host."""
        for session in self._zookeeper.sessions_of(node.host):
            self._note(session, "loses its ZooKeeper session")
            self._zookeeper.expire(session)

    def drop_connection(self, node: Node) -> None:
        """The sessions live."""
        for session in self._zookeeper.sessions_of(node.host):
            self._note(session, "loses its connection to ZooKeeper")
            self._zookeeper.drop_connection(session)

    def arm(self, node: Node, action: LoseAnswer) -> None:
        """In the next ``for_ms``; in place of what the host waited for until now."""
        self._armed[node.host], self._left[node.host] = action, action.nth
        self._loop.call_later(
            action.for_ms / 1000, self._is_over, node.host, action, context=NOBODY
        )

    def heal(self) -> None:
        """Whatever is asked is answered."""
        self._armed.clear()

    def _is_over(self, host: str, action: LoseAnswer) -> None:
        if self._armed.get(host) is action:
            del self._armed[host]

    def _note(self, session: Session, what: str) -> None:
        self._observer.note(f"{session.host.replace('-', ' ')} {what}")

    def _watch(self) -> None:
        """What the leader is about to carry out, and what it has, before anybody is told."""

        def written(changes: list[Change], txn: Txn) -> None:
            session = self._zookeeper.sessions.get(txn.session)
            if session is not None:
                self._written(session, [path for _, path in changes], carried_out=True)

        self._zookeeper.leader.after_write.append(written)
        self._zookeeper.before_write = lambda session, request: self._written(
            session, [*_paths(request)], carried_out=False
        )

    def _written(self, session: Session, paths: Sequence[str], *, carried_out: bool) -> None:
        """It loses the connection if that was the write that was waited for."""
        action = self._armed.get(session.host)
        if action is None or action.carried_out is not carried_out:
            return
        if any(path.startswith(action.path) for path in paths):
            self._left[session.host] -= 1
            if not self._left[session.host]:
                self._lose(session, action, paths[0])

    def _lose(self, session: Session, action: LoseAnswer, path: str) -> None:
        """The session ends a moment later: a write that is carried out comes before its end."""
        del self._armed[session.host]
        what = "is written" if action.carried_out else "is not written"
        self._note(session, f"does not hear that {path} {what}")
        self._zookeeper.drop_connection(session)
        if action.expires:
            self._loop.call_soon(self._zookeeper.expire, session, context=NOBODY)


def _paths(request: Any) -> Iterator[str]:
    """Of what a request writes, one operation or a transaction of several."""
    for operation in getattr(request, "operations", (request,)):
        if type(operation) is not CheckVersion:
            yield operation.path
