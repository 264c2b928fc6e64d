"""One server of the simulated ensemble: its copy of the tree, who watches it, who is connected."""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from kazoo.exceptions import ZookeeperError
from kazoo.protocol.connection import CHILD_EVENT, CREATED_EVENT, DELETED_EVENT
from kazoo.protocol.serialization import Exists, GetChildren, GetChildren2

from simulation.zookeeper.znodes import Change, Tree, Txn


class Endpoint(Protocol):
    """The client's end of a connection. Each method is called in the client's own context, for
    what the server sent; ``connection`` may be one that the client has given up."""

    def established(
        self, connection: "Connection", session: int, password: bytes, timeout_ms: int
    ) -> None:
        """The session is this one, new or old."""

    def expired(self, connection: "Connection") -> None:
        """There is no such session any more; the connection is closed."""

    def answered(self, connection: "Connection", zxid: int, answer: Any) -> None:
        """The answer to the oldest unanswered request: a value, or a ZookeeperError."""

    def pong(self, connection: "Connection") -> None:
        """The server is there."""

    def fired(self, connection: "Connection", event: int, path: str) -> None:
        """A watch has fired; ``event`` is one of kazoo's ``CREATED_EVENT`` and so on."""

    def closed(self, connection: "Connection") -> None:
        """The server closed the connection, or takes none."""


class Connection:
    """A client's TCP connection to one server. ``send`` carries a call to the client's end."""

    def __init__(self, host: str, endpoint: Endpoint, send: Callable[..., None]) -> None:
        self.host = host
        self.endpoint = endpoint
        self.send = send
        self.is_open = True
        """At the server's end."""
        self.is_given_up = False
        """By its client, while it may still be open at the server's end."""
        self.is_reset = False
        """What was on its way to the client when the connection was reset, it never reads."""
        self.session: Session | None = None
        self.server: Server | None = None
        self.awaits: int | None = None
        """The zxid of its write that its server has not applied yet: what it asked later waits."""
        self.later: deque[Any] = deque()


class Session:
    """``ends_s`` is when it expires unless its client is heard of before; ``is_timed`` while a
    timer runs for that."""

    __slots__ = ("connection", "ends_s", "host", "id", "is_timed", "password", "timeout_ms")

    def __init__(self, number: int, password: bytes, timeout_ms: int, host: str) -> None:
        self.id = number
        self.password = password
        self.timeout_ms = timeout_ms
        self.host = host
        self.ends_s = 0.0
        self.is_timed = False
        self.connection: Connection | None = None


class Commit(NamedTuple):
    """A transaction in the log. Without a request it opens (``connection``) or ends a session."""

    txn: Txn
    request: Any
    connection: Connection | None


class Watches:
    """Who watches what. One watch fires once, however many of a client's are behind it."""

    def __init__(self) -> None:
        self.count = 0
        self._on_data: dict[str, dict[Connection, None]] = {}
        self._on_children: dict[str, dict[Connection, None]] = {}

    def add(self, request: Any, connection: Connection) -> None:
        """Watch what ``request`` reads."""
        is_children = isinstance(request, GetChildren | GetChildren2)
        table = self._on_children if is_children else self._on_data
        watchers = table.setdefault(request.path, {})
        self.count += connection not in watchers
        watchers[connection] = None

    def fire(self, change: Change) -> None:
        """Tell who watches that node, and its parent's children where they are others now."""
        event, path = change
        told = self._take(self._on_data, path)
        if event == DELETED_EVENT:
            told |= self._take(self._on_children, path)
        _tell(told, event, path)
        if event in (CREATED_EVENT, DELETED_EVENT):
            parent = path.rpartition("/")[0] or "/"
            _tell(self._take(self._on_children, parent), CHILD_EVENT, parent)

    def forget(self, connection: Connection) -> None:
        """The watches of a closed connection are no more."""
        for table in (self._on_data, self._on_children):
            for path in [path for path, watchers in table.items() if connection in watchers]:
                del table[path][connection]
                self.count -= 1
                if not table[path]:
                    del table[path]

    def _take(self, table: dict[str, dict[Connection, None]], path: str) -> dict[Connection, None]:
        taken = table.pop(path, {})
        self.count -= len(taken)
        return taken


def _tell(connections: dict[Connection, None], event: int, path: str) -> None:
    for connection in connections:
        connection.send(connection.endpoint.fired, connection, event, path)


class Server:
    """``resume`` is called with a connection whose write has been applied here."""

    def __init__(self, resume: Callable[[Connection], None]) -> None:
        self.tree = Tree()
        self.watches = Watches()
        self.zxid = 0
        """The last transaction applied."""
        self.before_write: Callable[[Any], None] | None = None
        """Called with each request to change something, before it is carried out."""
        self.after_write: list[Callable[[list[Change], Txn], None]] = []
        """Each is called with what a transaction has changed, before anybody hears of it."""
        self._resume = resume

    def read(self, connection: Connection, request: Any) -> None:
        """Answer from this server's tree, and set the watch asked for: on a node that is not
        there only by ``Exists``."""
        try:
            answer = self.tree.read(request)
        except ZookeeperError as error:
            answer = error
        is_watched = not isinstance(answer, ZookeeperError) or type(request) is Exists
        if is_watched and getattr(request, "watcher", None):
            self.watches.add(request, connection)
        connection.send(connection.endpoint.answered, connection, self.zxid, answer)

    def caught_up(self, connection: Connection, request: Any) -> None:
        """Answer a ``Sync``: what was committed when it came has been applied."""
        if connection.is_open and connection.server is self:
            connection.awaits = None
            self.read(connection, request)
            self._resume(connection)

    def apply(self, commit: Commit) -> bool:
        """Carry out the next transaction; whether it did what was asked.

        Watches fire before the answer leaves, so that nobody reads the change before hearing of
        it.
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
        for look in self.after_write if changes else ():
            look(changes, txn)
        for change in changes:
            self.watches.fire(change)
        if connection is not None and connection.server is self and connection.is_open:
            if request is not None:
                connection.send(connection.endpoint.answered, connection, txn.zxid, answer)
            elif connection.session is not None:
                greet(connection, connection.session)
            connection.awaits = None
            self._resume(connection)
        return not isinstance(answer, ZookeeperError) and not _is_rolled_back(answer)


def greet(connection: Connection, session: Session) -> None:
    """Tell a client which session it has."""
    connection.send(
        connection.endpoint.established,
        connection, session.id, session.password, session.timeout_ms,
    )  # fmt: skip


def _is_rolled_back(answer: Any) -> bool:
    return isinstance(answer, list) and any(isinstance(each, ZookeeperError) for each in answer)
