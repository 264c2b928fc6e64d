"""Rules of single steps of leaders and followers.

- **Isr/joined-before-epoch-start**: a leader lets a follower into the ISR only when its log reaches
  both the high watermark and the start of the leader's epoch (KAFKA-7128;
  ``Partition.isFollowerInSync``).
- **Isr/two-proposals-at-once**: a leader proposes an ISR only when it knows the outcome of its last
  proposal (KIP-497; Kafka's ``PartitionState.isInflight``). Until then either may be in ZooKeeper.
- **Fetch/uncommitted-record-read**: neither leader nor follower (KIP-392) serves consumers beyond
  its high watermark.

Each step is judged at once, by the model's knowledge of the other replicas' logs. The consequences
of a broken rule often depend on luck.
"""

from collections.abc import Sequence

from ackproof.broker.replication.events import (
    Effect,
    Event,
    IsrRefused,
    IsrWriteFailed,
    LeaderAndIsr,
    WriteIsr,
)
from ackproof.broker.replication.replica import Replica, Role
from simulation.model.partition import PartitionModel

Effects = Sequence[Effect]


def check_before(
    broker: int, replica: Replica, partition: PartitionModel, event: Event, effects: Effects
) -> None:
    """Judge a step by what the model knew before it; raises Violation."""
    model = partition.replica(broker)
    if replica.role is Role.LEADER:
        if type(event) is LeaderAndIsr:
            model.epoch_starts.setdefault(replica.leader_epoch, model.log.end)
        _check_joining_members(broker, replica, partition, effects)
    _check_single_proposal(broker, replica, partition, event, effects)


def check_after(broker: int, replica: Replica, partition: PartitionModel) -> None:
    """Judge a step after the model has processed it. Raises Violation."""
    bound = replica.read_bound(None)
    partition.require(
        bound <= replica.high_watermark,
        "Fetch/uncommitted-record-read",
        f"broker {broker} serves consumers up to {bound}, the high watermark is "
        f"{replica.high_watermark}",
    )


def _check_joining_members(
    broker: int, replica: Replica, partition: PartitionModel, effects: Effects
) -> None:
    model, epoch = partition.replica(broker), replica.leader_epoch
    if not partition.checks_data or not model.is_certain or epoch not in model.epoch_starts:
        return
    state = partition.state
    if state is None or (state.leader, state.leader_epoch) != (broker, epoch):
        return  # deposed: its followers follow another leader, and have truncated their logs
    needed = max(model.epoch_starts[epoch], replica.high_watermark)
    for effect in effects:
        for joining in set(effect.isr) - set(replica.isr) if type(effect) is WriteIsr else ():
            joiner = partition.replica(joining)
            partition.require(
                not joiner.is_certain or joiner.log.end >= needed,
                "Isr/joined-before-epoch-start",
                f"leader {broker}, whose epoch begins at {model.epoch_starts[epoch]} and whose "
                f"high watermark is {replica.high_watermark}, lets broker {joining} into the ISR, "
                f"whose log is {joiner.log}",
            )


def _check_single_proposal(
    broker: int, replica: Replica, partition: PartitionModel, event: Event, effects: Effects
) -> None:
    model = partition.replica(broker)
    if model.pending_proposal is not None and _is_outcome_known(
        model.pending_proposal, replica, event
    ):
        model.pending_proposal = None
    for effect in effects:
        if type(effect) is WriteIsr:
            before, model.pending_proposal = model.pending_proposal, effect
            partition.require(
                before is None,
                "Isr/two-proposals-at-once",
                f"leader {broker} proposes the ISR {list(effect.isr)} before it knows the outcome "
                f"of {list(before.isr) if before else ()}",
            )


def _is_outcome_known(proposal: WriteIsr, replica: Replica, event: Event) -> bool:
    """Return whether the leader knows that the proposal is written, refused, to be retried, or
    void."""
    if replica.role is not Role.LEADER or replica.leader_epoch != proposal.leader_epoch:
        return True
    if replica.zk_version > proposal.zk_version:
        return True
    match event:
        case IsrRefused():
            return event.leader_epoch == proposal.leader_epoch
        case IsrWriteFailed():
            return event.leader_epoch == proposal.leader_epoch and not event.conflict
    return False
