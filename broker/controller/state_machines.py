"""The states of partitions and replicas for the controller, and the allowed transitions."""

import enum
from collections.abc import Iterator, Mapping

from ackproof.broker.types import BrokerId, TopicPartition

# --- partitions -----------------------------------------------------------------------------------
#
# The states of a partition, as the controller sees it.
#
# A partition is New from its discovery to its first written state, Online while it has a live
# leader, Offline while it has none. The table is Kafka's (``PartitionStateMachine.scala``).


class PartitionPhase(enum.Enum):
    """The state of a partition in its life cycle."""

    NON_EXISTENT = "NonExistentPartition"
    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"


_P = PartitionPhase

PARTITION_PREVIOUS: Mapping[PartitionPhase, frozenset[PartitionPhase]] = {
    _P.NON_EXISTENT: frozenset({_P.OFFLINE}),
    _P.NEW: frozenset({_P.NON_EXISTENT}),
    _P.ONLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
    _P.OFFLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
}
"""For each state, the states from which it may be entered."""


class IllegalTransition(Exception):
    """A transition that the table of a state machine does not have. Nothing was changed."""


class PartitionPhases:
    """The state of every partition. An unknown partition is NON_EXISTENT."""

    def __init__(self) -> None:
        self._phases: dict[TopicPartition, PartitionPhase] = {}

    def __getitem__(self, tp: TopicPartition) -> PartitionPhase:
        return self._phases.get(tp, PartitionPhase.NON_EXISTENT)

    def move(self, tp: TopicPartition, to: PartitionPhase) -> None:
        """Enter a state. Raise IllegalTransition, and change nothing, if the table does not allow
        it."""
        now = self[tp]
        if now not in PARTITION_PREVIOUS[to]:
            raise IllegalTransition(f"partition {tp} is {now.value}, cannot become {to.value}")
        if to is PartitionPhase.NON_EXISTENT:
            del self._phases[tp]
        else:
            self._phases[tp] = to

    def forget(self, tp: TopicPartition) -> None:
        """Drop a partition that is gone from ZooKeeper, whatever its state was."""
        self._phases.pop(tp, None)


# --- replicas -------------------------------------------------------------------------------------
#
# The states of a replica, as the controller sees it.
#
# A replica is New until its broker has first been told of it (that request carries ``is_new``),
# Online or Offline with its broker, and passes through the deletion states on its way out. The
# table is Kafka's (``ReplicaStateMachine.scala``).


class ReplicaPhase(enum.Enum):
    """The state of a replica in its life cycle."""

    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"


_R = ReplicaPhase
_SERVING = frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE})

REPLICA_PREVIOUS: Mapping[ReplicaPhase, frozenset[ReplicaPhase]] = {
    _R.NON_EXISTENT: frozenset({_R.DELETION_SUCCESSFUL}),
    _R.NEW: frozenset({_R.NON_EXISTENT}),
    _R.ONLINE: _SERVING,
    _R.OFFLINE: _SERVING,
    _R.DELETION_STARTED: frozenset({_R.OFFLINE}),
    _R.DELETION_SUCCESSFUL: frozenset({_R.DELETION_STARTED}),
    _R.DELETION_INELIGIBLE: frozenset({_R.OFFLINE, _R.DELETION_STARTED}),
}
"""For each state, the states from which it may be entered."""


class ReplicaPhases:
    """The state of every replica. An unknown replica is NON_EXISTENT."""

    def __init__(self) -> None:
        self._phases: dict[TopicPartition, dict[BrokerId, ReplicaPhase]] = {}

    def __getitem__(self, replica: tuple[TopicPartition, BrokerId]) -> ReplicaPhase:
        tp, broker = replica
        return self._phases.get(tp, {}).get(broker, ReplicaPhase.NON_EXISTENT)

    def of(self, tp: TopicPartition) -> Iterator[tuple[BrokerId, ReplicaPhase]]:
        """Return the partition's replicas with their states."""
        return iter(tuple(self._phases.get(tp, {}).items()))

    def move(self, tp: TopicPartition, broker: BrokerId, to: ReplicaPhase) -> None:
        """Enter a state. Raise IllegalTransition, and change nothing, if the table does not allow
        it."""
        now = self[tp, broker]
        if now not in REPLICA_PREVIOUS[to]:
            raise IllegalTransition(
                f"replica {broker} of {tp} is {now.value}, cannot become {to.value}"
            )
        if to is ReplicaPhase.NON_EXISTENT:
            del self._phases[tp][broker]
        else:
            self._phases.setdefault(tp, {})[broker] = to

    def partitions(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that have replicas in any state."""
        return tuple(self._phases)

    def forget(self, tp: TopicPartition) -> None:
        """Drop a partition that is gone from ZooKeeper, whatever the states of its replicas
        were."""
        self._phases.pop(tp, None)
