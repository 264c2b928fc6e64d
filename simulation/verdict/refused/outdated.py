"""**OutdatedRefused**: what was true before the last change is refused when it is said again.

A controller that was deposed, a follower of an earlier leader epoch, a consumer whose session has
gone on: each may speak at any time, and does harm at few of them. So everything that has an epoch
is said once more when all is over, with the epoch before.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from ackproof.broker.server.replication import partition as server
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import (
    NO_EPOCH,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Offset,
    TopicPartition,
)
from ackproof.broker.wire.messages.controlled_shutdown import ControlledShutdownRequest
from ackproof.broker.wire.messages.fetch import FetchRequest
from ackproof.broker.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from ackproof.broker.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ackproof.broker.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from ackproof.broker.wire.messages.update_metadata import UpdateMetadataRequest
from simulation.clients.client import Client
from simulation.clients.fetch_requests import CONSUMER, NO_SESSION, Limits, fetch_request
from simulation.clients.reading import list_offsets
from simulation.model.observer import Observer
from simulation.verdict.led import Hosted
from simulation.verdict.refused.words import (
    Word,
    answered,
    is_refused,
    of_fetch,
    of_parts,
    of_whole,
)
from simulation.violation import Violation

INVARIANT: Final = "OutdatedRefused"
AHEAD: Final = 7
BEGINNING: Final = Offset(0)


async def check(client: Client, observer: Observer, hosted: Hosted) -> None:
    """Says it all of the partition whose leader has changed most; raises Violation."""
    found = {
        tp: partition.state
        for tp, partition in observer.partitions()
        if tp.topic != OFFSETS_TOPIC and partition.state is not None
    }
    if not found:
        return
    tp = max(found, key=lambda tp: found[tp].leader_epoch)
    replica = hosted(found[tp].leader, tp)
    if replica is None:
        return
    await _session_goes_on(client, tp, found[tp].leader)
    for word in _to_leaders(tp, replica):
        counted = dict(replica.replica.follower_ends)
        await is_refused(client, word, INVARIANT)
        _nothing_was_counted(tp, replica, counted)
    if observer.controller is not None:
        for word in _to_controllers(observer.controller, observer):
            await is_refused(client, word, INVARIANT)
        for word in _of_controllers(tp, replica, observer):
            await is_refused(client, word, INVARIANT)


# --- leaders ------------------------------------------------------------------------------------


def _to_leaders(tp: TopicPartition, leader: server.Partition) -> Iterator[Word]:
    broker, epoch = leader.replica.broker, leader.replica.leader_epoch
    epochs = [(LeaderEpoch(epoch + 1), ErrorCode.unknown_leader_epoch)]
    if epoch > 0:
        epochs.append((LeaderEpoch(epoch - 1), ErrorCode.fenced_leader_epoch))
    for other, expected in epochs:
        said = f"of {tp} in leader epoch {other} instead of {epoch}"
        for name, request, refusals in (
            ("a consumer's Fetch", _fetch(tp, other), of_fetch),
            ("ListOffsets", list_offsets(tp, epoch=other), of_parts),
            ("OffsetForLeaderEpoch", _epoch_end(tp, other), of_parts),
        ):
            yield Word(f"{name} {said}", broker, request, refusals, expected)
    # Ahead is a follower that has more than its leader, as after an unclean election.
    start, ahead = leader.replica.log_start_offset, leader.replica.log_end_offset + AHEAD
    for other, expected, offset in (
        *((other, expected, start) for other, expected in epochs),
        (epoch, ErrorCode.offset_out_of_range, Offset(ahead)),
    ):
        for follower in leader.replica.follower_ends:
            what = f"a Fetch of broker {follower} from {offset} of {tp} on in leader epoch {other}"
            fetch = _fetch(tp, other, replica=follower, offset=offset)
            yield Word(what, broker, fetch, of_fetch, expected)


def _nothing_was_counted(
    tp: TopicPartition, leader: server.Partition, before: Mapping[BrokerId, Offset]
) -> None:
    """All is quiet: what a follower has can only be what it had ``before``."""
    for follower, end in leader.replica.follower_ends.items():
        if end != before[follower]:
            raise Violation(
                INVARIANT,
                f"{tp}: broker {follower}, which had all below {before[follower]}, counts as "
                f"having all below {end}, by a Fetch that was refused",
            )


async def _session_goes_on(client: Client, tp: TopicPartition, leader: int) -> None:
    """Asks twice in the same place, and in a session that nobody has begun."""
    begun = await answered(client, leader, _fetch(tp, session=(0, 0)))
    if begun.session_id == 0:
        return  # there is no room for one
    once = _fetch(tp, session=(begun.session_id, 1))
    await answered(client, leader, once)
    for what, request, expected in (
        ("a Fetch that its session has left behind", once, ErrorCode.invalid_fetch_session_epoch),
        (
            "a Fetch in a session that there is not",
            _fetch(tp, session=(begun.session_id ^ 1, 1)),
            ErrorCode.fetch_session_id_not_found,
        ),
    ):
        await is_refused(client, Word(what, leader, request, of_whole, expected), INVARIANT)


def _fetch(
    tp: TopicPartition,
    epoch: LeaderEpoch = NO_EPOCH,
    *,
    replica: BrokerId = CONSUMER,
    offset: Offset = BEGINNING,
    session: tuple[int, int] = NO_SESSION,
) -> FetchRequest:
    return fetch_request(
        [(tp, offset)], Limits(partition_max_bytes=1), replica=replica, epoch=epoch, session=session
    )


def _epoch_end(tp: TopicPartition, epoch: LeaderEpoch) -> OffsetForLeaderEpochRequest:
    part = OffsetForLeaderPartition(
        partition=tp.partition, current_leader_epoch=epoch, leader_epoch=LeaderEpoch(0)
    )
    topic = OffsetForLeaderTopic(topic=tp.topic, partitions=(part,))
    return OffsetForLeaderEpochRequest(version=3, replica_id=BrokerId(-1), topics=(topic,))


# --- controllers ----------------------------------------------------------------------------------


def _to_controllers(controller: int, observer: Observer) -> Iterator[Word]:
    """What a broker's former life has asked for: obeyed, its next one would lead nothing."""
    for broker, registered in observer.registered.items():
        asked = ControlledShutdownRequest(broker_id=BrokerId(broker), broker_epoch=registered - 1)
        what = f"a ControlledShutdown of broker {broker} in broker epoch {registered - 1}"
        expected = ErrorCode.stale_broker_epoch
        yield Word(f"{what} instead of {registered}", controller, asked, of_whole, expected)


def _of_controllers(
    tp: TopicPartition, leader: server.Partition, observer: Observer
) -> Iterator[Word]:
    """What a former controller says, or the current one of a broker's former life. And what is
    the current one's, as far as one can see, of a leader epoch that is over: last of all, for a
    controller is obeyed on its newest connection alone, which is ours then."""
    broker, epoch = leader.replica.broker, leader.replica.leader_epoch
    controller, registered = observer.controller_epoch, observer.registered[broker]
    former = ControllerEpoch(controller - 1)
    for what, control, expected in (
        (
            f"in controller epoch {former} instead of {controller}",
            (former, registered),
            ErrorCode.stale_controller_epoch,
        ),
        (
            f"in broker epoch {registered - 1} instead of {registered}",
            (controller, registered - 1),
            ErrorCode.stale_broker_epoch,
        ),
    ):
        said = _Controller(observer.controller or 0, *control)
        for name, request in (
            ("LeaderAndIsr", said.leads(tp, leader, LeaderEpoch(epoch + 1))),
            ("StopReplica", said.stop(tp, LeaderEpoch(epoch + 1))),
            ("UpdateMetadata", said.metadata()),
        ):
            yield Word(f"{name} {what}", broker, request, of_whole, expected)
    if epoch > 0:
        now, before = _Controller(observer.controller or 0, controller, registered), epoch - 1
        what = f"{tp} in leader epoch {before} instead of {epoch}"
        yield Word(
            f"LeaderAndIsr of {what}",
            broker,
            now.leads(tp, leader, LeaderEpoch(before)),
            _of_leader_and_isr,
            ErrorCode.stale_controller_epoch,
        )
        yield Word(
            f"StopReplica of {what}",
            broker,
            now.stop(tp, LeaderEpoch(before)),
            lambda answer: (part.error_code for part in answer.partition_errors),
            ErrorCode.fenced_leader_epoch,
        )


def _of_leader_and_isr(answer: LeaderAndIsrResponse) -> Iterator[ErrorCode]:
    for topic in answer.topics:
        for part in topic.partition_errors:
            yield part.error_code


class _Controller(NamedTuple):
    """Who somebody pretends to be."""

    id: int
    epoch: ControllerEpoch
    broker_epoch: int

    def leads(
        self, tp: TopicPartition, hosted: server.Partition, epoch: LeaderEpoch
    ) -> LeaderAndIsrRequest:
        """That nobody leads any more."""
        state = LeaderAndIsrPartitionState(
            partition_index=tp.partition,
            controller_epoch=self.epoch,
            leader=BrokerId(-1),
            leader_epoch=epoch,
            isr=hosted.replica.isr,
            zk_version=hosted.replica.zk_version,
            replicas=hosted.replica.isr,
        )
        topic = LeaderAndIsrTopicState(
            topic_name=tp.topic, topic_id=hosted.log.metadata.topic_id, partition_states=(state,)
        )
        return LeaderAndIsrRequest(
            controller_id=BrokerId(self.id),
            controller_epoch=self.epoch,
            broker_epoch=self.broker_epoch,
            topic_states=(topic,),
            live_leaders=(),
        )

    def stop(self, tp: TopicPartition, epoch: LeaderEpoch) -> StopReplicaRequest:
        """And what there is goes."""
        state = StopReplicaPartitionState(
            partition_index=tp.partition, leader_epoch=epoch, delete_partition=True
        )
        topic = StopReplicaTopicState(topic_name=tp.topic, partition_states=(state,))
        return StopReplicaRequest(
            controller_id=BrokerId(self.id),
            controller_epoch=self.epoch,
            broker_epoch=self.broker_epoch,
            topic_states=(topic,),
        )

    def metadata(self) -> UpdateMetadataRequest:
        """That no broker is alive."""
        return UpdateMetadataRequest(
            controller_id=BrokerId(self.id),
            controller_epoch=self.epoch,
            broker_epoch=self.broker_epoch,
            topic_states=(),
            live_brokers=(),
        )
