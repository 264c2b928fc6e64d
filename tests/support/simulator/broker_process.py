"""A broker: its replicas while it lives, its logs for ever, and the glue that the server is."""

from collections.abc import Callable
from dataclasses import replace

from kio.schema.errors import ErrorCode

from ackproof.broker.replication.config import ReplicaConfig
from ackproof.broker.replication.events import (
    AskEpoch,
    Effect,
    EpochEndOffset,
    Event,
    Fetched,
    FetchOutOfRange,
    FollowerFetch,
    LeaderAndIsr,
    WriteIsr,
)
from ackproof.broker.replication.replica import Replica, StaleEpoch
from ackproof.broker.types import BrokerId, Millis
from simulator.log import MemoryLog
from simulator.network import ZOOKEEPER, EpochRequest, FetchRequest, Message

BATCHES_PER_FETCH_MAX = 3


class BrokerProcess:
    """``life`` counts starts, ``registration`` is the id ZooKeeper gave. ``observe`` sees every
    event, with its effects, right after they were carried out."""

    def __init__(
        self,
        broker: BrokerId,
        config: ReplicaConfig,
        partitions: list[int],
        send: Callable[[Message], None],
        observe: Callable[["BrokerProcess", int, Event, tuple[Effect, ...]], None],
    ) -> None:
        self.broker = broker
        self.logs = {partition: MemoryLog() for partition in partitions}
        self.replicas: dict[int, Replica] = {}
        self.life = 0
        self.registration = 0
        self._config = config
        self._send = send
        self._observe = observe

    @property
    def alive(self) -> bool:
        return bool(self.replicas)

    def start(self) -> None:
        self.life += 1
        self.replicas = {
            partition: Replica(self.broker, self._config, log.state())
            for partition, log in self.logs.items()
        }

    def crash(self) -> None:
        self.replicas = {}

    def checkpoint(self) -> None:
        """replication-offset-checkpoint."""
        for partition, replica in self.replicas.items():
            self.logs[partition].checkpoint = replica.high_watermark

    def step(self, partition: int, event: Event) -> None:
        """Feed the replica and carry out what it says, in order."""
        effects = self.replicas[partition].step(event)
        for effect in effects:
            self.logs[partition].carry_out(effect)
            if isinstance(effect, WriteIsr):
                self._send(Message(self.broker, ZOOKEEPER, partition, effect, self.life))
        self._observe(self, partition, event, effects)

    def poll(self, partition: int) -> None:
        """What a fetcher thread does once, whether or not it had an answer to its last request."""
        asked = self.replicas[partition].fetching()
        if asked is None:
            return
        body: FetchRequest | EpochRequest
        if isinstance(asked, AskEpoch):
            body = EpochRequest(asked.leader_epoch, asked.epoch)
        else:
            body = FetchRequest(asked.leader_epoch, asked.offset, asked.log_start_offset)
        self._send(Message(self.broker, asked.leader, partition, body, self.life))

    def receive(self, message: Message, now: Millis) -> None:
        body = message.body
        if isinstance(body, FetchRequest):
            self._serve_fetch(message, body, now)
        elif isinstance(body, EpochRequest):
            self._serve_epoch(message, body)
        elif isinstance(body, LeaderAndIsr):
            self._obey(message, body, now)
        elif message.life == self.life and not isinstance(body, WriteIsr):
            self.step(message.partition, body)

    def _obey(self, message: Message, word: LeaderAndIsr, now: Millis) -> None:
        if message.life != self.registration:
            return
        try:
            self.step(message.partition, replace(word, now=now))
        except StaleEpoch:
            return

    def _serve_fetch(self, message: Message, request: FetchRequest, now: Millis) -> None:
        replica = self.replicas[message.partition]
        if replica.check_leader(request.leader_epoch) is not ErrorCode.none:
            return
        answer: Fetched | FetchOutOfRange
        if not replica.log_start_offset <= request.offset <= replica.log_end_offset:
            answer = FetchOutOfRange(
                leader_epoch=request.leader_epoch,
                log_start_offset=replica.log_start_offset,
                log_end_offset=replica.log_end_offset,
            )
        else:
            answer = self._read(message, request, now)
        self._answer(message, answer)

    def _read(self, message: Message, request: FetchRequest, now: Millis) -> Fetched:
        event = FollowerFetch(
            replica=message.source,
            offset=request.offset,
            log_start_offset=request.log_start_offset,
            now=now,
        )
        self.step(message.partition, event)
        replica = self.replicas[message.partition]
        return Fetched(
            leader_epoch=request.leader_epoch,
            fetch_offset=request.offset,
            batches=self.logs[message.partition].read(request.offset, BATCHES_PER_FETCH_MAX),
            high_watermark=replica.high_watermark,
            log_start_offset=replica.log_start_offset,
        )

    def _serve_epoch(self, message: Message, request: EpochRequest) -> None:
        replica = self.replicas[message.partition]
        if replica.check_leader(request.leader_epoch) is not ErrorCode.none:
            return
        epoch, end = replica.end_offset_for_epoch(request.epoch)
        answer = EpochEndOffset(
            current_leader_epoch=request.leader_epoch, leader_epoch=epoch, end_offset=end
        )
        self._answer(message, answer)

    def _answer(self, question: Message, body: Fetched | FetchOutOfRange | EpochEndOffset) -> None:
        self._send(Message(self.broker, question.source, question.partition, body, question.life))
