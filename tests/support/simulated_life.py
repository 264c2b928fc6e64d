"""A cluster's life under faults of all kinds, and its fingerprint: ``python simulated_life.py 7``.

The fingerprint is of every step: its moment, its process and what it called.
"""

import asyncio
import hashlib
import logging
import sys
from random import Random
from typing import Any

from simulated_cluster import Cluster

from simulation.loop.ownership import PROCESS
from simulation.zookeeper.ensemble import HOST

TOPICS = ("one", "two", "three")
PROPERTIES = {
    "offsets.topic.num.partitions": "3",
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "5000",
}


class Fingerprint:
    """Of the steps of one loop."""

    def __init__(self, loop: Any) -> None:
        self._digest = hashlib.sha256()
        self._loop = loop
        self._take = loop._step
        loop._step = self._step

    def _step(self, handle: Any) -> None:
        what = handle._callback
        owner = getattr(what, "__self__", None)
        name = owner.get_coro() if isinstance(owner, asyncio.Task) else what
        name = getattr(name, "__qualname__", type(name).__name__)
        process = handle._context.get(PROCESS)
        self._digest.update(f"{self._loop.time()!r} {process!r} {name}\n".encode())
        self._take(handle)

    def __str__(self) -> str:
        return self._digest.hexdigest()


def strike(cluster: Cluster, random: Random) -> None:
    """Does something to a broker, lets time pass, and makes it good."""
    node = cluster.nodes[random.randint(1, len(cluster.nodes))]
    others = [other.host for other in cluster.nodes.values() if other is not node]
    what = random.choice(["kill", "power", "pause", "stop", "cut", "expire"])
    if what == "kill":
        node.kill()
    elif what == "power":
        node.lose_power()
    elif what == "pause":
        node.pause()
    elif what == "stop":
        node.stop()
    elif what == "cut":
        cluster.network.cut(node.host, random.choice([HOST, *others]))
    else:
        for session in cluster.zookeeper.sessions_of(node.host):
            cluster.zookeeper.expire(session)
    cluster.loop.run_for(random.random() * 15)
    cluster.network.heal_all()
    node.resume()
    if what == "stop":
        node.kill()
    if not node.is_alive:
        node.start()
    cluster.loop.run_for(random.random() * 5)


async def produce_some(cluster: Cluster) -> None:
    for topic in TOPICS:
        for partition in range(3):
            await cluster.client.produce(topic, [b"x" * 50] * 5, partition)


def live(seed: int, strikes: int) -> tuple[Cluster, str]:
    """A cluster after so many strikes, and its fingerprint."""
    random = Random(seed)
    cluster = Cluster(seed, properties=PROPERTIES)
    fingerprint = Fingerprint(cluster.loop)
    cluster.start()
    for topic in TOPICS:
        cluster.run(cluster.client.create(topic, partitions=3))
    for _ in range(strikes):
        strike(cluster, random)
        cluster.run(produce_some(cluster))
    return cluster, str(fingerprint)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    lived, history = live(int(sys.argv[1]), int(sys.argv[2]))
    lived.close()
    print(lived.loop.steps, history)  # noqa: T201  what it is for
