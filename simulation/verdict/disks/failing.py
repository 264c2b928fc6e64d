"""**GoodEndIsTrue**: a broker whose disk fails while it hands over what it leads has no good end,
though it was asked to end, and the disk works again by the time that it closes its logs.

What is refused by then is written beside the logs, so that none of them knows of it. Plans break
disks and have brokers end; that one falls into the other is rare. The mark of a good end is found
by the next start, and judged there (`model/storage.py`).
"""

from typing import Final

from simulation.clients.administration import Administrator
from simulation.plans.actions import BreakDisk, DeleteTopic, Isolate, Stop, Who
from simulation.verdict import patience
from simulation.verdict.settings.asked_topics import made
from simulation.verdict.settling import Cluster, settle

TOPIC: Final = "deleted-at-the-end"
BROKEN_MS: Final = 1_000
UNHEARD_MS: Final = 1_500
DOWN_MS: Final = 500
ENDS_S: Final = 30.0


async def check(administrator: Administrator, world: Cluster) -> None:
    """Of one that hears the controller, which does not hear it: so it asks again for a while, and
    is told to delete a log meanwhile. Where there are a controller and another broker; raises
    Violation."""
    controller = world.observer.controller
    ends = next((each for each in administrator.brokers if each != controller), None)
    if controller is None or not world.has_controllers or ends is None:
        return
    await made(administrator, world, TOPIC, {}, replicas=(ends,))
    who, life = Who(broker=ends), world.app(ends)
    world.strike(
        Isolate(
            who=who,
            peer=Who(broker=controller),
            direction="out",
            clients=False,
            zookeeper=False,
            for_ms=UNHEARD_MS,
        )
    )
    world.strike(Stop(who=who, down_ms=DOWN_MS))
    world.strike(BreakDisk(who=who, operation="fsync", for_ms=BROKEN_MS))
    await patience.obeyed(administrator, DeleteTopic(topic=TOPIC))

    async def why() -> str | None:
        return f"broker {ends}, asked to stop, is there still" if world.app(ends) is life else None

    await patience.wait("Settles", ENDS_S, why)
    await settle(world)
