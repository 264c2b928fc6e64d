"""OffsetFetch (api 9), versions 1 to 8.

Behaviour: what is stored, -1 where nothing is; every partition with an offset when no topics are
named (null, since v2). Groups that are not known here have committed nothing.
Not modelled: transactions, so that no offset is unstable (v7 require_stable).

v2 error_code, v5 committed_leader_epoch, v6 flexible, v8 several groups at once.
"""

from collections.abc import Iterable, Mapping, Sequence

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import OffsetAndMetadata
from ackproof.broker.groups.offsets import CommittedOffset
from ackproof.broker.server.requests.by_topic import by_topic
from ackproof.broker.server.requests.context import Context
from ackproof.broker.types import LeaderEpoch, Offset, TopicPartition
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

ERROR_CODE_SINCE = 2
GROUPS_SINCE = 8
NOTHING = OffsetAndMetadata(offset=-1)


def handle(request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse:
    """Answers at once."""
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
    """What is committed for the partitions that are named; None: for all that have anything."""
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
