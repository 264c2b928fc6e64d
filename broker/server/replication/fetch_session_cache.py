"""The leader's end of fetch sessions (KIP-227): a frequent fetch need not name its partitions each
time.

A session remembers which partitions are fetched, from which offset, and what was sent of each. A
request then names only the partitions whose offset changed, and a response only those with news.
Memory is limited by ``max.incremental.fetch.session.cache.slots`` times what one request may name.
Without a slot, a client fetches without a session, and loses nothing but time.

As in Kafka's ``FetchSessionCache``, a new session takes the slot of one that was idle for two
minutes. Otherwise it takes the slot of the smallest session of a lower rank that has had its two
minutes. Followers rank above consumers, and larger sessions above smaller ones. A follower does not
wait for a consumer's two minutes to be over. Unlike Kafka's, the session sends everything of a
partition again when something else is requested of it: a follower in a new epoch may have ignored
the last answer.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from kio.schema.errors import ErrorCode

from ackproof.broker.server.metrics import CONSUMER
from ackproof.broker.types import Millis, NamedPartition, Offset, TopicIdPartition, TopicPartition
from ackproof.broker.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from ackproof.broker.wire.writer import uuid_bytes

INVALID_SESSION_ID = 0
FINAL_EPOCH = -1
"""The epoch of a request that wants no session."""
INITIAL_EPOCH = 0
"""The epoch of a request that wants a new one."""
SESSIONS_SINCE = 7
"""The first version of Fetch that has sessions."""
FIRST_BY_ID = 13
"""The first version of Fetch that names topics by their ids (KIP-516)."""
EPOCH_MAX = ID_MAX = 2**31 - 1
MIN_EVICTION_MS = 120_000
"""The least time for which a session keeps its slot."""

_UNKNOWN = Offset(-1)


class SessionRefused(Exception):
    """A request with a wrong session or epoch. ``error`` says which."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


@dataclass(slots=True)
class _Fetched:
    """A partition in a session: the request for it, and the offsets that were sent last."""

    asked: FetchPartition
    high_watermark: Offset = _UNKNOWN
    log_start_offset: Offset = _UNKNOWN


@dataclass(slots=True)
class FetchSession:
    """One follower's or consumer's session. ``epoch`` is that of its next request."""

    id: int
    privileged: bool
    created: Millis
    last_used: Millis
    by_id: bool = False
    """Whether its requests name topics by their ids."""
    epoch: int = 1
    _partitions: dict[NamedPartition, _Fetched] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._partitions)

    def asked(self) -> dict[NamedPartition, FetchPartition]:
        """Return the fetched partitions. Those that had no records for longest come first."""
        return {name: fetched.asked for name, fetched in self._partitions.items()}

    def update(self, request: FetchRequest) -> None:
        """Take over what the request adds, changes and forgets."""
        for name, asked in asked_in(request):
            self._partitions[name] = _Fetched(asked)
        for topic in request.forgotten_topics_data:
            for partition in topic.partitions:
                self._partitions.pop(name_of(topic, partition, request.version), None)

    def has_changed(
        self,
        name: NamedPartition,
        error: ErrorCode,
        high_watermark: Offset,
        log_start_offset: Offset,
        size: int,
    ) -> bool:
        """Return whether the response must name the partition, and remember that it did.

        Args:
            size: bytes of records that go with it.
        """
        fetched = self._partitions.get(name)
        if fetched is None:  # forgotten by a request that came while this one waited
            return True
        sent = (fetched.high_watermark, fetched.log_start_offset)
        if size:
            self._partitions[name] = self._partitions.pop(name)
        fetched.log_start_offset = log_start_offset
        if error is not ErrorCode.none:
            fetched.high_watermark = _UNKNOWN  # the end of the error will be news
            return True
        fetched.high_watermark = high_watermark
        return size > 0 or sent != (high_watermark, log_start_offset)


class FetchSessionCache:
    """All sessions of this broker.

    Args:
        slots: ``max.incremental.fetch.session.cache.slots``.
        random: picks ids, so that a client of an earlier life of this broker is not confused with a
            present one.
    """

    def __init__(self, slots: int, random: Random) -> None:
        self._slots = slots
        self._random = random
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        """Return how many sessions there are (Kafka's ``NumIncrementalFetchSessions``)."""
        return len(self._sessions)

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(self._sessions.values())

    def session_of(self, request: FetchRequest, now: Millis) -> FetchSession | None:
        """Return the session that the request continues or begins, updated by it, or None without
        one.

        Raises:
            SessionRefused: it continues an unknown session, or not where that stopped.
        """
        if request.version < SESSIONS_SINCE:
            return None
        identity, epoch = request.session_id, request.session_epoch
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._sessions.pop(identity, None)
            return self._begin(request, now) if epoch == INITIAL_EPOCH else None
        return self._continue(identity, epoch, request, now)

    def _continue(
        self, identity: int, epoch: int, request: FetchRequest, now: Millis
    ) -> FetchSession | None:
        session = self._sessions.get(identity)
        if session is None:
            raise SessionRefused(ErrorCode.fetch_session_id_not_found)
        if session.epoch != epoch:
            raise SessionRefused(ErrorCode.invalid_fetch_session_epoch)
        if session.by_id != by_id(request):
            raise SessionRefused(ErrorCode.fetch_session_topic_id_error)
        session.update(request)
        if not session:
            del self._sessions[identity]
            return None
        session.epoch = epoch_after(epoch)
        session.last_used = now
        return session

    def _begin(self, request: FetchRequest, now: Millis) -> FetchSession | None:
        privileged = request.replica_id != CONSUMER
        session = FetchSession(self._new_id(), privileged, now, now, by_id(request))
        session.update(request)
        if not session or not self._make_room(session, now):
            return None
        self._sessions[session.id] = session
        return session

    def _new_id(self) -> int:
        while (identity := self._random.randint(1, ID_MAX)) in self._sessions:
            pass
        return identity

    def _make_room(self, newcomer: FetchSession, now: Millis) -> bool:
        if len(self._sessions) < self._slots:
            return True
        leaving = self._stale(now) or self._lower(newcomer, now)
        if leaving is None:
            return False
        del self._sessions[leaving.id]
        return True

    def _stale(self, now: Millis) -> FetchSession | None:
        oldest = min(self, key=lambda session: session.last_used, default=None)
        return oldest if oldest and now - oldest.last_used > MIN_EVICTION_MS else None

    def _lower(self, newcomer: FetchSession, now: Millis) -> FetchSession | None:
        def may_go(session: FetchSession) -> bool:
            had_its_time = now - session.created > MIN_EVICTION_MS
            return had_its_time or (newcomer.privileged and not session.privileged)

        lowest = min(filter(may_go, self), key=_rank, default=None)
        return lowest if lowest and _rank(lowest) < _rank(newcomer) else None


def epoch_after(epoch: int) -> int:
    """Return the epoch of a session's next request. Only a new session has INITIAL_EPOCH."""
    return 1 if epoch == EPOCH_MAX else epoch + 1


def by_id(request: FetchRequest) -> bool:
    """Return whether the request names topics by their ids."""
    return request.version >= FIRST_BY_ID


def asked_in(request: FetchRequest) -> Iterator[tuple[NamedPartition, FetchPartition]]:
    """Yield the partitions that the request names."""
    for topic in request.topics:
        for asked in topic.partitions:
            yield name_of(topic, asked.partition, request.version), asked


def name_of(
    topic: FetchTopic | ForgottenTopic | FetchableTopicResponse, partition: int, version: int
) -> NamedPartition:
    """Return a partition as an entry of its topic names it, in a request or response of that
    version."""
    if version >= FIRST_BY_ID:
        return TopicIdPartition(uuid_bytes(topic.topic_id), partition)
    return TopicPartition(topic.topic, partition)


def _rank(session: FetchSession) -> tuple[bool, int]:
    return session.privileged, len(session)
