"""**MadeAsAsked**: a topic that is made has the settings that it is made with, and none that were
left behind under its name: by a former topic, or by a creation that failed half way. One that is
made without any has none.

Whoever deletes a topic deletes its settings, too; what is left there is left by those who died.
"""

from typing import Final

from ackproof.broker.server.zk import znodes
from simulation.clients.administration import Administrator
from simulation.verdict.settings.asked_topics import made
from simulation.verdict.settling import Cluster
from simulation.violation import Violation

NAME: Final = "inherited"
LEFT: Final = {"retention.ms": "86400005", "flush.messages": "3"}


async def check(administrator: Administrator, world: Cluster) -> None:
    """Raises Violation."""
    await world.shell.create(znodes.topic_config(NAME), znodes.encode_config(LEFT))
    await made(administrator, world, NAME, {})
    there = world.observer.configs.get(NAME, {})
    if there:
        raise Violation("MadeAsAsked", f"topic {NAME} was made without settings, and has {there}")
