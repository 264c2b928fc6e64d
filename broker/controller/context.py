"""What the controller knows: the cluster as last read, and what it is about to change.

One context lives for one controller epoch. Everything in it comes from ZooKeeper or from events;
only ``stopping``, ``preferred``, ``unclean_once``, ``forced``, ``begun_anew``, ``suspects`` and
``taken_back`` are not stored anywhere.
"""

from collections.abc import Collection, Iterable, Iterator

from broker.controller.cluster import (
    LiveBroker,
    PartitionState,
    ReplicaAssignment,
    TopicAssignment,
)
from broker.controller.events import StateWrite
from broker.controller.partition_state import PartitionPhase, PartitionPhases
from broker.controller.replica_state import ReplicaPhases
from broker.types import NO_LEADER, BrokerId, ControllerEpoch, TopicPartition


class Context:
    """The state of one controller epoch; its modules change it, nobody else."""

    def __init__(self, epoch: ControllerEpoch, *, waits_for_isr: bool) -> None:
        self.epoch = epoch
        self.waits_for_isr = waits_for_isr
        self.live: dict[BrokerId, LiveBroker] = {}
        self.stopping: set[BrokerId] = set()
        """Live brokers in controlled shutdown."""
        self.topics: dict[str, TopicAssignment] = {}
        self.unclean: set[str] = set()
        self.states: dict[TopicPartition, PartitionState] = {}
        self.partition_phases = PartitionPhases()
        self.replica_phases = ReplicaPhases()
        self.writing: dict[TopicPartition, StateWrite] = {}
        """Writes whose outcome is not known yet; at most one per partition."""
        self.preferred: set[TopicPartition] = set()
        """Partitions whose preferred replica is to lead if it can."""
        self.unclean_once: set[TopicPartition] = set()
        """Partitions that may be led by any online replica if nobody in the ISR can, this time."""
        self.taken_back: set[TopicPartition] = set()
        """Partitions whose reassignment was cancelled: their former replicas are the target."""
        self.forced: set[TopicPartition] = set()
        """Partitions that need a new leader epoch even if leader and ISR stay."""
        self.begun_anew: set[TopicPartition] = set()
        """Partitions whose next leader epoch begins with what one has left, alone in the ISR."""
        self.suspects: dict[TopicPartition, set[BrokerId]] = {}
        """Brokers that went down and count as such until the partition's state says so, even if
        they are back by then: they may have lost what they had not flushed. One that would be
        trusted again before could be elected, or be in the ISR when the leader dies, and records
        be gone that were acknowledged because it had them."""
        self.deleting: set[str] = set()

    @property
    def online(self) -> set[BrokerId]:
        """Brokers that may lead."""
        return self.live.keys() - self.stopping

    def assignment(self, tp: TopicPartition) -> ReplicaAssignment | None:
        """The partition's replicas; None when there is no such partition."""
        topic = self.topics.get(tp.topic)
        return None if topic is None else topic.partitions.get(tp.partition)

    def partitions(self) -> Iterator[TopicPartition]:
        """Every partition."""
        for topic in self.topics:
            yield from self.partitions_of(topic)

    def partitions_of(self, topic: str) -> Iterator[TopicPartition]:
        """The partitions of a topic; none when it is unknown."""
        if topic in self.topics:
            for number in self.topics[topic].partitions:
                yield TopicPartition(topic, number)

    def partitions_on(self, brokers: Collection[BrokerId]) -> list[TopicPartition]:
        """The partitions with a replica on any of ``brokers``."""
        return [
            tp
            for topic, assigned in self.topics.items()
            for number, assignment in assigned.partitions.items()
            if not set(brokers).isdisjoint(assignment.replicas)
            for tp in (TopicPartition(topic, number),)
        ]

    def reassigned(self, tp: TopicPartition) -> bool:
        """Whether a reassignment has come to its last phase: all target replicas are in sync, or,
        when it was cancelled, any of them."""
        assignment, state = self.assignment(tp), self.states.get(tp)
        if assignment is None or state is None:
            return False
        if not assignment.adding and not assignment.removing:
            return False
        target = set(assignment.target)
        in_sync = (set(state.isr) & self.online) - self.suspects_among(tp)
        return not target.isdisjoint(in_sync) if tp in self.taken_back else target <= in_sync

    def adopt(self, tp: TopicPartition, state: PartitionState) -> None:
        """Take a state that was read, unless a newer one is known."""
        known = self.states.get(tp)
        if known is None or known.zk_version <= state.zk_version:
            if known is not None and tp in self.suspects:
                self._trust_who_joined(tp, known, state)
            self.states[tp] = state
            self.settle_phase(tp)

    def _trust_who_joined(
        self, tp: TopicPartition, known: PartitionState, state: PartitionState
    ) -> None:
        """A suspect that was let into the ISR after it had registered again is none any more.

        That is certain when it was not in the ISR before this very write. With a write in between
        that nobody here has seen, it may have been let in before it went down.
        """
        if state.zk_version == known.zk_version + 1:
            came = {b for b in state.isr if b in self.live and self.live[b].epoch < state.mzxid}
            self.suspects[tp] -= came - set(known.isr)

    def suspect_bounced(self, tps: Iterable[TopicPartition]) -> None:
        """At an election: suspect those who have registered anew since the states count on them.
        Nobody may have seen them go.

        A broker that is leader and controller loses power, and is registered again before its
        rival, now elected, looks: all seems as it was. Told to lead on in its epoch with a shorter
        log, it would append other records where followers hold acknowledged ones, and these would
        count as in sync as soon as it has passed their ends.
        """
        for tp in tps:
            bounced = self._bounced(self.states[tp])
            if bounced:
                self.suspects.setdefault(tp, set()).update(bounced)

    def _bounced(self, state: PartitionState) -> set[BrokerId]:
        relied_on = self.live.keys() & state.isr
        return {b for b in relied_on if self.live[b].epoch > state.trusted_up_to(b)}

    def suspects_among(self, tp: TopicPartition) -> set[BrokerId]:
        """The partition's suspects. Where nobody leads, nobody has judged those who came back
        since: all of them are."""
        suspects, state = self.suspects.get(tp, set()), self.states.get(tp)
        if state is None or state.leader != NO_LEADER or tp in self.begun_anew:
            return suspects
        return suspects | self._bounced(state)

    def settle_phase(self, tp: TopicPartition) -> None:
        """Make the partition Online or Offline according to its leader."""
        state = self.states.get(tp)
        if state is not None and self.assignment(tp) is not None:
            led = state.leader in self.live and tp.topic not in self.deleting
            phase = PartitionPhase.ONLINE if led else PartitionPhase.OFFLINE
            self.partition_phases.move(tp, phase)
