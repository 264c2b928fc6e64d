"""What is wanted of a partition, beside what ZooKeeper says of it.

A frozen value a partition. Wishes are put into it by whoever hears of one: elections that are asked
for, reassignments, brokers that went down. What they lead to, and what is left of them, is said in
one place, :func:`broker.controller.rules.plan.plan`.
"""

from dataclasses import dataclass

from ackproof.broker.types import BrokerId, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What is wanted of one partition."""

    preferred: bool = False
    """Its preferred replica is to lead if it can."""
    unclean_once: bool = False
    """It may be led by any online replica if nobody in the ISR can, this time."""
    forced: bool = False
    """It needs a new leader epoch even if leader and ISR stay."""
    begun_anew: bool = False
    """Its next leader epoch begins with what one has left, alone in the ISR."""
    taken_back: bool = False
    """Its reassignment was cancelled: the former replicas are the target."""
    suspects: frozenset[BrokerId] = frozenset()
    """Brokers that went down and count as such until the partition's state says so, even if they
    are back by then: they may have lost what they had not flushed. One that would be trusted again
    before could be elected, or be in the ISR when the leader dies, and records be gone that were
    acknowledged because it had them."""


NOTHING = Intent()


class Intents:
    """The intent of each partition; nothing is wanted of those not known."""

    def __init__(self) -> None:
        self._intents: dict[TopicPartition, Intent] = {}

    def __getitem__(self, tp: TopicPartition) -> Intent:
        return self._intents.get(tp, NOTHING)

    def __setitem__(self, tp: TopicPartition, intent: Intent) -> None:
        if intent == NOTHING:
            self._intents.pop(tp, None)
        else:
            self._intents[tp] = intent

    def forget(self, tp: TopicPartition) -> None:
        """The partition is gone, and whatever was wanted of it."""
        self._intents.pop(tp, None)
