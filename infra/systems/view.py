"""The cluster by ZooKeeper's data, in the znodes that Kafka uses.

The znodes may also be those by which the leaders of partitions coordinate themselves (*Design V2*,
"Paths stored in Zookeeper"). There a topic's znode does not hold its assignment, and each partition
has three of its own.

The view is read without a lock: a change during the reading may be seen in part. Requests are sent
together, so that a view takes three or four round trips, however many partitions there are.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.interfaces import IAsyncResult
from kazoo.protocol.states import WatchedEvent, ZnodeStat
from kazoo.retry import KazooRetry

from ackproof.infra.api.interface import ClusterView, PartitionView, ViewUnavailable

BROKERS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
_OF_A_LEADER = ("replicas", "leader", "ISR")
"""The znodes below ``/brokers/topics/T/P`` where leaders coordinate themselves."""

Watch = Callable[[WatchedEvent], None]
Znode = tuple[bytes, ZnodeStat]
_CONNECTED_WITHIN_S = 2.0


def connect(
    zookeeper_connect: str, session_timeout_s: float = 6.0, within_s: float = _CONNECTED_WITHIN_S
) -> KazooClient:
    """Return a client that keeps trying to connect until it is closed.

    The function waits for the connection for at most ``within_s`` seconds, and may return without
    one.
    """
    client = unconnected(zookeeper_connect, session_timeout_s)
    # Before its first connection, the client answers requests as if it were closed.
    client.start_async().wait(within_s)
    return client


def unconnected(
    zookeeper_connect: str, session_timeout_s: float, identity: tuple[int, bytes] | None = None
) -> KazooClient:
    """Return a client that keeps trying to connect once it is started.

    ``identity`` is the id and password of a session that it continues.
    """
    return KazooClient(
        hosts=zookeeper_connect,
        timeout=session_timeout_s,
        client_id=identity,
        connection_retry=KazooRetry(max_tries=-1, delay=0.05, backoff=1.5, max_delay=0.5),
    )


def disconnect(client: KazooClient) -> None:
    """End the session and the client's threads."""
    client.stop()
    client.close()


class ViewReader:
    """A reader of views by one long-lived client, which belongs to the caller.

    Args:
        timeout: The time in seconds after which a view counts as unavailable.
        watch: Called once after anything that was read has changed; None for no watches.
    """

    def __init__(self, client: KazooClient, timeout: float, watch: Watch | None = None) -> None:
        self._client = client
        self._timeout = timeout
        self._watch = watch
        self._watched: set[tuple[str, str]] = set()

    @property
    def watches(self) -> int:
        """Return the number of watches in ZooKeeper after :meth:`read`, until the first of them
        fires.

        ZooKeeper keeps one of each kind for a session and a path, however often it is requested.
        """
        return len(self._watched)

    def read(self) -> ClusterView:
        """Read a view. Raises ViewUnavailable."""
        deadline = monotonic() + self._timeout
        self._watched = set()
        brokers, topics = self._all(self._children, [BROKERS, TOPICS], deadline)
        broker_paths = [f"{BROKERS}/{broker}" for broker in brokers or ()]
        topic_paths = [f"{TOPICS}/{topic}" for topic in topics or ()]
        paths = [CONTROLLER, CONTROLLER_EPOCH, *broker_paths, *topic_paths]
        found = dict(zip(paths, self._all(self._data, paths, deadline), strict=True))
        controller, epoch = found[CONTROLLER], found[CONTROLLER_EPOCH]
        return ClusterView(
            brokers={
                int(path.rpartition("/")[2]): znode[1].ephemeralOwner
                for path in broker_paths
                if (znode := found[path]) is not None
            },
            controller=None if controller is None else int(_json(controller)["brokerid"]),
            controller_epoch=0 if epoch is None else int(epoch[0]),
            partitions=self._partitions({p: z for p in topic_paths if (z := found[p])}, deadline),
        )

    def _partitions(
        self, topics: Mapping[str, Znode], deadline: float
    ) -> dict[tuple[str, int], PartitionView]:
        assigned = {path: found for path, znode in topics.items() if (found := _assignment(znode))}
        others = [path for path in topics if path not in assigned]
        views = [*self._by_controller(assigned, deadline), *self._by_leaders(others, deadline)]
        return {(view.topic, view.partition): view for view in views}

    def _by_controller(
        self, topics: Mapping[str, Mapping[str, Sequence[int]]], deadline: float
    ) -> Iterator[PartitionView]:
        assigned = [
            (path, int(partition), tuple(replicas))
            for path, partitions in topics.items()
            for partition, replicas in partitions.items()
        ]
        paths = [f"{topic}/partitions/{partition}/state" for topic, partition, _ in assigned]
        states = self._all(self._data, paths, deadline)
        for (topic, partition, replicas), state in zip(assigned, states, strict=True):
            yield _partition(_name(topic), partition, replicas, state)

    def _by_leaders(self, topics: Sequence[str], deadline: float) -> Iterator[PartitionView]:
        children = self._all(self._children, topics, deadline)
        partitions = [
            (topic, int(child))
            for topic, names in zip(topics, children, strict=True)
            for child in names or ()
            if child.isdecimal()
        ]
        paths = [f"{topic}/{n}/{kind}" for topic, n in partitions for kind in _OF_A_LEADER]
        found = iter(self._all(self._data, paths, deadline))
        for (topic, number), znodes in zip(
            partitions, zip(found, found, found, strict=True), strict=True
        ):
            yield _led(_name(topic), number, *znodes)

    def _all(
        self, request: Callable[[str], IAsyncResult], paths: Sequence[str], deadline: float
    ) -> list[Any]:
        """Return the answers for ``paths``, with None for a znode that does not exist."""
        try:
            return [
                self._answer(path, result, deadline)
                for path, result in [(path, request(path)) for path in paths]
            ]
        except (KazooException, self._client.handler.timeout_exception) as error:
            raise ViewUnavailable(
                f"ZooKeeper did not answer within {self._timeout:g} s: {error!r}"
            ) from error

    def _answer(self, path: str, result: IAsyncResult, deadline: float) -> Any:
        try:
            return result.get(timeout=max(0.0, deadline - monotonic()))
        except NoNodeError:
            self._watched.discard(("children", path))
            self._await_creation(path, deadline)
            return None

    def _await_creation(self, path: str, deadline: float) -> None:
        # A watch set by reading needs a znode. The wait for a new znode is a watch of its own.
        if self._watch is None:
            return
        self._watched.add(("data", path))
        exists = self._client.exists_async(path, watch=self._watch)
        if exists.get(timeout=max(0.0, deadline - monotonic())) is not None:
            self._watch(WatchedEvent("CREATED", self._client.state, path))

    def _children(self, path: str) -> IAsyncResult:
        return self._client.get_children_async(path, watch=self._on("children", path))

    def _data(self, path: str) -> IAsyncResult:
        return self._client.get_async(path, watch=self._on("data", path))

    def _on(self, kind: str, path: str) -> Watch | None:
        if self._watch is not None:
            self._watched.add((kind, path))
        return self._watch


def topic_config(client: KazooClient, topic: str, timeout_s: float) -> Mapping[str, str]:
    """Return the topic's own settings. Raises ViewUnavailable."""
    settings: Mapping[str, str] = (znode(client, f"/config/topics/{topic}", timeout_s) or {}).get(
        "config", {}
    )
    return settings


def znode(client: KazooClient, path: str, timeout_s: float) -> dict[str, Any] | None:
    """Return the content of a znode with a JSON object; None if there is no such znode.

    Raises ViewUnavailable.
    """
    try:
        content, _ = client.get_async(path).get(timeout=timeout_s)
    except NoNodeError:
        return None
    except (KazooException, client.handler.timeout_exception) as error:
        raise ViewUnavailable(f"the znode {path}: {error!r}") from error
    found: dict[str, Any] = json.loads(content)
    return found


def _partition(
    topic: str, partition: int, replicas: tuple[int, ...], state: Znode | None
) -> PartitionView:
    """Return the view of a partition.

    Before the controller has written the state, it has no leader, and epochs of -1.
    """
    written = {} if state is None else _json(state)
    return PartitionView(
        topic=topic,
        partition=partition,
        leader=written.get("leader", -1),
        isr=tuple(written.get("isr", ())),
        replicas=replicas,
        leader_epoch=written.get("leader_epoch", -1),
        controller_epoch=written.get("controller_epoch", -1),
        version=None if state is None else state[1].version,
    )


def _led(
    topic: str, partition: int, replicas: Znode | None, leader: Znode | None, isr: Znode | None
) -> PartitionView:
    """Return the view of a partition with a leader's own znodes.

    A leader's claim may exist before its epoch (-1). The latest epoch that is written counts.
    """
    claim, in_sync = ({} if znode is None else _json(znode) for znode in (leader, isr))
    assigned = {} if replicas is None else _json(replicas)
    return PartitionView(
        topic=topic,
        partition=partition,
        leader=claim.get("leader", -1),
        isr=tuple(in_sync.get("isr", ())),
        replicas=tuple(assigned.get("replicas", ())),
        leader_epoch=max(one.get("leader_epoch", -1) for one in (claim, in_sync)),
        controller_epoch=-1,
        version=None if isr is None else isr[1].version,
    )


def _assignment(znode: Znode) -> Mapping[str, Sequence[int]] | None:
    """Return the assignment in a controller's topic; None for a topic of the other kind."""
    found: Mapping[str, Sequence[int]] | None = _json(znode).get("partitions") if znode[0] else None
    return found


def _name(topic_path: str) -> str:
    return topic_path.rpartition("/")[2]


def _json(znode: Znode) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(znode[0])
    return content
