"""Collects the effects of a step, and knows who waits for which write or read."""

import itertools
from collections.abc import Callable

from ackproof.broker.coordination.events import (
    Effect,
    Op,
    PartitionRead,
    QueueRead,
    ReadPartition,
    ReadQueue,
    Write,
    Written,
)
from ackproof.broker.coordination.nodes import PartitionView, QueuedRequest
from ackproof.broker.types import BrokerId, TopicPartition

Then = Callable[[Written], None]
Seen = Callable[[PartitionView], None]
Listed = Callable[[tuple[QueuedRequest, ...]], None]


class Outbox:
    """``forget`` when the session is over: what was begun in it concerns nobody any more."""

    def __init__(self) -> None:
        self._effects: list[Effect] = []
        self._tokens = itertools.count()
        self._waiting: dict[int, Then] = {}
        self._reading: dict[int, Seen] = {}
        self._listing: dict[int, Listed] = {}

    def put(self, *effects: Effect) -> None:
        """Have these carried out."""
        self._effects += effects

    def write(self, ops: tuple[Op, ...], session: int | None, then: Then | None = None) -> None:
        """Have ``ops`` written, and ``then`` called with what became of it."""
        token = next(self._tokens)
        if then is not None:
            self._waiting[token] = then
        self.put(Write(token=token, ops=ops, session=session))

    def written(self, event: Written) -> None:
        """The answer to a write; nobody may wait for it."""
        then = self._waiting.pop(event.token, None)
        if then is not None:
            then(event)

    def read(self, tp: TopicPartition, then: Seen) -> None:
        """Have the partition read, and ``then`` called with what there is."""
        token = next(self._tokens)
        self._reading[token] = then
        self.put(ReadPartition(token=token, partition=tp))

    def partition_read(self, event: PartitionRead) -> None:
        """The answer to a read."""
        then = self._reading.pop(event.token, None)
        if then is not None:
            then(event.view)

    def read_queue(self, broker: BrokerId, then: Listed) -> None:
        """Have a broker's queue read, and ``then`` called with its entries."""
        token = next(self._tokens)
        self._listing[token] = then
        self.put(ReadQueue(token=token, broker=broker))

    def queue_read(self, event: QueueRead) -> None:
        """The answer to such a read."""
        then = self._listing.pop(event.token, None)
        if then is not None:
            then(event.entries)

    def forget(self) -> None:
        """Nobody waits for what was begun so far."""
        self._waiting.clear()
        self._reading.clear()
        self._listing.clear()

    def drain(self) -> tuple[Effect, ...]:
        """The effects since the last time."""
        effects, self._effects = tuple(self._effects), []
        return effects
