"""The operations in ZooKeeper of every broker: register, read, create topics, write ISRs.

:mod:`broker.server.zk.controller_zk` has those of the controller alone. Sessions, retries and
fencing are in :mod:`broker.server.zk.session`, paths and JSON in :mod:`broker.server.zk.znodes`. A
node that cannot be parsed counts as absent (:mod:`broker.server.zk.znodes`).
"""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, RolledBackError

from ackproof.broker.controller.cluster import (
    BrokerInfo,
    LiveBroker,
    PartitionState,
    ReplicaAssignment,
    TopicAssignment,
)
from ackproof.broker.server.schedule import Clock
from ackproof.broker.server.zk import isr_write, znodes
from ackproof.broker.server.zk.isr_write import IsrWriteResult
from ackproof.broker.server.zk.session import (
    Callback,
    ClientFactory,
    SessionNumber,
    ZkError,
    ZkSession,
    kazoo_client,
)
from ackproof.broker.server.zk.znodes import understood
from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition, ZkVersion
from ackproof.broker.wire.uuids import encode_uuid

logger = logging.getLogger(__name__)

SYSTEM_CLOCK = Clock()


class TopicExists(ZkError):
    """A topic of that name exists already."""


class UnknownTopic(ZkError):
    """A topic that does not exist."""


class BrokerIdInUse(ZkError):
    """A broker at another address that is registered with our ``broker.id``."""


class KafkaZk:
    """One broker's view of ZooKeeper.

    Watches given to reading methods are called once, in the loop, when something changed or when
    the connection broke (then something may have changed unseen). Reads wait out a lost connection
    and even an expired session. Writes raise SessionExpired when theirs ends.

    Args:
        connect: ``zookeeper.connect``.
        session_timeout_ms: ``zookeeper.session.timeout.ms``.
        connection_timeout_ms: ``zookeeper.connection.timeout.ms``; None: the session timeout, as in
            Kafka.
        now_ms: clock for the timestamps in znodes.
        new_uuid: source of cluster and topic ids.
        client: creates the ZooKeeper client.
    """

    def __init__(
        self,
        connect: str,
        session_timeout_ms: int,
        *,
        connection_timeout_ms: int | None = None,
        now_ms: Callable[[], int] = SYSTEM_CLOCK.wall_ms,
        new_uuid: Callable[[], uuid.UUID] = uuid.uuid4,
        client: ClientFactory = kazoo_client,
    ) -> None:
        self.session = ZkSession(connect, session_timeout_ms, client)
        self.now_ms = now_ms
        self._connection_timeout_ms = connection_timeout_ms or session_timeout_ms
        self.new_uuid = new_uuid

    async def start(self) -> None:
        """Connect, and create Kafka's persistent nodes where they are missing.

        Raises:
            ZkConnectionTimeout: no connection in time; nothing is left running.
        """
        await self.session.start(self._connection_timeout_ms)
        for path in znodes.PERSISTENT:
            await self.session.ensure(path)

    async def close(self) -> None:
        """End the session: this broker's ephemeral nodes vanish at once."""
        await self.session.close()

    def on_session_expired(self, callback: Callback) -> None:
        """Call ``callback`` in the loop when the session is over (ephemeral nodes are gone)."""
        self.session.expired_callbacks.append(callback)

    def on_session_established(self, callback: Callback) -> None:
        """Call ``callback`` in the loop when a new session replaces an expired one."""
        self.session.established_callbacks.append(callback)

    def on_disconnected(self, callback: Callback) -> None:
        """Call ``callback`` in the loop when the connection broke. The session may be alive."""
        self.session.disconnected_callbacks.append(callback)

    # --- the cluster ------------------------------------------------------------------------

    async def cluster_id(self) -> str:
        """Return the cluster's id, which the first broker that asks creates."""
        await self.session.ensure("/cluster")
        fresh = encode_uuid(self.new_uuid())
        data = znodes.encode({"version": "1", "id": fresh})
        with contextlib.suppress(NodeExistsError):
            await self.session.request(lambda c: c.create_async(znodes.CLUSTER_ID, data))
        stored, _ = await self.session.request(lambda c: c.get_async(znodes.CLUSTER_ID))
        return str(znodes.decode(znodes.CLUSTER_ID, stored)["id"])

    async def register_broker(self, info: BrokerInfo) -> int:
        """Create ``/brokers/ids/N``, and return the broker epoch (the node's czxid).

        If a former session of this broker left a node, wait until ZooKeeper removes it (*Failover*,
        "conflicted ephemeral node"). If the node counted as ours, the broker would consider itself
        registered and not be.

        Raises:
            BrokerIdInUse: the node names another address than ours.
            SessionExpired: this session ended meanwhile; register again in the next one.
        """
        path = znodes.broker_id(info.broker_id)
        session = self.session.number
        epoch = None
        while epoch is None:
            data = znodes.encode_broker(info, self.now_ms())
            try:
                epoch = await self.session.create(path, data, session, ephemeral=True)
            except NodeExistsError:
                epoch = await self._wait_for_conflicted_node(path, info, session)
        logger.info("registered broker %d, epoch %d", info.broker_id, epoch)
        return epoch

    async def _wait_for_conflicted_node(
        self, path: str, info: BrokerInfo, session: SessionNumber
    ) -> int | None:
        """Return the epoch when the node is this session's own, or None once a former session's is
        gone."""
        gone = asyncio.Event()
        watch = self.session.watch(gone.set)
        try:
            data, stat = await self.session.request(lambda c: c.get_async(path, watch), session)
        except NoNodeError:
            return None
        if stat.ephemeralOwner == self.session.session_id:
            return int(stat.czxid)
        other = znodes.decode_broker(info.broker_id, data)
        if other.endpoints != info.endpoints:
            raise BrokerIdInUse(
                f"broker.id={info.broker_id} is registered by a broker at {other.endpoints}; "
                f"give this one (at {info.endpoints}) another broker.id"
            )
        logger.warning(
            "I wrote this conflicted ephemeral node [%s] at %s a while back in a different session "
            "(0x%x), hence I will backoff for this node to be deleted by Zookeeper and retry",
            data.decode(errors="replace"),
            path,
            stat.ephemeralOwner,
        )
        await gone.wait()
        return None

    async def live_brokers(self, watch: Callback | None = None) -> dict[BrokerId, LiveBroker]:
        """Return the registered brokers. ``watch`` is called when some come or go."""
        names = await self.session.children(znodes.BROKER_IDS, watch)
        ids = [understood(znodes.decode_broker_id, name) for name in sorted(names)]
        found = await asyncio.gather(*(self._live_broker(i) for i in ids if i is not None))
        return {broker.info.broker_id: broker for broker in found if broker is not None}

    async def _live_broker(self, broker: BrokerId) -> LiveBroker | None:
        node = await self.session.get(znodes.broker_id(broker))
        if node is None:
            return None
        data, stat = node
        info = understood(znodes.decode_broker, broker, data)
        return None if info is None else LiveBroker(info=info, epoch=stat.czxid)

    async def controller(self, watch: Callback | None = None) -> BrokerId | None:
        """Return the broker that holds ``/controller``, or None when there is none."""
        armed = self.session.watch(watch)
        path = znodes.CONTROLLER
        if await self.session.request(lambda c: c.exists_async(path, armed)) is None:
            return None
        node = await self.session.get(path)
        return None if node is None else understood(znodes.decode_controller, node[0])

    # --- topics -----------------------------------------------------------------------------

    async def topics(self, watch: Callback | None = None) -> set[str]:
        """Return the names of all topics. ``watch`` is called when some come or go."""
        return set(await self.session.children(znodes.TOPICS, watch))

    async def has_topic(self, topic: str) -> bool:
        """Return whether there is such a topic."""
        return await self.session.get(znodes.topic(topic)) is not None

    async def topic_assignments(
        self, topics: Iterable[str], watch: Callback | None = None
    ) -> dict[str, TopicAssignment]:
        """Return the assignments of those topics that exist. ``watch`` is called when one
        changes."""
        names = sorted(set(topics))
        nodes = await asyncio.gather(*(self.session.get(znodes.topic(n), watch) for n in names))
        found = {
            name: understood(znodes.decode_topic, name, node[0])
            for name, node in zip(names, nodes, strict=True)
            if node is not None
        }
        return {name: assignment for name, assignment in found.items() if assignment is not None}

    async def partition_count(self, topic: str) -> int:
        """Return how many partitions ``topic`` has, or 0 if there is no such topic."""
        found = (await self.topic_assignments([topic])).get(topic)
        return len(found.partitions) if found else 0

    async def partition_states(
        self, tps: Iterable[TopicPartition]
    ) -> dict[TopicPartition, PartitionState]:
        """Return the states of those partitions that have one."""
        wanted = sorted(set(tps))
        nodes = await asyncio.gather(
            *(self.session.get(znodes.partition_state(tp)) for tp in wanted)
        )
        found = {
            tp: understood(znodes.decode_state, tp, node[0], node[1].version, node[1].mzxid)
            for tp, node in zip(wanted, nodes, strict=True)
            if node is not None
        }
        return {tp: state for tp, state in found.items() if state is not None}

    async def create_topic(
        self,
        topic: str,
        assignment: Mapping[int, Sequence[int]],
        config: Mapping[str, str],
    ) -> None:
        """Write config and assignment. The controller sees the new node and does the rest.

        Args:
            assignment: replicas by partition, the preferred one first.

        Raises:
            TopicExists: also when another broker was faster.
            SessionExpired: unknown whether the topic was created.
        """
        session = self.session.number
        if await self.has_topic(topic):
            raise TopicExists(f"topic {topic} exists already")
        parts = {
            p: ReplicaAssignment(replicas=tuple(map(BrokerId, ids)))
            for p, ids in assignment.items()
        }
        created = TopicAssignment(topic_id=self.new_uuid(), partitions=parts)
        while not await self._created(topic, created, config, session):
            pass  # an earlier topic's settings changed meanwhile

    async def _created(
        self,
        topic: str,
        created: TopicAssignment,
        config: Mapping[str, str],
        session: SessionNumber,
    ) -> bool:
        """Write settings and topic in one transaction. Otherwise an automatic creation that comes
        too late for the topic would replace the settings of the existing one. Its
        ``min.insync.replicas`` would then differ from what its creator was told."""
        path, data = znodes.topic_config(topic), znodes.encode_config(config)
        left = await self.session.get(path)

        def submit(client: KazooClient) -> Any:
            transaction = client.transaction()
            transaction.create(znodes.topic(topic), znodes.encode_topic(created))
            if left is None:
                transaction.create(path, data)
            else:
                transaction.set_data(path, data, version=left[1].version)
            return transaction.commit_async()

        made, _ = await self.session.request(submit, session)
        if isinstance(made, NodeExistsError):
            stored = (await self.topic_assignments([topic])).get(topic)
            if stored is None or stored.topic_id != created.topic_id:
                raise TopicExists(f"topic {topic} exists already")
        elif isinstance(made, Exception) and not isinstance(made, RolledBackError):
            raise made
        return not isinstance(made, RolledBackError)

    async def add_partitions(self, topic: str, added: Mapping[int, Sequence[int]]) -> None:
        """Give ``topic`` further partitions. The existing ones do not change.

        Raises:
            UnknownTopic: no such topic.
            SessionExpired: unknown whether they were added.
        """
        session = self.session.number
        path = znodes.topic(topic)
        while True:
            node = await self.session.get(path)
            old = None if node is None else understood(znodes.decode_topic, topic, node[0])
            if node is None or old is None:
                raise UnknownTopic(f"topic {topic} does not exist")
            new = {p: ReplicaAssignment(replicas=tuple(map(BrokerId, r))) for p, r in added.items()}
            data = znodes.encode_topic(
                TopicAssignment(topic_id=old.topic_id, partitions={**new, **old.partitions})
            )
            with contextlib.suppress(BadVersionError):
                await self.session.set(path, data, node[1].version, session)
                return

    async def is_being_deleted(self, topic: str) -> bool:
        """Return whether ``topic`` is marked for deletion."""
        return await self.session.get(f"{znodes.DELETE_TOPICS}/{topic}") is not None

    async def delete_topic(self, topic: str) -> None:
        """Mark ``topic`` for deletion. The controller deletes it.

        Raises:
            UnknownTopic: no such topic.
        """
        if not await self.has_topic(topic):
            raise UnknownTopic(f"topic {topic} does not exist")
        with contextlib.suppress(NodeExistsError):
            path = f"{znodes.DELETE_TOPICS}/{topic}"
            await self.session.create(path, b"", self.session.number)

    # --- ISR --------------------------------------------------------------------------------

    async def write_isr(
        self,
        tp: TopicPartition,
        *,
        leader: BrokerId,
        leader_epoch: LeaderEpoch,
        controller_epoch: ControllerEpoch,
        isr: Sequence[BrokerId],
        zk_version: ZkVersion,
        again: bool = False,
    ) -> IsrWriteResult:
        """Write a leader's new ISR if the state is still at ``zk_version``.

        If the connection broke, the first attempt may have been carried out unseen, and the second
        one then fails by version. The stored state is therefore read and compared, as in Kafka
        (``checkLeaderAndIsrZkData``). At a later version the same content is another write's.
        ``again`` says that this is a second attempt of a write whose outcome was UNKNOWN.
        """
        return await isr_write.write_isr(
            self.session,
            tp,
            leader=leader,
            leader_epoch=leader_epoch,
            controller_epoch=controller_epoch,
            isr=isr,
            zk_version=zk_version,
            again=again,
        )

    async def notify_isr_change(self, tps: Iterable[TopicPartition]) -> None:
        """Announce ISRs that this broker has written to the controller."""
        path, data = f"{znodes.ISR_CHANGES}/isr_change_", znodes.encode_partitions(tps)
        await self.session.request(
            lambda c: c.create_async(path, data, sequence=True), self.session.number
        )
