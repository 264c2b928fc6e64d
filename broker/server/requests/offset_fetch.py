"""OffsetFetch (api 9), versions 1 to 8.

Behaviour: what is stored, -1 where nothing is; every partition with an offset when no topics are
named (null, since v2). Groups that are not known here have committed nothing.
Not modelled: transactions, so that no offset is unstable (v7 require_stable).

v2 error_code, v5 committed_leader_epoch, v6 flexible, v8 several groups at once.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.offset_fetch.v8.request import OffsetFetchRequest

from broker.groups.events import OffsetAndMetadata
from broker.groups.offsets import CommittedOffset
from broker.server.requests.answer import NO_THROTTLE, Answer
from broker.server.requests.context import Context
from broker.types import TopicPartition

ERROR_CODE_SINCE = 2
GROUPS_SINCE = 8
NOTHING = OffsetAndMetadata(offset=-1)

Asked = tuple[tuple[str, tuple[int, ...]], ...]


class Entities(NamedTuple):
    """What the parts of the response are called."""

    topic: str
    partition: str


ONE_GROUP = Entities("OffsetFetchResponseTopic", "OffsetFetchResponsePartition")
SEVERAL_GROUPS = Entities("OffsetFetchResponseTopics", "OffsetFetchResponsePartitions")


def handle(request: OffsetFetchRequest, context: Context) -> Any:
    """Answers at once."""
    answer = Answer.to(request)
    if request.__version__ < GROUPS_SINCE:
        fields = _fetch(request.__version__, request, ONE_GROUP, answer, context)
        return answer("OffsetFetchResponse", throttle_time=NO_THROTTLE, **fields)
    return answer(
        "OffsetFetchResponse",
        throttle_time=NO_THROTTLE,
        groups=tuple(
            answer(
                "OffsetFetchResponseGroup",
                group_id=group.group_id,
                **_fetch(request.__version__, group, SEVERAL_GROUPS, answer, context),
            )
            for group in request.groups
        ),
    )


def _fetch(
    version: int, asked: Any, entities: Entities, answer: Answer, context: Context
) -> dict[str, object]:
    """The fields of one group's part; before v2 its error goes to the partitions."""
    error, committed = _committed(asked.group_id, context)
    named = tuple((topic.name, topic.partition_indexes) for topic in asked.topics or ())
    if error is not ErrorCode.none and version >= ERROR_CODE_SINCE:
        named = ()
    elif asked.topics is None:
        named = _by_topic(committed)
    topics = tuple(
        answer(
            entities.topic,
            name=topic,
            partitions=tuple(
                answer(
                    entities.partition,
                    partition_index=number,
                    error_code=error,
                    **_offset(committed.get(TopicPartition(topic, number))),
                )
                for number in numbers
            ),
        )
        for topic, numbers in named
    )
    return {"topics": topics, "error_code": error}


def _committed(
    group_id: str, context: Context
) -> tuple[ErrorCode, Mapping[TopicPartition, CommittedOffset]]:
    shard = context.groups.shard(group_id)
    if isinstance(shard, ErrorCode):
        return shard, {}
    group = shard.groups.by_id.get(group_id)
    return ErrorCode.none, group.offsets.committed if group else {}


def _by_topic(partitions: Iterable[TopicPartition]) -> Asked:
    topics: dict[str, tuple[int, ...]] = {}
    for topic, number in sorted(partitions):
        topics[topic] = (*topics.get(topic, ()), number)
    return tuple(topics.items())


def _offset(committed: CommittedOffset | None) -> dict[str, object]:
    value = committed.value if committed else NOTHING
    return {
        "committed_offset": value.offset,
        "committed_leader_epoch": value.leader_epoch,
        "metadata": value.metadata,
    }
