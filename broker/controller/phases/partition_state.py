"""The states of a partition, as the controller sees it.

A partition is New from its discovery to its first written state, Online while it has a live
leader, Offline while it has none. The table is Kafka's (``PartitionStateMachine.scala``).
"""

import enum
from collections.abc import Mapping

from ackproof.broker.types import TopicPartition


class PartitionPhase(enum.Enum):
    """Where a partition is in its life."""

    NON_EXISTENT = "NonExistentPartition"
    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"


_P = PartitionPhase

FROM: Mapping[PartitionPhase, frozenset[PartitionPhase]] = {
    _P.NON_EXISTENT: frozenset({_P.OFFLINE}),
    _P.NEW: frozenset({_P.NON_EXISTENT}),
    _P.ONLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
    _P.OFFLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
}
"""For each state, the states from which it may be entered."""


class IllegalTransition(Exception):
    """A state machine was asked for a step its table does not have; nothing was changed."""


class PartitionPhases:
    """The state of every partition; those not known are NON_EXISTENT."""

    def __init__(self) -> None:
        self._phases: dict[TopicPartition, PartitionPhase] = {}

    def __getitem__(self, tp: TopicPartition) -> PartitionPhase:
        return self._phases.get(tp, PartitionPhase.NON_EXISTENT)

    def move(self, tp: TopicPartition, to: PartitionPhase) -> None:
        """Enter a state; raises IllegalTransition and changes nothing when the table says no."""
        now = self[tp]
        if now not in FROM[to]:
            raise IllegalTransition(f"partition {tp} is {now.value}, cannot become {to.value}")
        if to is PartitionPhase.NON_EXISTENT:
            del self._phases[tp]
        else:
            self._phases[tp] = to

    def forget(self, tp: TopicPartition) -> None:
        """The partition is gone from ZooKeeper, whatever state it was in."""
        self._phases.pop(tp, None)
