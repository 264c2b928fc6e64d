"""A simulated cluster that is asked over the wire, as clients and administrators ask.

Time is virtual: waiting costs nothing, and the same test takes the same steps each time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from typing import Any

from kazoo.protocol.serialization import GetData
from kio.schema.errors import ErrorCode

from ackproof.broker.server.network.broker_connection import BrokerConnection, Disconnected
from ackproof.broker.server.zk import znodes
from ackproof.broker.types import BrokerId, Offset, TopicPartition
from ackproof.broker.wire.batch import RecordBatch, parse_batches
from ackproof.broker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ackproof.broker.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ackproof.broker.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ackproof.broker.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ackproof.broker.wire.messages.fetch import PartitionData
from ackproof.broker.wire.messages.init_producer_id import InitProducerIdRequest
from ackproof.broker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ackproof.broker.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from ackproof.broker.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from simulation.clients.client import (
    GroupMembership,
    commit,
    find_coordinator,
    join,
    list_offsets,
    without_member,
)
from simulation.clients.producers import encode_batch
from simulation.loop import without_logs_and_warnings
from simulation.machines.node import PORT, broker_name
from tests.support.clients.fetch_requests import Limits, fetch_request
from tests.support.worlds.simulated_cluster import Cluster

CALL_S = 8.0
PAUSE_S = 0.1
PATIENCE_S = 30.0
TIMEOUT_MS = 5_000
EARLIEST, LATEST = -2, -1
PREFERRED = 0
PROPERTIES = {
    "zookeeper.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "3000",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
}
BUSY = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.not_controller,
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
    }
)
"""Errors after which a client asks again."""


def simulated(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in the virtual time of its fixture ``cluster``."""

    @wraps(test)
    def run(cluster: "WireCluster", **fixtures: Any) -> None:
        cluster.run(test(cluster, **fixtures))

    return run


def errors_in(answer: Any) -> set[ErrorCode]:
    """Return the errors anywhere in a response, or ``none`` alone if there are none."""
    return (set(_codes(answer)) - {ErrorCode.none}) or {ErrorCode.none}


def _codes(value: Any) -> list[ErrorCode]:
    if isinstance(value, ErrorCode):
        return [value]
    if isinstance(value, tuple | list):
        return [code for each in value for code in _codes(each)]
    if is_dataclass(value):
        return [code for field in fields(value) for code in _codes(getattr(value, field.name))]
    return []


def batches_in(part: PartitionData) -> list[RecordBatch]:
    """Return the whole batches of a fetched partition."""
    return list(parse_batches(part.records or b""))


class WireCluster:
    """Brokers 1 to ``brokers``, started, and a client that asks them."""

    def __init__(self, properties: Mapping[str, str] | None = None, brokers: int = 3) -> None:
        self._silence = ExitStack()
        self._silence.enter_context(without_logs_and_warnings())
        self.simulation = Cluster(brokers=brokers, properties={**PROPERTIES, **(properties or {})})
        self.brokers = tuple(self.simulation.nodes)
        self._connections: dict[tuple[int, str], BrokerConnection] = {}
        self.simulation.start()
        self.run(self.settled())

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of the client's work."""
        return self.simulation.run(work)

    def close(self) -> None:
        """End the simulation; fail if something in it was not handled."""
        self.simulation.close()
        self._silence.close()
        assert not self.simulation.loop.unhandled_errors

    # --- asking -----------------------------------------------------------------------------

    async def ask(self, broker: int, request: Any, by: str = "client") -> Any:
        """Return the response of a broker; a lost connection is opened again.

        Requests of the same client wait for each other's answers.
        """
        connection = self._connections.get((broker, by))
        if connection is None:
            connection = BrokerConnection(broker_name(broker), PORT, by)
            self._connections[broker, by] = connection
        for _ in range(4):
            try:
                return await connection.call(request, CALL_S)
            except Disconnected:
                await asyncio.sleep(PAUSE_S)
        return await connection.call(request, CALL_S)

    async def until(
        self, what: str, condition: Callable[[], Awaitable[Any]], within_s: float = PATIENCE_S
    ) -> Any:
        """Wait until ``condition`` returns something true, and return it."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while not (found := await condition()):
            assert loop.time() < deadline, f"not within {within_s} s: {what}"
            await asyncio.sleep(PAUSE_S)
        return found

    async def obeyed(self, request: Any) -> Any:
        """Ask the controller until it is not refused for a reason that passes."""

        async def ask() -> Any:
            answer = await self.ask(await self.controller(), request)
            return None if errors_in(answer) & BUSY else answer

        answer = await self.until(f"{type(request).__name__} is obeyed", ask)
        assert errors_in(answer) == {ErrorCode.none}, answer
        return answer

    # --- what there is ----------------------------------------------------------------------

    async def metadata(self, broker: int = 1, *topics: str) -> Any:
        """Return the metadata of these topics, or of all, as a broker knows it."""
        named = tuple(MetadataRequestTopic(name=topic) for topic in topics) if topics else None
        request = MetadataRequest(version=9, topics=named, allow_auto_topic_creation=False)
        return await self.ask(broker, request)

    async def controller(self) -> int:
        return int((await self.metadata(self.living[0])).controller_id)

    @property
    def living(self) -> tuple[int, ...]:
        """The brokers that run."""
        return tuple(n for n, node in self.simulation.nodes.items() if node.is_alive)

    async def part(self, tp: TopicPartition) -> Any:
        """Return the metadata of one partition."""
        (topic,) = (await self.metadata(self.living[0], tp.topic)).topics
        return next(each for each in topic.partitions if each.partition_index == tp.partition)

    async def leader(self, tp: TopicPartition) -> int:
        return int((await self.part(tp)).leader_id)

    async def follower(self, tp: TopicPartition) -> int:
        """Return an in-sync replica that does not lead."""
        part = await self.part(tp)
        return next(int(each) for each in part.isr_nodes if each != part.leader_id)

    async def settled(self) -> None:
        """Wait until all brokers are known and each partition's first replica leads a full ISR."""

        elect = ElectLeadersRequest(
            version=1, election_type=PREFERRED, topic_partitions=None, timeout_ms=TIMEOUT_MS
        )

        async def is_settled() -> bool:
            await self.ask(await self.controller(), elect)
            told = [await self.metadata(broker) for broker in self.brokers]
            parts = [part for each in told for topic in each.topics for part in topic.partitions]
            return all(len(each.brokers) == len(self.brokers) for each in told) and all(
                set(part.isr_nodes) == set(part.replica_nodes)
                and part.leader_id == part.replica_nodes[0]
                for part in parts
            )

        await self.until("all brokers are there", self._all_are_known)
        await self.until("all partitions are in sync", is_settled)

    async def _all_are_known(self) -> bool:
        told = [await self.metadata(broker) for broker in self.brokers]
        return all(
            len(each.brokers) == len(self.brokers) and each.controller_id in self.brokers
            for each in told
        )

    def znode(self, path: str) -> tuple[bytes, Any]:
        """Return the data and stat of a znode."""
        data, stat = self.simulation.zookeeper.leader.tree.read(GetData(path, None))
        return data, stat

    def broker_epoch(self, broker: int) -> int:
        return int(self.znode(znodes.broker_id(broker))[1].czxid)

    def controller_epoch(self) -> int:
        return int(self.znode(znodes.CONTROLLER_EPOCH)[0])

    def expire(self, broker: int) -> None:
        """End the session of a broker with ZooKeeper."""
        zookeeper = self.simulation.zookeeper
        for session in zookeeper.sessions_of(broker_name(broker)):
            zookeeper.expire(session)

    def put_clocks_forward(self, by_ms: int) -> None:
        """Move the wall clock of every broker; timeouts take as long as before."""
        for node in self.simulation.nodes.values():
            node.clock.clock_offset_ms += by_ms

    # --- topics -----------------------------------------------------------------------------

    async def create(
        self, topic: str, *replicas: Sequence[int], config: Mapping[str, str] | None = None
    ) -> TopicPartition:
        """Create a topic, by default with one partition on all brokers; return its first partition.

        The first replica of each partition leads it.
        """
        assignments = tuple(
            CreatableReplicaAssignment(partition_index=number, broker_ids=tuple(map(BrokerId, ids)))
            for number, ids in enumerate(replicas or (self.brokers,))
        )
        configs = tuple(
            CreatableTopicConfig(name=name, value=value) for name, value in (config or {}).items()
        )
        asked = CreatableTopic(
            name=topic,
            num_partitions=-1,
            replication_factor=-1,
            assignments=assignments,
            configs=configs,
        )
        request = CreateTopicsRequest(
            version=4, topics=(asked,), timeout_ms=TIMEOUT_MS, validate_only=False
        )
        await self.obeyed(request)

        async def is_there() -> bool:
            told = [await self.metadata(broker, topic) for broker in self.brokers]
            return all(errors_in(each) == {ErrorCode.none} for each in told)

        await self.until(f"{topic} is led", is_there)
        return TopicPartition(topic, 0)

    async def send(
        self,
        tp: TopicPartition,
        records: bytes | None = None,
        *,
        acks: int = -1,
        to: int | None = None,
        by: str = "client",
    ) -> Any:
        """Send a batch to the leader, or to another broker; return the partition's answer."""
        data = PartitionProduceData(index=tp.partition, records=records or encode_batch([b"v"]))
        request = ProduceRequest(
            version=8,
            acks=acks,
            timeout_ms=TIMEOUT_MS,
            topic_data=(TopicProduceData(name=tp.topic, partition_data=(data,)),),
        )
        answer = await self.ask(to or await self.leader(tp), request, by)
        return answer.responses[0].partition_responses[0]

    async def append(self, tp: TopicPartition, records: bytes | None = None) -> Any:
        """Send a batch that must be taken; return the partition's answer."""
        part = await self.send(tp, records)
        assert part.error_code is ErrorCode.none, part
        return part

    async def fetch(
        self,
        asked: Sequence[tuple[TopicPartition, int]],
        limits: Limits = Limits(),  # noqa: B008 - it does not change
        *,
        to: int | None = None,
    ) -> list[PartitionData]:
        """Fetch from several partitions of one leader, and return their parts in this order."""
        broker = to or await self.leader(asked[0][0])
        answer = await self.ask(broker, fetch_request(asked, limits))
        parts = {
            TopicPartition(topic.topic, part.partition_index): part
            for topic in answer.responses
            for part in topic.partitions
        }
        return [parts[tp] for tp, _ in asked]

    async def listed(self, tp: TopicPartition, timestamp: int) -> tuple[int, int]:
        """Return the offset and the time that ListOffsets tells."""
        answer = await self.ask(await self.leader(tp), list_offsets(tp, timestamp, version=9))
        assert errors_in(answer) == {ErrorCode.none}, answer
        part = answer.topics[0].partitions[0]
        return part.offset, part.timestamp

    async def producer(self) -> tuple[int, int]:
        """Return a new producer id and its epoch."""
        request = InitProducerIdRequest(
            version=1, transactional_id=None, transaction_timeout_ms=1_000
        )
        answer = await self.until("a producer id", lambda: self._given(request))
        return answer.producer_id, answer.producer_epoch

    async def _given(self, request: InitProducerIdRequest) -> Any:
        answer = await self.ask(1, request)
        return answer if answer.error_code is ErrorCode.none else None

    # --- groups -----------------------------------------------------------------------------

    async def coordinator(self, group: str) -> int:
        async def find() -> int | None:
            found = await self.ask(self.living[0], find_coordinator(group))
            return int(found.node_id) if found.error_code is ErrorCode.none else None

        return int(await self.until(f"a coordinator of {group}", find))

    async def of_group(self, group: str, request: Any, by: str = "client") -> Any:
        """Ask the coordinator of a group until it has loaded the group."""

        async def ask() -> Any:
            answer = await self.ask(await self.coordinator(group), request, by)
            return None if errors_in(answer) & BUSY else answer

        return await self.until(f"{type(request).__name__} of {group} is answered", ask)

    async def join(
        self, group: str, instance: str, by: str = "client", **changed: Any
    ) -> GroupMembership:
        """Join as a static member; return its place in the group."""
        request = replace(join(group, "", instance_id=instance), **changed)
        answer = await self.of_group(group, request, by)
        assert answer.error_code is ErrorCode.none, answer
        coordinator = await self.coordinator(group)
        return GroupMembership(coordinator, group, answer.generation_id, answer.member_id)

    async def commit(self, group: str, tp: TopicPartition, offset: int) -> ErrorCode:
        """Commit an offset from outside a group; return the error."""
        request = commit(without_member(group), tp.topic, {tp.partition: offset})
        (error,) = errors_in(await self.of_group(group, request))
        return error

    async def committed(self, group: str, tp: TopicPartition, by: str = "client") -> int:
        """Return the committed offset of a group, -1 if there is none."""
        topic = OffsetFetchRequestTopic(name=tp.topic, partition_indexes=(tp.partition,))
        request = OffsetFetchRequest(version=5, group_id=group, topics=(topic,))
        answer = await self.of_group(group, request, by)
        return int(answer.topics[0].partitions[0].committed_offset)


def reassignment(
    tp: TopicPartition, replicas: Sequence[int] | None
) -> AlterPartitionReassignmentsRequest:
    """Return the order to move a partition; None takes the move back."""
    ids = None if replicas is None else tuple(map(BrokerId, replicas))
    part = ReassignablePartition(partition_index=tp.partition, replicas=ids)
    topic = ReassignableTopic(name=tp.topic, partitions=(part,))
    return AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=(topic,))


def deletion_of_records(tp: TopicPartition, offset: int) -> DeleteRecordsRequest:
    """Return the order to delete the records below ``offset``."""
    part = DeleteRecordsPartition(partition_index=tp.partition, offset=Offset(offset))
    topic = DeleteRecordsTopic(name=tp.topic, partitions=(part,))
    return DeleteRecordsRequest(version=1, topics=(topic,), timeout_ms=TIMEOUT_MS)


def election(kind: int, tp: TopicPartition) -> ElectLeadersRequest:
    """Return the order to elect a leader of one partition."""
    named = (TopicPartitions(topic=tp.topic, partitions=(tp.partition,)),)
    return ElectLeadersRequest(
        version=1, election_type=kind, topic_partitions=named, timeout_ms=TIMEOUT_MS
    )
