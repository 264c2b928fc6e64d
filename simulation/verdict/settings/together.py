"""**AnsweredTogether**: a Produce to several partitions is answered when all of them have what it
brought, each with what became of it.

A plan's producers send to one partition at a time. These partitions have a leader in common and
each another follower, so that one of them is replicated first; which, is a matter of luck, and so
they are named in either order, several times.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from simulation.clients.administration import Administrator
from simulation.clients.batches import encoded
from simulation.clients.client import Client
from simulation.plans.actions import CreateTopic
from simulation.verdict import patience
from simulation.verdict.led import Led
from simulation.verdict.refused.words import answered
from simulation.verdict.settings.asked_topics import of_topic
from simulation.verdict.settling import Cluster
from simulation.violation import Violation

INVARIANT: Final = "AnsweredTogether"
TOPIC: Final = "together"
TIMES: Final = 3
TIMEOUT_MS: Final = 10_000


async def check(client: Client, administrator: Administrator, world: Cluster) -> None:
    """Where there are three brokers; raises Violation."""
    leader, *others = client.brokers
    if len(others) < 2:
        return
    replicas = tuple((leader, other) for other in others)
    await patience.obeyed(administrator, CreateTopic(topic=TOPIC, replicas=replicas))
    parts = [await of_topic(world, TopicPartition(TOPIC, number)) for number in range(len(others))]
    if {each.broker for each in parts} != {leader}:
        return
    for order in (parts, parts[::-1]) * TIMES:
        await _are_answered(client, order)


async def _are_answered(client: Client, parts: Sequence[Led]) -> None:
    ends = {each.tp.partition: each.leader.log.log_end_offset for each in parts}
    answer = await answered(client, parts[0].broker, _produce(ends))
    told = {part.index: _of(part) for part in answer.responses[0].partition_responses}
    expected = {number: (ErrorCode.none, end) for number, end in ends.items()}
    lacking = [each.tp for each in parts if each.end <= ends[each.tp.partition]]
    if told != expected or lacking:
        what = f"{told} is told, {expected} to be expected; not committed is {lacking}"
        raise Violation(INVARIANT, f"one Produce to {[str(each.tp) for each in parts]}: {what}")


def _of(part: Any) -> tuple[ErrorCode, int]:
    return part.error_code, part.base_offset


def _produce(partitions: Iterable[int]) -> ProduceRequest:
    """A record to each."""
    data = tuple(
        PartitionProduceData(index=number, records=encoded([b"v"])) for number in partitions
    )
    return ProduceRequest(
        version=8,
        acks=-1,
        timeout_ms=TIMEOUT_MS,
        topic_data=(TopicProduceData(name=TOPIC, partition_data=data),),
    )
