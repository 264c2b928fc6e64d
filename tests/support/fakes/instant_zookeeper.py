"""ZooKeeper whose answers are there at once, for tests of what happens between two of them.

The znodes are the simulation's (:mod:`simulation.zookeeper.znodes`). ``KafkaZk`` is the broker's
own client; in the place of kazoo it gets an :class:`InstantClient`. A session ends when a test says
so.
"""

import itertools
import uuid
from typing import Any, NamedTuple

from kazoo.exceptions import KazooException, NoNodeError
from kazoo.protocol.connection import CREATED_EVENT, DELETED_EVENT
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
    Transaction,
)
from kazoo.protocol.states import KazooState, KeeperState

from ackproof.broker.server.zk.kafka_zk import KafkaZk
from simulation.zookeeper.znodes import EPHEMERAL, SEQUENCE, WRITES, Txn, ZnodeTree

SESSION_MS = 6_000


class Node(NamedTuple):
    """A znode's data and the part of its stat that tests look at."""

    data: bytes
    czxid: int
    version: int
    owner: int


class Answer:
    """The result of an asynchronous kazoo request; it is complete already."""

    def __init__(self, value=None, exception=None):
        self.value = value
        self.exception = exception

    def successful(self):
        return self.exception is None

    def rawlink(self, completed):
        completed(self)


class InstantZookeeper:
    """The znodes of one ensemble, and the watches on them."""

    def __init__(self):
        self.last_zxid = 0
        self._tree = ZnodeTree()
        self._session_ids = itertools.count(1)
        self._watches = {}

    def client(self, broker):
        """Return the ZooKeeper client of one broker."""
        ids = itertools.count(broker << 64)
        return InstantZk(
            "memory:1",
            SESSION_MS,
            now_ms=lambda: 0,
            new_uuid=lambda: uuid.UUID(int=next(ids)),
            client=lambda _connect, _timeout_ms: InstantClient(self),
        )

    def node(self, path):
        """Return the :class:`Node` at ``path``, or None."""
        try:
            data, stat = self._tree.read(GetData(path, None))
        except NoNodeError:
            return None
        return Node(data, stat.czxid, stat.version, stat.ephemeralOwner)

    def create(self, path, data):
        self.ask(Create(path, data, None, 0))

    def set(self, path, data):
        self.ask(SetData(path, data, -1))

    def delete(self, path):
        self.ask(Delete(path, -1))

    def new_session(self):
        return next(self._session_ids)

    def end_session(self, session):
        """Remove the ephemeral nodes of a session."""
        self.last_zxid += 1
        self._fire(self._tree.end_session(Txn(self.last_zxid, 0, session)))

    def ask(self, request, session=0):
        """Carry out one of kazoo's requests; raise kazoo's error when ZooKeeper refuses it."""
        watcher = getattr(request, "watcher", None)
        if type(request) is Exists and watcher is not None:
            self._watch(request, watcher)
        if type(request) not in WRITES:
            answer = self._tree.read(request)
            if type(request) is not Exists and watcher is not None:
                self._watch(request, watcher)
            return answer
        self.last_zxid += 1
        answer, changes = self._tree.write(request, Txn(self.last_zxid, 0, session))
        self._fire(changes)
        return answer

    def _watch(self, request, watcher):
        kind = "children" if isinstance(request, GetChildren | GetChildren2) else "data"
        self._watches.setdefault((kind, request.path), []).append(watcher)

    def _fire(self, changes):
        for event, path in changes:
            keys = [("data", path)]
            if event == DELETED_EVENT:
                keys.append(("children", path))
            if event in (CREATED_EVENT, DELETED_EVENT):
                keys.append(("children", path.rpartition("/")[0] or "/"))
            for key in keys:
                for watcher in self._watches.pop(key, ()):
                    watcher(None)


class InstantClient:
    """The part of kazoo's client that the broker uses."""

    client_state = KeeperState.CONNECTED

    def __init__(self, zookeeper):
        self._zookeeper = zookeeper
        self.client_id = None
        self._listener = None

    @property
    def last_zxid(self):
        """The latest transaction: this client is never behind."""
        return self._zookeeper.last_zxid

    def add_listener(self, listener):
        self._listener = listener

    def start_async(self):
        self.client_id = (self._zookeeper.new_session(), b"")
        self._listener(KazooState.CONNECTED)

    def expire(self):
        """End the session, as its client notices. :meth:`start_async` begins the next one."""
        self._zookeeper.end_session(self.client_id[0])
        self._listener(KazooState.SUSPENDED)
        self._listener(KazooState.LOST)

    def stop(self):
        if self.client_id is not None:
            self._zookeeper.end_session(self.client_id[0])

    def close(self):
        pass

    def ask(self, request):
        try:
            return Answer(self._zookeeper.ask(request, self.client_id[0]))
        except KazooException as error:
            return Answer(exception=error)

    def get_async(self, path, watch=None):
        return self.ask(GetData(path, watch))

    def sync_async(self, path):
        return Answer(path)

    def exists_async(self, path, watch=None):
        answer = self.ask(Exists(path, watch))
        return Answer() if isinstance(answer.exception, NoNodeError) else answer

    def get_children_async(self, path, watch=None, include_data=False):
        return self.ask((GetChildren2 if include_data else GetChildren)(path, watch))

    def create_async(self, path, data=b"", *, ephemeral=False, sequence=False, include_data=False):
        kind = Create2 if include_data else Create
        return self.ask(kind(path, data, None, _flags(ephemeral, sequence)))

    def ensure_path_async(self, path):
        parts = path.strip("/").split("/")
        for above in ("/" + "/".join(parts[: n + 1]) for n in range(len(parts))):
            if self._zookeeper.node(above) is None:
                self._zookeeper.create(above, b"")
        return Answer(True)

    def set_async(self, path, data, version=-1):
        return self.ask(SetData(path, data, version))

    def delete_async(self, path, version=-1):
        return self.ask(Delete(path, version))

    def transaction(self):
        return InstantTransaction(self)


class InstantTransaction:
    """Several requests, of which all are carried out or none."""

    def __init__(self, client):
        self._client = client
        self._operations: list[Any] = []

    def check(self, path, version):
        self._operations.append(CheckVersion(path, version))

    def create(self, path, data=b"", *, ephemeral=False, sequence=False):
        self._operations.append(Create(path, data, None, _flags(ephemeral, sequence)))

    def set_data(self, path, data, version=-1):
        self._operations.append(SetData(path, data, version))

    def delete(self, path, version=-1):
        self._operations.append(Delete(path, version))

    def commit_async(self):
        return self._client.ask(Transaction(self._operations))


class InstantZk(KafkaZk):
    """A broker's ZooKeeper client over an :class:`InstantZookeeper`."""

    def __init__(self, *args, client, **kwargs):
        def remembered(connect, session_timeout_ms):
            self.client = client(connect, session_timeout_ms)
            return self.client

        super().__init__(*args, client=remembered, **kwargs)

    def expire(self):
        """End the session. Another one begins when a test calls :meth:`renew`."""
        self.client.expire()

    def renew(self):
        self.client.start_async()


def _flags(ephemeral, sequence):
    return (EPHEMERAL if ephemeral else 0) | (SEQUENCE if sequence else 0)
