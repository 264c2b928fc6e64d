"""A partition on this broker: its replica's state machine, its log, and the waiting requests.

The replica decides, and this class carries out. Effects are executed in the order given, before the
next event is fed (the durability rule of :mod:`broker.replication.events`). Everything here runs on
the event loop, without an await between an event and its effects.
"""

import asyncio
import itertools
import json
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
    EpochEndOffset,
    Event,
    FetchOutOfRange,
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
from ackproof.broker.server.metrics import (
    LEADERS_LOST_RECORDS,
    REPLICATION_BYTES_IN,
    of_topic,
)
from ackproof.broker.server.replication.purgatory import Purgatory
from ackproof.broker.server.replication.roles import Origin
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

# --- state change log -----------------------------------------------------------------------------
#
# Kafka's ``state.change.logger``, one JSON object per line.
#
# The whole life of a state change can be followed in it: its sender and receiver, the epochs, and
# when it was received and completed (the lifecycle of *Design V2*).


state_change_logger = logging.getLogger("state.change.logger")


class StateChangeLog:
    """The log of changes to the replicas of one broker."""

    def __init__(self, broker: BrokerId) -> None:
        self._broker = broker

    def record(
        self,
        event: str,
        origin: Origin,
        partition: TopicPartition,
        *,
        leader: BrokerId | None = None,
        leader_epoch: LeaderEpoch | None = None,
        error: str | None = None,
        leader_epoch_start_offset: Offset | None = None,
        high_watermark: Offset | None = None,
    ) -> None:
        """Write one line. ``event`` is received, completed or rejected, and ``origin`` names the
        order. For a leader that begins an epoch, as in Kafka, it has the end of its log and its
        high watermark."""
        line = {
            "event": event,
            "change": origin.change,
            "broker": self._broker,
            "partition": str(partition),
            **origin.by,
            "leader": leader,
            "leader_epoch": leader_epoch,
            "leader_epoch_start_offset": leader_epoch_start_offset,
            "high_watermark": high_watermark,
            "error": error,
        }
        state_change_logger.info(
            json.dumps({key: value for key, value in line.items() if value is not None})
        )


def truncated(
    partition: TopicPartition,
    replica: Replica,
    event: Event,
    *,
    log_end_offset: int,
    offset: int,
    high_watermark: Offset,
) -> None:
    """Write one line: a log that ended at ``log_end_offset`` was truncated to ``offset``, with the
    reason.

    The records that a replica removes are listed nowhere else. To explain later why an acknowledged
    record is gone, there is only this line. ``high_watermark`` is the one before the truncation.
    """
    line = {
        "event": "completed",
        "change": "Truncate",
        "broker": replica.broker,
        "partition": str(partition),
        "leader": replica.leader,
        "leader_epoch": replica.leader_epoch,
        "log_end_offset": log_end_offset,
        "offset": offset,
        "high_watermark": high_watermark,
        "due_to": _grounds(event),
    }
    state_change_logger.info(json.dumps(line))


def _grounds(event: Event) -> str:
    """Return the reason for a truncation, in Kafka's own words if it has one
    (``AbstractFetcherThread``)."""
    match event:
        case EpochEndOffset() if event.end_offset >= 0:
            return f"leader epoch {event.leader_epoch} and offset {event.end_offset}"
        case EpochEndOffset() | LeaderAndIsr():
            return "local high watermark"
        case FetchOutOfRange():
            ends = f"from {event.log_start_offset} to {event.log_end_offset}"
            return f"fetch offset out of range, the leader's log is {ends}"
        case _:
            return "a batch around it"


# --- partition ------------------------------------------------------------------------------------


logger = logging.getLogger(__name__)


class ReplicaFailed(Exception):
    """A replica that could not carry out its decision. Its broker is about to halt."""


class Produced(NamedTuple):
    """The outcome of a produce request on one partition. ``base_offset`` is -1 with an error."""

    error: ErrorCode
    base_offset: Offset
    log_append_time: int = -1
    """The append time with ``message.timestamp.type=LogAppendTime``, in ms since 1970."""
    message: str | None = None
    """An explanation of the error."""


def refused(error: ErrorCode, message: str | None = None) -> Produced:
    """Return the outcome of a request of which nothing was appended."""
    return Produced(error, Offset(-1), message=message)


class _Waiting(NamedTuple):
    future: asyncio.Future[Produced]
    log_append_time: int


@dataclass(frozen=True, slots=True)
class PartitionContext:
    """The services of the broker for a partition."""

    clock: Clock
    purgatory: Purgatory
    write_isr: Callable[["Partition", WriteIsr], None]
    halt: Callable[[Exception], None]
    """Stops the broker, uncleanly, because a replica has lost track of its log."""
    probe: Probe = NO_PROBE


class Partition:
    """One replica, with its events and effects.

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
        """The epoch of the controller that wrote the known partition state."""
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
        """The partition by its topic's id, or None if that is unknown, or the topic has none."""
        if self._id is None and (topic_id := self.log.metadata.topic_id) is not None:
            self._id = TopicIdPartition(topic_id.bytes, self.tp.partition)
        return self._id

    def configure(self, config: TopicConfig, replica_config: ReplicaConfig) -> None:
        """Take over changed settings of the topic."""
        self.config = config
        self.log.config = config.log_config()
        self.replica.configure(replica_config)

    def step(self, event: Event) -> None:
        """Feed one event and carry out its effects.

        Raises:
            StaleEpoch, ValueError: the event was rejected and nothing happened.
            ReplicaFailed: an effect could not be carried out, for example because the disk is full.
                The replica is then ahead of its log, and takes no event any more. The broker halts,
                as Kafka does when its log directories fail.
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
        """Halt the broker, because the disk has refused an operation of this partition."""
        self._failed = True
        self._context.halt(error)

    def _look_at_log_start(self, event: FollowerFetch) -> None:
        """Wake the requests that wait for the low watermark, when a follower's log start moves."""
        if self._log_starts.get(event.replica) != event.log_start_offset:
            self._log_starts[event.replica] = event.log_start_offset
            self._context.purgatory.wake(self.tp)

    def produce(self, batch: RecordBatch, acks: int, timeout_ms: int) -> asyncio.Future[Produced]:
        """Append a validated batch, unless the log has it from an idempotent producer already.

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
        """Return where the log has a batch already. A follower knows no sequences, and its
        rejection comes first, as in Kafka."""
        if self.replica.refusal(acks) is not ErrorCode.none:
            return None
        return self.log.producers.state.check(batch)

    def delete_old_segments(self) -> None:
        """Apply ``retention.ms`` and ``retention.bytes``."""
        start = self.log.log_start_offset
        self.log.delete_old_segments(self.replica.high_watermark, self._context.clock.wall_ms())
        if self.log.log_start_offset != start:
            self.step(LogStartMoved(offset=self.log.log_start_offset))

    @property
    def waiting_producers(self) -> int:
        """The number of produce requests that wait for the in-sync replicas."""
        return len(self._producers)

    def stop(self) -> None:
        """Answer all waiting requests, because the partition is removed, and let no further request
        wait."""
        self.step(Stopped())

    def _carry_out(self, effect: Effect, event: Event, committed: Offset) -> tuple[Effect, ...]:
        """Carry out an effect, and return further effects of it, which are carried out, too.

        ``event`` is the event that caused it, and ``committed`` the high watermark before.
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
        # A truncation that removes no record may drop an epoch, or move an empty log: nothing is
        # lost.
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
        # The offset was inside a batch. The replica must hear of it. Otherwise it would fetch from
        # behind the hole, and count at its leader as holding what it has just removed.
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
        if not waiting.future.done():  # done already: the client disconnected
            moment = waiting.log_append_time if effect.error is ErrorCode.none else -1
            waiting.future.set_result(Produced(effect.error, effect.base_offset, moment))
