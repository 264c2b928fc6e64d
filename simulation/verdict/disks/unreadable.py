"""**RefusedReadsEnd**: a leader whose disk refuses to be read when somebody looks up a time says so
(KAFKA_STORAGE_ERROR), if anything, and its broker ends, as Kafka's does whose log directories fail.

Plans break disks, and what is fetched meanwhile has the broker end; that a time is looked up before
that, of a batch that is not the last, is rare.
"""

from contextlib import suppress
from typing import Final

from kio.schema.errors import ErrorCode

from ackproof.broker.server.network.broker_connection import Disconnected
from simulation.clients.administration import Administrator
from simulation.clients.batches import encoded
from simulation.clients.client import Client
from simulation.clients.reading import list_offsets
from simulation.plans.actions import BreakDisk, Who
from simulation.verdict import patience
from simulation.verdict.settings.asked_topics import appended, made
from simulation.verdict.settling import Cluster, settle
from simulation.violation import Violation

INVARIANT: Final = "RefusedReadsEnd"
TOPIC: Final = "unreadable"
BROKEN_MS: Final = 1_000
ENDS_S: Final = 1.0
FIRST: Final = 0
"""Every record is younger."""


async def check(client: Client, administrator: Administrator, world: Cluster) -> None:
    """Raises Violation. A broker is away for a moment."""
    (led,) = await made(administrator, world, TOPIC, {}, replicas=tuple(client.brokers[:1]))
    await appended(client, led, encoded([b"v"]))
    broken = BreakDisk(who=Who(broker=led.broker), operation="read", for_ms=BROKEN_MS)
    world.strike(broken)
    with suppress(Disconnected):
        answer = await client.ask(led.broker, list_offsets(led.tp, FIRST))
        error = answer.topics[0].partitions[0].error_code
        if error is not ErrorCode.kafka_storage_error:
            raise Violation(INVARIANT, f"{led.tp}: {error.name} where the disk cannot be read")

    async def why() -> str | None:
        runs = world.hosted(led.broker, led.tp) is led.leader
        return f"broker {led.broker} goes on with a disk that cannot be read" if runs else None

    await patience.wait(INVARIANT, ENDS_S, why)
    await settle(world)
