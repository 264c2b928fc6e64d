"""Orders, as an administrator gives them: Kafka's admin requests, asked until carried out."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.primitive import i8, i16, i32, i64

from broker.server.network.broker_connection import Disconnected
from broker.types import TopicPartition
from simulation.actions import (
    AddPartitions,
    AlterTopic,
    CreateTopic,
    DeleteRecords,
    DeleteTopic,
    ElectPreferred,
    Order,
    Reassign,
)
from simulation.clients import PAUSE_S, Client, entities, milliseconds

TIMEOUT_MS: Final = 3_000
PATIENCE_S: Final = 8.0
AGAIN: Final = frozenset(
    {
        ErrorCode.not_controller,
        ErrorCode.not_leader_or_follower,
        ErrorCode.request_timed_out,
        ErrorCode.invalid_replication_factor,
        ErrorCode.invalid_replica_assignment,
        ErrorCode.unknown_server_error,
    }
)


class Administrator(Client):
    """``partitions`` says how many a topic has."""

    def bind(self, partitions: Callable[[str], int]) -> "Administrator":
        self._partitions = partitions
        self._asked = 0
        return self

    async def obey(self, order: Order, patience_s: float = PATIENCE_S) -> bool:
        """Asks broker after broker; whether the order was carried out, as far as is known."""
        loop = asyncio.get_running_loop()
        end = loop.time() + patience_s
        error: ErrorCode | None = None
        while loop.time() < end:
            error = await self._try(order)
            self.history.count(f"{order.kind}: {'no answer' if error is None else error.name}")
            if error is not None and error not in AGAIN:
                break
            await asyncio.sleep(PAUSE_S)
        if error is ErrorCode.none:
            self.history.done.append(order)
            if isinstance(order, AddPartitions):
                asked = max(self.history.extended[order.topic], self._asked)
                self.history.extended[order.topic] = asked
        return error is ErrorCode.none

    async def _try(self, order: Order) -> ErrorCode | None:
        try:
            if isinstance(order, DeleteRecords):
                return await self._delete_records(order)
            request = self._request(order)
            return _error(await self.ask(self._any(), request))
        except Disconnected:
            return None

    def _request(self, order: Order) -> Any:
        match order:
            case CreateTopic():
                return _create(order)
            case DeleteTopic():
                return entities(20, 3).DeleteTopicsRequest(
                    topic_names=(order.topic,), timeout=milliseconds(TIMEOUT_MS)
                )
            case AddPartitions():
                return self._add(order)
            case Reassign():
                return _reassign(order)
            case ElectPreferred():
                return entities(43, 1).ElectLeadersRequest(
                    election_type=i8(0), topic_partitions=None, timeout=milliseconds(TIMEOUT_MS)
                )
            case AlterTopic():
                return _alter(order)
            case _:
                raise TypeError(f"no order: {order}")

    def _add(self, order: AddPartitions) -> Any:
        v1 = entities(37, 1)
        self._asked = self._partitions(order.topic) + len(order.replicas)
        topic = v1.CreatePartitionsTopic(
            name=order.topic,
            count=i32(self._asked),
            assignments=tuple(
                v1.CreatePartitionsAssignment(broker_ids=tuple(map(i32, ids)))
                for ids in order.replicas
            ),
        )
        return v1.CreatePartitionsRequest(
            topics=(topic,), timeout=milliseconds(TIMEOUT_MS), validate_only=False
        )

    async def _delete_records(self, order: DeleteRecords) -> ErrorCode | None:
        tp = TopicPartition(order.topic, order.partition)
        self.forget(tp)
        leader = await self.leader(tp)
        if leader is None:
            return None
        v1 = entities(21, 1)
        part = v1.DeleteRecordsPartition(partition_index=i32(order.partition), offset=i64(-1))
        topic = v1.DeleteRecordsTopic(name=order.topic, partitions=(part,))
        request = v1.DeleteRecordsRequest(topics=(topic,), timeout=milliseconds(TIMEOUT_MS))
        response = await self.ask(leader, request)
        error: ErrorCode = response.topics[0].partitions[0].error_code
        return error


def _create(order: CreateTopic) -> Any:
    v4 = entities(19, 4)
    topic = v4.CreatableTopic(
        name=order.topic,
        num_partitions=i32(-1),
        replication_factor=i16(-1 if order.replicas else 1),
        assignments=tuple(
            v4.CreatableReplicaAssignment(
                partition_index=i32(number), broker_ids=tuple(map(i32, ids))
            )
            for number, ids in enumerate(order.replicas)
        ),
        configs=tuple(
            v4.CreatableTopicConfig(name=name, value=value) for name, value in order.config
        ),
    )
    return v4.CreateTopicsRequest(topics=(topic,), timeout=milliseconds(TIMEOUT_MS))


def _reassign(order: Reassign) -> Any:
    v0 = entities(45, 0)
    replicas = None if order.replicas is None else tuple(map(i32, order.replicas))
    part = v0.ReassignablePartition(partition_index=i32(order.partition), replicas=replicas)
    topic = v0.ReassignableTopic(name=order.topic, partitions=(part,))
    return v0.AlterPartitionReassignmentsRequest(timeout=milliseconds(TIMEOUT_MS), topics=(topic,))


def _alter(order: AlterTopic) -> Any:
    v0 = entities(44, 0)
    setting = v0.AlterableConfig(name=order.name, config_operation=i8(0), value=order.value)
    resource = v0.AlterConfigsResource(
        resource_type=i8(2), resource_name=order.topic, configs=(setting,)
    )
    return v0.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)


def _error(response: Any) -> ErrorCode:
    """The first error that there is, outside or inside."""
    error: ErrorCode = getattr(response, "error_code", ErrorCode.none)
    for answers in ("topics", "responses", "results", "replica_election_results"):
        for answer in getattr(response, answers, ()):
            if error is ErrorCode.none:
                error = getattr(answer, "error_code", ErrorCode.none)
            for part in getattr(answer, "partitions", ()):
                if error is ErrorCode.none:
                    error = getattr(part, "error_code", ErrorCode.none)
    return error
