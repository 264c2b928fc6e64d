"""Requests about the offsets of groups: commit, fetch, delete."""

from collections.abc import Iterable, Mapping, Sequence

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import Commit, DeleteOffsets, OffsetAndMetadata, OffsetsAnswer
from ackproof.broker.groups.offsets import CommittedOffset
from ackproof.broker.server.requests.context import Context, by_topic
from ackproof.broker.types import LeaderEpoch, Offset, TopicPartition
from ackproof.broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ackproof.broker.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ackproof.broker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

# --- OffsetCommit ---------------------------------------------------------------------------------
#
# OffsetCommit (api 8), versions 2 to 8.
#
# Behaviour: :mod:`broker.groups.commits`. The answer comes when the commit is in the log of every
# in-sync replica. Partitions that this broker has never heard of are rejected. A retention time
# sent by the client (v2 to v4) is ignored: ``offsets.retention.minutes`` counts for all (KIP-211).
#
# Not modelled: offsets committed in transactions.
#
# v6 committed_leader_epoch, v7 group_instance_id, v8 flexible.


async def handle_offset_commit(
    request: OffsetCommitRequest, context: Context
) -> OffsetCommitResponse:
    """Answer when the offsets are stored."""
    asked = {
        TopicPartition(topic.name, partition.partition_index): _offset(partition)
        for topic in request.topics
        for partition in topic.partitions
    }
    async with context.groups.turns.mine():
        await context.metadata.refresh({tp.topic for tp in asked})
        known = {tp: offset for tp, offset in asked.items() if tp in context.metadata}
        begun = context.groups.begin(
            Commit,
            request.group_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id_or_member_epoch,
            offsets=known,
        )
    committed = await begun
    assert isinstance(committed, OffsetsAnswer)
    errors = dict.fromkeys(asked, ErrorCode.unknown_topic_or_partition)
    errors.update(dict.fromkeys(known, committed.error))
    errors.update(committed.partitions)
    return _respond(request, errors)


def _offset(partition: OffsetCommitRequestPartition) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
    )


def _respond(
    request: OffsetCommitRequest, errors: dict[TopicPartition, ErrorCode]
) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=errors[TopicPartition(topic.name, partition.partition_index)],
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


# --- OffsetFetch ----------------------------------------------------------------------------------
#
# OffsetFetch (api 9), versions 1 to 8.
#
# Behaviour: the stored offsets, -1 where there is none. Without topics (null, since v2), every
# partition with an offset. Groups that are not known here have committed nothing.
#
# Not modelled: transactions, so that no offset is unstable (v7 require_stable).
#
# v2 error_code, v5 committed_leader_epoch, v6 flexible, v8 several groups at once.


ERROR_CODE_SINCE = 2
GROUPS_SINCE = 8
NOTHING = OffsetAndMetadata(offset=-1)


def handle_offset_fetch(request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse:
    """Answer at once."""
    if request.version >= GROUPS_SINCE:
        return OffsetFetchResponse(groups=tuple(_group(g, context) for g in request.groups))
    error, committed = _committed(request.group_id, context)
    named = None if request.topics is None else _named(request.topics)
    return OffsetFetchResponse(
        error_code=error,
        topics=()
        if error is not ErrorCode.none and request.version >= ERROR_CODE_SINCE
        else tuple(
            OffsetFetchResponseTopic(
                name=topic,
                partitions=tuple(
                    OffsetFetchResponsePartition(
                        partition_index=number,
                        committed_offset=Offset(value.offset),
                        committed_leader_epoch=LeaderEpoch(value.leader_epoch),
                        metadata=value.metadata,
                        error_code=error,
                    )
                    for number, value in values
                ),
            )
            for topic, values in _fetched(named, committed)
        ),
    )


def _group(asked: OffsetFetchRequestGroup, context: Context) -> OffsetFetchResponseGroup:
    error, committed = _committed(asked.group_id, context)
    named = None if asked.topics is None else _named(asked.topics)
    return OffsetFetchResponseGroup(
        group_id=asked.group_id,
        error_code=error,
        topics=()
        if error is not ErrorCode.none
        else tuple(
            OffsetFetchResponseTopics(
                name=topic,
                partitions=tuple(
                    OffsetFetchResponsePartitions(
                        partition_index=number,
                        committed_offset=Offset(value.offset),
                        committed_leader_epoch=LeaderEpoch(value.leader_epoch),
                        metadata=value.metadata,
                        error_code=error,
                    )
                    for number, value in values
                ),
            )
            for topic, values in _fetched(named, committed)
        ),
    )


def _committed(
    group_id: str, context: Context
) -> tuple[ErrorCode, Mapping[TopicPartition, CommittedOffset]]:
    shard = context.groups.shard(group_id)
    if isinstance(shard, ErrorCode):
        return shard, {}
    group = shard.groups.by_id.get(group_id)
    return ErrorCode.none, group.offsets.committed if group else {}


def _named(
    topics: Iterable[OffsetFetchRequestTopic | OffsetFetchRequestTopics],
) -> Sequence[tuple[str, Sequence[int]]]:
    return [(topic.name, topic.partition_indexes) for topic in topics]


def _fetched(
    named: Sequence[tuple[str, Sequence[int]]] | None,
    committed: Mapping[TopicPartition, CommittedOffset],
) -> Sequence[tuple[str, Sequence[tuple[int, OffsetAndMetadata]]]]:
    """Return the offsets of the named partitions, or with None of all that have one."""
    if named is None:
        return [
            (topic, [(number, found.value) for number, found in offsets])
            for topic, offsets in by_topic(committed).items()
        ]
    return [
        (topic, [(number, _value(TopicPartition(topic, number), committed)) for number in numbers])
        for topic, numbers in named
    ]


def _value(
    tp: TopicPartition, committed: Mapping[TopicPartition, CommittedOffset]
) -> OffsetAndMetadata:
    found = committed.get(tp)
    return found.value if found else NOTHING


# --- OffsetDelete ---------------------------------------------------------------------------------
#
# OffsetDelete (api 47), version 0.
#
# Behaviour: :mod:`broker.groups.commits`. Offsets of topics that a member is subscribed to stay
# (KIP-496).


async def handle_offset_delete(
    request: OffsetDeleteRequest, context: Context
) -> OffsetDeleteResponse:
    """Answer when the offsets are gone from the log, too."""
    partitions = frozenset(
        TopicPartition(topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    )
    async with context.groups.turns.mine():
        await context.metadata.refresh({tp.topic for tp in partitions})
        known = frozenset(tp for tp in partitions if tp in context.metadata)
        begun = context.groups.begin(DeleteOffsets, request.group_id, partitions=known)
    deleted = await begun
    assert isinstance(deleted, OffsetsAnswer)
    unknown = ErrorCode.unknown_topic_or_partition
    return OffsetDeleteResponse(
        error_code=deleted.error,
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=deleted.partitions.get(
                            TopicPartition(topic.name, partition.partition_index), unknown
                        ),
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
        if deleted.error is ErrorCode.none
        else (),
    )
