"""The groups of one partition of ``__consumer_offsets``, on the broker that leads it.

As with a partition, effects are carried out in their order before the next event is fed. A shard
belongs to one leader epoch. Unanswered requests end with it.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import (
    Answer,
    Event,
    Expire,
    Moment,
    PartitionsDeleted,
    Request,
    Respond,
    Store,
    Stored,
    Tick,
    refusal,
)
from ackproof.broker.groups.groups import Groups
from ackproof.broker.probe import NO_PROBE, Probe
from ackproof.broker.replication.replica import Role
from ackproof.broker.server.replication.partition import Partition, Produced, refused
from ackproof.broker.server.schedule import Clock
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.batch import KeyValue, RecordBatch, new_batch, split
from ackproof.broker.wire.group_records import Key, Value, encode

AreGone: TypeAlias = Callable[[TopicPartition], bool]

ACKS_ALL = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """``offsets.commit.required.acks`` and ``offsets.commit.timeout.ms``."""

    acks: int
    timeout_ms: int


def moment(clock: Clock) -> Moment:
    """Return the current moment."""
    return Moment(clock.now(), clock.wall_ms())


class GroupShard:
    """The groups of a partition, created when they are loaded.

    Attributes:
        groups: the groups, for queries.
        partition: the partition that stores them.
        appended_bytes: bytes stored since the beginning or the last :meth:`rewritten`.
    """

    def __init__(
        self,
        groups: Groups,
        partition: Partition,
        config: StoreConfig,
        clock: Clock,
        probe: Probe = NO_PROBE,
    ) -> None:
        self.groups = groups
        self.partition = partition
        self.appended_bytes = partition.log.size
        self._epoch = partition.replica.leader_epoch
        self._config = config
        self._clock = clock
        self._probe = probe
        self._numbers = itertools.count()
        self._waiting: dict[int, tuple[Request, asyncio.Future[Answer]]] = {}
        self._closed = False

    @property
    def waiting(self) -> int:
        """The number of requests that are not answered yet."""
        return len(self._waiting)

    def serves(self, partition: Partition) -> bool:
        """Return whether this broker still leads in the epoch in which the groups were loaded."""
        return (
            self.partition is partition
            and partition.replica.role is Role.LEADER
            and partition.replica.leader_epoch == self._epoch
        )

    def ask(self, kind: type[Request], **values: object) -> asyncio.Future[Answer]:
        """Feed a request. Its answer may come later."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        number = next(self._numbers)
        request = kind(request=number, at=moment(self._clock), **values)  # type: ignore[arg-type]
        self._waiting[number] = request, future
        self._feed(request)
        return future

    def tick(self) -> None:
        """Feed the passing of time."""
        self._feed(Tick(at=moment(self._clock)))

    def expire(self) -> None:
        """Look for offsets whose retention is over."""
        self._feed(Expire(at=moment(self._clock)))

    def partitions_deleted(self, are_gone: AreGone) -> None:
        """Delete the offsets in partitions that are gone."""
        offsets = (group.offsets for group in self.groups.by_id.values())
        gone = frozenset(tp for its in offsets for tp in its.known if are_gone(tp))
        if gone:
            self._feed(PartitionsDeleted(at=moment(self._clock), partitions=gone))

    def close(self) -> None:
        """Answer all waiting requests, because another broker coordinates now."""
        self._closed = True
        for request, future in self._waiting.values():
            if not future.done():
                future.set_result(refusal(request, ErrorCode.not_coordinator))
        self._waiting.clear()

    def append(self, records: Sequence[tuple[Key, Value | None]]) -> asyncio.Future[Produced]:
        """Append one batch to the log, as a producer would."""
        batch = new_batch(_encoded(records), self._clock.wall_ms())
        if batch.size > self.partition.config.max_message_bytes:
            future: asyncio.Future[Produced] = asyncio.get_running_loop().create_future()
            future.set_result(refused(ErrorCode.message_too_large))
            return future
        return self._append(batch, self._config.acks)

    def append_again(
        self, records: Sequence[tuple[Key, Value | None]]
    ) -> list[asyncio.Future[Produced]]:
        """Append records that the log holds already, in as many batches as necessary.

        No batch is larger than a segment (Kafka: RECORD_LIST_TOO_LARGE). A record that is larger
        than a batch may be now was accepted under another limit, and gets a batch of its own.

        The append is done when the batches are committed, whatever ``offsets.commit.required.acks``
        says, because the log will begin with them. With acks=1 it would begin at an offset that no
        follower has yet. Each follower would be out of range and discard its log. If the leader
        then failed, every group would be lost.
        """
        segment_bytes = self.partition.log.config.segment_bytes
        most = min(self.partition.config.max_message_bytes, segment_bytes)
        parts = split(_encoded(records), most)
        return [self._append(new_batch(part, self._clock.wall_ms()), ACKS_ALL) for part in parts]

    def _append(self, batch: RecordBatch, acks: int) -> asyncio.Future[Produced]:
        self.appended_bytes += batch.size
        return self.partition.produce(batch, acks, self._config.timeout_ms)

    def _feed(self, event: Event) -> None:
        effects = self.groups.step(event)
        self._probe.groups_stepped(self, event, effects)
        for effect in effects:
            match effect:
                case Respond():
                    _, future = self._waiting.pop(effect.request)
                    if not future.done():  # done already: the client disconnected
                        future.set_result(effect.answer)
                case Store():
                    future_ = self.append(effect.records)
                    future_.add_done_callback(partial(self._stored, effect.token))

    def _stored(self, token: int, future: "asyncio.Future[Produced]") -> None:
        if not self._closed:
            error, offset = future.result()[:2]
            at = moment(self._clock)
            self._feed(Stored(at=at, token=token, error=error, offset=offset))


def _encoded(records: Iterable[tuple[Key, Value | None]]) -> list[KeyValue]:
    return [
        KeyValue(encode(key), None if value is None else encode(value)) for key, value in records
    ]
