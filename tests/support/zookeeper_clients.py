"""The broker's ZooKeeper clients, connected for the time of a test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

from controller_cluster import SESSION_MS

from ackproof.broker.server.zk.kafka_zk import KafkaZk


class Way(Protocol):
    """Whatever leads to a ZooKeeper: itself, or something between."""

    @property
    def connect(self) -> str: ...


@asynccontextmanager
async def connected(
    zookeeper: Way, *kinds: type[KafkaZk], session_ms: int = SESSION_MS, **options: Any
) -> AsyncIterator[list[Any]]:
    """One client of each of these kinds, each with a session of its own."""
    made = [
        kind(zookeeper.connect, session_ms, connection_timeout_ms=20_000, **options)
        for kind in kinds
    ]
    for zk in made:
        await zk.start()
    try:
        yield made
    finally:
        for zk in made:
            await zk.close()
