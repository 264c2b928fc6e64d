"""**RemovedAreDeleted**: a partition that is moved in a quiet cluster is where it was to go, and
nowhere else (KIP-455).

In the course of a plan whoever was removed may have been down, or its controller been another one
afterwards: then nobody remembers what is left there (``broker/controller/reassignment.py``). Here
nobody is. Two orders come at once, so that the second finds the first one's state being written.
"""

import asyncio
from typing import Any, Final

from kio.schema.errors import ErrorCode

from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import BrokerId, TopicPartition
from ackproof.broker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from simulation.clients.client import Client, beside
from simulation.model.observer import Observer
from simulation.verdict import patience
from simulation.verdict.refused.words import answered
from simulation.verdict.settling import Cluster, settle
from simulation.violation import Violation

PATIENCE_S: Final = 30.0
TIMEOUT_MS: Final = 5_000
A_MOMENT_S: Final = 0.001


async def check(client: Client, cluster: Cluster) -> None:
    """Of one partition that has followers; raises Violation."""
    for name, topic in cluster.observer.topics.items():
        replicas = () if topic.is_doomed or name == OFFSETS_TOPIC else topic.replicas(0) or ()
        if len(replicas) > 1:
            await _is_moved(client, cluster, TopicPartition(name, 0), replicas)
            return


async def _is_moved(
    client: Client, cluster: Cluster, tp: TopicPartition, replicas: tuple[int, ...]
) -> None:
    """First without its last replica, while it is being reordered; then to another broker."""
    *kept, removed = replicas
    reordered = (replicas[1], replicas[0], *replicas[2:])
    async with beside(client) as other:
        first = asyncio.ensure_future(_ask(other, cluster, tp, reordered))
        await asyncio.sleep(A_MOMENT_S)
        await _ask(client, cluster, tp, tuple(kept))
        await first
    await _ask(client, cluster, tp, tuple(kept))  # who came last is obeyed
    await _is_there(cluster, tp, tuple(kept), removed)
    spare = [broker for broker in client.brokers if broker not in replicas]
    if spare:
        *less, last = kept
        await _ask(client, cluster, tp, (spare[0], *less))
        await _is_there(cluster, tp, (spare[0], *less), last)


async def _ask(
    client: Client, cluster: Cluster, tp: TopicPartition, target: tuple[int, ...]
) -> None:
    answer = await answered(client, who_decides(client, cluster.observer), reassignment(tp, target))
    if (error := _error_in(answer)) is not ErrorCode.none:
        raise Violation("Serves", f"{error.name} to who moves {tp} to {list(target)}")


async def _is_there(
    cluster: Cluster, tp: TopicPartition, target: tuple[int, ...], removed: int
) -> None:
    topic = cluster.observer.topics[tp.topic]

    async def why() -> str | None:
        keeps = cluster.hosted(removed, tp)
        if _is_quiet(cluster, tp, target) and not keeps:
            return None
        there = topic.replicas(tp.partition)
        what = f"{tp} was to be moved to {list(target)}, and is on {there}"
        return f"{what}; {removed}, who was removed, has it {'still' if keeps else 'no more'}"

    await patience.wait("RemovedAreDeleted", PATIENCE_S, why)
    await settle(cluster)


def _is_quiet(cluster: Cluster, tp: TopicPartition, target: tuple[int, ...]) -> bool:
    """It is there, and its leader serves and has heard of all that its followers have."""
    topic = cluster.observer.topics[tp.topic]
    state = topic.partitions[tp.partition].state
    if topic.replicas(tp.partition) != target or state is None or state.leader not in target:
        return False
    leading = cluster.hosted(state.leader, tp)
    if leading is None or not leading.replica.serves:
        return False
    ends = leading.replica.follower_ends.values()
    return all(end == leading.replica.log_end_offset for end in ends)


def who_decides(client: Client, observer: Observer) -> int:
    """The controller; without one, anybody."""
    return client.brokers[0] if observer.controller is None else observer.controller


def reassignment(
    tp: TopicPartition, replicas: tuple[int, ...] | None
) -> AlterPartitionReassignmentsRequest:
    """None: back to where it was."""
    ids = None if replicas is None else tuple(map(BrokerId, replicas))
    part = ReassignablePartition(partition_index=tp.partition, replicas=ids)
    topic = ReassignableTopic(name=tp.topic, partitions=(part,))
    return AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=(topic,))


def _error_in(answer: Any) -> ErrorCode:
    errors: list[ErrorCode] = [answer.error_code]
    errors += [part.error_code for topic in answer.responses for part in topic.partitions]
    return next((error for error in errors if error is not ErrorCode.none), ErrorCode.none)
