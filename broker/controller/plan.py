"""The plan for a partition, from the known cluster and the desired changes: its leader, its ISR,
and the brokers whose log may lack records."""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from ackproof.broker.controller.cluster import (
    NEVER_READ,
    LiveBroker,
    PartitionState,
    ReplicaAssignment,
)
from ackproof.broker.controller.context import Context, Intent
from ackproof.broker.controller.events import StateWrite
from ackproof.broker.types import NO_LEADER, BrokerId, LeaderEpoch, TopicPartition

# --- suspicion ------------------------------------------------------------------------------------
#
# The brokers whose log may lack records of the ISR: those that went down since they joined.
#
# A broker that registers again may have lost records that it had not flushed. It is a suspect until
# a state has it outside the ISR, or back in the ISR after that registration.


Live = Mapping[BrokerId, LiveBroker]


def bounced(state: PartitionState, live: Live) -> frozenset[BrokerId]:
    """Return the members of the ISR that have registered again since the state relied on them."""
    relied_on = live.keys() & state.isr
    return frozenset(b for b in relied_on if live[b].epoch > state.trusted_up_to(b))


def suspects(intent: Intent, state: PartitionState, live: Live) -> frozenset[BrokerId]:
    """Return the partition's suspects. Without a leader, all members that have restarted since are
    suspects, because no leader has judged them."""
    if state.leader != NO_LEADER or intent.single_log_start:
        return intent.suspects
    return intent.suspects | bounced(state, live)


def without_joiners(
    intent: Intent, known: PartitionState, read: PartitionState, live: Live
) -> Intent:
    """Return the intent without the suspects that joined the ISR after they had registered again.

    That is certain when the broker was not in the ISR before this very write. If there was a write
    in between that this controller has not read, it may have joined before it went down.
    """
    if read.zk_version != known.zk_version + 1:
        return intent
    came = {b for b in read.isr if b in live and live[b].epoch < read.mzxid}
    return replace(intent, suspects=intent.suspects - (came - set(known.isr)))


def with_unregistered_joiners(
    intent: Intent, known: PartitionState, read: PartitionState, live: Live
) -> Intent:
    """Return the intent with the suspects that joined the ISR before they registered again.

    Suppose broker 3 is paused past its session, resumes, and fetches: its leader lets it into the
    ISR while it is not registered. It loses power, returns and registers before this controller
    hears of that ISR. It was never seen in the ISR and down at the same time, and would lead with a
    shorter log as soon as the leader dies.
    """
    if read.mzxid == NEVER_READ:  # this controller wrote it, and knows who is in it
        return intent
    joined = set(read.isr) - set(known.isr)
    gone = {b for b in joined if b in live and live[b].epoch > read.mzxid}
    return replace(intent, suspects=intent.suspects | gone)


def with_possible_joiners(intent: Intent, state: PartitionState) -> Intent:
    """Return the intent when there is nothing to write: suspects count as failed, or there is no
    leader. The suspects that are not in the known ISR remain.

    Suppose broker 3 joins the ISR and loses power before the leader has announced that. As far as
    this controller knows, it was not in the ISR, and it is back when the announcement arrives.
    Without suspicion it would stay in the ISR with a shorter log, and lead as soon as the leader
    dies.
    """
    left = intent.suspects - set(state.isr)
    return replace(intent, suspects=left if state.leader != NO_LEADER else frozenset())


def left_by(write: StateWrite, intent: Intent) -> Intent:
    """Return the intent with the suspects that are in the written ISR. They went down after the
    write was decided. Without a leader the ISR is kept, which says nothing about suspects."""
    left = intent.suspects & set(write.isr)
    return replace(intent, suspects=left if write.leader != NO_LEADER else frozenset())


# --- election -------------------------------------------------------------------------------------
#
# The leader and the ISR of a partition after the cluster has changed.
#
# Pure rules, Kafka's own (``PartitionLeaderElectionAlgorithms``, ``ReplicaStateMachine``):
#
# 1. Replicas that are not online leave the ISR.
# 2. A leader that is still in the ISR stays, unless the preferred leader was requested.
# 3. Otherwise, the first replica in assignment order that is in the ISR leads. Before Kafka 0.8.2
#    (KAFKA-1502) the first in the order of the ISR leads instead: with ISR (1, 3, 2) and 1 dead,
#    broker 3 leads (*Data reliability in depth*, 3.5).
# 4. Otherwise, with ``unclean.leader.election.enable``, the first online replica leads, alone in
#    the ISR. Records that only the others had are lost.
# 5. Otherwise there is no leader (-1), and the ISR stays as it was: it is the last set that is
#    known to hold every acknowledged record. One of its members must come back. If each has bounced
#    and the controller waits for the ISR, all of them must come back. This is KIP-966's rule and
#    not Kafka 3.9's (:meth:`broker.controller.partitions.Partitions.reconsider`).


@dataclass(frozen=True, slots=True)
class Choice:
    """A leader (or -1) and an ISR."""

    leader: BrokerId
    isr: tuple[BrokerId, ...]


def first_leader(replicas: Sequence[BrokerId], online: Collection[BrokerId]) -> Choice | None:
    """Return the choice for a partition that never had a leader, or None when no replica is online.

    All online replicas are in sync, because there are no records.
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
        candidates: the replicas that may lead, in assignment order. During the last phase of a
            reassignment, these are the target replicas only.
        online: brokers that may lead, without those that are stopping.
        stopping: live brokers in controlled shutdown. A stopping leader without a successor in
            the ISR continues to lead, whatever the setting for unclean elections.
        preferred: whether the first candidate should lead if it is in sync.
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


# --- plan -----------------------------------------------------------------------------------------
#
# Derives the state of a partition to write from the known cluster and the desired changes.
#
# Pure: it may be called for any partition at any time, and has nothing to write when all is as it
# should be. Repeated, late or reordered events therefore do no harm.


FIRST_EPOCH = LeaderEpoch(0)


@dataclass(frozen=True, slots=True)
class Plan:
    """A state to write, if any, and the intent that remains."""

    write: StateWrite | None
    intent: Intent


def plan(context: Context, tp: TopicPartition) -> Plan:
    """Return the plan for one partition that has no pending write."""
    assignment, state, intent = context.assignment(tp), context.states.get(tp), context.intents[tp]
    if assignment is None or context.deletes(tp.topic):
        return Plan(None, intent)
    if state is None:
        return Plan(_first(context, tp, assignment), intent)
    if state.controller_epoch > context.epoch:
        return Plan(None, intent)  # written by a successor, which knows of later changes of brokers
    unclean = tp.topic in context.unclean or intent.unclean_once
    intent = trusting_the_last_members(context, assignment, state, intent, unclean=unclean)
    suspected = suspects(intent, state, context.live)
    reassigned = is_reassigned(context, assignment, state, intent)
    choice = choose(
        state,
        assignment.target if reassigned else assignment.replicas,
        online=context.online - suspected,
        stopping=context.stopping - suspected,
        unclean=unclean,
        preferred=intent.preferred,
        by_isr_order=context.by_isr_order,
    )
    if intent.single_log_start and choice.leader != NO_LEADER:
        choice = Choice(choice.leader, (choice.leader,))
    unchanged = choice == Choice(state.leader, state.isr)
    if unchanged and not reassigned and not intent.forced:
        granted = replace(intent, preferred=False, unclean_once=False)
        return Plan(None, with_possible_joiners(granted, state))
    return Plan(_next(context, tp, state, intent, choice), intent)


def is_reassigned(
    context: Context, assignment: ReplicaAssignment, state: PartitionState, intent: Intent
) -> bool:
    """Return whether a reassignment has come to its last phase: all target replicas are in sync or,
    if it was cancelled, any of them."""
    if not assignment.adding and not assignment.removing:
        return False
    target = set(assignment.target)
    in_sync = (set(state.isr) & context.online) - suspects(intent, state, context.live)
    return not target.isdisjoint(in_sync) if intent.cancelled else target <= in_sync


def trusting_the_last_members(
    context: Context,
    assignment: ReplicaAssignment,
    state: PartitionState,
    intent: Intent,
    *,
    unclean: bool,
) -> Intent:
    """Return the intent with a bounced member of the ISR trusted, if no replica can have more
    records.

    After a power failure of the whole cluster, all of the ISR has bounced, and no other replica has
    the records that they lost. One of them leads in a new epoch, by which followers truncate to
    what is left. In the old epoch it would append after the end that it lost. It is alone in the
    ISR. A member with fewer records would lead as soon as it dies, and joins when it has caught up.

    With ``waits_for_isr`` the controller waits for absent members, as in KIP-966. Suppose broker 2
    lost power and is back, and broker 1 dies before 2 has left the ISR. Broker 1 has all
    acknowledged records on its disk. In *Reliability*, the first member that is back leads ("any of
    them"). So it does with unclean elections: a member of the ISR that is there loses less than
    others.

    It must be a replica. Suppose the operator writes another assignment, and the next controller
    finds broker 3 alone in the ISR, bounced, and no longer a replica. If trusted, it could not
    lead, and would be a suspect again. The controller would trust it and write the state again and
    again, and do nothing else for ever.
    """
    isr = set(state.isr)
    suspected = suspects(intent, state, context.live)
    able = context.online & isr & set(assignment.replicas)
    waited = not context.waits_for_isr or isr <= suspected & context.live.keys()
    if able and able <= suspected and (unclean or waited):
        return replace(intent, suspects=frozenset(), forced=True, single_log_start=True)
    return intent


def _first(
    context: Context, tp: TopicPartition, assignment: ReplicaAssignment
) -> StateWrite | None:
    choice = first_leader(assignment.replicas, context.online)
    if choice is None:
        return None
    return StateWrite(
        partition=tp,
        leader=choice.leader,
        leader_epoch=FIRST_EPOCH,
        isr=choice.isr,
        controller_epoch=context.epoch,
        expected=None,
        broker_epochs={member: context.live[member].epoch for member in choice.isr},
    )


def _next(
    context: Context, tp: TopicPartition, state: PartitionState, intent: Intent, choice: Choice
) -> StateWrite:
    is_single_log_start = choice.leader != NO_LEADER and (
        state.leader == NO_LEADER or intent.single_log_start
    )
    vouched_brokers = context.live.keys() if is_single_log_start else frozenset[BrokerId]()
    return StateWrite(
        partition=tp,
        leader=choice.leader,
        leader_epoch=LeaderEpoch(state.leader_epoch + 1),
        isr=choice.isr,
        controller_epoch=context.epoch,
        expected=state.zk_version,
        broker_epochs={
            member: _trusted_up_to(context, state, member, vouched_brokers) for member in choice.isr
        },
    )


def _trusted_up_to(
    context: Context, state: PartitionState, member: BrokerId, vouched_brokers: Set[BrokerId]
) -> int:
    """Return the broker epoch under which ``member`` is in the ISR that is written.

    It stays what it was, unless the ISR begins again. Suppose broker 3 loses power and returns, and
    before this controller reads that, it removes the dead broker 2 from the ISR and dies itself. By
    the time of that write, its successor would take broker 3 for one that never was down.
    """
    if member not in state.isr or member in vouched_brokers:
        return context.live[member].epoch
    return state.trusted_up_to(member)
