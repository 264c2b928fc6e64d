"""**OffsetsGoWithTopics**: what a group has committed of a topic goes with the topic.

Else the next topic of that name, which begins at 0 again, is read from where the former one ended
(``GroupCoordinator.handleDeletedPartitions``).
"""

import asyncio
from typing import Final

from broker.server.topic_names import OFFSETS_TOPIC
from broker.types import TopicPartition
from simulation.clients.administration import Administrator
from simulation.clients.client import PAUSE_S, Client
from simulation.clients.reading import offsets_of
from simulation.observer.observer import Observer
from simulation.plans.actions import CreateTopic, DeleteTopic
from simulation.verdict.promised.deleted_groups import (
    NOTHING,
    PATIENCE_S,
    commit,
    coordinator_of,
)
from simulation.violation import Violation

INVARIANT: Final = "OffsetsGoWithTopics"
GROUP, TOPIC = "reader", "passing"


async def check(client: Client, administrator: Administrator, observer: Observer) -> None:
    """Raises Violation."""
    if OFFSETS_TOPIC not in observer.topics:
        return
    tp = TopicPartition(TOPIC, 0)
    await _obeyed(administrator, CreateTopic(topic=TOPIC, replicas=((client.brokers[0],),)))
    await commit(client, GROUP, tp)
    await _obeyed(administrator, DeleteTopic(topic=TOPIC))
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE_S
    while True:
        told = await offsets_of(client, await coordinator_of(client, GROUP), GROUP, [tp])
        if told is not None and told[tp] == NOTHING:
            return
        if loop.time() >= end:
            what = f"group {GROUP} has {told and told[tp]} of {tp} committed, which was deleted"
            raise Violation(INVARIANT, what)
        await asyncio.sleep(PAUSE_S)


async def _obeyed(administrator: Administrator, order: CreateTopic | DeleteTopic) -> None:
    if not await administrator.obey(order, patience_s=PATIENCE_S):
        raise Violation("Serves", f"nobody obeys {order}")
