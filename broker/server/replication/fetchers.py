"""Who follows whom: one :class:`~broker.server.replication.fetcher.Fetcher` per leader broker."""

import asyncio

from ackproof.broker.config import BrokerConfig
from ackproof.broker.server.clock import Clock
from ackproof.broker.server.replication.fetcher import Fetcher, Locate
from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.server.schedule import Spawn
from ackproof.broker.types import BrokerId, TopicPartition


class Fetchers:
    """Starts a fetcher with its first partition and ends it with its last.

    Args:
        spawn: starts a task that somebody owns.
    """

    def __init__(self, config: BrokerConfig, clock: Clock, locate: Locate, spawn: Spawn) -> None:
        self._config = config
        self._clock = clock
        self._locate = locate
        self._spawn = spawn
        self._running: dict[BrokerId, tuple[Fetcher, asyncio.Task[None]]] = {}

    def follow(self, partition: Partition) -> None:
        """Fetches ``partition`` from its leader, and from nobody else."""
        leader = partition.replica.leader
        self._remove(partition.tp, but=leader)
        if leader not in self._running:
            fetcher = Fetcher(leader, self._config, self._clock, self._locate)
            self._running[leader] = (fetcher, self._spawn(fetcher.run()))
        self._running[leader][0].add(partition)

    def unfollow(self, tp: TopicPartition) -> None:
        """Fetches ``tp`` no more."""
        self._remove(tp, but=None)

    def close(self) -> None:
        """Ends all fetchers."""
        for _, task in self._running.values():
            task.cancel()
        self._running.clear()

    def _remove(self, tp: TopicPartition, but: BrokerId | None) -> None:
        for leader, (fetcher, task) in tuple(self._running.items()):
            if leader != but:
                fetcher.remove(tp)
                if not fetcher.partitions:
                    task.cancel()
                    del self._running[leader]
