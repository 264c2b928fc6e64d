"""**TakenBackEnds**: a move that is taken back is over as soon as one of the former replicas is in
sync, whoever else is down (KIP-455).

What was acknowledged meanwhile that one has, and the others catch up as they always do. A move that
is carried through must wait for all, since who is removed deletes what he has.
"""

from typing import Final

from ackproof.broker.types import TopicPartition
from simulation.clients.administration import Administrator
from simulation.clients.client import Client
from simulation.plans.actions import ExpireSession, Isolate, Kill, Reassign, Who
from simulation.verdict import patience
from simulation.verdict.settings.asked_topics import made
from simulation.verdict.settling import Cluster, settle

INVARIANT: Final = "TakenBackEnds"
TOPIC: Final = "taken-back"
PATIENCE_S: Final = 30.0
AT_ONCE_S: Final = 5.0
DOWN_MS: Final = 10_000
"""Longer than all that is asked meanwhile."""


async def check(client: Client, administrator: Administrator, world: Cluster) -> None:
    """Where there is a controller, and two brokers besides; raises Violation.

    One replica leads. The other one is to be replaced by a third broker, which does not reach the
    leader, and dies; then the order is taken back.
    """
    leader = world.observer.controller
    others = [broker for broker in client.brokers if broker != leader]
    if leader is None or len(others) < 2:
        return
    dead, spare = others[:2]
    (led,) = await made(administrator, world, TOPIC, {}, replicas=(leader, dead))
    world.strike(
        Isolate(
            who=Who(broker=spare),
            peer=Who(broker=leader),
            direction="both",
            clients=False,
            zookeeper=False,
            for_ms=DOWN_MS,
        )
    )
    move = Reassign(topic=TOPIC, partition=0, replicas=(leader, spare))
    await patience.obeyed(administrator, move)
    world.strike(Kill(who=Who(broker=dead), down_ms=DOWN_MS))
    world.strike(ExpireSession(who=Who(broker=dead)))
    await _comes(world, led.tp, "to have its leader alone in its ISR", PATIENCE_S, isr=(leader,))
    await patience.obeyed(administrator, Reassign(topic=TOPIC, partition=0, replicas=None))
    what = f"to be back, though broker {dead} is down"
    await _comes(world, led.tp, what, AT_ONCE_S, replicas=(leader, dead))
    await settle(world)


async def _comes(
    world: Cluster,
    tp: TopicPartition,
    what: str,
    within_s: float,
    *,
    isr: tuple[int, ...] | None = None,
    replicas: tuple[int, ...] | None = None,
) -> None:
    """What is not None is looked at."""
    topic = world.observer.topics[tp.topic]

    async def why() -> str | None:
        state = topic.partitions[tp.partition].state
        there = None if state is None else tuple(state.isr)
        assigned = topic.replicas(tp.partition)
        if isr in (None, there) and replicas in (None, assigned):
            return None
        where = "still being moved" if assigned is None else f"on {list(assigned)}"
        return f"{tp} was {what}: the ISR is {there}, and it is {where}"

    await patience.wait(INVARIANT, within_s, why)
