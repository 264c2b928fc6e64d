"""Orders of an administrator: Kafka's admin requests, repeated until they are carried out."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from kio.schema.errors import ErrorCode

from ackproof.broker.server.network.broker_connection import Disconnected
from ackproof.broker.types import BrokerId, Offset, TopicPartition
from ackproof.broker.wire.message import Request, Response
from ackproof.broker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ackproof.broker.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
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
from ackproof.broker.wire.messages.delete_topics import DeleteTopicsRequest
from ackproof.broker.wire.messages.elect_leaders import ElectLeadersRequest
from ackproof.broker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from simulation.clients.client import PAUSE_S, SimulatedClient
from simulation.plans.actions import (
    AddPartitionsOrder,
    AlterTopicOrder,
    CreateTopicOrder,
    DeleteRecordsOrder,
    DeleteTopicOrder,
    ElectPreferredOrder,
    Order,
    ReassignOrder,
)

TIMEOUT_MS: Final = 3_000
ORDER_TIMEOUT_S: Final = 8.0
RETRIABLE: Final = frozenset(
    {
        ErrorCode.not_controller,
        ErrorCode.not_leader_or_follower,
        ErrorCode.request_timed_out,
        ErrorCode.invalid_replication_factor,
        ErrorCode.invalid_replica_assignment,
        ErrorCode.unknown_server_error,
    }
)


class Administrator(SimulatedClient):
    """A client that sends admin requests. ``partitions`` returns the number of partitions of a
    topic."""

    def bind(self, partitions: Callable[[str], int]) -> "Administrator":
        self._partitions = partitions
        return self

    async def carry_out(self, order: Order, patience_s: float = ORDER_TIMEOUT_S) -> bool:
        """Send the order to one broker after the other, and return whether an answer
        confirmed it."""
        loop = asyncio.get_running_loop()
        end = loop.time() + patience_s
        error: ErrorCode | None = None
        while loop.time() < end:
            error = await self._try(order)
            self.history.count(f"{order.kind}: {'no answer' if error is None else error.name}")
            if error is not None and error not in RETRIABLE:
                break
            await asyncio.sleep(PAUSE_S)
        return error is ErrorCode.none

    async def _try(self, order: Order) -> ErrorCode | None:
        try:
            if isinstance(order, DeleteRecordsOrder):
                return await self._delete_records(order)
            request = self._request(order)
            return _error(await self.ask(self._any(), request))
        except Disconnected:
            return None

    def _request(self, order: Order) -> Request[Response]:
        match order:
            case CreateTopicOrder():
                return _create(order)
            case DeleteTopicOrder():
                return DeleteTopicsRequest(
                    version=3, topic_names=(order.topic,), timeout_ms=TIMEOUT_MS
                )
            case AddPartitionsOrder():
                return self._add(order)
            case ReassignOrder():
                return _reassign(order)
            case ElectPreferredOrder():
                return ElectLeadersRequest(
                    version=1, election_type=0, topic_partitions=None, timeout_ms=TIMEOUT_MS
                )
            case AlterTopicOrder():
                return _alter(order)
            case _:
                raise TypeError(f"no order: {order}")

    def _add(self, order: AddPartitionsOrder) -> CreatePartitionsRequest:
        topic = CreatePartitionsTopic(
            name=order.topic,
            count=self._partitions(order.topic) + len(order.replicas),
            assignments=tuple(
                CreatePartitionsAssignment(broker_ids=tuple(map(BrokerId, ids)))
                for ids in order.replicas
            ),
        )
        return CreatePartitionsRequest(
            version=1, topics=(topic,), timeout_ms=TIMEOUT_MS, validate_only=False
        )

    async def _delete_records(self, order: DeleteRecordsOrder) -> ErrorCode | None:
        tp = TopicPartition(order.topic, order.partition)
        self.forget(tp)
        leader = await self.leader(tp)
        if leader is None:
            return None
        part = DeleteRecordsPartition(partition_index=order.partition, offset=Offset(-1))
        topic = DeleteRecordsTopic(name=order.topic, partitions=(part,))
        request = DeleteRecordsRequest(version=1, topics=(topic,), timeout_ms=TIMEOUT_MS)
        response = await self.ask(leader, request)
        error: ErrorCode = response.topics[0].partitions[0].error_code
        return error


def _create(order: CreateTopicOrder) -> CreateTopicsRequest:
    topic = CreatableTopic(
        name=order.topic,
        num_partitions=-1,
        replication_factor=-1 if order.replicas else 1,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=number, broker_ids=tuple(map(BrokerId, ids)))
            for number, ids in enumerate(order.replicas)
        ),
        configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in order.config),
    )
    return CreateTopicsRequest(version=4, topics=(topic,), timeout_ms=TIMEOUT_MS)


def _reassign(order: ReassignOrder) -> AlterPartitionReassignmentsRequest:
    replicas = None if order.replicas is None else tuple(map(BrokerId, order.replicas))
    part = ReassignablePartition(partition_index=order.partition, replicas=replicas)
    topic = ReassignableTopic(name=order.topic, partitions=(part,))
    return AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=(topic,))


def _alter(order: AlterTopicOrder) -> IncrementalAlterConfigsRequest:
    setting = AlterableConfig(name=order.name, config_operation=0, value=order.value)
    resource = AlterConfigsResource(resource_type=2, resource_name=order.topic, configs=(setting,))
    return IncrementalAlterConfigsRequest(version=0, resources=(resource,), validate_only=False)


def _error(response: Any) -> ErrorCode:
    """Return the first error of a response, on its top level or inside."""
    error: ErrorCode = getattr(response, "error_code", ErrorCode.none)
    for answers in ("topics", "responses", "results", "replica_election_results"):
        for answer in getattr(response, answers, ()):
            if error is ErrorCode.none:
                error = getattr(answer, "error_code", ErrorCode.none)
            for part in getattr(answer, "partitions", ()):
                if error is ErrorCode.none:
                    error = getattr(part, "error_code", ErrorCode.none)
    return error
