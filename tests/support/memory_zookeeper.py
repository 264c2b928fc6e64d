"""ZooKeeper in memory, for tests of what happens between two of its answers.

``MemoryZk`` is the broker's own client with everything above kazoo as it is; in kazoo's place is
``MemoryClient``, which is answered at once. A session ends when a test says so.
"""

import itertools
import uuid
from dataclasses import dataclass, replace

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.states import KazooState, KeeperState

from ackproof.broker.server.zk.kafka_zk import KafkaZk


@dataclass(frozen=True)
class Node:
    """A znode's data and stat."""

    data: bytes
    czxid: int
    mzxid: int
    ephemeralOwner: int  # noqa: N815 - ZooKeeper's word
    version: int = 0


class Answer:
    """What kazoo calls an async result; it is there already."""

    def __init__(self, value=None, exception=None):
        self.value = value
        self.exception = exception

    def successful(self):
        return self.exception is None

    def rawlink(self, completed):
        completed(self)


class MemoryZookeeper:
    """The nodes of one ensemble, and who watches them."""

    def __init__(self):
        self.nodes = {}
        self._zxid = 0
        self._session_ids = itertools.count(1)
        self._watches = {}

    @property
    def last_zxid(self):
        """The latest transaction."""
        return self._zxid

    def client(self, broker):
        """The ZooKeeper client of one broker: a KafkaZk."""
        return MemoryZk(self, broker)

    def new_session(self):
        return next(self._session_ids)

    def end_session(self, session_id):
        """Its ephemeral nodes go."""
        for path, node in list(self.nodes.items()):
            if node.ephemeralOwner == session_id:
                self.delete(path)

    def watch(self, kind, path, callback):
        if callback is not None:
            self._watches.setdefault((kind, path), []).append(callback)

    def children(self, path):
        below = path.rstrip("/") + "/"
        return [
            p[len(below) :]
            for p in self.nodes
            if p.startswith(below) and "/" not in p[len(below) :]
        ]

    def node(self, path, version=-1):
        if path not in self.nodes:
            raise NoNodeError
        if version not in (-1, self.nodes[path].version):
            raise BadVersionError
        return self.nodes[path]

    def create(self, path, data, owner=0):
        if path in self.nodes:
            raise NodeExistsError
        parent = path.rpartition("/")[0]
        if parent:
            self.node(parent)
        self._zxid += 1
        self.nodes[path] = Node(data, self._zxid, self._zxid, owner)
        self._changed(path, parent)
        return path

    def set(self, path, data, version=-1):
        old = self.node(path, version)
        self._zxid += 1
        self.nodes[path] = replace(old, data=data, mzxid=self._zxid, version=old.version + 1)
        self._changed(path)
        return self.nodes[path]

    def delete(self, path, version=-1):
        self.node(path, version)
        if self.children(path):
            raise NotEmptyError
        self._zxid += 1
        del self.nodes[path]
        self._changed(path, path.rpartition("/")[0])

    def _changed(self, path, parent=None):
        for key in (("node", path), ("children", parent)):
            for callback in self._watches.pop(key, ()):
                callback(None)


def _answered(operation):
    try:
        return Answer(operation())
    except KazooException as error:
        return Answer(exception=error)


class MemoryClient:
    """The part of kazoo's client that the broker uses."""

    client_state = KeeperState.CONNECTED

    def __init__(self, zookeeper):
        self._zookeeper = zookeeper
        self.client_id = None
        self._listener = None

    @property
    def last_zxid(self):
        """It is never behind."""
        return self._zookeeper.last_zxid

    def add_listener(self, listener):
        self._listener = listener

    def start_async(self):
        self.client_id = (self._zookeeper.new_session(), b"")
        self._listener(KazooState.CONNECTED)

    def expire(self):
        """Its session is over, and it knows. :meth:`start_async` begins the next one."""
        self._zookeeper.end_session(self.client_id[0])
        self._listener(KazooState.SUSPENDED)
        self._listener(KazooState.LOST)

    def stop(self):
        if self.client_id is not None:
            self._zookeeper.end_session(self.client_id[0])

    def close(self):
        pass

    def get_async(self, path, watch=None):
        def get():
            node = self._zookeeper.node(path)
            self._zookeeper.watch("node", path, watch)
            return node.data, node

        return _answered(get)

    def sync_async(self, path):
        return Answer(path)

    def exists_async(self, path, watch=None):
        self._zookeeper.watch("node", path, watch)
        return Answer(self._zookeeper.nodes.get(path))

    def get_children_async(self, path, watch=None, include_data=False):
        def get():
            self._zookeeper.node(path)
            self._zookeeper.watch("children", path, watch)
            names = self._zookeeper.children(path)
            return (names, self._zookeeper.nodes[path]) if include_data else names

        return _answered(get)

    def create_async(self, path, data=b"", *, ephemeral=False, sequence=False, include_data=False):
        def create():
            owner = self.client_id[0] if ephemeral else 0
            number = len(self._zookeeper.nodes)
            made = self._zookeeper.create(f"{path}{number:010}" if sequence else path, data, owner)
            return (made, self._zookeeper.nodes[made]) if include_data else made

        return _answered(create)

    def ensure_path_async(self, path):
        parts = path.strip("/").split("/")
        for above in ("/" + "/".join(parts[: n + 1]) for n in range(len(parts))):
            if above not in self._zookeeper.nodes:
                self._zookeeper.create(above, b"")
        return Answer(True)

    def set_async(self, path, data, version=-1):
        return _answered(lambda: self._zookeeper.set(path, data, version))

    def delete_async(self, path, version=-1):
        return _answered(lambda: self._zookeeper.delete(path, version))

    def transaction(self):
        return _Transaction(self._zookeeper, self.client_id[0])


class _Transaction:
    """All or nothing; watches hear of it as of single requests."""

    def __init__(self, zookeeper, session_id):
        self._zookeeper = zookeeper
        self._session_id = session_id
        self._operations = []

    def check(self, path, version):
        self._operations.append(lambda zk: zk.node(path, version) and True)

    def create(self, path, data=b"", *, ephemeral=False, sequence=False):
        owner = self._session_id if ephemeral else 0

        def create(zk):
            return zk.create(f"{path}{len(zk.nodes):010}" if sequence else path, data, owner)

        self._operations.append(create)

    def set_data(self, path, data, version=-1):
        self._operations.append(lambda zk: zk.set(path, data, version))

    def delete(self, path, version=-1):
        self._operations.append(lambda zk: zk.delete(path, version) or True)

    def commit_async(self):
        trial = MemoryZookeeper()
        trial.nodes = dict(self._zookeeper.nodes)
        for number, operation in enumerate(self._operations):
            try:
                operation(trial)
            except KazooException as error:
                after = len(self._operations) - number - 1
                rolled_back = [RolledBackError() for _ in range(number)]
                return Answer(
                    [*rolled_back, error, *(RuntimeInconsistency() for _ in range(after))]
                )
        return Answer([operation(self._zookeeper) for operation in self._operations])


class MemoryZk(KafkaZk):
    """A broker's ZooKeeper client over a :class:`MemoryZookeeper`."""

    def __init__(self, zookeeper, broker):
        ids = itertools.count(broker << 64)
        super().__init__(
            "memory:1", 6_000, now_ms=lambda: 0, new_uuid=lambda: uuid.UUID(int=next(ids))
        )
        self.client = MemoryClient(zookeeper)
        self.session._client = self.client

    def expire(self):
        """The session ends, and another begins when a test says :meth:`renew`."""
        self.client.expire()

    def renew(self):
        self.client.start_async()
