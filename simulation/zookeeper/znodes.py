"""The tree of znodes as a deterministic state machine, without sessions, watches or a clock.

The same transactions in the same order make the same tree and give the same answers. Requests are
kazoo's own (``kazoo.protocol.serialization``), and answers are what kazoo makes of ZooKeeper's. The
order of errors follows ZooKeeper 3.9's ``PrepRequestProcessor``. The figures of a node's stat
follow ``DataTree`` and ``DataNode.copyStat``.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from kazoo.exceptions import (
    BadArgumentsError,
    BadVersionError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
    UnimplementedError,
    ZookeeperError,
)
from kazoo.protocol.connection import CHANGED_EVENT, CREATED_EVENT, DELETED_EVENT
from kazoo.protocol.serialization import (
    CheckVersion,
    Create,
    Create2,
    Delete,
    Exists,
    GetChildren,
    GetChildren2,
    GetData,
    SetData,
    Sync,
    Transaction,
)
from kazoo.protocol.states import ZnodeStat

EPHEMERAL: Final = 1
SEQUENCE: Final = 2
WRITES: Final = frozenset({Create, Create2, Delete, SetData, Transaction})
_SYSTEM: Final = ("/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota")

Change = tuple[int, str]
"""The kind of a change (kazoo's ``CREATED_EVENT``, ``CHANGED_EVENT``, ``DELETED_EVENT``), and the
path of the node."""
Undo = Callable[[], None]


class Txn(NamedTuple):
    """The properties that the leader gives to a write: its place in the order, its time and its
    session."""

    zxid: int
    time_ms: int
    session: int


class Znode:
    """One node.

    ``owner`` is the session of an ephemeral node, else 0. ``creations`` counts all children ever
    created. It numbers sequence nodes and determines ``cversion``.
    """

    __slots__ = (
        "children", "creations", "ctime", "czxid", "data", "mtime", "mzxid", "owner", "pzxid",
        "version",
    )  # fmt: skip

    def __init__(self, data: bytes | None, txn: Txn, owner: int) -> None:
        self.data = data
        self.czxid = self.mzxid = self.pzxid = txn.zxid
        self.ctime = self.mtime = txn.time_ms
        self.version = 0
        self.owner = owner
        self.creations = 0
        self.children: dict[str, None] = {}

    def stat(self) -> Any:
        """Return the stat of the node. ``cversion`` counts creations and removals of children."""
        count = len(self.children)
        return ZnodeStat(
            self.czxid, self.mzxid, self.ctime, self.mtime, self.version,
            2 * self.creations - count, 0, self.owner, len(self.data or b""), count, self.pzxid,
        )  # fmt: skip


class ZnodeTree:
    """All nodes by path, and the paths of the ephemeral nodes by session."""

    def __init__(self) -> None:
        self._nodes: dict[str, Znode] = {}
        self._ephemerals: dict[int, dict[str, None]] = {}
        for path in _SYSTEM:
            self._nodes[path] = Znode(b"", Txn(0, 0, 0), 0)
            if path != "/":
                parent, name = _split(path)
                self._nodes[parent].children[name] = None

    def read(self, request: Any) -> Any:
        """Answer a request that changes nothing.

        Raises:
            NoNodeError: The node does not exist (kazoo's error). ``Exists`` raises it, too.
        """
        kind = type(request)
        if kind is Sync:
            return request.path
        node = self._node(request.path)
        if kind is GetData:
            return node.data, node.stat()
        if kind is Exists:
            return node.stat()
        if kind is GetChildren:
            return list(node.children)
        if kind is GetChildren2:
            return list(node.children), node.stat()
        raise UnimplementedError

    def write(self, request: Any, txn: Txn) -> tuple[Any, list[Change]]:
        """Carry out one request as a whole or not at all, and return the answer and the changes.

        Raises:
            ZookeeperError: The request failed and changed nothing (kazoo's NodeExistsError and
                others). A transaction does not raise: its answer is a list that contains the
                errors.
        """
        changes: list[Change] = []
        if type(request) is Transaction:
            return self._transaction(request.operations, txn, changes), changes
        return self._carry_out(request, txn, changes)[0], changes

    def end_session(self, txn: Txn) -> list[Change]:
        """Remove the ephemeral nodes of the session in one transaction."""
        changes: list[Change] = []
        for path in tuple(self._ephemerals.get(txn.session, ())):
            self._delete(Delete(path, -1), txn, changes)
        return changes

    def peek(self, path: str) -> tuple[bytes | None, int]:
        """Return a node's data and version for an observer, or (None, -1) if it does not exist."""
        node = self._nodes.get(path)
        return (None, -1) if node is None else (node.data or b"", node.version)

    def owner(self, path: str) -> int:
        """Return the session of an ephemeral node for an observer, or 0 if there is none."""
        node = self._nodes.get(path)
        return 0 if node is None else node.owner

    def _node(self, path: str) -> Znode:
        node = self._nodes.get(path)
        if node is None:
            raise NoNodeError
        return node

    def _transaction(self, operations: list[Any], txn: Txn, changes: list[Change]) -> list[Any]:
        answers = []
        undo: list[Undo] = []
        for number, operation in enumerate(operations):
            try:
                answer, undone = self._carry_out(operation, txn, changes)
            except ZookeeperError as error:
                for step in reversed(undo):
                    step()
                changes.clear()
                later = len(operations) - number - 1
                return [
                    *(RolledBackError() for _ in range(number)),
                    error,
                    *(RuntimeInconsistency() for _ in range(later)),
                ]
            answers.append(answer)
            undo.append(undone)
        return answers

    def _carry_out(self, request: Any, txn: Txn, changes: list[Change]) -> tuple[Any, Undo]:
        kind = type(request)
        if kind is SetData:
            return self._set(request, txn, changes)
        if kind is CheckVersion:
            _check_version(self._node(request.path), request.version)
            return True, _nothing
        if kind is Delete:
            return True, self._delete(request, txn, changes)
        if kind is Create or kind is Create2:
            path, undo = self._create(request, txn, changes)
            return (path if kind is Create else (path, self._nodes[path].stat())), undo
        raise UnimplementedError

    def _set(self, request: Any, txn: Txn, changes: list[Change]) -> tuple[Any, Undo]:
        node = self._node(request.path)
        _check_version(node, request.version)
        undo = partial(_restore, node, node.data, node.version, node.mzxid, node.mtime)
        node.data = request.data
        node.version += 1
        node.mzxid, node.mtime = txn.zxid, txn.time_ms
        changes.append((CHANGED_EVENT, request.path))
        return node.stat(), undo

    def _create(self, request: Any, txn: Txn, changes: list[Change]) -> tuple[str, Undo]:
        path = request.path
        parent = self._node(_split(path)[0])
        if request.flags & SEQUENCE:
            path = f"{path}{parent.creations:010d}"
        if path in self._nodes:
            raise NodeExistsError
        if parent.owner:
            raise NoChildrenForEphemeralsError
        owner = txn.session if request.flags & EPHEMERAL else 0
        undo = partial(self._uncreate, path, parent, parent.pzxid)
        self._insert(path, Znode(request.data, txn, owner))
        parent.creations += 1
        parent.pzxid = txn.zxid
        changes.append((CREATED_EVENT, path))
        return path, undo

    def _uncreate(self, path: str, parent: Znode, pzxid: int) -> None:
        self._remove(path)
        parent.creations -= 1
        parent.pzxid = pzxid

    def _delete(self, request: Any, txn: Txn, changes: list[Change]) -> Undo:
        path = request.path
        if path in _SYSTEM:
            raise BadArgumentsError
        parent = self._node(_split(path)[0])
        node = self._node(path)
        _check_version(node, request.version)
        if node.children:
            raise NotEmptyError
        undo = partial(self._undelete, path, node, parent, parent.pzxid)
        self._remove(path)
        parent.pzxid = txn.zxid
        changes.append((DELETED_EVENT, path))
        return undo

    def _undelete(self, path: str, node: Znode, parent: Znode, pzxid: int) -> None:
        self._insert(path, node)
        parent.pzxid = pzxid

    def _insert(self, path: str, node: Znode) -> None:
        parent, name = _split(path)
        self._nodes[path] = node
        self._nodes[parent].children[name] = None
        if node.owner:
            self._ephemerals.setdefault(node.owner, {})[path] = None

    def _remove(self, path: str) -> None:
        parent, name = _split(path)
        node = self._nodes.pop(path)
        del self._nodes[parent].children[name]
        if node.owner:
            owned = self._ephemerals[node.owner]
            del owned[path]
            if not owned:
                del self._ephemerals[node.owner]


def _split(path: str) -> tuple[str, str]:
    """Return the path of the parent, and the name below it."""
    parent, _, name = path.rpartition("/")
    return parent or "/", name


def _check_version(node: Znode, expected: int) -> None:
    if expected not in (-1, node.version):
        raise BadVersionError


def _restore(node: Znode, data: bytes | None, version: int, mzxid: int, mtime: int) -> None:
    node.data, node.version, node.mzxid, node.mtime = data, version, mzxid, mtime


def _nothing() -> None:
    pass
