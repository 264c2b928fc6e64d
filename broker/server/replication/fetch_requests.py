"""A follower's requests to its leader: the questions of its replicas, and the fetch session that
says which of them must be repeated."""

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
# The follower's end of fetch sessions (KIP-227): which of the wanted partitions a request must
# name.
#
# The first request names everything. When the leader answers with a session, the next ones name
# what changed since. After an error, everything is named again.


class FetchAsk(NamedTuple):
    """The content of one request. ``changed`` is everything when the session begins."""

    session_id: int
    session_epoch: int
    changed: Mapping[NamedPartition, FetchFrom]
    forgotten: tuple[NamedPartition, ...]
    by_id: bool = False
    """Whether all of these name topics by their ids. Otherwise all name them by their names."""


class FetchSessionHandler:
    """One session with one leader. Requests are sent one after the other."""

    def __init__(self) -> None:
        self._id = INVALID_SESSION_ID
        self._epoch = INITIAL_EPOCH
        self._requested: dict[NamedPartition, FetchFrom | None] = {}
        self._by_id = False

    def ask(self, wanted: Mapping[NamedPartition, FetchFrom]) -> FetchAsk:
        """Return the next request, from which the leader will know all that is ``wanted``: either
        all of it by ids, or all by names. A session uses one of the two."""
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
        """Take over the leader's answer: with the session, without one, or that the session is
        unknown."""
        if response.error_code is ErrorCode.fetch_session_id_not_found:
            self._id, self._epoch = INVALID_SESSION_ID, INITIAL_EPOCH
        elif response.error_code is not ErrorCode.none:
            self.interrupted()
        elif response.session_id == INVALID_SESSION_ID:
            self._id, self._epoch = INVALID_SESSION_ID, INITIAL_EPOCH
        else:
            self._id = response.session_id
            self._epoch = epoch_after(self._epoch)

    def skipped(self, name: NamedPartition) -> None:
        """Name a partition again, and everything of it, because its answer was not used.

        Suppose a damaged batch came with a watermark of 41. The leader would leave 41 out from then
        on.
        """
        self._requested[name] = None

    def interrupted(self) -> None:
        """Begin again, because it is unknown what the leader received. It is told everything again,
        and closes the old session."""
        self._epoch = INITIAL_EPOCH


# --- requests -------------------------------------------------------------------------------------
#
# The requests of a follower to its leader, from the questions of its replicas.
#
# Versions are fixed, because every broker of a cluster is of one make.


BY_NAME: Final = 11
BY_ID: Final = 13
"""The versions of Fetch."""

LIST_OFFSETS: Final = 6
OFFSET_FOR_LEADER_EPOCH: Final = 4

K = TypeVar("K")
T = TypeVar("T")

Named: TypeAlias = Iterable[tuple[tuple[str | bytes, int], T]]
"""Partitions by their topic's name or id."""


def ask_epochs(
    broker: BrokerId, wanted: Mapping[TopicPartition, AskEpoch]
) -> OffsetForLeaderEpochRequest:
    """Return a request for the end offsets of these epochs in the leader's log."""
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
    """Return a request for the records after these offsets.

    By topic id, a fetch names the topic of its offsets. A topic that was deleted and created again
    begins in the same epoch, and a request of the former one may be in flight all the time.
    """
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
    """Return a request for the beginning (EARLIEST_TIMESTAMP) or end (LATEST_TIMESTAMP) of the
    leader's log."""
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
    """Return the partitions' numbers by topic, as it is named."""
    topics: dict[K, list[tuple[int, T]]] = {}
    for (topic, partition), todo in wanted:
        topics.setdefault(topic, []).append((partition, todo))
    return topics.items()
