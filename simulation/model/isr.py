"""What a replica may conclude from one event: rules of leaders and followers, step by step.

* **Isr/joined-before-epoch-start**: a leader lets a follower into the ISR only when its log reaches
  both the high watermark and the start of the leader's epoch (KAFKA-7128;
  ``Partition.isFollowerInSync``).
* **Isr/two-proposals-at-once**: a leader proposes an ISR only when it knows the outcome of its last
  proposal (KIP-497; Kafka's ``PartitionState.isInflight``). Until then either may be in ZooKeeper.
* **Leader/believes-former-epoch**: a new leader assumes nothing about followers from before its
  epoch: another broker may have led in between, and followers may have truncated their logs.
* **LowWatermark/ahead-of-follower**: a leader counts records as deleted everywhere only after each
  follower has told its log start in this epoch (KIP-107).
* **Replica/answer-not-applied**: a follower applies the high watermark and the log start of an
  answer as soon as it has taken it in, as far as its log reaches. In a fetch session it is told
  once.
* **Produce/retry-acknowledged-early**: a repeated batch waits for all of itself. With acks=all, a
  producer that waits for one offset too few is answered before the ISR has the last record.
* **Leader/lacks-read-record**: a new leader has everything that was committed in each epoch, so no
  consumer is told to go back before what it has read (KIP-320).
* **Fetch/uncommitted-record-read**: neither leader nor follower (KIP-392) serves consumers beyond
  its high watermark.

All are judged by what the model knows of the other replicas' logs, at the step itself: what a
broken rule leads to is often a matter of luck.
"""

from collections.abc import Sequence

from ackproof.broker.replication.epochs import UNKNOWN_OFFSET
from ackproof.broker.replication.events import (
    Append,
    Effect,
    Event,
    Fetched,
    FetchFrom,
    FollowerFetch,
    IsrRefused,
    IsrWriteFailed,
    LeaderAndIsr,
    Produce,
    WriteIsr,
)
from ackproof.broker.replication.replica import Replica, Role
from ackproof.broker.types import LeaderEpoch
from ackproof.broker.wire.batch import RecordBatch
from simulation.model.log import ModelLog
from simulation.model.partition import PartitionModel
from simulation.model.replica import ReplicaModel

Effects = Sequence[Effect]


def check_before(
    broker: int, replica: Replica, partition: PartitionModel, event: Event, effects: Effects
) -> None:
    """Judge a step by what the model knew before it; raises Violation."""
    model = partition.replica(broker)
    if type(event) is Fetched and _is_taken(replica, model.log.end, event, effects):
        _is_applied(replica, partition, event)
    if replica.role is Role.LEADER:
        _epoch_begins(broker, replica, partition, model, event)
        _joiners_have_all(broker, replica, partition, effects)
    _one_isr_at_a_time(broker, replica, partition, event, effects)


def check_after(broker: int, replica: Replica, partition: PartitionModel, event: Event) -> None:
    """Judge a step that the model has taken in; raises Violation."""
    model = partition.replica(broker)
    if type(event) is Produce and event.appended is not None and model.known and model.readable:
        _repetition_is_whole(partition, model.log, event)
    if type(event) is LeaderAndIsr and replica.role is Role.LEADER and partition.checks_data:
        _read_is_shared(broker, replica, partition)
    if replica.role is Role.LEADER:
        _low_watermark_is_heard(broker, replica, partition, event)
    bound = replica.read_bound(None)
    partition.require(
        bound <= replica.high_watermark,
        "Fetch/uncommitted-record-read",
        f"broker {broker} serves consumers up to {bound}, the high watermark is "
        f"{replica.high_watermark}",
    )


# --- leaders ------------------------------------------------------------------------------------


def _epoch_begins(
    broker: int, replica: Replica, partition: PartitionModel, model: ReplicaModel, event: Event
) -> None:
    if type(event) is not LeaderAndIsr or replica.leader_epoch in model.began:
        return
    model.began[replica.leader_epoch] = model.log.end
    known = {b: end for b, end in replica.follower_ends.items() if end != UNKNOWN_OFFSET}
    partition.require(
        not known,
        "Leader/believes-former-epoch",
        f"leader {broker} begins epoch {replica.leader_epoch}, and assumes log ends of {known}",
    )


def _joiners_have_all(
    broker: int, replica: Replica, partition: PartitionModel, effects: Effects
) -> None:
    model, began = partition.replica(broker), replica.leader_epoch
    if not partition.checks_data or not model.is_sure or began not in model.began:
        return
    state = partition.state
    if state is None or (state.leader, state.leader_epoch) != (broker, began):
        return  # deposed: its followers follow another leader, and have truncated their logs
    needed = max(model.began[began], replica.high_watermark)
    for effect in effects:
        for joining in set(effect.isr) - set(replica.isr) if type(effect) is WriteIsr else ():
            joiner = partition.replica(joining)
            partition.require(
                not joiner.is_sure or joiner.log.end >= needed,
                "Isr/joined-before-epoch-start",
                f"leader {broker}, whose epoch begins at {model.began[began]} and whose high "
                f"watermark is {replica.high_watermark}, lets broker {joining} into the ISR, whose "
                f"log is {joiner.log}",
            )


def _one_isr_at_a_time(
    broker: int, replica: Replica, partition: PartitionModel, event: Event, effects: Effects
) -> None:
    model = partition.replica(broker)
    if model.under_way is not None and _is_heard_of(model.under_way, replica, event):
        model.under_way = None
    for effect in effects:
        if type(effect) is WriteIsr:
            before, model.under_way = model.under_way, effect
            partition.require(
                before is None,
                "Isr/two-proposals-at-once",
                f"leader {broker} proposes the ISR {list(effect.isr)} before it knows the outcome "
                f"of {list(before.isr) if before else ()}",
            )


def _is_heard_of(proposal: WriteIsr, replica: Replica, event: Event) -> bool:
    """Return whether the proposal is written, refused, to be tried again, or void."""
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


def _low_watermark_is_heard(
    broker: int, replica: Replica, partition: PartitionModel, event: Event
) -> None:
    model = partition.replica(broker)
    if model.heard_starts[0] != replica.leader_epoch:
        model.heard_starts = replica.leader_epoch, {}
    heard = model.heard_starts[1]
    if type(event) is FollowerFetch:
        known = heard.get(event.replica, UNKNOWN_OFFSET)
        heard[event.replica] = max(known, event.log_start_offset)
    low = replica.low_watermark
    for follower in replica.follower_ends:
        start = heard.get(follower, UNKNOWN_OFFSET)
        partition.require(
            start >= low,
            "LowWatermark/ahead-of-follower",
            f"leader {broker} counts what is below {low} as deleted everywhere, and broker "
            f"{follower} has told a log start of {start} in this epoch",
        )


def _read_is_shared(broker: int, replica: Replica, partition: PartitionModel) -> None:
    state, model = partition.state, partition.replica(broker)
    elected = state is not None and (state.leader, state.leader_epoch) == (
        broker,
        replica.leader_epoch,
    )
    if not elected or partition.unpromised or not (model.is_sure and model.trusted):
        return
    kept_from = max(partition.given_up, replica.log_start_offset)
    lasts = {e.epoch: e.next for e in partition.committed.values() if e.base >= kept_from}
    for epoch, read in lasts.items():
        ended = replica.end_offset_for_epoch(LeaderEpoch(epoch))
        partition.require(
            ended >= (epoch, read),
            "Leader/lacks-read-record",
            f"everything up to {read} is committed in epoch {epoch}, and leader {broker} says that "
            f"logs agree up to {ended[1]} in epoch {ended[0]}",
        )


def _repetition_is_whole(partition: PartitionModel, log: ModelLog, event: Produce) -> None:
    assert event.appended is not None
    base, end = event.appended
    found = next(log.between(base, log.end), None)
    (batch,) = event.batches
    assert isinstance(batch, RecordBatch)
    if found is None or found.base > base:
        return  # it was deleted since
    numbers = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
    partition.require(
        (found.base, found.next) == (base, end)
        and (found.producer, found.producer_epoch, found.sequence) == numbers,
        "Produce/retry-acknowledged-early",
        f"a repeated batch is said to be at {base} to {end}, and there is {found}",
    )


# --- followers ----------------------------------------------------------------------------------


def _is_taken(replica: Replica, log_end: int, event: Fetched, effects: Effects) -> bool:
    """Return whether the follower had asked for this answer, and did not truncate instead."""
    asks = replica.fetching()
    if not isinstance(asks, FetchFrom) or asks.leader_epoch != event.leader_epoch:
        return False
    appended = any(isinstance(effect, Append) for effect in effects)
    return event.fetch_offset == log_end and (appended or not event.batches)


def _is_applied(replica: Replica, partition: PartitionModel, event: Fetched) -> None:
    committed = min(event.high_watermark, replica.log_end_offset)
    start = min(event.log_start_offset, committed)
    partition.require(
        replica.high_watermark >= committed and replica.log_start_offset >= start,
        "Replica/answer-not-applied",
        f"broker {replica.broker} is told a log start of {event.log_start_offset} and a high "
        f"watermark of {event.high_watermark}; its own are {replica.log_start_offset} and "
        f"{replica.high_watermark}, its log ends at {replica.log_end_offset}",
    )
