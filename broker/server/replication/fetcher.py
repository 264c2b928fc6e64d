"""A follower's side of replication: one task per leader broker, for all partitions that it leads.

Each round is like that of Kafka's AbstractFetcherThread. It first asks where epochs ended (for
partitions whose logs may have diverged), then fetches from the others. The leader keeps an empty
fetch waiting for ``replica.fetch.wait.max.ms``. The replicas decide what to request (``fetching``),
and what to do with the answers. After a rejected partition or an unreachable leader, the fetcher
waits for ``replica.fetch.backoff.ms``.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias, TypeVar

from kio.schema.errors import ErrorCode

from ackproof.broker.config import BrokerConfig, Listener
from ackproof.broker.replication.events import (
    AskEpoch,
    EpochEndOffset,
    Fetched,
    FetchFrom,
    FetchOutOfRange,
)
from ackproof.broker.server.network.broker_connection import BrokerConnection, Disconnected
from ackproof.broker.server.replication.fetch_session_cache import (
    INITIAL_EPOCH,
    INVALID_SESSION_ID,
    epoch_after,
    name_of,
)
from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.server.schedule import Clock, Spawn
from ackproof.broker.types import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    BrokerId,
    Millis,
    NamedPartition,
    Offset,
    TopicIdPartition,
    TopicPartition,
)
from ackproof.broker.wire.batch import CorruptBatch, parse_batches
from ackproof.broker.wire.message import Request, Response
from ackproof.broker.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
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

# --- requests -------------------------------------------------------------------------------------
#
# The questions of the replicas, and the fetch session that says which of them must be repeated.


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

Key = TypeVar("Key")
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
    wanted: Iterable[tuple[tuple[Key, int], T]],
) -> Iterable[tuple[Key, list[tuple[int, T]]]]:
    """Return the partitions' numbers by topic, as it is named."""
    topics: dict[Key, list[tuple[int, T]]] = {}
    for (topic, partition), todo in wanted:
        topics.setdefault(topic, []).append((partition, todo))
    return topics.items()


# --- fetchers -------------------------------------------------------------------------------------


logger = logging.getLogger(__name__)


K = TypeVar("K", AskEpoch, FetchFrom)
R = TypeVar("R", bound=Response)
Asked = Mapping[TopicPartition, tuple[Partition, K]]
"""The questions of some replicas to the leader, all of one kind."""
Locate = Callable[[BrokerId], Listener | None]


class Fetcher:
    """Follows the partitions led by ``leader``. ``locate`` returns the address of a broker."""

    def __init__(
        self, leader: BrokerId, config: BrokerConfig, clock: Clock, locate: Locate
    ) -> None:
        self._leader = leader
        self._config = config
        self._clock = clock
        self._locate = locate
        self._partitions: dict[TopicPartition, Partition] = {}
        self._delayed: dict[TopicPartition, Millis] = {}
        self._added = asyncio.Event()
        self._session = FetchSessionHandler()
        self._connection: BrokerConnection | None = None
        self._address: Listener | None = None

    @property
    def partitions(self) -> Mapping[TopicPartition, Partition]:
        """The followed partitions."""
        return self._partitions

    def add(self, partition: Partition) -> None:
        """Begin to follow ``partition``, or check it again at once."""
        self._partitions[partition.tp] = partition
        self._delayed.pop(partition.tp, None)
        self._added.set()

    def remove(self, tp: TopicPartition) -> None:
        """Stop following ``tp``. Pending answers are ignored."""
        self._partitions.pop(tp, None)
        self._delayed.pop(tp, None)

    async def run(self) -> None:
        """Follow until cancelled."""
        try:
            while True:
                await self._round()
        finally:
            await self._disconnect()

    async def _round(self) -> None:
        self._added.clear()
        try:
            epochs, fetches = self._due()
            if epochs:
                await self._ask_epochs(epochs)
                _, fetches = self._due()
            if fetches:
                await self._fetch(fetches)
            elif not epochs:
                await self._idle()
        except Disconnected as error:
            logger.warning("Fetching from broker %d: %s", self._leader, error)
            self._session.interrupted()
            await asyncio.sleep(self._config.replica_fetch_backoff_ms / 1000)

    def _due(self) -> tuple[Asked[AskEpoch], Asked[FetchFrom]]:
        """Return the questions of all replicas, except those that were rejected a moment ago. Also
        left out are replicas whose leader has lost records that they hold. It would pass their ends
        again, with other records, and count them as in sync."""
        now = self._clock.now()
        epochs: dict[TopicPartition, tuple[Partition, AskEpoch]] = {}
        fetches: dict[TopicPartition, tuple[Partition, FetchFrom]] = {}
        for tp, partition in self._partitions.items():
            todo = partition.replica.fetching()
            if (
                todo is None
                or self._delayed.get(tp, now) > now
                or todo.leader_epoch == partition.not_to_be_fetched_in
            ):
                continue
            if isinstance(todo, FetchFrom):
                fetches[tp] = (partition, todo)
            else:
                epochs[tp] = (partition, todo)
        return epochs, fetches

    async def _idle(self) -> None:
        """Wait, without a question, until a partition is added, or the rejected ones may be tried
        again."""
        try:
            async with asyncio.timeout(self._config.replica_fetch_backoff_ms / 1000):
                await self._added.wait()
        except TimeoutError:
            pass

    # --- asking -----------------------------------------------------------------------------

    async def _ask_epochs(self, asked: Asked[AskEpoch]) -> None:
        wanted = {tp: todo for tp, (_, todo) in asked.items()}
        response = await self._call(ask_epochs(self._config.id, wanted))
        for topic in response.topics:
            for answer in topic.partitions:
                tp = TopicPartition(topic.topic, answer.partition)
                if self._accepted(tp, asked, answer.error_code):
                    self._step(
                        asked[tp][0],
                        EpochEndOffset(
                            current_leader_epoch=wanted[tp].leader_epoch,
                            leader_epoch=answer.leader_epoch,
                            end_offset=answer.end_offset,
                        ),
                    )

    async def _fetch(self, asked: Asked[FetchFrom]) -> None:
        named = _named(asked)
        ask = self._session.ask({name: asked[tp][1] for name, tp in named.items()})
        request = fetch(self._config, ask)
        response = await self._call(request)
        self._session.answered(response)
        if response.error_code is not ErrorCode.none:
            logger.info("Broker %d ends the session: %s", self._leader, response.error_code.name)
            return
        out_of_range = {}
        for topic in response.responses:
            for answer in topic.partitions:
                name = name_of(topic, answer.partition_index, request.version)
                tp = named.get(name)
                if tp is None:
                    raise Disconnected(f"an answer for {name}, which was not requested")
                if answer.error_code is ErrorCode.offset_out_of_range:
                    out_of_range[tp] = asked[tp]
                elif self._accepted(tp, asked, answer.error_code) and not self._take(
                    *asked[tp], answer
                ):
                    self._session.skipped(name)
        if out_of_range:
            await self._ask_range(out_of_range)

    def _take(self, partition: Partition, todo: FetchFrom, answer: PartitionData) -> bool:
        """Take over an answer. Return whether it could be read."""
        tp = partition.tp
        try:
            batches = parse_batches(answer.records or b"", from_offset=todo.offset)
        except CorruptBatch as error:
            logger.error("Broker %d sent a corrupt batch of %s: %s", self._leader, tp, error)
            self._delay(tp)
            return False
        if batches and tp in self._partitions:  # those behind it come first next time
            self._partitions[tp] = self._partitions.pop(tp)
        self._step(
            partition,
            Fetched(
                leader_epoch=todo.leader_epoch,
                fetch_offset=todo.offset,
                batches=batches,
                high_watermark=answer.high_watermark,
                log_start_offset=answer.log_start_offset,
            ),
        )
        return True

    async def _ask_range(self, asked: Asked[FetchFrom]) -> None:
        wanted = {tp: todo for tp, (_, todo) in asked.items()}
        earliest = await self._offsets(wanted, EARLIEST_TIMESTAMP)
        latest = await self._offsets(wanted, LATEST_TIMESTAMP)
        for tp, (partition, todo) in asked.items():
            if tp in earliest and tp in latest:
                self._step(
                    partition,
                    FetchOutOfRange(
                        leader_epoch=todo.leader_epoch,
                        log_start_offset=earliest[tp],
                        log_end_offset=latest[tp],
                    ),
                )
            else:
                self._delay(tp)

    async def _offsets(
        self, wanted: Mapping[TopicPartition, FetchFrom], timestamp: int
    ) -> dict[TopicPartition, Offset]:
        request = list_offsets(self._config.id, wanted, timestamp)
        response = await self._call(request)
        return {
            TopicPartition(topic.name, answer.partition_index): answer.offset
            for topic in response.topics
            for answer in topic.partitions
            if answer.error_code is ErrorCode.none
        }

    # --- outcomes ---------------------------------------------------------------------------

    def _accepted(self, tp: TopicPartition, asked: Asked[K], error: ErrorCode) -> bool:
        if tp not in asked:
            raise Disconnected(f"an answer for {tp}, which was not requested")
        if error is ErrorCode.none:
            return True
        logger.info("Broker %d refuses to be fetched %s from: %s", self._leader, tp, error.name)
        self._delay(tp)
        return False

    def _step(
        self, partition: Partition, event: Fetched | EpochEndOffset | FetchOutOfRange
    ) -> None:
        """Feed an event to the partition that asked, and not to a later one of its name. A topic
        that was deleted and created again begins in the same epoch, at the same offset, perhaps
        with the same leader. It would be given the former one's records."""
        tp = partition.tp
        if self._partitions.get(tp) is not partition:
            return
        try:
            partition.step(event)
        except ValueError:
            logger.exception("The answer of broker %d for %s is invalid", self._leader, tp)
            self._delay(tp)

    def _delay(self, tp: TopicPartition) -> None:
        self._delayed[tp] = Millis(self._clock.now() + self._config.replica_fetch_backoff_ms)

    # --- the connection ---------------------------------------------------------------------

    async def _call(self, request: Request[R]) -> R:
        address = self._locate(self._leader)
        if address is None:
            raise Disconnected("its address is not known yet")
        if self._connection is None or address != self._address:
            await self._disconnect()
            client_id = f"broker-{self._config.id}-fetcher-{self._leader}"
            self._connection = BrokerConnection(address.host, address.port, client_id)
            self._address = address
        return await self._connection.call(request, self._config.replica_socket_timeout_ms / 1000)

    async def _disconnect(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None


def _named(asked: Asked[FetchFrom]) -> Mapping[NamedPartition, TopicPartition]:
    """Return the name of each partition in a fetch: by its topic's id, unless one of them has none.
    That is so as long as brokers older than topic ids announce leaders. As in Kafka, a request uses
    one of the two."""
    names: dict[NamedPartition, TopicPartition] = {}
    for tp, (partition, _) in asked.items():
        name = partition.id
        if name is None:
            return {tp: tp for tp in asked}
        names[name] = tp
    return names


# --- all fetchers ---------------------------------------------------------------------------------
#
# All fetchers: one :class:`~broker.server.replication.fetcher.Fetcher` per leader broker.


class Fetchers:
    """Starts a fetcher with its first partition and ends it with its last.

    Args:
        spawn: starts a task that has an owner.
    """

    def __init__(self, config: BrokerConfig, clock: Clock, locate: Locate, spawn: Spawn) -> None:
        self._config = config
        self._clock = clock
        self._locate = locate
        self._spawn = spawn
        self._running: dict[BrokerId, tuple[Fetcher, asyncio.Task[None]]] = {}

    def follow(self, partition: Partition) -> None:
        """Fetch ``partition`` from its leader, and from no other broker."""
        leader = partition.replica.leader
        self._remove(partition.tp, but=leader)
        if leader not in self._running:
            fetcher = Fetcher(leader, self._config, self._clock, self._locate)
            self._running[leader] = (fetcher, self._spawn(fetcher.run()))
        self._running[leader][0].add(partition)

    def unfollow(self, tp: TopicPartition) -> None:
        """Stop fetching ``tp``."""
        self._remove(tp, but=None)

    def close(self) -> None:
        """End all fetchers."""
        for _, task in self._running.values():
            task.cancel()
        self._running.clear()

    def _remove(self, tp: TopicPartition, but: BrokerId | None) -> None:
        for leader, (fetcher, task) in tuple(self._running.items()):
            if leader != but:
                fetcher.remove(tp)
                if not fetcher.partitions:
                    task.cancel()
                    del self._running[leader]
