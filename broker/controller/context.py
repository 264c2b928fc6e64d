"""The controller's state: the cluster as last read, the desired changes and the pending writes."""

import enum
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ackproof.broker.controller.cluster import (
    LiveBroker,
    PartitionState,
    ReplicaAssignment,
    TopicAssignment,
)
from ackproof.broker.controller.events import StateWrite
from ackproof.broker.controller.state_machines import PartitionPhase, PartitionPhases, ReplicaPhases
from ackproof.broker.invariants import require
from ackproof.broker.types import NO_LEADER, BrokerId, ControllerEpoch, TopicPartition

# --- intents --------------------------------------------------------------------------------------
#
# The desired changes of a partition, beside its state in ZooKeeper.
#
# Each partition has one frozen value. It records requested elections and reassignments, and brokers
# that went down. :func:`broker.controller.plan.plan` alone decides what follows from them, and
# which of them remain.


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """The desired changes of one partition."""

    preferred: bool = False
    """Whether its preferred replica should lead if it can."""
    unclean_once: bool = False
    """Whether any online replica may lead it this time if no member of the ISR can."""
    forced: bool = False
    """Whether it needs a new leader epoch even if leader and ISR stay."""
    single_log_start: bool = False
    """Whether its next leader epoch begins with the log of one replica, alone in the ISR."""
    cancelled: bool = False
    """Whether its reassignment was cancelled, so that the former replicas are the target."""
    suspects: frozenset[BrokerId] = frozenset()
    """Brokers that went down, and count as down until the partition's state says so, even if they
    have restarted by then. They may have lost records that they had not flushed. Trusted earlier,
    such a broker could be elected, or be in the ISR when the leader dies. Records that were
    acknowledged because it had them would then be lost."""


NOTHING = Intent()


class Intents:
    """The intent of each partition. An unknown partition has no desired changes."""

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
        """Drop the desired changes of a partition that is gone."""
        self._intents.pop(tp, None)


# --- context --------------------------------------------------------------------------------------
#
# The controller's state: the cluster as last read, the desired changes and the pending writes.
#
# One context lives for one controller epoch. Its content comes from ZooKeeper or from events. Only
# ``stopping`` and ``intents`` are not stored anywhere.


class TopicDeletion(enum.Enum):
    """The progress of a request to delete a topic."""

    ORDERED = "ordered"
    """The deletion waits, because the topic is being reassigned."""
    STARTED = "started"


class Context:
    """The state of one controller epoch. Only the modules of the controller change it."""

    def __init__(
        self, epoch: ControllerEpoch, *, waits_for_isr: bool, by_isr_order: bool = False
    ) -> None:
        self.epoch = epoch
        self.waits_for_isr = waits_for_isr
        self.by_isr_order = by_isr_order
        self.live: dict[BrokerId, LiveBroker] = {}
        self.stopping: set[BrokerId] = set()
        """The live brokers in controlled shutdown."""
        self.topics: dict[str, TopicAssignment] = {}
        self.unclean: set[str] = set()
        self.deletions: dict[str, TopicDeletion] = {}
        self.states: dict[TopicPartition, PartitionState] = {}
        self.intents = Intents()
        self.partition_phases = PartitionPhases()
        self.replica_phases = ReplicaPhases()
        self.writing: dict[TopicPartition, StateWrite] = {}
        """The writes whose outcome is not known yet, at most one per partition."""

    @property
    def online(self) -> set[BrokerId]:
        """The brokers that may lead."""
        return self.live.keys() - self.stopping

    def deletes(self, topic: str) -> bool:
        """Return whether the topic's deletion has started."""
        return self.deletions.get(topic) is TopicDeletion.STARTED

    def assignment(self, tp: TopicPartition) -> ReplicaAssignment | None:
        """Return the partition's replicas, or None when there is no such partition."""
        topic = self.topics.get(tp.topic)
        return None if topic is None else topic.partitions.get(tp.partition)

    def partitions(self) -> Iterator[TopicPartition]:
        """Yield every partition."""
        for topic in self.topics:
            yield from self.partitions_of(topic)

    def partitions_of(self, topic: str) -> Iterator[TopicPartition]:
        """Yield the partitions of a topic, none when it is unknown."""
        if topic in self.topics:
            for number in self.topics[topic].partitions:
                yield TopicPartition(topic, number)

    def partitions_on(self, brokers: Collection[BrokerId]) -> list[TopicPartition]:
        """Return the partitions with a replica on any of ``brokers``."""
        return [
            tp
            for topic, assigned in self.topics.items()
            for number, assignment in assigned.partitions.items()
            if not set(brokers).isdisjoint(assignment.replicas)
            for tp in (TopicPartition(topic, number),)
        ]

    def check(self) -> None:
        """Assert what must hold between two steps. Raise BrokenInvariant otherwise.

        Only live brokers are in controlled shutdown. No ISR is empty, and every leader is in its
        ISR. Every pending write is for a partition that exists, or existed when the write began.
        """
        me = f"controller of epoch {self.epoch}"
        strangers = sorted(self.stopping - self.live.keys())
        require(not strangers, f"{strangers} stop in order, and are not alive", of=me)
        for tp, state in self.states.items():
            led = state.leader == NO_LEADER or state.leader in state.isr
            require(bool(state.isr) and led, f"{tp}: {state.leader} leads {state.isr}", of=me)
        ahead = [tp for tp, write in self.writing.items() if write.controller_epoch != self.epoch]
        require(not ahead, f"{ahead} are being written in another epoch", of=me)

    def settle_phase(self, tp: TopicPartition) -> None:
        """Make the partition Online or Offline according to its leader."""
        state = self.states.get(tp)
        if state is not None and self.assignment(tp) is not None:
            led = state.leader in self.live and not self.deletes(tp.topic)
            phase = PartitionPhase.ONLINE if led else PartitionPhase.OFFLINE
            self.partition_phases.move(tp, phase)
