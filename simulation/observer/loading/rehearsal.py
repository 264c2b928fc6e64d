"""A coordinator's twin, whose groups' topics are deleted, and made again, while it loads them.

The twin reads the log that the coordinator has loaded, or one like it, and hears of the cluster
from a twin of what its broker knows; what it would store is stored nowhere. So whoever coordinates
can be asked at any time what it would load, and what would become of that.
"""

import asyncio
from collections.abc import Collection, Coroutine
from copy import copy
from types import SimpleNamespace
from typing import Any, cast

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import Stored
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.server.coordination.zk_metadata import ZkMetadata
from ackproof.broker.server.groups.group_coordinator import GroupCoordinator
from ackproof.broker.server.groups.shard import moment
from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.server.requests import update_metadata
from ackproof.broker.types import TopicPartition
from simulation.observer.loading.twins import deletion, finish, read, twin


class Rehearsal:
    """Of the groups in one partition, with that ``log``; ``topics``: those that are deleted."""

    def __init__(
        self,
        coordinator: GroupCoordinator,
        home: Partition,
        log: PartitionLog,
        topics: Collection[str] = (),
    ) -> None:
        self._coordinator, self._topics = copy(coordinator), set(topics)
        self._partition = cast(Partition, _stand_in(home, log))
        self._metadata = twin(coordinator._metadata)
        self._metadata.on_deleted = self._coordinator.topics_deleted
        self._tasks: list[Coroutine[Any, Any, None]] = []
        vars(self._coordinator).update(
            _metadata=self._metadata,
            _replicas=SimpleNamespace(hosted=lambda _tp: self._partition),
            _spawn=self._tasks.append,
            _shards={},
            _loading={},
            _damaged={},
        )

    def begin(self) -> None:
        """A part of the log is read, and others have their turn."""
        self._coordinator._look(self._partition)
        try:
            self._tasks[0].send(None)
        except StopIteration:  # it cannot be read
            del self._tasks[0]

    def go_on(self) -> None:
        """All of it is, and all that follows from that is done."""
        while self._tasks:
            finish(self._tasks.pop(0))

    def delete(self) -> None:
        """The topics are, and the broker hears of that."""
        metadata = self._metadata
        if isinstance(metadata, ZkMetadata):
            read(metadata, set(metadata.names) - self._topics)
        else:
            context = SimpleNamespace(
                fence=SimpleNamespace(admit=lambda *_: ErrorCode.none),
                metadata=metadata,
                groups=self._coordinator,
            )
            brokers, metadata._brokers = metadata._brokers, {}
            update_metadata.handle(deletion(metadata, self._topics), cast(Any, context), 0)
            metadata._brokers = brokers

    def make_again(self) -> None:
        """So are topics of their names, and the broker hears of that, too."""
        metadata = self._metadata
        if isinstance(metadata, ZkMetadata):
            read(metadata, set(metadata.names) | self._topics)
        else:
            metadata._topics |= {topic: {} for topic in self._topics}

    def fail(self) -> None:
        """Nothing can be stored of what was to be."""
        for shard in self._coordinator.shards():
            for token in tuple(shard.groups._storing):
                at, error = moment(shard._clock), ErrorCode.request_timed_out
                shard.groups.step(Stored(at=at, token=token, error=error, offset=-1))

    def expire(self) -> None:
        """The coordinator looks for what is too old."""
        self._coordinator.expire()
        self.go_on()

    @property
    def serves(self) -> bool:
        """The groups."""
        return any(True for _ in self._coordinator.shards())

    def left(self) -> set[TopicPartition]:
        """What is committed of the topics, and stays so."""
        return {
            tp
            for shard in self._coordinator.shards()
            for group in shard.groups.by_id.values()
            for tp in group.offsets.settled()
            if tp.topic in self._topics
        }


def _stand_in(home: Partition, log: PartitionLog) -> object:
    """There is nobody to store anything."""
    return SimpleNamespace(
        tp=home.tp,
        log=log,
        replica=home.replica,
        config=home.config,
        produce=lambda *_: asyncio.get_running_loop().create_future(),
        fail=lambda _error: None,
    )
