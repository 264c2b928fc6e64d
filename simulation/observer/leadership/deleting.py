"""Who counts as deleted, and who would delete what it is to have.

* **HostedIsNotDeleted**: no controller counts a replica as deleted of a topic that stays: it is
  forgotten (Kafka's ``NonExistentReplica``). 2 is moved away and back, and counts as deleted since
  the first move: when the topic goes, 2 is not told to delete what it has by then.
* **HostedIsNotClosed**: without a controller, a broker that has read that it is to have a replica
  would carry out no close-replica. One may have been put into its queue before it was assigned
  anew, and be read at any time: what it has acknowledged since would be deleted.
* **DeletionsGetOn**: when a topic is being deleted, and nothing is being written of its leaders any
  more, each of its replicas is told to be deleted, has said that it is, or waits for its broker. A
  partition is added to a topic that is being deleted. Its replicas are told of nothing, the topic
  waits for them, and stays until another controller begins anew.
"""

from typing import Final

from ackproof.broker.controller.context import Context
from ackproof.broker.controller.phases.replica_state import ReplicaPhase
from ackproof.broker.coordination.nodes import PartitionView
from ackproof.broker.coordination.variants import Variant
from ackproof.broker.types import BrokerId, TopicPartition
from simulation.violation import Violation

GOING: Final = (
    ReplicaPhase.DELETION_STARTED,
    ReplicaPhase.DELETION_SUCCESSFUL,
    ReplicaPhase.DELETION_INELIGIBLE,
)


def check(context: Context) -> None:
    """Raises Violation."""
    _none_is_deleted(context)
    _all_are_deleted(context)


def _none_is_deleted(context: Context) -> None:
    for tp in context.replica_phases.partitions():
        if context.deletes(tp.topic):
            continue
        for broker, phase in context.replica_phases.of(tp):
            if phase is ReplicaPhase.DELETION_SUCCESSFUL:
                what = f"broker {broker} counts as one that has deleted {tp}, and may have it again"
                raise Violation("HostedIsNotDeleted", what)


def read(me: BrokerId, tp: TopicPartition, view: PartitionView, variant: Variant) -> None:
    """A broker that hosts the partition has read it; raises Violation. The printed variant obeys
    any close-replica: it has no fence against old ones."""
    stays = view.moving_to != () and me in view.assigned
    if stays and variant.sends_together and variant.close_is_due(me, view):
        what = f"broker {me} is to have {tp}, and would delete it for an old close-replica"
        raise Violation("HostedIsNotClosed", what)


def _all_are_deleted(context: Context) -> None:
    for topic in filter(context.deletes, context.deletions):
        tps = tuple(context.partitions_of(topic))
        if not context.writing.keys().isdisjoint(tps):
            continue
        for tp in tps:
            for broker, phase in context.replica_phases.of(tp):
                if phase not in GOING:
                    what = f"{topic} is being deleted, and {tp} on broker {broker} is {phase.value}"
                    raise Violation("DeletionsGetOn", what)
