"""What groups have committed of topics that are no more.

**OffsetsGoWithTopics**: a coordinator that has heard that a topic is gone has no offsets of it, nor
will have; they would count for the next topic of that name. Where nothing is on its way any more
that would change that, it is so at the next tick already: that topic may be made a moment later.
Not held against who could not store something: the deletion may have been it.
"""

from typing import Final
from weakref import WeakKeyDictionary, WeakSet

from ackproof.broker.groups.groups import Groups
from ackproof.broker.groups.offsets import CommittedOffset
from ackproof.broker.server.coordination.zk_metadata import FRESH_S_MAX, ZkMetadata
from ackproof.broker.server.groups.group_coordinator import GroupCoordinator
from ackproof.broker.types import TopicPartition
from simulation.violation import Violation

READ_ANEW_MS: Final = 1_000 * FRESH_S_MAX + 500
"""What was read of ZooKeeper before groups were loaded may lack a topic that they know, so long."""

_Left = dict[tuple[str, TopicPartition], tuple[CommittedOffset, float]]
"""Offsets of topics of which nobody here has heard, and since when."""


class Outliving:
    """Looks at each tick."""

    def __init__(self) -> None:
        self._left: WeakKeyDictionary[Groups, _Left] = WeakKeyDictionary()
        self._failed: WeakSet[Groups] = WeakSet()

    def failed(self, groups: Groups) -> None:
        """Something of these could not be stored."""
        self._failed.add(groups)

    def ticked(self, coordinator: GroupCoordinator, now: float) -> None:
        """Raises Violation."""
        metadata = coordinator._metadata
        if not metadata.is_fresh(()):
            return
        names = metadata.names
        limit_ms = READ_ANEW_MS if isinstance(metadata, ZkMetadata) else 0
        for shard in coordinator.shards():
            groups = shard.groups
            if groups in self._failed:
                continue
            before, left = self._left.get(groups, {}), {}
            for name, group in groups.by_id.items():
                for tp, offset in group.offsets.committed.items():
                    if tp.topic in names or tp not in group.offsets.settled():
                        continue
                    known, since = before.get((name, tp), (None, now))
                    left[name, tp] = offset, since if known is offset else now
                    if now - since > limit_ms and known is offset:
                        what = f"group {name} has {offset.value.offset} of {tp}"
                        raise Violation("OffsetsGoWithTopics", f"{what}, which is no more")
            if before or left:
                self._left[groups] = left
