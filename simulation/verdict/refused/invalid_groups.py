"""**InvalidRefused**, of groups: what others say as if they were members, what no member says, and
what administrators must not do to a group that has one."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker.server.groups.offsets_topic import partition_for
from broker.server.topic_names import OFFSETS_TOPIC
from broker.types import Offset, TopicPartition
from broker.wire.messages.delete_groups import DeleteGroupsRequest
from broker.wire.messages.heartbeat import HeartbeatRequest
from broker.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from broker.wire.messages.sync_group import SyncGroupRequest
from simulation.clients.client import Client
from simulation.clients.members import SESSION_MS, Place
from simulation.observer.observer import Observer
from simulation.verdict.refused.words import Word, is_refused, of_parts, of_whole

INVARIANT: Final = "InvalidRefused"
NOBODY: Final = "nobody"
NOWHERE: Final = TopicPartition("nowhere", 0)
NO_GENERATION: Final = -1
TOO_LONG: Final = "m" * 5_000
"""More than ``offset.metadata.max.bytes``."""


async def check(member: Client, place: Place, tp: TopicPartition) -> None:
    """Of a group whose only member has a ``place`` in it; raises Violation."""
    for word in (*_of_others(place, tp), *_of_strange_members(place), *_of_anybody(place, tp)):
        await is_refused(member, word, INVARIANT)


def to_coordinators(
    brokers: Iterable[int], tp: TopicPartition, observer: Observer
) -> Iterator[Word]:
    """Of a group that there is not, where nobody coordinates it."""
    topic = observer.topics.get(OFFSETS_TOPIC)
    if topic is None:
        return
    home = topic.partitions[partition_for(NOBODY, len(topic.partitions))]
    for broker in brokers:
        if home.state is None or home.state.leader != broker:
            yield from _of_member(Place(broker, NOBODY, 1, NOBODY), tp, ErrorCode.not_coordinator)


def _of_others(place: Place, tp: TopicPartition) -> Iterator[Word]:
    """Who speaks as if it had one, and the member itself of another generation."""
    stranger = place._replace(member_id=NOBODY)
    yield from _of_member(stranger, tp, ErrorCode.unknown_member_id)
    for other in place.generation - 1, place.generation + 1:
        elsewhere = place._replace(generation=other)
        yield from _of_member(elsewhere, tp, ErrorCode.illegal_generation)


def _of_member(place: Place, tp: TopicPartition, expected: ErrorCode) -> Iterator[Word]:
    broker, group, generation, member_id = place
    of = f"of member {member_id} of group {group} in generation {generation}"
    heartbeat = HeartbeatRequest(
        version=3, group_id=group, generation_id=generation, member_id=member_id
    )
    yield Word(f"a Heartbeat {of}", broker, heartbeat, of_whole, expected)
    sync = SyncGroupRequest(
        version=3, group_id=group, generation_id=generation, member_id=member_id, assignments=()
    )
    yield Word(f"a SyncGroup {of}", broker, sync, of_whole, expected)
    yield Word(f"an OffsetCommit {of}", broker, commit(place, tp), of_parts, expected)


def _of_strange_members(place: Place) -> Iterator[Word]:
    """JoinGroup, as no client that is set up well sends it."""
    inconsistent = ErrorCode.inconsistent_group_protocol
    timeout = ErrorCode.invalid_session_timeout
    for what, expected, changed in (
        ("for a session of 1 ms", timeout, {"session_timeout_ms": 1}),
        ("for a session of a month", timeout, {"session_timeout_ms": 2**31 - 1}),
        ("of another kind of group", inconsistent, {"protocol_type": "connect"}),
        ("with a protocol that nobody has", inconsistent, {"protocols": _protocols("other")}),
        ("without a protocol", inconsistent, {"protocols": ()}),
        ("as a member that there is not", ErrorCode.unknown_member_id, {"member_id": NOBODY}),
    ):
        usual: dict[str, Any] = {
            "group_id": place.group,
            "session_timeout_ms": SESSION_MS,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": _protocols("share"),
        }
        request = JoinGroupRequest(
            version=5, rebalance_timeout_ms=SESSION_MS, group_instance_id=None, **(usual | changed)
        )
        yield Word(f"a JoinGroup {what}", place.coordinator, request, of_whole, expected)


def _of_anybody(place: Place, tp: TopicPartition) -> Iterator[Word]:
    broker, group = place.coordinator, place.group
    simple = place._replace(generation=NO_GENERATION, member_id="")
    for what, where, request, expected in (
        ("from outside", tp, commit(simple, tp), ErrorCode.unknown_member_id),
        (
            "of a partition that there is not",
            NOWHERE,
            commit(place, NOWHERE),
            ErrorCode.unknown_topic_or_partition,
        ),
        (
            "with too much metadata",
            tp,
            commit(place, tp, TOO_LONG),
            ErrorCode.offset_metadata_too_large,
        ),
    ):
        said = f"an OffsetCommit {what}, of {where} for group {group}"
        yield Word(said, broker, request, of_parts, expected)
    delete = DeleteGroupsRequest(version=1, groups_names=(group,))
    has_members = ErrorCode.non_empty_group
    yield Word(f"DeleteGroups of {group}, in which is one", broker, delete, _of_groups, has_members)
    part = OffsetDeleteRequestPartition(partition_index=tp.partition)
    topic = OffsetDeleteRequestTopic(name=tp.topic, partitions=(part,))
    prune = OffsetDeleteRequest(group_id=group, topics=(topic,))
    yield Word(f"OffsetDelete of {group}, in which is one", broker, prune, of_whole, has_members)


def _protocols(name: str) -> tuple[JoinGroupRequestProtocol, ...]:
    return (JoinGroupRequestProtocol(name=name, metadata=b""),)


def commit(
    place: Place,
    tp: TopicPartition,
    metadata: str | None = None,
    instance_id: str | None = None,
) -> OffsetCommitRequest:
    """Of an offset, by who says that this is its place."""
    part = OffsetCommitRequestPartition(
        partition_index=tp.partition, committed_offset=Offset(1), committed_metadata=metadata
    )
    return OffsetCommitRequest(
        version=7,
        group_id=place.group,
        generation_id_or_member_epoch=place.generation,
        member_id=place.member_id,
        group_instance_id=instance_id,
        topics=(OffsetCommitRequestTopic(name=tp.topic, partitions=(part,)),),
    )


def _of_groups(answer: Any) -> Iterator[ErrorCode]:
    for group in answer.results:
        yield group.error_code
