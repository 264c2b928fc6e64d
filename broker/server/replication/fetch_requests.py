"""The requests a follower sends to its leader, from what its replicas want to know.

Versions are fixed: every broker of a cluster is of one make. Fetches are made many times a second,
so that their numbers are not checked once more (kio's types check when called).
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeVar, cast

from kio.schema.fetch.v11 import request as by_name
from kio.schema.fetch.v13 import request as by_id
from kio.schema.list_offsets.v6.request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kio.schema.types import BrokerId as KioBrokerId
from kio.schema.types import TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64
from kio.static.protocol import RequestPayload

from broker.config import BrokerConfig
from broker.replication.events import AskEpoch, FetchFrom
from broker.server.replication.fetch_session_handler import FetchAsk
from broker.types import BrokerId, TopicPartition

T = TypeVar("T")


def ask_epochs(
    broker: BrokerId, wanted: Mapping[TopicPartition, AskEpoch]
) -> OffsetForLeaderEpochRequest:
    """Where did these epochs end in the leader's log?"""
    return OffsetForLeaderEpochRequest(
        replica_id=KioBrokerId(broker),
        topics=tuple(
            OffsetForLeaderTopic(
                topic=TopicName(topic),
                partitions=tuple(
                    OffsetForLeaderPartition(
                        partition=i32(partition),
                        current_leader_epoch=i32(todo.leader_epoch),
                        leader_epoch=i32(todo.epoch),
                    )
                    for partition, todo in partitions
                ),
            )
            for topic, partitions in _by_topic(wanted)
        ),
    )


def fetch(config: BrokerConfig, ask: FetchAsk) -> RequestPayload:
    """What came after these offsets? By topic id a fetch says of which topic its offsets are: one
    that was deleted and made again begins in the same epoch, and a request of the former one may
    be under way all the time."""
    entities: Any = by_id if ask.by_id else by_name
    named = "topic_id" if ask.by_id else "topic"
    wait = timedelta(milliseconds=config.replica_fetch_wait_max_ms)
    request: RequestPayload = entities.FetchRequest(
        replica_id=cast(KioBrokerId, config.id),
        max_wait=i32Timedelta.parse(wait),
        min_bytes=cast(i32, config.replica_fetch_min_bytes),
        max_bytes=cast(i32, config.replica_fetch_response_max_bytes),
        session_id=cast(i32, ask.session_id),
        session_epoch=cast(i32, ask.session_epoch),
        topics=tuple(
            entities.FetchTopic(
                **{named: topic},
                partitions=tuple(
                    entities.FetchPartition(
                        partition=cast(i32, partition),
                        current_leader_epoch=cast(i32, todo.leader_epoch),
                        fetch_offset=cast(i64, todo.offset),
                        log_start_offset=cast(i64, todo.log_start_offset),
                        partition_max_bytes=cast(i32, config.replica_fetch_max_bytes),
                    )
                    for partition, todo in partitions
                ),
            )
            for topic, partitions in _by_topic(ask.changed)
        ),
        forgotten_topics_data=tuple(
            entities.ForgottenTopic(
                **{named: topic},
                partitions=tuple(cast(i32, partition) for partition, _ in them),
            )
            for topic, them in _by_topic(dict.fromkeys(ask.forgotten))
        ),
    )
    return request


def list_offsets(
    broker: BrokerId, wanted: Mapping[TopicPartition, FetchFrom], timestamp: int
) -> ListOffsetsRequest:
    """Where does the leader's log begin (EARLIEST_TIMESTAMP) or end (LATEST_TIMESTAMP)?"""
    return ListOffsetsRequest(
        replica_id=KioBrokerId(broker),
        isolation_level=i8(0),
        topics=tuple(
            ListOffsetsTopic(
                name=TopicName(topic),
                partitions=tuple(
                    ListOffsetsPartition(
                        partition_index=i32(partition),
                        current_leader_epoch=i32(todo.leader_epoch),
                        timestamp=i64(timestamp),
                    )
                    for partition, todo in partitions
                ),
            )
            for topic, partitions in _by_topic(wanted)
        ),
    )


def _by_topic(wanted: Mapping[Any, T]) -> Iterable[tuple[Any, list[tuple[int, T]]]]:
    """Under each topic, as it is named, its partitions' numbers."""
    topics: dict[Any, list[tuple[int, T]]] = {}
    for (topic, partition), todo in wanted.items():
        topics.setdefault(topic, []).append((partition, todo))
    return topics.items()
