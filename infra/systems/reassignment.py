"""The order to move replicas (KIP-455), which librdkafka does not speak."""

import time
from collections.abc import Sequence
from datetime import timedelta

from confluent_kafka import KafkaError, KafkaException
from kio.schema.alter_partition_reassignments.v0.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.alter_partition_reassignments.v0.response import (
    AlterPartitionReassignmentsResponse,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32, i32Timedelta

from ackproof.infra.interface import Server
from ackproof.infra.systems.wire import Connect, call

_TELLS_LITTLE = {KafkaError._TRANSPORT: 1, KafkaError.NOT_CONTROLLER: 2}


def reassign(
    brokers: Sequence[Server],
    topic: str,
    partition: int,
    replicas: Sequence[int],
    timeout_s: float,
    connect: Connect,
) -> None:
    """Ask one broker after the other, for whoever is not the controller says so. Raises
    KafkaException."""
    moved = ReassignablePartition(
        partition_index=i32(partition), replicas=tuple(map(BrokerId, replicas))
    )
    named = ReassignableTopic(name=TopicName(topic), partitions=(moved,))
    end = time.monotonic() + timeout_s
    refusals: list[KafkaError] = []
    for broker in brokers:
        left_s = min(max(end - time.monotonic(), 0.1), timeout_s / 2)
        error = _asked(broker, named, left_s, connect)
        if error is None:
            return
        refusals.append(error)
    # One that does not answer may be the controller: that the others are not tells nothing.
    raise KafkaException(min(refusals, key=lambda one: _TELLS_LITTLE.get(one.code(), 0)))


def _asked(
    broker: Server, topic: ReassignableTopic, timeout_s: float, connect: Connect
) -> KafkaError | None:
    """What a broker has against moving the partition; None: it moves."""
    request = AlterPartitionReassignmentsRequest(
        timeout=i32Timedelta.parse(timedelta(seconds=timeout_s)), topics=(topic,)
    )
    address = (broker.node.address, broker.port)
    try:
        answer = call(address, request, AlterPartitionReassignmentsResponse, timeout_s, connect)
    except ConnectionRefusedError as refusal:
        return KafkaError(KafkaError.NOT_CONTROLLER, f"{broker.name}: {refusal}")
    except OSError as error:
        return KafkaError(KafkaError._TRANSPORT, f"{broker.name}: {error}")
    moves = [one for named in answer.responses for one in named.partitions]
    told = [(one.error_code.value, one.error_message) for one in moves]
    refusals = [(answer.error_code.value, answer.error_message), *told]
    return next((KafkaError(code, why) for code, why in refusals if code), None)
