"""A follower's requests to its leader: what its replicas want to know, and the fetch session that
says which of it must be said again."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias, TypeVar

from kio.schema.errors import ErrorCode

from ackproof.broker.config import BrokerConfig
from ackproof.broker.replication.events import AskEpoch, FetchFrom
from ackproof.broker.server.replication.fetch_session_cache import (
    INITIAL_EPOCH,
    INVALID_SESSION_ID,
    epoch_after,
)
from ackproof.broker.types import BrokerId, NamedPartition, TopicIdPartition, TopicPartition
from ackproof.broker.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from ackproof.broker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ackproof.broker.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ackproof.broker.wire.reader import uuid_of

# --- fetch session --------------------------------------------------------------------------------
#
# Fetch sessions, the follower's end (KIP-227): what of all that is wanted has to be said.
#
# The first request names everything. When the leader answers with a session, the next ones name
# what changed since, until something goes wrong: then everything is said again.


class FetchAsk(NamedTuple):
    """What one request says: ``changed`` is all there is when the session begins."""

    session_id: int
    session_epoch: int
    changed: Mapping[NamedPartition, FetchFrom]
    forgotten: tuple[NamedPartition, ...]
    by_id: bool = False
    """All of these name topics by their ids; else all by their names."""


class FetchSessionHandler:
    """One session with one leader; requests are sent one after the other."""

    def __init__(self) -> None:
        self._id = INVALID_SESSION_ID
        self._epoch = INITIAL_EPOCH
        self._requested: dict[NamedPartition, FetchFrom | None] = {}
        self._by_id = False

    def ask(self, wanted: Mapping[NamedPartition, FetchFrom]) -> FetchAsk:
        """The next request, by which the leader will know of all that is ``wanted``: either all
        of it by ids, or all by names. A session has one of the two."""
        by_id = isinstance(next(iter(wanted), None), TopicIdPartition)
        if by_id != self._by_id:
            self._by_id = by_id
            self.interrupted()
        changed = wanted
        forgotten: tuple[NamedPartition, ...] = ()
        if self._epoch != INITIAL_EPOCH:
            before = self._requested
            changed = {name: todo for name, todo in wanted.items() if before.get(name) != todo}
            if before.keys() != wanted.keys():
                forgotten = tuple(name for name in before if name not in wanted)
        self._requested = dict(wanted)
        return FetchAsk(self._id, self._epoch, changed, forgotten, by_id)

    def answered(self, response: FetchResponse) -> None:
        """The leader answered: with the session, without one, or that it knows of none."""
        if response.error_code is ErrorCode.fetch_session_id_not_found:
            self._id, self._epoch = INVALID_SESSION_ID, INITIAL_EPOCH
        elif response.error_code is not ErrorCode.none:
            self.interrupted()
        elif response.session_id == INVALID_SESSION_ID:
            self._id, self._epoch = INVALID_SESSION_ID, INITIAL_EPOCH
        else:
            self._id = response.session_id
            self._epoch = epoch_after(self._epoch)

    def passed_over(self, name: NamedPartition) -> None:
        """What was answered of it was not taken: it is named again, and all told anew.

        A damaged batch came with a watermark of 41: the leader would leave 41 out from then on.
        """
        self._requested[name] = None

    def interrupted(self) -> None:
        """Nobody knows what the leader heard: it is told everything anew, and closes the old."""
        self._epoch = INITIAL_EPOCH


# --- requests -------------------------------------------------------------------------------------
#
# The requests a follower sends to its leader, from what its replicas want to know.
#
# Versions are fixed: every broker of a cluster is of one make.


BY_NAME: Final = 11
BY_ID: Final = 13
"""Versions of Fetch."""

LIST_OFFSETS: Final = 6
OFFSET_FOR_LEADER_EPOCH: Final = 4

K = TypeVar("K")
T = TypeVar("T")

Named: TypeAlias = Iterable[tuple[tuple[str | bytes, int], T]]
"""Partitions by their topic's name or id."""


def ask_epochs(
    broker: BrokerId, wanted: Mapping[TopicPartition, AskEpoch]
) -> OffsetForLeaderEpochRequest:
    """Where did these epochs end in the leader's log?"""
    return OffsetForLeaderEpochRequest(
        version=OFFSET_FOR_LEADER_EPOCH,
        replica_id=broker,
        topics=tuple(
            OffsetForLeaderTopic(
                topic=topic,
                partitions=tuple(
                    OffsetForLeaderPartition(
                        partition=partition,
                        current_leader_epoch=todo.leader_epoch,
                        leader_epoch=todo.epoch,
                    )
                    for partition, todo in partitions
                ),
            )
            for topic, partitions in _by_topic(wanted.items())
        ),
    )


def fetch(config: BrokerConfig, ask: FetchAsk) -> FetchRequest:
    """What came after these offsets? By topic id a fetch says of which topic its offsets are: one
    that was deleted and made again begins in the same epoch, and a request of the former one may
    be under way all the time."""
    changed: Named[FetchFrom] = ask.changed.items()
    return FetchRequest(
        version=BY_ID if ask.by_id else BY_NAME,
        replica_id=config.id,
        max_wait_ms=config.replica_fetch_wait_max_ms,
        min_bytes=config.replica_fetch_min_bytes,
        max_bytes=config.replica_fetch_response_max_bytes,
        session_id=ask.session_id,
        session_epoch=ask.session_epoch,
        topics=tuple(
            [
                FetchTopic(
                    topic_id=_id(topic),
                    topic=_name(topic),
                    partitions=tuple([_from(todo, partition, config) for partition, todo in them]),
                )
                for topic, them in _by_topic(changed)
            ]
        ),
        forgotten_topics_data=_forgotten(ask.forgotten) if ask.forgotten else (),
    )


def _from(todo: FetchFrom, partition: int, config: BrokerConfig) -> FetchPartition:
    return FetchPartition(
        partition=partition,
        current_leader_epoch=todo.leader_epoch,
        fetch_offset=todo.offset,
        log_start_offset=todo.log_start_offset,
        partition_max_bytes=config.replica_fetch_max_bytes,
    )


def _forgotten(partitions: Iterable[NamedPartition]) -> tuple[ForgottenTopic, ...]:
    forgotten: Named[None] = dict.fromkeys(partitions).items()
    return tuple(
        ForgottenTopic(
            topic_id=_id(topic),
            topic=_name(topic),
            partitions=tuple(partition for partition, _ in them),
        )
        for topic, them in _by_topic(forgotten)
    )


def list_offsets(
    broker: BrokerId, wanted: Mapping[TopicPartition, FetchFrom], timestamp: int
) -> ListOffsetsRequest:
    """Where does the leader's log begin (EARLIEST_TIMESTAMP) or end (LATEST_TIMESTAMP)?"""
    return ListOffsetsRequest(
        version=LIST_OFFSETS,
        replica_id=broker,
        isolation_level=0,
        topics=tuple(
            ListOffsetsTopic(
                name=topic,
                partitions=tuple(
                    ListOffsetsPartition(
                        partition_index=partition,
                        current_leader_epoch=todo.leader_epoch,
                        timestamp=timestamp,
                    )
                    for partition, todo in partitions
                ),
            )
            for topic, partitions in _by_topic(wanted.items())
        ),
    )


def _id(topic: str | bytes) -> uuid.UUID | None:
    return uuid_of(topic) if isinstance(topic, bytes) else None


def _name(topic: str | bytes) -> str:
    return topic if isinstance(topic, str) else ""


def _by_topic(
    wanted: Iterable[tuple[tuple[K, int], T]],
) -> Iterable[tuple[K, list[tuple[int, T]]]]:
    """Under each topic, as it is named, its partitions' numbers."""
    topics: dict[K, list[tuple[int, T]]] = {}
    for (topic, partition), todo in wanted:
        topics.setdefault(topic, []).append((partition, todo))
    return topics.items()
