"""**OffsetsGoWithTopics**, whenever word of it comes: what is committed of a topic would go with it

* while its groups are served, also if their broker knows no more of it than its name;
* while they are loaded, and it is made again before they are: nobody hears of its deletion once
  more, and there is a topic of that name;
* before they are loaded, as where the former coordinator died before it had heard of that;
* and if that cannot be stored, when it is looked next for what is too old.

Groups are loaded within a few ms, and topics are deleted seldom. So it is asked of each coordinator
once it has loaded groups that have committed something (:mod:`.rehearsal`).
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final
from weakref import WeakSet

from broker.groups.groups import Groups
from broker.server.groups.group_coordinator import GroupCoordinator
from broker.server.groups.shard import GroupShard
from simulation.observer.coordinators import LITTLE_BYTES
from simulation.observer.deletions.rehearsal import Rehearsal
from simulation.violation import Violation

INVARIANT: Final = "OffsetsGoWithTopics"


class Whenever:
    """Looks at each tick."""

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
            read = _read(shard, metadata.names)
            if read:
                self._asked.add(shard.groups)
                with self._rehearsing():
                    check(coordinator, shard, read)

    @contextmanager
    def _rehearsing(self) -> Iterator[None]:
        self.rehearses = True
        try:
            yield
        finally:
            self.rehearses = False


def check(coordinator: GroupCoordinator, shard: GroupShard, topics: Collection[str]) -> None:
    """Raises Violation."""

    def left(rehearsal: Rehearsal, when: str) -> None:
        if kept := rehearsal.left():
            what = f"groups of {shard.partition.tp} would keep what they have of {sorted(kept)}"
            raise Violation(INVARIANT, f"{what}, deleted {when}")

    served, loaded, before = (Rehearsal(coordinator, shard.partition, topics) for _ in range(3))
    served.begin()
    served.go_on()
    served.delete()
    left(served, "while they are served")
    loaded.begin()
    loaded.delete()
    loaded.make_again()
    loaded.go_on()
    left(loaded, "while they are loaded")
    before.delete()
    before.begin()
    before.go_on()
    left(before, "before they are loaded")
    before.fail()
    before.expire()
    left(before, "and that could not be stored at first")


def _read(shard: GroupShard, names: Collection[str]) -> set[str]:
    """Topics that there are and of which something is committed."""
    committed = (group.offsets.settled() for group in shard.groups.by_id.values())
    return {tp.topic for its in committed for tp in its}.intersection(names)
