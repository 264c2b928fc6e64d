"""One server of the simulated ensemble: its copy of the tree, its watches and its connections."""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from kazoo.exceptions import ZookeeperError
from kazoo.protocol.connection import CHILD_EVENT, CREATED_EVENT, DELETED_EVENT
from kazoo.protocol.serialization import Exists, GetChildren, GetChildren2

from simulation.zookeeper.znodes import Change, Txn, ZnodeTree


class ZkEndpoint(Protocol):
    """The client's end of a connection.

    Each method is called in the client's own context for one message from the server.
    ``connection`` may be a connection that the client has given up.
    """

    def established(
        self, connection: "ZkConnection", session: int, password: bytes, timeout_ms: int
    ) -> None:
        """Accept the session, which is new or resumed."""

    def expired(self, connection: "ZkConnection") -> None:
        """Learn that the session has expired. The connection is closed."""

    def answered(self, connection: "ZkConnection", zxid: int, answer: Any) -> None:
        """Receive the answer to the oldest unanswered request: a value, or a ZookeeperError."""

    def pong(self, connection: "ZkConnection") -> None:
        """Receive the answer to a ping."""

    def fired(self, connection: "ZkConnection", event: int, path: str) -> None:
        """Receive a watch event. ``event`` is one of kazoo's constants, such as
        ``CREATED_EVENT``."""

    def closed(self, connection: "ZkConnection") -> None:
        """Learn that the server closed or refused the connection."""


class ZkConnection:
    """A client's TCP connection to one server. ``send`` carries a call to the client's end."""

    def __init__(self, host: str, endpoint: ZkEndpoint, send: Callable[..., None]) -> None:
        self.host = host
        self.endpoint = endpoint
        self.send = send
        self.is_open = True
        """Whether the server's end is open."""
        self.is_abandoned = False
        """Whether the client has given up the connection, which may still be open at the server's
        end."""
        self.is_reset = False
        """Whether the connection was reset. The client never reads the messages that were on their
        way then."""
        self.session: ZkSession | None = None
        self.server: ZkServer | None = None
        self.awaits: int | None = None
        """The zxid of a write that the client's server has not applied yet. The later requests of
        the client wait for it."""
        self.later: deque[Any] = deque()


class ZkSession:
    """A session of a client.

    ``ends_s`` is the time of its expiry unless the client is heard from before. ``is_timed`` is
    true while a timer runs for that.
    """

    __slots__ = ("connection", "ends_s", "host", "id", "is_timed", "password", "timeout_ms")

    def __init__(self, number: int, password: bytes, timeout_ms: int, host: str) -> None:
        self.id = number
        self.password = password
        self.timeout_ms = timeout_ms
        self.host = host
        self.ends_s = 0.0
        self.is_timed = False
        self.connection: ZkConnection | None = None


class ZkCommit(NamedTuple):
    """A transaction in the log. Without a request it opens a session (with ``connection``) or ends
    one."""

    txn: Txn
    request: Any
    connection: ZkConnection | None


class Watches:
    """The watches of a server. A watch fires once, even if the client has set it several times."""

    def __init__(self) -> None:
        self._on_data: dict[str, dict[ZkConnection, None]] = {}
        self._on_children: dict[str, dict[ZkConnection, None]] = {}

    def add(self, request: Any, connection: ZkConnection) -> None:
        """Set the watch that ``request`` asks for."""
        is_children = isinstance(request, GetChildren | GetChildren2)
        table = self._on_children if is_children else self._on_data
        table.setdefault(request.path, {})[connection] = None

    def fire(self, change: Change) -> None:
        """Notify the watches of the changed node, and those of its parent's children if the
        children changed."""
        event, path = change
        notified = self._on_data.pop(path, {})
        if event == DELETED_EVENT:
            notified |= self._on_children.pop(path, {})
        _send_event(notified, event, path)
        if event in (CREATED_EVENT, DELETED_EVENT):
            parent = path.rpartition("/")[0] or "/"
            _send_event(self._on_children.pop(parent, {}), CHILD_EVENT, parent)

    def forget(self, connection: ZkConnection) -> None:
        """Remove the watches of a closed connection."""
        for table in (self._on_data, self._on_children):
            for path in [path for path, watchers in table.items() if connection in watchers]:
                del table[path][connection]
                if not table[path]:
                    del table[path]


def _send_event(connections: dict[ZkConnection, None], event: int, path: str) -> None:
    for connection in connections:
        connection.send(connection.endpoint.fired, connection, event, path)


class ZkServer:
    """One server of the ensemble. ``resume`` is called with a connection whose write was applied
    here."""

    def __init__(self, resume: Callable[[ZkConnection], None]) -> None:
        self.tree = ZnodeTree()
        self.watches = Watches()
        self.zxid = 0
        """The zxid of the last transaction applied."""
        self.before_write: Callable[[Any], None] | None = None
        """A function called with each write request before it is carried out."""
        self.after_write: list[Callable[[list[Change], Txn], None]] = []
        """Functions called with the changes of a transaction before any client learns of them."""
        self._resume = resume

    def read(self, connection: ZkConnection, request: Any) -> None:
        """Answer from this server's tree, and set the requested watch. Only ``Exists`` may watch an
        absent node."""
        try:
            answer = self.tree.read(request)
        except ZookeeperError as error:
            answer = error
        is_watched = not isinstance(answer, ZookeeperError) or type(request) is Exists
        if is_watched and getattr(request, "watcher", None):
            self.watches.add(request, connection)
        connection.send(connection.endpoint.answered, connection, self.zxid, answer)

    def caught_up(self, connection: ZkConnection, request: Any) -> None:
        """Answer a ``Sync``: everything that was committed when it arrived has been applied."""
        if connection.is_open and connection.server is self:
            connection.awaits = None
            self.read(connection, request)
            self._resume(connection)

    def apply(self, commit: ZkCommit) -> None:
        """Carry out the next transaction.

        Watches fire before the answer is sent, so that no client reads a change before its watch
        event.
        """
        txn, request, connection = commit
        answer: Any = None
        changes: list[Change] = []
        try:
            if request is not None:
                if self.before_write is not None:
                    self.before_write(request)
                answer, changes = self.tree.write(request, txn)
            elif connection is None:
                changes = self.tree.end_session(txn)
        except ZookeeperError as error:
            answer = error
        self.zxid = txn.zxid
        for callback in self.after_write if changes else ():
            callback(changes, txn)
        for change in changes:
            self.watches.fire(change)
        if connection is not None and connection.server is self and connection.is_open:
            if request is not None:
                connection.send(connection.endpoint.answered, connection, txn.zxid, answer)
            elif connection.session is not None:
                send_session(connection, connection.session)
            connection.awaits = None
            self._resume(connection)


def send_session(connection: ZkConnection, session: ZkSession) -> None:
    """Inform a client of its session."""
    connection.send(
        connection.endpoint.established,
        connection, session.id, session.password, session.timeout_ms,
    )  # fmt: skip
