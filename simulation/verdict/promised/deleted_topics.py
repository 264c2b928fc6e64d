"""**OffsetsGoWithTopics**: what a group has committed of a topic goes with the topic.

Else the next topic of that name, which begins at 0 again, is read from where the former one ended
(``GroupCoordinator.handleDeletedPartitions``).
"""

import asyncio
import itertools
from typing import Any, Final

from ackproof.broker.server.network.broker_connection import Disconnected
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import TopicPartition
from simulation.clients import group_requests
from simulation.clients.administration import Administrator
from simulation.clients.client import Client, beside
from simulation.clients.reading import offsets_of
from simulation.model.observer import Observer
from simulation.plans.actions import CreateTopic, DeleteTopic
from simulation.verdict import patience
from simulation.verdict.grouped.deleted_groups import (
    NOTHING,
    PATIENCE_S,
    commit,
    coordinator_of,
)

INVARIANT: Final = "OffsetsGoWithTopics"
GROUP, TOPIC = "reader", "passing"
AGAIN: Final = "again"
HURRYING: Final = "hurrying"
EVERY_S: Final = 0.001
"""Less than it takes until a commit is stored: one is on its way whenever the topic goes. Of that
it is seen by whoever watches groups whether both are carried out."""


async def check(client: Client, administrator: Administrator, observer: Observer) -> None:
    """Raises Violation."""
    if OFFSETS_TOPIC not in observer.topics:
        return
    tp = TopicPartition(TOPIC, 0)
    await patience.obeyed(administrator, CreateTopic(topic=TOPIC, replicas=((client.brokers[0],),)))
    await commit(client, GROUP, tp)
    async with beside(client) as other:
        hurrying = asyncio.ensure_future(_commits_on(other, tp))
        try:
            await patience.obeyed(administrator, DeleteTopic(topic=TOPIC))
        finally:
            hurrying.cancel()

    async def why() -> str | None:
        told = await offsets_of(client, await coordinator_of(client, GROUP), GROUP, [tp])
        if told is not None and told[tp] == NOTHING:
            return None
        return f"group {GROUP} has {told and told[tp]} of {tp} committed, which was deleted"

    await patience.wait(INVARIANT, PATIENCE_S, why)


async def are_made_again(administrator: Administrator, observer: Observer) -> None:
    """And deleted again: what whoever deleted the first one remembers of that is in nobody's way,
    nor is it kept (NothingIsKept is asked afterwards). Raises Violation."""

    async def why() -> str | None:
        return f"the name of {AGAIN} is taken still" if AGAIN in observer.topics else None

    for _ in range(2):
        made = CreateTopic(topic=AGAIN, replicas=((administrator.brokers[0],),))
        await patience.obeyed(administrator, made)
        await patience.obeyed(administrator, DeleteTopic(topic=AGAIN))
        await patience.wait("GoneEverywhere", PATIENCE_S, why)  # brokers hear of it before


async def _commits_on(client: Client, tp: TopicPartition) -> None:
    """Until cancelled, or until nobody answers."""
    place = group_requests.from_outside(HURRYING)
    coordinator = await coordinator_of(client, HURRYING)
    if coordinator is None:
        return
    sent: set[asyncio.Task[Any]] = set()
    try:
        for offset in itertools.count(1):
            request = group_requests.commit(place, tp.topic, {tp.partition: offset})
            sent.add(asyncio.ensure_future(client.ask(coordinator, request)))
            await asyncio.sleep(EVERY_S)
            for done in [each for each in sent if each.done()]:
                sent.discard(done)
                done.result()
    except Disconnected:
        pass
    finally:
        for each in sent:
            each.cancel()
