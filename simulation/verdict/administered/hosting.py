"""What is set of a topic while brokers are making its partitions, each of which has the topic's id
synced first: it is what every one of them goes by (SettingsAgree).

Changes are told to the partitions that are there. Plans make partitions and change settings, and
hardly ever within the few ms that a partition takes.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final

from simulation.clients.administration import Administrator
from simulation.plans.actions import AddPartitions, AlterTopic, SlowDisk, Who
from simulation.verdict import agreeing, patience
from simulation.verdict.settings.asked_topics import FACTOR, made
from simulation.verdict.settling import Cluster, settle

TOPIC: Final = "hosted"
PARTITIONS: Final = 8
"""One after the other: for as long as all take together one of them is being made."""
SYNC_MS: Final = 300
SLOW_MS: Final = 2_000
BEGUN_MS: Final = 300
"""Within which the first of them is being made."""


async def check(administrator: Administrator, world: Cluster) -> None:
    """Raises Violation."""
    brokers = tuple(administrator.brokers[:FACTOR])
    await made(administrator, world, TOPIC, {}, replicas=brokers)
    await settle(world)  # else one whose ZooKeeper server is behind knows of no such topic
    for broker in brokers:
        world.strike(SlowDisk(who=Who(broker=broker), delay_ms=SYNC_MS, for_ms=SLOW_MS))
    more = AddPartitions(topic=TOPIC, replicas=(brokers,) * PARTITIONS)
    change = AlterTopic(topic=TOPIC, name="segment.bytes", value="100000")
    await asyncio.gather(
        patience.obeyed(administrator, more), _later(patience.obeyed(administrator, change))
    )
    await settle(world)
    await agreeing.settings(world.observer, world.hosted)


async def _later(order: Awaitable[None]) -> None:
    await asyncio.sleep(BEGUN_MS / 1000)
    await order
