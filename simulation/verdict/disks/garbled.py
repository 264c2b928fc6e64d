"""What a leader's disk garbles on its way to a follower: that one takes nothing of it (TakenIsWhole
sees to that), and all when it is read well again (Settles).

No plan has it: whoever begins on such a disk, or cuts a log there, would rightly give up what he
cannot read. A leader reads no checksums, as Kafka's does not; a follower must.
"""

import asyncio
from typing import Final

from simulation.clients.administration import Administrator
from simulation.clients.batches import encoded
from simulation.clients.client import Client
from simulation.plans.actions import BreakDisk, Who
from simulation.plans.knots.strands import apart
from simulation.verdict.refused.invalid import produce
from simulation.verdict.refused.words import answered
from simulation.verdict.settings.asked_topics import made
from simulation.verdict.settling import Cluster, settle

TOPIC: Final = "garbled"
APART_MS: Final = 1_000
GARBLES_MS: Final = 5_000
BATCHES: Final = 3
"""More than one: the last is not read from the disk."""
LEADER_ALONE: Final = 1
"""``acks``: all batches are there when the follower is back."""


async def check(client: Client, administrator: Administrator, world: Cluster) -> None:
    """Where there are two brokers; raises Violation."""
    if len(client.brokers) < 2:
        return
    (led,) = await made(administrator, world, TOPIC, {}, replicas=client.brokers[:2])
    leader = Who(broker=led.broker)
    (follower,) = set(led.leader.replica.replicas) - {led.broker}
    world.strike(apart(Who(broker=follower), leader, for_ms=APART_MS))
    garble = BreakDisk(who=leader, operation="garble", for_ms=GARBLES_MS, directory=str(led.tp))
    world.strike(garble)
    for _ in range(BATCHES):
        await answered(client, led.broker, produce(led.tp, LEADER_ALONE, encoded([b"v"])))
    await asyncio.sleep(GARBLES_MS / 1000)  # who came next would read what is not there
    await settle(world)
