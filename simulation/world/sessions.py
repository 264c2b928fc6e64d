"""What happens to brokers' sessions with ZooKeeper: they end, or their answers are lost.

An answer is lost on purpose right behind what was to be answered. In virtual time a connection that
breaks at some time hardly ever does so within the two milliseconds of one write, and what a broker
makes of its own first attempt is never met.
"""

from collections.abc import Iterator
from typing import Any

from simulation.loop.loop import SimulatedLoop
from simulation.loop.ownership import NOBODY
from simulation.machines.node import Node
from simulation.observer.observer import Observer
from simulation.plans.actions import LoseAnswer
from simulation.zookeeper.ensemble import ZooKeeper
from simulation.zookeeper.server import Session
from simulation.zookeeper.znodes import Txn


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
        """What the leader carries out, before anybody is told that it is."""
        tree = self._zookeeper.leader.tree
        write = tree.write

        def written(request: Any, txn: Txn) -> Any:
            answer, changes = write(request, txn)
            for session in self._unanswered(txn, [path for _, path in changes]):
                self._lose(session, changes[0][1])
            return answer, changes

        setattr(tree, "write", written)  # noqa: B010  mypy would not have it assigned

    def _unanswered(self, txn: Txn, paths: list[str]) -> Iterator[Session]:
        """Whose write that was, if its time has come."""
        session = self._zookeeper.sessions.get(txn.session)
        action = None if session is None else self._armed.get(session.host)
        if session is None or action is None:
            return
        if any(path.startswith(action.path) for path in paths):
            self._left[session.host] -= 1
            if not self._left[session.host]:
                yield session

    def _lose(self, session: Session, path: str) -> None:
        """The session ends a moment later: this write comes before its end."""
        action = self._armed.pop(session.host)
        self._note(session, f"does not hear that {path} is written")
        self._zookeeper.drop_connection(session)
        if action.expires:
            self._loop.call_soon(self._zookeeper.expire, session, context=NOBODY)
