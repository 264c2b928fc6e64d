"""Topics that are made when all is over, to be asked about: what they are set to, and what is in
them, is known to whoever asks, and nobody else writes to them."""

from collections.abc import Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode

from ackproof.broker.types import TopicPartition
from simulation.clients.administration import Administrator
from simulation.clients.client import Client
from simulation.plans.actions import CreateTopic
from simulation.verdict import patience
from simulation.verdict.led import Led
from simulation.verdict.refused.invalid import produce
from simulation.verdict.refused.words import answered
from simulation.verdict.settling import Cluster
from simulation.violation import Violation

PATIENCE_S: Final = 30.0
FACTOR: Final = 2

Settings = Mapping[str, str]


async def made(
    administrator: Administrator,
    world: Cluster,
    topic: str,
    config: Settings,
    partitions: int = 1,
    replicas: tuple[int, ...] = (),
) -> list[Led]:
    """Its partitions, on these brokers, else on up to two, with a leader that serves."""
    each = replicas or tuple(administrator.brokers[:FACTOR])
    order = CreateTopic(topic=topic, replicas=(each,) * partitions, config=(*config.items(),))
    await patience.obeyed(administrator, order)
    return [await of_topic(world, TopicPartition(topic, number)) for number in range(partitions)]


async def of_topic(world: Cluster, tp: TopicPartition) -> Led:
    """A partition, once somebody leads it; raises Violation."""

    async def why() -> str | None:
        return None if _serving(world, tp) is not None else f"nobody leads {tp}, made just now"

    await patience.wait("Serves", PATIENCE_S, why)
    leader = _serving(world, tp)
    assert leader is not None
    return Led(tp, leader)


def _serving(world: Cluster, tp: TopicPartition) -> Any:
    partition = world.observer.find(tp)
    if partition is None or partition.state is None:
        return None
    replica = world.hosted(partition.state.leader, tp)
    return replica if replica is not None and replica.replica.serves else None


async def appended(client: Client, led: Led, records: bytes) -> Any:
    """What is told of a batch that all of the ISR has; raises Violation where it is refused."""
    part = await asked_to_append(client, led, records)
    if part.error_code is not ErrorCode.none:
        what = f"{part.error_code.name}, {part.error_message}"
        raise Violation("Serves", f"{led.tp} takes no batch of {len(records)} bytes: {what}")
    return part


async def asked_to_append(client: Client, led: Led, records: bytes) -> Any:
    """What is told of a batch, whatever it is."""
    answer = await answered(client, led.broker, produce(led.tp, -1, records, version=8))
    return answer.responses[0].partition_responses[0]
