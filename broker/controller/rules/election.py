"""Who leads a partition, and who is in its ISR, after the cluster has changed.

Pure rules, Kafka's own (``PartitionLeaderElectionAlgorithms``, ``ReplicaStateMachine``):

1. Replicas that are not online leave the ISR.
2. A leader that is still in the ISR stays, unless the preferred leader was asked for.
3. Else the first replica in assignment order that is in the ISR leads. Before Kafka 0.8.2
   (KAFKA-1502) the first in the order of the ISR leads instead: with ISR (1, 3, 2) and 1 dead, 3
   (*Data reliability in depth*, 3.5).
4. Else, with ``unclean.leader.election.enable``, the first online replica leads, alone in the ISR:
   what only the others had is lost.
5. Else nobody leads (-1) and the ISR stays as it was: it is the last set that is known to hold
   every acknowledged record. One of its members must come back; where each has bounced and the
   controller waits for the ISR, all of them must, which is KIP-966's rule and not Kafka 3.9's
   (:meth:`broker.controller.partitions.Partitions.reconsider`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ackproof.broker.controller.cluster import PartitionState
from ackproof.broker.types import NO_LEADER, BrokerId


@dataclass(frozen=True, slots=True)
class Choice:
    """A leader (or -1) and an ISR."""

    leader: BrokerId
    isr: tuple[BrokerId, ...]


def first_leader(replicas: Sequence[BrokerId], online: Collection[BrokerId]) -> Choice | None:
    """For a partition that never had a leader: all online replicas are in sync, having nothing.

    None when no replica is online.
    """
    isr = tuple(replica for replica in replicas if replica in online)
    return Choice(isr[0], isr) if isr else None


def choose(
    state: PartitionState,
    candidates: Sequence[BrokerId],
    *,
    online: Collection[BrokerId],
    stopping: Collection[BrokerId] = (),
    unclean: bool = False,
    preferred: bool = False,
    by_isr_order: bool = False,
) -> Choice:
    """Apply the rules to one partition.

    Args:
        candidates: the replicas that may lead, in assignment order; during the last phase of a
            reassignment the target replicas only.
        online: brokers that may lead, without those that are stopping.
        stopping: live brokers in controlled shutdown. A stopping leader without a successor in
            the ISR goes on leading, however unclean elections are set.
        preferred: the first candidate is to lead if it is in sync.
        by_isr_order: whether the first in the ISR, not the first candidate, succeeds a leader.
    """
    isr = tuple(r for r in state.isr if r in online and r in candidates)
    if isr:
        order = candidates
        if by_isr_order:
            order = (candidates[0], *isr) if preferred else isr
        return Choice(_leader_in_isr(state.leader, order, isr, preferred), isr)
    if state.leader in stopping and state.leader in state.isr:
        return Choice(state.leader, tuple(r for r in state.isr if r in stopping))
    if unclean:
        for replica in candidates:
            if replica in online:
                return Choice(replica, (replica,))
    return Choice(NO_LEADER, state.isr)


def _leader_in_isr(
    leader: BrokerId, candidates: Sequence[BrokerId], isr: Collection[BrokerId], preferred: bool
) -> BrokerId:
    if leader in isr and not (preferred and candidates[0] in isr):
        return leader
    return next(replica for replica in candidates if replica in isr)
