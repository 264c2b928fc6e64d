"""Connections that are broken off before their broker has taken them in: it has none of them, and
counts none (NothingIsKept is asked afterwards).

Who connects is taken in at once by a broker that runs. One that was held for a while finds some
that are gone; each that it counts for good is one less of ``max.connections``.
"""

import asyncio
from typing import Final

from simulation.clients.client import PORT, Client, host_of
from simulation.clients.pipeline import Pipeline
from simulation.plans.actions import Pause, Who
from simulation.verdict.settling import Cluster
from simulation.violation import Violation

CONNECTIONS: Final = 3
HELD_MS: Final = 300


async def connect(client: Client, world: Cluster) -> None:
    """To one of the brokers, while it does not run; raises Violation."""
    broker = client.brokers[-1]
    world.strike(Pause(who=Who(broker=broker), for_ms=HELD_MS))
    for _ in range(CONNECTIONS):
        try:
            pipeline = await Pipeline.to(host_of(broker), PORT)
        except OSError as error:
            raise Violation("Serves", f"broker {broker}: {error}") from error
        pipeline.break_off()
    await asyncio.sleep(2 * HELD_MS / 1000)
