"""**HostedIsNotDeleted**: no controller counts a replica as deleted that is assigned, of a topic
that stays.

2 is moved away and back, and counts as deleted since the first move. When the topic goes, 2 is not
told to delete what it has by then.
"""

from broker.controller.context import Context
from broker.controller.phases.replica_state import ReplicaPhase
from simulation.violation import Violation


def check(context: Context) -> None:
    """Raises Violation."""
    for tp in context.replica_phases.partitions():
        assignment = context.assignment(tp)
        if assignment is None or context.deletes(tp.topic):
            continue
        for broker, phase in context.replica_phases.of(tp):
            if phase is ReplicaPhase.DELETION_SUCCESSFUL and broker in assignment.replicas:
                what = f"broker {broker} is to have {tp}, and counts as one that has deleted it"
                raise Violation("HostedIsNotDeleted", what)
