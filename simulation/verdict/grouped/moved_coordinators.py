"""**CoordinatorsLoad**: a coordinator whose partition of ``__consumer_offsets`` is moved away from
it forgets the groups in it, and whoever waits there is told (WaitingAreTold).

Nobody moves it in the course of a plan: a coordinator follows its successor then, and hears of that
as of any other election. Here it has nothing left to look at.
"""

from typing import Final

from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from simulation.clients.administration import Administrator
from simulation.clients.client import Client
from simulation.plans.actions import Reassign
from simulation.verdict import patience
from simulation.verdict.grouped.of_members import joins
from simulation.verdict.settling import Cluster, settle

GROUP: Final = "moved"
INSTANCE: Final = "instance"
PATIENCE_S: Final = 30.0


async def check(client: Client, administrator: Administrator, world: Cluster) -> None:
    """Of each partition that has followers: away from its leader, and back; raises Violation."""
    await joins(client, GROUP, INSTANCE)
    topic = world.observer.topics[OFFSETS_TOPIC]
    for number in topic.partitions:
        replicas, state = topic.replicas(number), topic.partitions[number].state
        if replicas is None or state is None:
            continue
        others = tuple(broker for broker in replicas if broker != state.leader)
        for target in (others, replicas) if others else ():
            await patience.obeyed(
                administrator, Reassign(topic=OFFSETS_TOPIC, partition=number, replicas=target)
            )
            await _is_there(world, number, target)
    await settle(world)


async def _is_there(world: Cluster, number: int, target: tuple[int, ...]) -> None:
    topic = world.observer.topics[OFFSETS_TOPIC]

    async def why() -> str | None:
        there = topic.replicas(number)
        if there == target:
            return None
        return f"{OFFSETS_TOPIC}-{number} was to be moved to {list(target)}, and is on {there}"

    await patience.wait("Serves", PATIENCE_S, why)
