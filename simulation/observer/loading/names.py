"""**DroppedAreDeleted**, without a controller: whoever reads that a topic's name is gone would have
groups know of it, also if it has never read more of the topic than its name.

A broker reads a topic when a client asks about it. Who coordinates a group that has committed of it
is seldom one that nobody has asked; and then the offsets count for the next topic of that name.
"""

from weakref import WeakSet

from ackproof.broker.server.coordination.zk_metadata import ZkMetadata
from simulation.observer.loading.twins import read, twin
from simulation.violation import Violation


class Names:
    """Looks whenever names are read; asked of each broker once in each of its lives."""

    def __init__(self) -> None:
        self._asked: WeakSet[ZkMetadata] = WeakSet()

    def read(self, metadata: ZkMetadata) -> None:
        """Raises Violation."""
        names = set(metadata.names)
        if not names or metadata in self._asked:
            return
        self._asked.add(metadata)
        other, heard = twin(metadata), set[str]()
        other.on_deleted = heard.update
        read(other, set())
        if heard != names:
            missed = sorted(names - heard)
            raise Violation("DroppedAreDeleted", f"were {missed} gone, no group would hear of that")
