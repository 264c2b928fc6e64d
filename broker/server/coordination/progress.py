"""How far followers are, for a leader that waits for them before it serves (``becomeLeader``)."""

import asyncio
from collections.abc import Callable
from functools import partial

from ackproof.broker.coordination.events import Progress
from ackproof.broker.replication.replica import Role
from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.server.replication.replica_manager import ReplicaManager
from ackproof.broker.types import TopicPartition

LOOK_S = 0.5
"""How often it is said even if nobody fetches."""


class ProgressWatch:
    """Says it of those partitions that are watched; ``put`` takes it."""

    def __init__(self, replicas: ReplicaManager, put: Callable[[Progress], None]) -> None:
        self._replicas = replicas
        self._put = put
        self._watched: dict[TopicPartition, Progress | None] = {}

    def watch(self, tp: TopicPartition, *, wanted: bool) -> None:
        """From now on, or no more."""
        partition = self._replicas.hosted(tp)
        if wanted:
            self._watched[tp] = None
            self._say(tp)
        else:
            self._watched.pop(tp, None)
        if isinstance(partition, Partition):
            partition.on_fetch = partial(self._say, tp, news=True) if wanted else None

    async def look_forever(self) -> None:
        """Time passes while nobody fetches."""
        while True:
            await asyncio.sleep(LOOK_S)
            for tp in tuple(self._watched):
                self._say(tp)

    def _say(self, tp: TopicPartition, *, news: bool = False) -> None:
        """``news``: only if it is another than the last time; followers fetch often."""
        partition = self._replicas.hosted(tp)
        if not isinstance(partition, Partition) or partition.replica.role is not Role.LEADER:
            return
        replica = partition.replica
        progress = Progress(
            partition=tp,
            leader_epoch=replica.leader_epoch,
            log_end=replica.log_end_offset,
            high_watermark=replica.high_watermark,
            ends=replica.follower_ends,
        )
        if news and progress == self._watched.get(tp):
            return
        self._watched[tp] = progress
        self._put(progress)
