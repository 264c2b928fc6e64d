"""**InvalidRefused**, of groups: what others say as if they were members, what no member says, and
what administrators must not do to a group that has one."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from kio.schema.errors import ErrorCode

from ackproof.broker.server.groups.offsets_topic import partition_for
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages.delete_groups import DeleteGroupsRequest
from ackproof.broker.wire.messages.offset_commit import OffsetCommitRequest
from simulation.clients import group_requests
from simulation.clients.client import Client
from simulation.clients.group_requests import NO_GENERATION, NO_MEMBER, Place, protocols
from simulation.model.observer import Observer
from simulation.verdict.refused.words import Word, is_refused, of_parts, of_whole

INVARIANT: Final = "InvalidRefused"
NOBODY: Final = "nobody"
NOWHERE: Final = TopicPartition("nowhere", 0)
TOO_LONG: Final = "m" * 10_000
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
    for what, request, refusals in (
        ("a Heartbeat", group_requests.heartbeat(place), of_whole),
        ("a SyncGroup", group_requests.sync(place, {}), of_whole),
        ("an OffsetCommit", _commit(place, tp), of_parts),
    ):
        yield Word(f"{what} {of}", broker, request, refusals, expected)


def _of_strange_members(place: Place) -> Iterator[Word]:
    """JoinGroup, as no client that is set up well sends it."""
    inconsistent = ErrorCode.inconsistent_group_protocol
    timeout = ErrorCode.invalid_session_timeout
    for what, expected, changed in (
        ("for a session of 1 ms", timeout, {"session_timeout_ms": 1}),
        ("for a session of a month", timeout, {"session_timeout_ms": 2**31 - 1}),
        ("of another kind of group", inconsistent, {"protocol_type": "connect"}),
        ("with a protocol that nobody has", inconsistent, {"protocols": protocols("other")}),
        ("without a protocol", inconsistent, {"protocols": ()}),
        ("as a member that there is not", ErrorCode.unknown_member_id, {"member_id": NOBODY}),
    ):
        request = replace(group_requests.join(place.group, NO_MEMBER), **changed)
        yield Word(f"a JoinGroup {what}", place.coordinator, request, of_whole, expected)


def _of_anybody(place: Place, tp: TopicPartition) -> Iterator[Word]:
    broker, group = place.coordinator, place.group
    simple = place._replace(generation=NO_GENERATION, member_id=NO_MEMBER)
    for what, where, request, expected in (
        ("from outside", tp, _commit(simple, tp), ErrorCode.unknown_member_id),
        (
            "of a partition that there is not",
            NOWHERE,
            _commit(place, NOWHERE),
            ErrorCode.unknown_topic_or_partition,
        ),
        (
            "with too much metadata",
            tp,
            _commit(place, tp, TOO_LONG),
            ErrorCode.offset_metadata_too_large,
        ),
    ):
        said = f"an OffsetCommit {what}, of {where} for group {group}"
        yield Word(said, broker, request, of_parts, expected)
    delete = DeleteGroupsRequest(version=1, groups_names=(group,))
    has_members = ErrorCode.non_empty_group
    yield Word(f"DeleteGroups of {group}, in which is one", broker, delete, _of_groups, has_members)
    prune = group_requests.delete_offset(group, tp)
    is_read = ErrorCode.group_subscribed_to_topic
    yield Word(f"OffsetDelete of {group}, which reads {tp}", broker, prune, of_parts, is_read)


def _commit(place: Place, tp: TopicPartition, metadata: str | None = None) -> OffsetCommitRequest:
    return group_requests.commit(place, tp.topic, {tp.partition: 1}, metadata)


def _of_groups(answer: Any) -> Iterator[ErrorCode]:
    for group in answer.results:
        yield group.error_code
