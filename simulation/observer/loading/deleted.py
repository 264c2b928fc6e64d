"""**OffsetsGoWithTopics**, whenever word of it comes: what is committed of a topic would go with it

* while its groups are served, also if their broker knows no more of it than its name;
* while they are loaded, and it is made again before they are: nobody hears of its deletion once
  more, and there is a topic of that name;
* before they are loaded, as where the former coordinator died before it had heard of that;
* and if that cannot be stored, when it is looked next for what is too old.

Groups are loaded within a few ms, and topics are deleted seldom.
"""

from collections.abc import Collection
from typing import Final

from ackproof.broker.server.groups.group_coordinator import GroupCoordinator
from ackproof.broker.server.replication.partition import Partition
from simulation.observer.loading.rehearsal import Rehearsal
from simulation.violation import Violation

INVARIANT: Final = "OffsetsGoWithTopics"


def check(coordinator: GroupCoordinator, home: Partition, topics: Collection[str]) -> None:
    """Raises Violation."""

    def left(rehearsal: Rehearsal, when: str) -> None:
        if kept := rehearsal.left():
            what = f"groups of {home.tp} would keep what they have of {sorted(kept)}"
            raise Violation(INVARIANT, f"{what}, deleted {when}")

    served, loaded, before = (Rehearsal(coordinator, home, home.log, topics) for _ in range(3))
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
