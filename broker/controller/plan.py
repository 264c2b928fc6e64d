"""What is to be written of a partition, from what is known of the cluster and what is wanted: its
leader, its ISR, and whose log may lack records."""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from ackproof.broker.controller.cluster import LiveBroker, PartitionState, ReplicaAssignment
from ackproof.broker.controller.context import Context, Intent
from ackproof.broker.controller.events import StateWrite
from ackproof.broker.types import NO_LEADER, BrokerId, LeaderEpoch, TopicPartition

# --- suspicion ------------------------------------------------------------------------------------
#
# Whose log may lack what the ISR says it has: brokers that went down since they were let in.
#
# A broker that registers again may have lost what it had not flushed. It is a suspect until a state
# has it outside the ISR, or back in the ISR after that registration.


Live = Mapping[BrokerId, LiveBroker]


def bounced(state: PartitionState, live: Live) -> frozenset[BrokerId]:
    """Return the members of the ISR that have registered again since the state relied on them."""
    relied_on = live.keys() & state.isr
    return frozenset(b for b in relied_on if live[b].epoch > state.trusted_up_to(b))


def suspects(intent: Intent, state: PartitionState, live: Live) -> frozenset[BrokerId]:
    """The partition's suspects. Where nobody leads, nobody has judged those who came back since:
    all of them are."""
    if state.leader != NO_LEADER or intent.begun_anew:
        return intent.suspects
    return intent.suspects | bounced(state, live)


def without_who_joined(
    intent: Intent, known: PartitionState, read: PartitionState, live: Live
) -> Intent:
    """A suspect that was let into the ISR after it had registered again is none any more.

    That is certain when it was not in the ISR before this very write. With a write in between
    that nobody here has seen, it may have been let in before it went down.
    """
    if read.zk_version != known.zk_version + 1:
        return intent
    came = {b for b in read.isr if b in live and live[b].epoch < read.mzxid}
    return replace(intent, suspects=intent.suspects - (came - set(known.isr)))


def who_may_have_joined(intent: Intent, state: PartitionState) -> Intent:
    """There is nothing to write: suspects count as failed already, or nobody leads. Those whom the
    ISR lacks remain suspects nevertheless.

    3 is let into the ISR and loses power before the leader has notified anybody of that. As
    far as is known here it was not in the ISR, and it is back when the notification comes:
    it would stay in the ISR with a shorter log, and lead as soon as the leader dies.
    """
    left = intent.suspects - set(state.isr)
    return replace(intent, suspects=left if state.leader != NO_LEADER else frozenset())


def left_by(write: StateWrite, intent: Intent) -> Intent:
    """Suspects who are in the ISR that was written: they went down after it was decided. Without
    a leader the ISR is kept, so that is no sign."""
    left = intent.suspects & set(write.isr)
    return replace(intent, suspects=left if write.leader != NO_LEADER else frozenset())


# --- election -------------------------------------------------------------------------------------
#
# Who leads a partition, and who is in its ISR, after the cluster has changed.
#
# Pure rules, Kafka's own (``PartitionLeaderElectionAlgorithms``, ``ReplicaStateMachine``):
#
# 1. Replicas that are not online leave the ISR.
# 2. A leader that is still in the ISR stays, unless the preferred leader was asked for.
# 3. Else the first replica in assignment order that is in the ISR leads. Before Kafka 0.8.2
#    (KAFKA-1502) the first in the order of the ISR leads instead: with ISR (1, 3, 2) and 1 dead, 3
#    (*Data reliability in depth*, 3.5).
# 4. Else, with ``unclean.leader.election.enable``, the first online replica leads, alone in the
#    ISR: what only the others had is lost.
# 5. Else nobody leads (-1) and the ISR stays as it was: it is the last set that is known to hold
#    every acknowledged record. One of its members must come back; where each has bounced and the
#    controller waits for the ISR, all of them must, which is KIP-966's rule and not Kafka 3.9's
#    (:meth:`broker.controller.partitions.Partitions.reconsider`).


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


# --- plan -----------------------------------------------------------------------------------------
#
# Derives the state of a partition to write from the known cluster and the desired changes.
#
# Pure: it may be asked of any partition at any time, and has nothing to write when all is as it
# should be. So repeated, late or reordered events do no harm.


FIRST_EPOCH = LeaderEpoch(0)


@dataclass(frozen=True, slots=True)
class Plan:
    """A state to write, if any, and the intent that is left."""

    write: StateWrite | None
    intent: Intent


def plan(context: Context, tp: TopicPartition) -> Plan:
    """For one partition of which nothing is being written."""
    assignment, state, intent = context.assignment(tp), context.states.get(tp), context.intents[tp]
    if assignment is None or context.deletes(tp.topic):
        return Plan(None, intent)
    if state is None:
        return Plan(_first(context, tp, assignment), intent)
    if state.controller_epoch > context.epoch:
        return Plan(None, intent)  # a successor's: it knows of brokers that came or went since
    unclean = tp.topic in context.unclean or intent.unclean_once
    intent = trusting_if_nobody_else(context, assignment, state, intent, unclean=unclean)
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
    if intent.begun_anew and choice.leader != NO_LEADER:
        choice = Choice(choice.leader, (choice.leader,))
    unchanged = choice == Choice(state.leader, state.isr)
    if unchanged and not reassigned and not intent.forced:
        granted = replace(intent, preferred=False, unclean_once=False)
        return Plan(None, who_may_have_joined(granted, state))
    return Plan(_next(context, tp, state, intent, choice), intent)


def is_reassigned(
    context: Context, assignment: ReplicaAssignment, state: PartitionState, intent: Intent
) -> bool:
    """Whether a reassignment has come to its last phase: all target replicas are in sync, or,
    when it was cancelled, any of them."""
    if not assignment.adding and not assignment.removing:
        return False
    target = set(assignment.target)
    in_sync = (set(state.isr) & context.online) - suspects(intent, state, context.live)
    return not target.isdisjoint(in_sync) if intent.taken_back else target <= in_sync


def trusting_if_nobody_else(
    context: Context,
    assignment: ReplicaAssignment,
    state: PartitionState,
    intent: Intent,
    *,
    unclean: bool,
) -> Intent:
    """When all of the ISR bounced, as after a power cut of the whole cluster, whatever they
    lost nobody has more. One of them leads in a new epoch, by which followers cut to what is
    left; in the old one it would append behind the end that it lost. It is alone in the ISR:
    who has less would lead as soon as it dies, and is let in when it has caught up.

    With ``waits_for_isr`` one that is away is waited for, as KIP-966 has it: 2 lost power and
    is back, and 1, which dies before 2 has left the ISR, has all that was acknowledged on its
    disk. Seed 002 has whoever is back first lead ("any of them"), and so does an unclean
    election: one of the ISR that is there loses less than others.

    It must be a replica. A person writes another assignment, and the next controller finds 3 alone
    in the ISR, bounced, and no replica any more: trusted, it could not lead, and would be a suspect
    again, trusted again and written down again, and the controller do nothing else for ever.
    """
    isr = set(state.isr)
    suspected = suspects(intent, state, context.live)
    able = context.online & isr & set(assignment.replicas)
    waited = not context.waits_for_isr or isr <= suspected & context.live.keys()
    if able and able <= suspected and (unclean or waited):
        return replace(intent, suspects=frozenset(), forced=True, begun_anew=True)
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
    begins_anew = choice.leader != NO_LEADER and (state.leader == NO_LEADER or intent.begun_anew)
    vouched_anew = context.live.keys() if begins_anew else frozenset[BrokerId]()
    return StateWrite(
        partition=tp,
        leader=choice.leader,
        leader_epoch=LeaderEpoch(state.leader_epoch + 1),
        isr=choice.isr,
        controller_epoch=context.epoch,
        expected=state.zk_version,
        broker_epochs={
            member: _trusted_up_to(context, state, member, vouched_anew) for member in choice.isr
        },
    )


def _trusted_up_to(
    context: Context, state: PartitionState, member: BrokerId, vouched_anew: Set[BrokerId]
) -> int:
    """The broker epoch as which ``member`` is in the ISR that is written.

    It stays what it was, unless the ISR begins anew. 3 loses power and is back, and before this
    controller looks, it takes the dead 2 out of the ISR and dies itself. By the time of that
    write, its successor would take 3 for one that never was away.
    """
    if member not in state.isr or member in vouched_anew:
        return context.live[member].epoch
    return state.trusted_up_to(member)
