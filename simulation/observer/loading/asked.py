"""What coordinators would do, asked of each once it has loaded groups that have committed something
of topics that there are: of their twins (:mod:`.rehearsal`)."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from weakref import WeakSet

from ackproof.broker.groups.groups import Groups
from ackproof.broker.server.groups.group_coordinator import GroupCoordinator
from ackproof.broker.server.groups.shard import GroupShard
from simulation.observer.coordinators import LITTLE_BYTES
from simulation.observer.loading import damaged, deleted


class Asked:
    """Of one world; looks at each tick."""

    def __init__(self) -> None:
        self.rehearses = False
        """What groups do just now is a twin's."""
        self._asked: WeakSet[Groups] = WeakSet()

    def ticked(self, coordinator: GroupCoordinator) -> None:
        """Raises Violation."""
        metadata = coordinator._metadata
        if not metadata.brokers:  # nobody has told it anything yet
            return
        for shard in coordinator.shards():
            if shard.groups in self._asked or shard.partition.log.size > LITTLE_BYTES:
                continue
            topics = _read(shard, metadata.names)
            if topics:
                self._asked.add(shard.groups)
                with self._rehearsing():
                    deleted.check(coordinator, shard.partition, topics)
                    damaged.check(coordinator, shard.partition)

    @contextmanager
    def _rehearsing(self) -> Iterator[None]:
        self.rehearses = True
        try:
            yield
        finally:
            self.rehearses = False


def _read(shard: GroupShard, names: Collection[str]) -> set[str]:
    """Topics that there are and of which something is committed."""
    committed = (group.offsets.settled() for group in shard.groups.by_id.values())
    return {tp.topic for its in committed for tp in its}.intersection(names)
