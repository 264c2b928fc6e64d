"""The deletion of topics (Kafka's ``TopicDeletionManager``).

1. All brokers are told that the topic has no leader any more (-2).
2. The broker of each replica is told to stop and delete it.
3. When all have confirmed, the topic's znodes are removed. This happens at once if there is no
   replica to confirm, as in Kafka (``areAllReplicasForTopicDeleted`` is true of no replicas).

The deletion of a replica on a broker that is down waits for that broker, and the topic stays in
``/admin/delete_topics`` until then. A topic that is being reassigned is deleted after the
reassignment.
"""

from collections.abc import Collection, Mapping

from kio.schema.errors import ErrorCode

from ackproof.broker.controller.context import Context, TopicDeletion
from ackproof.broker.controller.events import DropDeletion
from ackproof.broker.controller.pending import PendingDeletion, Pendings
from ackproof.broker.controller.requests import EPOCH_DURING_DELETE, Outbox
from ackproof.broker.controller.state_machines import ReplicaPhase
from ackproof.broker.types import BrokerId, TopicPartition


class Deletions:
    """The topics that are being deleted."""

    def __init__(self, context: Context, outbox: Outbox, pendings: Pendings) -> None:
        self._context = context
        self._outbox = outbox
        self._pendings = pendings

    def ask(self, topics: Collection[str]) -> None:
        """Process a request to delete topics. Repeating it is harmless."""
        for topic in sorted(topics):
            if topic in self._context.topics:
                self._context.deletions.setdefault(topic, TopicDeletion.ORDERED)
            else:
                self._outbox.put(DropDeletion(topic=topic))
        self.advance()

    def advance(self) -> None:
        """Begin to delete the topics that may be deleted now."""
        context = self._context
        for topic in sorted(context.deletions):
            assigned = context.topics[topic].partitions.values()
            moved = any(assignment.adding or assignment.removing for assignment in assigned)
            if not moved and not context.deletes(topic):
                context.deletions[topic] = TopicDeletion.STARTED
                tps = tuple(context.partitions_of(topic))
                self._pendings.add(PendingDeletion(topic=topic, partitions=tps))

    def begin(self, topic: str) -> None:
        """Have the replicas of a topic deleted, once no write for its partitions is pending."""
        context = self._context
        tps = list(context.partitions_of(topic))
        self._outbox.batch.metadata(context.live, tps)
        for tp in tps:
            context.settle_phase(tp)
            for broker, phase in context.replica_phases.of(tp):
                if phase in (ReplicaPhase.DELETION_STARTED, ReplicaPhase.DELETION_SUCCESSFUL):
                    continue
                context.replica_phases.move(tp, broker, ReplicaPhase.OFFLINE)
                self.delete_replica(tp, broker)

    def delete_replica(self, tp: TopicPartition, broker: BrokerId) -> None:
        """Have an Offline replica deleted, if its broker is live."""
        if broker in self._context.live:
            self._context.replica_phases.move(tp, broker, ReplicaPhase.DELETION_STARTED)
            self._outbox.batch.stop(broker, tp, EPOCH_DURING_DELETE, delete=True)
        else:
            self._context.replica_phases.move(tp, broker, ReplicaPhase.DELETION_INELIGIBLE)

    def brokers_down(self, brokers: Collection[BrokerId]) -> None:
        """Mark the replicas on these brokers as waiting, because they will not confirm their
        deletion."""
        phases = self._context.replica_phases
        for tp in phases.partitions():
            for broker, phase in phases.of(tp):
                if broker in brokers and phase is ReplicaPhase.DELETION_STARTED:
                    phases.move(tp, broker, ReplicaPhase.DELETION_INELIGIBLE)

    def brokers_up(self, brokers: Collection[BrokerId]) -> None:
        """Delete the replicas whose deletion waited for these brokers."""
        phases = self._context.replica_phases
        for tp in phases.partitions():
            for broker, phase in phases.of(tp):
                if broker in brokers and phase is ReplicaPhase.DELETION_INELIGIBLE:
                    phases.move(tp, broker, ReplicaPhase.OFFLINE)
                    self.delete_replica(tp, broker)

    def answered(
        self, broker: BrokerId, errors: Mapping[TopicPartition, ErrorCode]
    ) -> tuple[str, ...]:
        """Process a broker's answer to StopReplica, and return the topics that have no replica
        left."""
        phases = self._context.replica_phases
        for tp, error in errors.items():
            if phases[tp, broker] is not ReplicaPhase.DELETION_STARTED:
                continue
            # The request went to a former registration, whose end brokers_down reports sooner or
            # later. If this counted as a refusal after brokers_down, the answer to the next request
            # would be ignored. No further request would follow, and the topic would stay for ever.
            if error is ErrorCode.stale_broker_epoch:
                continue
            if error is not ErrorCode.none:
                phases.move(tp, broker, ReplicaPhase.DELETION_INELIGIBLE)
                continue
            phases.move(tp, broker, ReplicaPhase.DELETION_SUCCESSFUL)
            if not self._context.deletes(tp.topic):
                phases.move(tp, broker, ReplicaPhase.NON_EXISTENT)
        return tuple(filter(self.is_deleted, sorted({tp.topic for tp in errors})))

    def is_deleted(self, topic: str) -> bool:
        """Return whether a topic that is being deleted has no replica left. A tool may have written
        its znode without a partition. Then no broker is asked, and no answer would end the
        deletion."""
        phases = self._context.replica_phases
        tps = self._context.partitions_of(topic)
        left = {phase for tp in tps for _, phase in phases.of(tp)}
        return self._context.deletes(topic) and left <= {ReplicaPhase.DELETION_SUCCESSFUL}
