"""What brokers tell clients, and give them."""

import contextlib
import dataclasses
from collections.abc import Iterable
from typing import Any

from ackproof.broker.coordination.nodes import PartitionView
from ackproof.broker.server.coordination.zk_metadata import ZkMetadata
from ackproof.broker.server.metadata_cache import BrokerMetadata, MetadataCache, PartitionMetadata
from ackproof.broker.server.requests import find_coordinator, metadata
from ackproof.broker.server.zk.producer_ids import ProducerIds
from ackproof.broker.server.zk.session import Callback
from ackproof.broker.types import LeaderEpoch, ProducerId, TopicPartition
from ackproof.broker.wire.messages.update_metadata import UpdateMetadataRequest
from simulation.observer.loading.names import Names
from simulation.observer.moments import told
from simulation.observer.observer import Observer
from simulation.observer.watched.wrapping import replace


def responses(undo: contextlib.ExitStack, observer: Observer) -> None:
    respond = metadata._respond

    def responded(*args: Any) -> Any:
        answer = respond(*args)
        with observer.failing():
            told.leaders(answer, observer.ever_led)
            observer.cluster.told(answer)
        return answer

    replace(undo, metadata, "_respond", responded)


def coordinators(undo: contextlib.ExitStack, observer: Observer) -> None:
    find = find_coordinator._find

    async def found(*args: Any) -> Any:
        coordinator = await find(*args)
        with observer.failing():
            observer.cluster.found(coordinator)
        return coordinator

    replace(undo, find_coordinator, "_find", found)


def views(undo: contextlib.ExitStack, observer: Observer) -> None:
    original, show, read_names = ZkMetadata._read, ZkMetadata._shown, ZkMetadata._read_names
    names = Names()

    async def read(self: ZkMetadata, topic: str) -> None:
        await original(self, topic)
        with observer.failing():
            told.known(topic, self._topics.get(topic, {}), observer.ever_led)
            told.named(self)

    def shown(self: ZkMetadata, view: PartitionView) -> PartitionMetadata:
        if view.leader is not None and view.isr is not None:
            claimed = dataclasses.replace(view.isr, epoch=LeaderEpoch(view.isr.epoch + 1))
            with observer.failing():
                told.claimed_meanwhile(
                    view.leader, show(self, dataclasses.replace(view, isr=claimed))
                )
        return show(self, view)

    async def named(self: ZkMetadata, watch: Callback | None = None) -> None:
        await read_names(self, watch)
        with observer.failing():
            names.read(self)

    replace(undo, ZkMetadata, "_read", read)
    replace(undo, ZkMetadata, "_read_names", named)
    replace(undo, ZkMetadata, "_shown", shown)


def updates(undo: contextlib.ExitStack, observer: Observer) -> None:
    update, see = MetadataCache.update, MetadataCache._see

    def updated(self: MetadataCache, request: UpdateMetadataRequest) -> tuple[TopicPartition, ...]:
        before = [TopicPartition(name, n) for name, parts in self.topics.items() for n in parts]
        deleted = update(self, request)
        with observer.failing():
            told.updated(self, request)
            told.dropped(before, self, deleted)
        return deleted

    def seen(self: MetadataCache, brokers: Iterable[BrokerMetadata]) -> None:
        registered = tuple(brokers)
        see(self, registered)
        with observer.failing():
            told.registered(self, {broker.id for broker in registered})

    replace(undo, MetadataCache, "update", updated)
    replace(undo, MetadataCache, "_see", seen)


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
