"""The operations in ZooKeeper of every broker: register, read, create topics, write ISRs.

:mod:`broker.server.zk.controller_zk` has those of the controller alone. Sessions, retries and
fencing are in :mod:`broker.server.zk.session`, paths and JSON in :mod:`broker.server.zk.znodes`. A
node that cannot be parsed counts as absent (:mod:`broker.server.zk.znodes`).
"""

import asyncio
import contextlib
import enum
import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
)

from ackproof.broker.controller.cluster import (
    BrokerInfo,
    LiveBroker,
    PartitionState,
    ReplicaAssignment,
    TopicAssignment,
)
from ackproof.broker.server.schedule import Clock
from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.session import (
    Callback,
    ClientFactory,
    SessionExpired,
    SessionNumber,
    ZkError,
    ZkSession,
    kazoo_client,
)
from ackproof.broker.server.zk.znodes import understood
from ackproof.broker.types import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    ProducerId,
    TopicPartition,
    ZkVersion,
)
from ackproof.broker.wire.uuids import encode_uuid

# --- ISR ------------------------------------------------------------------------------------------
#
# The write of a leader's new ISR into the partition's state.
#
# Beside the ISR stands the broker epoch of each member (as in KIP-903's ``NewIsrWithEpochs``). It
# shows a new controller which members were down since. A leader does not know its followers'
# registrations. A broker that stays in the ISR keeps the stored epoch, whatever happened to it
# meanwhile. For a broker that joins, the present epoch is looked up.


NEVER_TRUSTED = 0
"""A stand-in for a broker epoch, earlier than any."""


class IsrWriteOutcome(enum.Enum):
    """The outcome of a write of a partition state."""

    WRITTEN = enum.auto()
    CONFLICT = enum.auto()
    """It was certainly not written: the node has another version, or is gone."""
    UNKNOWN = enum.auto()
    """The session ended before ZooKeeper answered, or its server lags."""


@dataclass(frozen=True, slots=True)
class IsrWriteResult:
    """The result of a write. ``zk_version`` is the node's new version when WRITTEN, else None."""

    outcome: IsrWriteOutcome
    zk_version: ZkVersion | None = None


async def write_isr(
    session: ZkSession,
    tp: TopicPartition,
    *,
    leader: BrokerId,
    leader_epoch: LeaderEpoch,
    controller_epoch: ControllerEpoch,
    isr: Sequence[BrokerId],
    zk_version: ZkVersion,
    again: bool,
) -> IsrWriteResult:
    """Write an ISR; see :meth:`broker.server.zk.kafka_zk.KafkaZk.write_isr`."""
    number, path = session.number, znodes.partition_state(tp)
    try:
        stored = await _stored(session, tp, number)
        if stored is None or stored.zk_version < zk_version:
            # This server of ZooKeeper lags behind the one that the controller wrote to. A conflict
            # would leave the leader's proposal pending until the controller's next LeaderAndIsr.
            # That may never come, because nothing has changed.
            await session.sync(path, number)
            stored = await _stored(session, tp, number)
        if stored is not None and stored.zk_version == zk_version:
            data = znodes.encode_state(
                leader=leader,
                leader_epoch=leader_epoch,
                controller_epoch=controller_epoch,
                isr=isr,
                broker_epochs=await _broker_epochs(session, isr, stored, number, again=again),
            )
            with contextlib.suppress(BadVersionError, NoNodeError):
                version = await session.set(path, data, zk_version, number)
                return IsrWriteResult(IsrWriteOutcome.WRITTEN, version)
            stored = await _stored(session, tp, number)
    except SessionExpired:
        return IsrWriteResult(IsrWriteOutcome.UNKNOWN)
    ours = (leader, leader_epoch, controller_epoch, tuple(isr), zk_version + 1)
    if stored is not None and _content(stored) == ours:
        return IsrWriteResult(IsrWriteOutcome.WRITTEN, stored.zk_version)
    return IsrWriteResult(IsrWriteOutcome.CONFLICT)


def _content(state: PartitionState) -> tuple[object, ...]:
    return (state.leader, state.leader_epoch, state.controller_epoch, state.isr, state.zk_version)


async def _stored(
    session: ZkSession, tp: TopicPartition, number: SessionNumber
) -> PartitionState | None:
    path = znodes.partition_state(tp)
    try:
        data, stat = await session.request(lambda c: c.get_async(path), number)
        return znodes.decode_state(tp, data or b"", stat.version, stat.mzxid)
    except (NoNodeError, znodes.MalformedNode):
        return None


async def _broker_epochs(
    session: ZkSession,
    isr: Sequence[BrokerId],
    stored: PartitionState,
    number: SessionNumber,
    *,
    again: bool,
) -> Mapping[BrokerId, int]:
    """Return the broker epoch under which each member of ``isr`` is in it.

    A broker that joins has fetched a moment ago, in this session. To lose power, have its own
    session expire and register again takes longer. This does not hold for a second attempt in
    another session. The broker that fetched then may have had an earlier registration than the
    present one.
    """
    joining = [member for member in isr if member not in stored.isr]
    looked_up = {
        member: NEVER_TRUSTED if again else await _broker_epoch(session, member, number)
        for member in joining
    }
    return {member: stored.trusted_up_to(member) for member in stored.isr} | looked_up


async def _broker_epoch(session: ZkSession, broker: BrokerId, number: SessionNumber) -> int:
    path = znodes.broker_id(broker)
    try:
        _, stat = await session.request(lambda c: c.get_async(path), number)
    except NoNodeError:
        return NEVER_TRUSTED
    return int(stat.czxid)


# --- brokers and topics ---------------------------------------------------------------------------


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
        return await write_isr(
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


# --- settings -------------------------------------------------------------------------------------
#
# Settings in ZooKeeper, and how brokers hear of their changes.
#
# ``/config/<entity>`` holds the settings of an entity: ``topics/T``, ``brokers/N``, or
# ``brokers/<default>`` for all brokers. A change leaves a numbered note in ``/config/changes``.
# Every broker watches for notes and reads the entity again. Kafka's ``AdminZkClient`` leaves the
# note after the change; here both are one transaction. Notes are removed when another is a quarter
# of an hour younger, by the first broker that sees them (Kafka's
# ``ZkNodeChangeNotificationListener`` uses its own clock). Not handled: settings of users, clients
# and addresses.


EXPIRATION_MS = 15 * 60 * 1000
ALL_BROKERS = "brokers/<default>"

Settings = Mapping[str, str]


def of_topic(topic: str) -> str:
    """Return the entity of a topic."""
    return f"topics/{topic}"


def of_broker(broker: BrokerId) -> str:
    """Return the entity of one broker."""
    return f"brokers/{broker}"


class ConfigZk:
    """Reads and changes settings, for one broker."""

    def __init__(self, zk: KafkaZk) -> None:
        self._session = zk.session

    async def read(self, entity: str) -> dict[str, str]:
        """Return the entity's own settings, empty when it has none, or none that can be parsed."""
        path = f"/config/{entity}"
        return _settings(path, await self._session.get(path))

    async def change(self, entity: str, changed: Callable[[Settings], Settings]) -> None:
        """Replace the settings by ``changed(settings)``, however often others are faster, and leave
        a note for the brokers.

        Raises:
            SessionExpired: unknown whether they were changed.
        """
        session = self._session.number
        while not await self._changed(entity, changed, session):
            pass  # others were faster

    async def _changed(
        self, entity: str, changed: Callable[[Settings], Settings], session: SessionNumber
    ) -> bool:
        """Write settings and note in one transaction. A session that expires between the two, or a
        client that disconnects, would leave a ``min.insync.replicas`` that no broker hears of
        before it is started again."""
        path = f"/config/{entity}"
        node = await self._session.get(path)
        data = znodes.encode_config(changed(_settings(path, node)))

        def submit(client: KazooClient) -> Any:
            transaction = client.transaction()
            if node is None:
                transaction.create(path, data)
            else:
                transaction.set_data(path, data, version=node[1].version)
            note = znodes.encode_config_change(entity)
            transaction.create(f"{znodes.CONFIG_CHANGES}/config_change_", note, sequence=True)
            return transaction.commit_async()

        written, noted = await self._session.request(submit, session)
        if isinstance(written, RolledBackError):
            raise noted
        if isinstance(written, Exception):
            if not isinstance(written, BadVersionError | NodeExistsError | NoNodeError):
                raise written
            return False
        return True

    async def notes(self, watch: Callback) -> list[str]:
        """Return the names of the notes, oldest first. ``watch`` is called when there are
        others."""
        return sorted(await self._session.children(znodes.CONFIG_CHANGES, watch))

    async def read_note(self, name: str) -> str | None:
        """Return the entity that a note names, or None when it is unknown by now."""
        path = f"{znodes.CONFIG_CHANGES}/{name}"
        node = await self._session.get(path)
        return None if node is None else understood(znodes.decode_config_change, path, node[0])

    async def remove_old_notes(self, names: list[str], keep_ms: int = EXPIRATION_MS) -> None:
        """Remove the notes that every broker has had time to read: ``keep_ms`` older than the
        youngest.

        Only ZooKeeper's clock counts. A broker whose own clock is a quarter of an hour ahead would
        remove each note as soon as it saw it. A broker whose ZooKeeper server is 50 ms behind would
        find none, and keep the former ``min.insync.replicas``.
        """
        written = {}
        for name in names:
            path = f"{znodes.CONFIG_CHANGES}/{name}"
            node = await self._session.get(path)
            if node is not None:
                written[path] = int(node[1].ctime)
        oldest_ms = max(written.values(), default=0) - keep_ms
        for path, at_ms in written.items():
            if at_ms <= oldest_ms:
                with contextlib.suppress(NoNodeError, NotEmptyError):
                    await self._session.request(partial(_delete, path))


def _settings(path: str, node: tuple[bytes, Any] | None) -> dict[str, str]:
    return (understood(znodes.decode_config, path, node[0]) if node else None) or {}


def _delete(path: str, client: KazooClient) -> Any:
    return client.delete_async(path)


# --- producer ids ---------------------------------------------------------------------------------
#
# Producer ids: unique in the cluster, allocated from blocks of 1000 (KIP-98).
#
# A broker takes a block by a conditional write of ``/latest_producer_id_block``, as in Kafka. If it
# stays unknown whether the write happened, the block is given up: there are many ids.


BLOCK: Final = 1000


class ProducerIds:
    """The producer ids of one broker."""

    def __init__(self, broker: BrokerId, zk: KafkaZk) -> None:
        self._broker = broker
        self._zk = zk
        self._ids: Iterator[int] = iter(())
        self._one_at_a_time = asyncio.Lock()

    async def next(self) -> ProducerId:
        """Return an unused id. Wait as long as ZooKeeper cannot be reached.

        Raises:
            MalformedNode: the content of the znode cannot be parsed.
        """
        async with self._one_at_a_time:
            while (found := next(self._ids, None)) is None:
                self._ids = iter(await self._take_block() or ())
            return ProducerId(found)

    async def _take_block(self) -> range | None:
        """Return a block of this broker's own, or None when another broker was faster or the
        outcome is unknown."""
        session = self._zk.session
        number = session.number
        node = await session.get(znodes.PRODUCER_IDS)
        if node is None:
            await session.ensure(znodes.PRODUCER_IDS)
            return None
        data, stat = node
        start = znodes.decode_producer_ids_end(data)
        block = range(start, start + BLOCK)
        taken = znodes.encode_producer_ids(self._broker, block)
        try:
            await session.set(znodes.PRODUCER_IDS, taken, stat.version, number)
        except (BadVersionError, SessionExpired):
            return None
        return block
