"""**OffsetsGoWithTopics**: what a group has committed of a topic goes with the topic.

Else the next topic of that name, which begins at 0 again, is read from where the former one ended
(``GroupCoordinator.handleDeletedPartitions``).
"""

from typing import Final

from broker.server.topic_names import OFFSETS_TOPIC
from broker.types import TopicPartition
from simulation.clients.administration import Administrator
from simulation.clients.client import Client
from simulation.clients.reading import offsets_of
from simulation.observer.observer import Observer
from simulation.plans.actions import CreateTopic, DeleteTopic
from simulation.verdict import patience
from simulation.verdict.promised.deleted_groups import (
    NOTHING,
    PATIENCE_S,
    commit,
    coordinator_of,
)

INVARIANT: Final = "OffsetsGoWithTopics"
GROUP, TOPIC = "reader", "passing"


async def check(client: Client, administrator: Administrator, observer: Observer) -> None:
    """Raises Violation."""
    if OFFSETS_TOPIC not in observer.topics:
        return
    tp = TopicPartition(TOPIC, 0)
    await patience.obeyed(administrator, CreateTopic(topic=TOPIC, replicas=((client.brokers[0],),)))
    await commit(client, GROUP, tp)
    await patience.obeyed(administrator, DeleteTopic(topic=TOPIC))

    async def why() -> str | None:
        told = await offsets_of(client, await coordinator_of(client, GROUP), GROUP, [tp])
        if told is not None and told[tp] == NOTHING:
            return None
        return f"group {GROUP} has {told and told[tp]} of {tp} committed, which was deleted"

    await patience.wait(INVARIANT, PATIENCE_S, why)
