"""What brokers tell clients, and give them."""

import contextlib
from typing import Any

from broker.server.coordination.zk_metadata import ZkMetadata
from broker.server.requests import metadata
from broker.server.zk.producer_ids import ProducerIds
from broker.types import ProducerId
from simulation.observer.moments import told
from simulation.observer.observer import Observer
from simulation.observer.watched.wrapping import replace


def responses(undo: contextlib.ExitStack, observer: Observer) -> None:
    respond = metadata._respond

    def responded(*args: Any) -> Any:
        answer = respond(*args)
        with observer.failing():
            told.leaders(answer, observer.ever_led)
        return answer

    replace(undo, metadata, "_respond", responded)


def views(undo: contextlib.ExitStack, observer: Observer) -> None:
    original = ZkMetadata._read

    async def read(self: ZkMetadata, topic: str) -> None:
        await original(self, topic)
        with observer.failing():
            told.known(topic, self._topics.get(topic, {}), observer.ever_led)

    replace(undo, ZkMetadata, "_read", read)


def producer_ids(undo: contextlib.ExitStack, observer: Observer) -> None:
    take, give = ProducerIds._take_block, ProducerIds.next

    async def take_block(self: ProducerIds) -> range | None:
        block = await take(self)
        with observer.failing():
            observer.producer_ids.taken(self._broker, block)
        return block

    async def given(self: ProducerIds) -> ProducerId:
        producer = await give(self)
        with observer.failing():
            observer.producer_ids.given(self._broker, producer)
        return producer

    replace(undo, ProducerIds, "_take_block", take_block)
    replace(undo, ProducerIds, "next", given)
