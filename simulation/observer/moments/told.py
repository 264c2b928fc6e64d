"""What a broker would tell clients, looked at in moments at which hardly any of them asks."""

from collections.abc import Collection, Container, Mapping
from types import SimpleNamespace
from typing import Any, Final, cast

from kio.schema.errors import ErrorCode

from ackproof.broker.coordination.nodes import LeaderNode
from ackproof.broker.replication.events import Event, LeaderAndIsr, Produce
from ackproof.broker.replication.replica import Role
from ackproof.broker.server.metadata_cache import MetadataCache, PartitionMetadata
from ackproof.broker.server.replication import partition as server
from ackproof.broker.server.requests import delete_records, list_offsets, offset_for_leader_epoch
from ackproof.broker.types import (
    LATEST_TIMESTAMP,
    LEADER_DURING_DELETE,
    NO_EPOCH,
    NO_LEADER,
    NO_OFFSET,
    BrokerId,
    LeaderEpoch,
    TopicPartition,
)
from ackproof.broker.wire.batch import RecordBatch
from ackproof.broker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ackproof.broker.wire.messages.metadata import MetadataResponse
from ackproof.broker.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ackproof.broker.wire.messages.update_metadata import UpdateMetadataRequest
from simulation.partition.invariants import Partition
from simulation.violation import Violation

Led = tuple[TopicPartition, int, int]
"""Who leads it, in which epoch."""

MAX_TIMESTAMP: Final = -3
NOT_A_FOLLOWER: Final = BrokerId(-1)
SHORT_BYTES: Final = 1_000
"""Of a log whose leader is asked: what is looked for by its time is read from its beginning on."""


def stepped(
    broker: int, hosted: server.Partition, partition: Partition, event: Event, *, changed: bool
) -> None:
    """``changed``: something followed from the ``event``; raises Violation."""
    if (
        type(event) is LeaderAndIsr
        and partition.checks_data
        and _is_elected(broker, hosted, partition)
    ):
        end(broker, hosted, partition)
        shared(broker, hosted, partition)
    if type(event) is LeaderAndIsr and hosted.replica.role is Role.LEADER:
        waiting(broker, hosted)
    if type(event) is LeaderAndIsr and hosted.replica.role is not Role.LEADER:
        deleted(broker, hosted)
    if type(event) is Produce and changed:
        appended(broker, hosted, cast(RecordBatch, event.batches[0]))
    if changed:
        bounded(broker, hosted)


def end(broker: int, hosted: server.Partition, partition: Partition) -> None:
    """**EndNeverBack**: a leader just elected tells nobody of an end that lies before what was
    committed, and may have been read (KIP-207). Raises Violation.

    1 and 2 have committed up to 12, and 2, told of 10 so far, leads next: until it has heard from 1
    its watermark is 10. That takes a few ms, and who asks then would take two records for gone.
    Nor that there is no record from some time on: a consumer told so begins at the end.
    """
    if hosted.replica.high_watermark < partition.committed_end:
        _nothing_young(broker, hosted, partition.committed_end)
    part = _told(hosted, LATEST_TIMESTAMP)
    if part.error_code is ErrorCode.none and part.offset < partition.committed_end:
        raise Violation(
            "EndNeverBack",
            f"{hosted.tp}: {partition.committed_end} are committed, and leader {broker} would say "
            f"{part.offset} at its election",
        )


def _nothing_young(broker: int, hosted: server.Partition, committed: int) -> None:
    """The youngest record may be one of those that this leader does not know to be committed."""
    for timestamp in (MAX_TIMESTAMP, hosted.log.max_timestamp):
        try:
            part = _told(hosted, timestamp)
        except OSError:  # its disk refuses to be read
            return
        if part.error_code is ErrorCode.none and part.offset == NO_OFFSET:
            what = f"asked for {timestamp}, leader {broker} would find nothing at its election"
            raise Violation("EndNeverBack", f"{hosted.tp}: {committed} are committed, and {what}")


def waiting(broker: int, hosted: server.Partition) -> None:
    """**WaitedForAreAnswered**: a leader tells each of its followers where epochs ended, also while
    it waits for them and serves nobody else. Raises Violation.

    A follower that has to ask before it may fetch would be waited for in vain, and dropped.
    """
    for follower in hosted.replica.replicas:
        part = _ended(hosted, hosted.replica.leader_epoch, follower)
        if follower != broker and part.error_code is not ErrorCode.none:
            what = f"leader {broker} would say {part.error_code.name} to {follower}, which follows"
            raise Violation("WaitedForAreAnswered", f"{hosted.tp}: {what}")


def shared(broker: int, hosted: server.Partition, partition: Partition) -> None:
    """**ReadIsShared**: a leader just elected tells no consumer that what it may have read was cut
    (KIP-320): of each epoch in which something was committed it has all of that.

    A consumer asks once, when it has heard of the next epoch, and goes back to where it is told
    that the logs part: it reads all that again, or passes over what is there now.
    """
    lasts = {
        extent.epoch: extent.next
        for extent in partition.committed.values()
        if extent.base >= max(partition.given_up, hosted.log.log_start_offset)
    }
    for epoch, read in lasts.items():
        found = _ended(hosted, LeaderEpoch(epoch))
        told = (found.leader_epoch, found.end_offset)
        if found.error_code is ErrorCode.none and told < (epoch, read):
            what = f"{told[1]} in epoch {told[0]} as the end of what they share"
            raise Violation(
                "ReadIsShared",
                f"{hosted.tp}: up to {read} all is committed in epoch {epoch}, and leader {broker} "
                f"would say {what}",
            )


def appended(broker: int, hosted: server.Partition, batch: RecordBatch) -> None:
    """**ListedIsCommitted**: of what is not committed yet no time is told, the youngest of all
    neither, and the end is where it begins (KIP-79, ``UnifiedLog.fetchOffsetByTimestamp`` as
    ``Partition.fetchOffsetForTimestamp`` bounds it). Raises Violation.

    A batch is appended and committed within a few ms, and no consumer asks in between.
    """
    committed = hosted.replica.high_watermark
    if hosted.log.size > SHORT_BYTES or not hosted.replica.serves:
        return
    for timestamp in (LATEST_TIMESTAMP, MAX_TIMESTAMP, batch.max_timestamp):
        try:
            part = _told(hosted, timestamp)
        except OSError:  # its disk refuses to be read
            return
        if part.error_code is ErrorCode.none and part.offset > committed - (timestamp >= 0):
            what = f"asked for {timestamp}, leader {broker} would say {part.offset}"
            raise Violation("ListedIsCommitted", f"{hosted.tp}: {what}, committed is {committed}")


def deleted(broker: int, hosted: server.Partition) -> None:
    """**DeletedIsLed**: who leads no more tells nobody that records are deleted everywhere: of that
    it has heard nothing (KIP-107). Raises Violation.

    A leader has deleted what lies below 10, and is deposed before its followers have; by its own
    log alone all would be done. Few deletions wait just then.
    """
    error, _ = delete_records._reached(hosted.tp, hosted.log.log_start_offset, _of(hosted))
    if error in (ErrorCode.none, ErrorCode.request_timed_out):
        what = f"broker {broker} leads no more, and says {error.name} to who waits for deletions"
        raise Violation("DeletedIsLed", f"{hosted.tp}: {what}")


def bounded(broker: int, hosted: server.Partition) -> None:
    """**ReadIsCommitted**: whoever is asked, leader or follower (KIP-392), would read a consumer
    nothing that it does not know to be committed. Raises Violation.

    It is the next fetch that tells a follower of that; few consumers come in between.
    """
    bound, committed = hosted.replica.read_bound(None), hosted.replica.high_watermark
    if bound > committed:
        what = f"broker {broker} would read up to {bound} to consumers, committed is {committed}"
        raise Violation("ReadIsCommitted", f"{hosted.tp}: {what}")


def _is_elected(broker: int, hosted: server.Partition, partition: Partition) -> bool:
    """To an office that it still holds, by a partition that promises all."""
    state, seat = partition.state, partition.seat(broker)
    now = (broker, hosted.replica.leader_epoch)
    if state is None or (state.leader, state.leader_epoch) != now or partition.unpromised:
        return False
    return bool(seat.is_whole and seat.trusted and seat.readable)


def _ended(
    hosted: server.Partition, epoch: LeaderEpoch, follower: BrokerId = NOT_A_FOLLOWER
) -> EpochEndOffset:
    asked = OffsetForLeaderPartition(
        partition=hosted.tp.partition,
        current_leader_epoch=hosted.replica.leader_epoch,
        leader_epoch=epoch,
    )
    topic = OffsetForLeaderTopic(topic=hosted.tp.topic, partitions=(asked,))
    request = OffsetForLeaderEpochRequest(version=3, replica_id=follower, topics=(topic,))
    answer = offset_for_leader_epoch.handle(request, _of(hosted))
    ((part,),) = [each.partitions for each in answer.topics]
    return part


def _of(hosted: server.Partition) -> Any:
    """A context in which there is this partition alone, and all of its brokers."""
    return SimpleNamespace(
        replicas=SimpleNamespace(hosted=lambda _tp: hosted),
        metadata=SimpleNamespace(brokers=hosted.replica.replicas),
    )


def _told(hosted: server.Partition, timestamp: int) -> ListOffsetsPartitionResponse:
    asked = ListOffsetsPartition(partition_index=hosted.tp.partition, timestamp=timestamp)
    topic = ListOffsetsTopic(name=hosted.tp.topic, partitions=(asked,))
    request = ListOffsetsRequest(
        version=7, replica_id=NOT_A_FOLLOWER, isolation_level=0, topics=(topic,)
    )
    ((part,),) = [each.partitions for each in list_offsets.handle(request, _of(hosted)).topics]
    return part


def leaders(answer: MetadataResponse, ever: Container[Led]) -> None:
    """Raises Violation. ``ever``: who has led what in which epoch, by ZooKeeper.

    * **NoLeaderIsSaid**: of a partition that nobody leads clients are told LEADER_NOT_AVAILABLE,
      and ask again. Without the error they take -1 for a broker.
    * **LeadersHaveLed**: whom they are told to be its leader in an epoch was that, now or before.
      By an epoch that is another one's they would take the right answer, told a moment later, for
      an older one, and stay with who leads no more (KIP-320).
    """
    for topic in answer.topics:
        for part in topic.partitions:
            what = f"{topic.name}-{part.partition_index}"
            nobody = part.leader_id == NO_LEADER
            if nobody != (part.error_code is ErrorCode.leader_not_available):
                said = f"{part.error_code.name} of {what}"
                raise Violation("NoLeaderIsSaid", f"{said}, whose leader is {part.leader_id}")
            tp = TopicPartition(topic.name or "", part.partition_index)
            _has_led(tp, part.leader_id, part.leader_epoch, ever)


def known(topic: str, parts: Mapping[int, PartitionMetadata], ever: Container[Led]) -> None:
    """The same of what a broker without a controller has read, and tells who asks in the next
    moment. Raises Violation."""
    for number, part in parts.items():
        _has_led(TopicPartition(topic, number), part.leader, part.leader_epoch, ever)


def claimed_meanwhile(leader: LeaderNode, part: PartitionMetadata) -> None:
    """The same of ``part``, which a broker would tell if somebody had claimed the partition behind
    its reading of who leads and before that of the ISR: few claims come just then. Raises
    Violation."""
    if part.leader != NO_LEADER and (part.leader, part.leader_epoch) != (
        leader.broker,
        leader.epoch,
    ):
        said = f"{part.leader} would be said to lead in epoch {part.leader_epoch}"
        raise Violation("LeadersHaveLed", f"{said}, and leads in {leader.epoch}")


def named(cache: MetadataCache) -> None:
    """**NamedAreShown**: a broker shows no topic whose name is gone. Raises Violation.

    What it read while the topic was deleted it would show for ever, and refuse to make it again.
    """
    nameless = sorted(cache.topics.keys() - set(cache.names))
    if nameless:
        raise Violation("NamedAreShown", f"there is no topic {nameless}, and clients are shown it")


def registered(cache: MetadataCache, brokers: Collection[BrokerId]) -> None:
    """**RegisteredAreShown**: as soon as a broker knows who is registered, it shows clients these,
    and nobody else. Raises Violation.

    Who is gone costs each client a connection that nobody takes, and a time-out; few look at a list
    of brokers as such.
    """
    if cache.brokers.keys() != set(brokers):
        what = f"registered are {sorted(brokers)}, and clients would be shown"
        raise Violation("RegisteredAreShown", f"{what} {sorted(cache.brokers)}")


def updated(cache: MetadataCache, request: UpdateMetadataRequest) -> None:
    """**ShownAsTold**: what a controller has told a broker of partitions is what that shows from
    now on; those that it says are deleted are shown no more. Raises Violation."""
    for topic in request.topic_states:
        for state in topic.partition_states:
            tp = TopicPartition(topic.topic_name, state.partition_index)
            shown = cache.topics.get(tp.topic, {}).get(tp.partition)
            said = PartitionMetadata(
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                replicas=state.replicas,
                isr=state.isr,
                offline_replicas=state.offline_replicas,
            )
            if shown != (None if state.leader == LEADER_DURING_DELETE else said):
                raise Violation("ShownAsTold", f"{tp}: told is {said}, and shown {shown}")


def dropped(
    before: Collection[TopicPartition], after: MetadataCache, deleted: Collection[TopicPartition]
) -> None:
    """**DroppedAreDeleted**: what a broker showed and a controller's word makes it show no more
    counts as deleted. Raises Violation.

    Else what groups have committed there counts for the next topic of that name; and few topics are
    deleted by a controller that dies before all have heard of it.
    """
    kept = {tp for tp in before if tp not in after and tp not in deleted}
    if kept:
        what = f"{sorted(kept)} are shown no more, and groups keep their offsets in them"
        raise Violation("DroppedAreDeleted", what)


def _has_led(tp: TopicPartition, leader: int, epoch: int, ever: Container[Led]) -> None:
    if leader != NO_LEADER and epoch != NO_EPOCH and (tp, leader, epoch) not in ever:
        said = f"{leader} is said to lead in epoch {epoch}"
        raise Violation("LeadersHaveLed", f"{tp}: {said}, and never did")
