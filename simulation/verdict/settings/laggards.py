"""**NearestIsNamed**, where the nearest one lags: no consumer is told to read from a follower that
has left the ISR. It may lag further and further, and would be named again whenever the consumer
asks, since what that asks for is never more than the follower has
(``ReplicaManager.findPreferredReadReplica``).
"""

from typing import Final

from ackproof.broker.replication.replica_selector import RACK_AWARE
from simulation.clients.administration import Administrator
from simulation.clients.batches import encoded
from simulation.clients.client import Client
from simulation.plans.actions import Who
from simulation.plans.knots.strands import apart
from simulation.plans.plan import rack_of
from simulation.verdict import patience
from simulation.verdict.led import Led
from simulation.verdict.settings.asked_topics import Settings, appended, asked_to_append, made
from simulation.verdict.settings.follower_reads import NAMED, sent_elsewhere
from simulation.verdict.settling import Cluster, settle
from simulation.violation import Violation

TOPIC: Final = "lags"
SHORT_LAG_MS: Final = 3_000
"""Of ``replica.lag.time.max.ms``: longer ones are not waited for."""


async def check(
    client: Client, administrator: Administrator, world: Cluster, settings: Settings
) -> None:
    """Where brokers are in two racks; raises Violation."""
    lag_ms = int(settings["replica.lag.time.max.ms"])
    if settings.get("replica.selector.class") != RACK_AWARE or lag_ms > SHORT_LAG_MS:
        return
    if len(client.brokers) < 2:
        return
    (led,) = await made(administrator, world, TOPIC, {}, replicas=client.brokers[:2])
    await appended(client, led, encoded([b"v"]))  # which both have
    (laggard,) = set(led.leader.replica.replicas) - {led.broker}
    world.strike(apart(Who(broker=laggard), Who(broker=led.broker), for_ms=3 * lag_ms))
    await asked_to_append(client, led, encoded([b"v"]))
    await _is_out(led, laggard, within_s=2 * lag_ms / 1000)
    isr = led.leader.replica.isr
    told = await sent_elsewhere(client, led, rack_of(laggard))
    if told is not None:
        raise Violation(NAMED, f"{told}; {laggard} is there, and the ISR is {list(isr)}")
    await settle(world)


async def _is_out(led: Led, laggard: int, within_s: float) -> None:
    """It takes three halves of ``replica.lag.time.max.ms``, and the writing."""

    async def why() -> str | None:
        isr = led.leader.replica.isr
        return f"{led.tp}: {laggard} is in the ISR {list(isr)}" if laggard in isr else None

    await patience.wait("LaggardsLeave", within_s, why)
