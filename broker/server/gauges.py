"""What the broker is like now: its state is looked at when somebody asks for the metrics.

What happens is counted where it happens (:mod:`broker.server.metrics.meters`).
"""

from collections.abc import Iterable

from ackproof.broker.controller.context import Context
from ackproof.broker.replication.replica import Role
from ackproof.broker.server.metrics.snapshot import ControllerGauges, PartitionGauges, Snapshot
from ackproof.broker.server.replication.fetch_session_cache import FetchSessionCache
from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.server.replication.purgatory import Purgatory


def take(
    partitions: Iterable[Partition],
    controller: Context | None,
    purgatory: Purgatory,
    sessions: FetchSessionCache,
    connections: int,
) -> Snapshot:
    """Looks at everything once.

    Args:
        controller: what the controller knows, if this broker is it.
        connections: how many are open.
    """
    return Snapshot(
        partitions=tuple(map(_view, partitions)),
        controller=ControllerGauges() if controller is None else _controller_view(controller),
        waiting_fetches=purgatory.waiting,
        fetch_sessions=len(sessions),
        session_partitions=sum(map(len, sessions)),
        connections=connections,
    )


def _view(partition: Partition) -> PartitionGauges:
    replica, log = partition.replica, partition.log
    return PartitionGauges(
        tp=partition.tp,
        leads=replica.role is Role.LEADER,
        offline=replica.role is Role.OFFLINE,
        replicas=len(replica.replicas),
        isr=len(replica.isr),
        min_isr=partition.config.min_insync_replicas,
        size=log.size,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        segments=len(log.segment_base_offsets),
        waiting_producers=partition.waiting_producers,
    )


def _controller_view(context: Context) -> ControllerGauges:
    offline = imbalanced = 0
    partitions = tuple(context.partitions())
    for tp in partitions:
        state, assignment = context.states.get(tp), context.assignment(tp)
        if context.deletes(tp.topic) or assignment is None:
            continue
        leader = None if state is None else state.leader
        offline += leader not in context.live
        imbalanced += bool(assignment.replicas) and leader != assignment.replicas[0]
    return ControllerGauges(
        activecontrollercount=1,
        offlinepartitionscount=offline,
        preferredreplicaimbalancecount=imbalanced,
        globaltopiccount=len(context.topics),
        globalpartitioncount=len(partitions),
        topicstodeletecount=sum(map(context.deletes, context.deletions)),
        activebrokercount=len(context.live),
    )
