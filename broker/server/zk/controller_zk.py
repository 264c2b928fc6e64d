"""The operations in ZooKeeper that only the controller carries out.

Every write is one transaction with a check that ``/controller_epoch`` is still at the version of
this controller's election, and is tied to the session of that election (as in Kafka since
KAFKA-6082). A controller that was deposed without noticing changes nothing any more. This holds
even for a write that was in flight when its session ended.
"""

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
)

from ackproof.broker.controller.cluster import PartitionState, TopicAssignment
from ackproof.broker.controller.events import StatesWritten, StateWrite
from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.kafka_zk import KafkaZk
from ackproof.broker.server.zk.session import Callback, SessionNumber, ZkError
from ackproof.broker.server.zk.znodes import understood
from ackproof.broker.types import BrokerId, ControllerEpoch, TopicPartition, ZkVersion


class ControllerMoved(ZkError):
    """The election of another controller. Nothing was written."""


@dataclass(frozen=True, slots=True)
class Tenure:
    """The result of an election: the right to write until the next election or session end."""

    epoch: ControllerEpoch
    epoch_version: ZkVersion
    """The version of ``/controller_epoch``."""
    session: SessionNumber


class ControllerZk:
    """The controller's operations in ZooKeeper. All writes raise ControllerMoved and
    SessionExpired."""

    def __init__(self, zk: KafkaZk) -> None:
        self._zk = zk
        self._session = zk.session

    # --- election ---------------------------------------------------------------------------

    async def elect(self, broker: BrokerId) -> Tenure | None:
        """Create ``/controller`` and raise ``/controller_epoch``, both or none.

        Return None when another broker is the controller or was faster.

        Raises:
            SessionExpired: ours ended meanwhile.
            MalformedNode: the next epoch cannot be determined.
        """
        session = self._session.number
        epoch, version = await self._epoch(session)
        won = ControllerEpoch(epoch + 1)
        data = znodes.encode_controller(broker, self._zk.now_ms())

        def submit(client: KazooClient) -> Any:
            transaction = client.transaction()
            transaction.create(znodes.CONTROLLER, data, ephemeral=True)
            transaction.set_data(znodes.CONTROLLER_EPOCH, str(won).encode(), version=version)
            return transaction.commit_async()

        results = await self._session.request(submit, session)
        if not isinstance(results[0], Exception) or await self._elected_unseen(won):
            return Tenure(won, ZkVersion(version + 1), session)
        return None

    async def _elected_unseen(self, won: ControllerEpoch) -> bool:
        """Return whether the election failed only because of its own first attempt, whose answer
        was lost with the connection."""
        holder = await self._session.get(znodes.CONTROLLER)
        epoch = await self._session.get(znodes.CONTROLLER_EPOCH)
        if holder is None or epoch is None:
            return False
        ours = holder[1].ephemeralOwner == self._session.session_id
        return ours and znodes.decode_controller_epoch(epoch[0]) == won

    async def _epoch(self, session: SessionNumber) -> tuple[ControllerEpoch, ZkVersion]:
        with contextlib.suppress(NodeExistsError):
            await self._session.create(znodes.CONTROLLER_EPOCH, b"0", session)
        data, stat = await self._session.request(
            lambda c: c.get_async(znodes.CONTROLLER_EPOCH), session
        )
        return znodes.decode_controller_epoch(data), ZkVersion(stat.version)

    # --- fenced writes ----------------------------------------------------------------------

    async def _fenced(self, tenure: Tenure, operation: Callable[[Any], None]) -> Any:
        """Carry out one operation (a call on kazoo's transaction). Return its result, or raise its
        error."""
        (result,) = await self._all_or_nothing(tenure, operation)
        if isinstance(result, KazooException):
            raise result
        return result

    async def _all_or_nothing(self, tenure: Tenure, operations: Callable[[Any], None]) -> list[Any]:
        """Carry out some operations (calls on kazoo's transaction), and return their results. If
        one fails, its error is among them, and none was carried out."""

        def submit(client: KazooClient) -> Any:
            transaction = client.transaction()
            transaction.check(znodes.CONTROLLER_EPOCH, tenure.epoch_version)
            operations(transaction)
            return transaction.commit_async()

        checked: Any
        results: list[Any]
        checked, *results = await self._session.request(submit, tenure.session)
        if isinstance(checked, BadVersionError | NoNodeError):
            raise ControllerMoved(f"controller epoch {tenure.epoch} is over")
        return results

    async def write_states(self, tenure: Tenure, writes: Iterable[StateWrite]) -> StatesWritten:
        """Write partition states, each conditional on its version."""
        listed = tuple(writes)
        topics = sorted({w.partition.topic for w in listed if w.expected is None})
        await asyncio.gather(*(self._create(tenure, znodes.partitions(t), b"") for t in topics))
        outcomes = await asyncio.gather(*(self._write_state(tenure, write) for write in listed))
        written: dict[TopicPartition, ZkVersion] = {}
        conflicts: dict[TopicPartition, PartitionState | None] = {}
        for write, (is_written, state) in zip(listed, outcomes, strict=True):
            if is_written and state is not None:
                written[write.partition] = state.zk_version
            else:
                conflicts[write.partition] = state
        return StatesWritten(written=written, conflicts=conflicts)

    async def _write_state(
        self, tenure: Tenure, write: StateWrite
    ) -> tuple[bool, PartitionState | None]:
        """Write a state. Return whether it was written, and the state as it is now."""
        tp = write.partition
        path = znodes.partition_state(tp)
        data = znodes.encode_state(
            leader=write.leader,
            leader_epoch=write.leader_epoch,
            controller_epoch=write.controller_epoch,
            isr=write.isr,
            broker_epochs=write.broker_epochs,
        )
        try:
            if write.expected is None:
                await self._create(tenure, znodes.partition(tp), b"")
                await self._fenced(tenure, lambda t: t.create(path, data))
                return True, write.written_at(ZkVersion(0))
            stat = await self._fenced(
                tenure, lambda t: t.set_data(path, data, version=write.expected)
            )
            return True, write.written_at(ZkVersion(stat.version))
        except (NodeExistsError, NoNodeError, BadVersionError):
            fresh = (await self._zk.partition_states([tp])).get(tp)
        unseen = fresh is not None and fresh == write.written_at(fresh.zk_version)
        return unseen, fresh

    async def _create(self, tenure: Tenure, path: str, data: bytes) -> None:
        """Create a node unless it exists. Nothing happens when its parent is gone."""
        with contextlib.suppress(NodeExistsError, NoNodeError):
            await self._fenced(tenure, lambda t: t.create(path, data))

    async def write_assignment(
        self, tenure: Tenure, topic: str, assignment: TopicAssignment
    ) -> None:
        """Write ``/brokers/topics/T``. Nothing happens when the topic is gone.

        Partitions that ``assignment`` does not have stay. Any broker can add some
        (CreatePartitions), of which this controller may not have heard. Written as the controller
        knows it, the topic would lose partitions whose creation was confirmed to a client.
        """
        while True:
            node = await self._session.get(znodes.topic(topic))
            stored = understood(znodes.decode_topic, topic, node[0]) if node else None
            if node is None or (stored and stored.topic_id != assignment.topic_id):
                return
            added = stored.partitions if stored else {}
            merged = replace(assignment, partitions={**added, **assignment.partitions})
            if await self._set_topic(tenure, topic, merged, node[1].version):
                return

    async def identified(
        self,
        tenure: Tenure,
        topics: Mapping[str, TopicAssignment],
        known: Mapping[str, TopicAssignment],
    ) -> dict[str, TopicAssignment]:
        """Return ``topics``, each with an id that is in its node, without those that are gone
        meanwhile.

        A topic without an id gets one now, before any broker is told of it (KIP-516, "Migration").
        A topic that is ``known`` by an id gets the same one again. An old tool that adds partitions
        writes the node as it knows it, and the id is gone (KAFKA-14190). With a new id, all logs
        would be another topic's.
        """
        ids = {name: topic.topic_id for name, topic in known.items()}
        found = await asyncio.gather(
            *(self._identified(tenure, name, topics[name], ids.get(name)) for name in topics)
        )
        return {name: topic for name, topic in zip(topics, found, strict=True) if topic is not None}

    async def _identified(
        self, tenure: Tenure, name: str, topic: TopicAssignment, known: uuid.UUID | None
    ) -> TopicAssignment | None:
        while topic.topic_id is None:
            node = await self._session.get(znodes.topic(name))
            stored = understood(znodes.decode_topic, name, node[0]) if node else None
            if node is None or stored is None:
                return None
            topic = stored
            if stored.topic_id is None:
                given = replace(stored, topic_id=known or self._zk.new_uuid())
                if await self._set_topic(tenure, name, given, node[1].version):
                    return given
        return topic

    async def _set_topic(
        self, tenure: Tenure, topic: str, assignment: TopicAssignment, version: int
    ) -> bool:
        """Return whether it was written, False when another write was faster. When the topic is
        gone nothing happens."""
        path, data = znodes.topic(topic), znodes.encode_topic(assignment)
        try:
            await self._fenced(tenure, lambda t: t.set_data(path, data, version=version))
        except BadVersionError:
            return False
        except NoNodeError:
            pass
        return True

    async def delete_topic(self, tenure: Tenure, topic: str, topic_id: uuid.UUID | None) -> None:
        """Remove the order to delete the topic, its node and its settings, in one transaction. What
        is below the node is removed before that.

        Kafka removes one after the other (``TopicDeletionManager.completeDeleteTopic``). If its
        controller dies after removing the topic's node, the order remains. If the topic is then
        created again, the next controller deletes the new one. A node may also have been removed by
        hand.
        """
        await self.delete(tenure, znodes.partitions(topic))
        order = f"{znodes.DELETE_TOPICS}/{topic}"
        left = [order, znodes.topic(topic), znodes.topic_config(topic)]
        while (refused := await self._delete_all(tenure, left)) is not None:
            path, error = refused
            if isinstance(error, NotEmptyError):
                await self._empty(tenure, path)
            elif not isinstance(error, NoNodeError):
                raise error
            elif path == order and not await self._is_there(tenure, topic, topic_id):
                # and so is the answer: no deletion was ordered for the present topic of that name
                return
            else:
                left.remove(path)

    async def _delete_all(
        self, tenure: Tenure, paths: Iterable[str]
    ) -> tuple[str, KazooException] | None:
        """Remove all these nodes or none. Return the first that cannot be removed, with the
        reason."""
        listed = tuple(paths)

        def operations(transaction: Any) -> None:
            for path in listed:
                transaction.delete(path)

        results = await self._all_or_nothing(tenure, operations)
        for path, result in zip(listed, results, strict=True):
            if isinstance(result, KazooException) and not isinstance(result, RolledBackError):
                return path, result
        return None

    async def _is_there(self, tenure: Tenure, topic: str, topic_id: uuid.UUID | None) -> bool:
        """Return whether the present topic of that name is this one."""
        await self._session.sync(znodes.topic(topic), tenure.session)
        stored = (await self._zk.topic_assignments([topic])).get(topic)
        return stored is not None and stored.topic_id == topic_id

    async def delete(self, tenure: Tenure, path: str) -> None:
        """Remove a node with all that is below it, if it exists."""
        try:
            await self._fenced(tenure, lambda t: t.delete(path))
        except NoNodeError:
            return
        except NotEmptyError:
            await self._empty(tenure, path)
            await self.delete(tenure, path)

    async def _empty(self, tenure: Tenure, path: str) -> None:
        for child in await self._session.children(path):
            await self.delete(tenure, f"{path}/{child}")

    # --- what others ask of the controller --------------------------------------------------

    async def isr_changes(self, watch: Callback) -> dict[str, tuple[TopicPartition, ...]]:
        """Return the ISR change notifications: partitions by path, none for a malformed one.
        ``watch`` is called when there are new ones."""
        names = await self._session.children(znodes.ISR_CHANGES, watch)
        paths = [f"{znodes.ISR_CHANGES}/{name}" for name in sorted(names)]
        nodes = await asyncio.gather(*(self._session.get(path) for path in paths))
        return {
            path: understood(znodes.decode_partitions, path, node[0]) or ()
            for path, node in zip(paths, nodes, strict=True)
            if node is not None
        }

    async def topics_to_delete(self, tenure: Tenure, watch: Callback) -> frozenset[str]:
        """Return the topics named in ``/admin/delete_topics``, by its children or in the node
        itself. ``watch`` is called when there are others."""
        if await self._order(znodes.DELETE_TOPICS, watch):
            await self._split_deletions(tenure)
        return frozenset(await self._session.children(znodes.DELETE_TOPICS, watch))

    async def _split_deletions(self, tenure: Tenure) -> None:
        """Make each topic that the node lists a child of it, and empty the node, all at once.

        If the list stayed beside the children until all are deleted, a controller that dies before
        it has emptied the node would leave it to the next one. That one would delete topics which
        have been created again in the meantime.
        """
        path = znodes.DELETE_TOPICS
        node = await self._session.get(path)
        if node is None or not node[0]:
            return
        asked = understood(znodes.decode_deletions, node[0]) or ()
        there = await self._session.children(path)

        def operations(transaction: Any) -> None:
            for topic in asked:
                if topic not in there:
                    transaction.create(f"{path}/{topic}", b"")
            transaction.set_data(path, b"", version=node[1].version)

        results = await self._all_or_nothing(tenure, operations)
        if any(isinstance(result, NodeExistsError | BadVersionError) for result in results):
            await self._split_deletions(tenure)

    async def preferred_election(self, watch: Callback) -> tuple[TopicPartition, ...] | None:
        """Return the partitions in ``/admin/preferred_replica_election``, or None when there is no
        such node."""
        data = await self._order(znodes.PREFERRED_REPLICA_ELECTION, watch)
        path = znodes.PREFERRED_REPLICA_ELECTION
        return None if data is None else znodes.decode_partitions(path, data)

    async def reassignments(self, watch: Callback) -> dict[TopicPartition, tuple[BrokerId, ...]]:
        """Return the targets in ``/admin/reassign_partitions``."""
        data = await self._order(znodes.REASSIGN_PARTITIONS, watch)
        return {} if data is None else znodes.decode_reassignment(data)

    async def _order(self, path: str, watch: Callback) -> bytes | None:
        """Return the content of a node that comes and goes. ``watch`` is called when it does."""
        armed = self._session.watch(watch)
        if await self._session.request(lambda c: c.exists_async(path, armed)) is None:
            return None
        node = await self._session.get(path)
        return None if node is None else node[0]

    async def drop_reassignments(self, tenure: Tenure, done: Iterable[TopicPartition]) -> None:
        """Remove partitions from ``/admin/reassign_partitions``. The node is removed with its
        last."""
        node = await self._session.get(znodes.REASSIGN_PARTITIONS)
        if node is None:
            return
        asked = understood(znodes.decode_reassignment, node[0]) or {}
        left: Mapping[TopicPartition, tuple[BrokerId, ...]] = {
            tp: replicas for tp, replicas in asked.items() if tp not in set(done)
        }
        path, version = znodes.REASSIGN_PARTITIONS, node[1].version
        data = znodes.encode_reassignment(left)
        try:
            if left:
                await self._fenced(tenure, lambda t: t.set_data(path, data, version=version))
            else:
                await self._fenced(tenure, lambda t: t.delete(path, version=version))
        except NoNodeError:
            return
        except BadVersionError:
            await self.drop_reassignments(tenure, done)
