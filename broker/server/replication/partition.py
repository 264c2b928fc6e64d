"""A partition on this broker: its replica's state machine, its log, and who waits for answers.

The replica decides, this class carries out: effects are executed in the order given, before the
next event is fed (the durability rule of :mod:`broker.replication.events`). Everything here runs
on the event loop; nothing awaits between an event and its effects.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from kio.schema.errors import ErrorCode

from ackproof.broker.config import TopicConfig
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.log.producer_state import Appended
from ackproof.broker.log.validator import RefusedBatch
from ackproof.broker.probe import NO_PROBE, Probe
from ackproof.broker.replication.config import ReplicaConfig
from ackproof.broker.replication.events import (
    AdvanceLogStart,
    Append,
    Effect,
    Event,
    FollowerFetch,
    HighWatermark,
    LeaderAndIsr,
    LeaderLostRecords,
    LogEndMoved,
    LogStartMoved,
    Produce,
    Respond,
    StartEpoch,
    Stopped,
    Truncate,
    TruncateFully,
    WriteIsr,
)
from ackproof.broker.replication.replica import Replica
from ackproof.broker.server.metrics.meters import (
    LEADERS_LOST_RECORDS,
    REPLICATION_BYTES_IN,
    of_topic,
)
from ackproof.broker.server.replication.purgatory import Purgatory
from ackproof.broker.server.replication.state_change_log import truncated
from ackproof.broker.server.schedule import Clock
from ackproof.broker.types import (
    NO_EPOCH,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Millis,
    Offset,
    TopicIdPartition,
    TopicPartition,
)
from ackproof.broker.wire.batch import RecordBatch, TimestampType

logger = logging.getLogger(__name__)


class ReplicaFailed(Exception):
    """A replica that could not do what it had decided; its broker is about to halt."""


class Produced(NamedTuple):
    """The outcome of a produce request on one partition; ``base_offset`` is -1 with an error."""

    error: ErrorCode
    base_offset: Offset
    log_append_time: int = -1
    """With ``message.timestamp.type=LogAppendTime``, in ms since 1970."""
    message: str | None = None
    """What more there is to say of the error."""


def refused(error: ErrorCode, message: str | None = None) -> Produced:
    """Nothing was appended."""
    return Produced(error, Offset(-1), message=message)


class _Waiting(NamedTuple):
    future: asyncio.Future[Produced]
    log_append_time: int


@dataclass(frozen=True, slots=True)
class PartitionContext:
    """What a partition needs of its broker."""

    clock: Clock
    purgatory: Purgatory
    write_isr: Callable[["Partition", WriteIsr], None]
    halt: Callable[[Exception], None]
    """Stops the broker, uncleanly: a replica has lost track of its log."""
    probe: Probe = NO_PROBE


class Partition:
    """One replica, fed and obeyed.

    Args:
        config: the topic's settings; :meth:`configure` replaces them.
    """

    def __init__(
        self,
        tp: TopicPartition,
        replica: Replica,
        log: PartitionLog,
        config: TopicConfig,
        context: PartitionContext,
    ) -> None:
        self.tp = tp
        self.replica = replica
        self.log = log
        self.config = config
        self.controller_epoch = ControllerEpoch(-1)
        """Of the controller that wrote the partition state as we know it."""
        self.not_to_be_fetched_in: LeaderEpoch = NO_EPOCH
        """The epoch whose leader has lost what it served; none if -1."""
        self.on_fetch: Callable[[], None] | None = None
        """Called when a follower has fetched."""
        self.meters = of_topic(tp.topic)
        self._context = context
        self._id: TopicIdPartition | None = None
        self._failed = False
        self._tokens = itertools.count()
        self._producers: dict[int, _Waiting] = {}
        self._log_starts: dict[BrokerId, Offset] = {}

    @property
    def id(self) -> TopicIdPartition | None:
        """By its topic's id; None if that is not known, or the topic has none."""
        if self._id is None and (topic_id := self.log.metadata.topic_id) is not None:
            self._id = TopicIdPartition(topic_id.bytes, self.tp.partition)
        return self._id

    def configure(self, config: TopicConfig, replica_config: ReplicaConfig) -> None:
        """The topic's settings changed."""
        self.config = config
        self.log.config = config.log_config()
        self.replica.configure(replica_config)

    def step(self, event: Event) -> None:
        """Feeds one event and carries out what follows from it.

        Raises:
            StaleEpoch, ValueError: the event was refused and nothing happened.
            ReplicaFailed: what followed could not be carried out, e.g. the disk is full. The
                replica is ahead of its log then and takes no event any more; the broker halts, as
                Kafka does when its log directories fail.
        """
        if self._failed:
            raise ReplicaFailed(str(self.tp))
        committed = self.replica.high_watermark
        effects = carried_out = self.replica.step(event)
        try:
            for effect in effects:
                carried_out += self._carry_out(effect, event, committed)
        except Exception as error:
            self.fail(error)
            self._context.probe.replica_failed(self)
            raise ReplicaFailed(str(self.tp)) from error
        if type(event) is FollowerFetch:
            self._look_at_log_start(event)
            if self.on_fetch is not None:
                self.on_fetch()
        if type(event) is LeaderAndIsr:
            self.controller_epoch = event.controller_epoch
        self._context.probe.replica_stepped(self, event, carried_out)

    def fail(self, error: Exception) -> None:
        """It can do nothing more, for its disk has refused something: the broker halts."""
        self._failed = True
        self._context.halt(error)

    def _look_at_log_start(self, event: FollowerFetch) -> None:
        """Whoever waits for the low watermark hears of it when a follower's log start moves."""
        if self._log_starts.get(event.replica) != event.log_start_offset:
            self._log_starts[event.replica] = event.log_start_offset
            self._context.purgatory.wake(self.tp)

    def produce(self, batch: RecordBatch, acks: int, timeout_ms: int) -> asyncio.Future[Produced]:
        """Appends a validated batch, unless the log has it from an idempotent producer already.

        The future is done at once unless acks=-1 has to wait.
        """
        token = next(self._tokens)
        future: asyncio.Future[Produced] = asyncio.get_running_loop().create_future()
        try:
            appended = self._appended_before(batch, acks)
        except RefusedBatch as error:
            future.set_result(refused(error.error, str(error)))
            return future
        timed = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
        moment = appended.timestamp if appended else batch.max_timestamp
        self._producers[token] = _Waiting(future, moment if timed else -1)
        now = self._context.clock.now()
        self.step(
            Produce(
                request=token,
                batches=(batch,),
                acks=acks,
                deadline=Millis(now + timeout_ms),
                now=now,
                appended=(appended.base_offset, appended.next_offset) if appended else None,
            )
        )
        return future

    def _appended_before(self, batch: RecordBatch, acks: int) -> Appended | None:
        """Who does not lead knows of no sequence; that it refuses comes first, as in Kafka."""
        if self.replica.refusal(acks) is not ErrorCode.none:
            return None
        return self.log.producers.state.check(batch)

    def delete_old_segments(self) -> None:
        """Applies ``retention.ms`` and ``retention.bytes``."""
        start = self.log.log_start_offset
        self.log.delete_old_segments(self.replica.high_watermark, self._context.clock.wall_ms())
        if self.log.log_start_offset != start:
            self.step(LogStartMoved(offset=self.log.log_start_offset))

    @property
    def waiting_producers(self) -> int:
        """How many produce requests wait for the in-sync replicas."""
        return len(self._producers)

    def stop(self) -> None:
        """The partition goes away: everyone who still waits is answered, and nobody is let wait
        any more."""
        self.step(Stopped())

    def _carry_out(self, effect: Effect, event: Event, committed: Offset) -> tuple[Effect, ...]:
        """Carry out an effect; return what followed from that, which is carried out, too.

        ``event``: of which it follows; ``committed``: the high watermark before.
        """
        match effect:
            case Append():
                now_ms = self._context.clock.now()
                batches = cast(tuple[RecordBatch, ...], effect.batches)
                self.log.append(batches, effect.base_offset, effect.leader_epoch, now_ms)
                self._count(batches, leads=effect.leader_epoch is not None)
                self._context.purgatory.wake(self.tp)
            case HighWatermark():
                self._context.purgatory.wake(self.tp, watermark=True)
            case Respond():
                self._respond(effect)
            case WriteIsr():
                self._context.write_isr(self, effect)
            case StartEpoch():
                self.log.start_epoch(effect.leader_epoch, effect.offset)
            case Truncate() | TruncateFully():
                return self._truncate(effect, event, committed)
            case AdvanceLogStart():
                self.log.advance_log_start(effect.offset)
            case LeaderLostRecords():
                self._raise_alarm(effect)
        return ()

    def _count(self, batches: Sequence[RecordBatch], *, leads: bool) -> None:
        size = sum([batch.size for batch in batches])
        if leads:
            self.meters.appended(sum([batch.count for batch in batches]), size)
        else:
            REPLICATION_BYTES_IN.value += size

    def _truncate(
        self, cut: Truncate | TruncateFully, event: Event, committed: Offset
    ) -> tuple[Effect, ...]:
        before = self.log.log_end_offset
        empty = self.log.log_start_offset == before
        if isinstance(cut, TruncateFully):
            self.log.truncate_fully(cut.offset)
        else:
            self.log.truncate_to(cut.offset)
        # A cut that takes no record may drop an epoch, or move an empty log: nothing is given up.
        if not empty and (isinstance(cut, TruncateFully) or self.log.log_end_offset < before):
            truncated(
                self.tp,
                self.replica,
                event,
                log_end_offset=before,
                offset=self.log.log_end_offset,
                high_watermark=committed,
            )
        if self.log.log_end_offset >= cut.offset:
            return ()
        # The cut was inside a batch. Unless the replica hears of it, it fetches from behind
        # the hole, and counts at its leader as holding what it has just given up.
        moved = LogEndMoved(offset=self.log.log_end_offset)
        effects = self.replica.step(moved)
        for effect in effects:
            self._carry_out(effect, moved, committed)
        return effects

    def _raise_alarm(self, effect: LeaderLostRecords) -> None:
        self.not_to_be_fetched_in = effect.leader_epoch
        LEADERS_LOST_RECORDS.inc()
        logger.error(
            "%s: broker %d has lost records that it served in leader epoch %d. This replica holds "
            "them up to offset %d, and does not follow it any more in this epoch",
            self.tp,
            self.replica.leader,
            effect.leader_epoch,
            effect.log_end_offset,
        )

    def _respond(self, effect: Respond) -> None:
        waiting = self._producers.pop(effect.request)
        if not waiting.future.done():  # done already: the client went away
            moment = waiting.log_append_time if effect.error is ErrorCode.none else -1
            waiting.future.set_result(Produced(effect.error, effect.base_offset, moment))
