"""What a broker's twin knows of the cluster, and hears of it. Nobody else hears of that."""

import asyncio
from collections.abc import Collection, Coroutine
from contextlib import suppress
from copy import copy
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from ackproof.broker.server.coordination.zk_metadata import ZkMetadata
from ackproof.broker.server.metadata_cache import MetadataCache
from ackproof.broker.types import LEADER_DURING_DELETE, LeaderEpoch, ZkVersion
from ackproof.broker.wire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

M = TypeVar("M", bound=MetadataCache)


def twin(known: M) -> M:
    """Who reads ZooKeeper on demand knows of topics that no client asks about the names alone: here
    of all."""
    other = copy(known)
    other._changed = asyncio.Event()
    other._topics = {topic: dict(parts) for topic, parts in known._topics.items()}
    other._ids = dict(known._ids)
    if isinstance(other, ZkMetadata):
        other._topics, other._until = {}, {}
        _stand(other, set(other.names))
    return other


def read(metadata: ZkMetadata, names: set[str]) -> None:
    """It reads that these topics stand in ZooKeeper, and no others."""
    _stand(metadata, names)
    finish(metadata._read_names())


def _stand(metadata: ZkMetadata, names: set[str]) -> None:
    async def topics(_watch: object) -> set[str]:
        return names

    metadata._reader = cast(Any, SimpleNamespace(topics=topics))


def finish(task: Coroutine[Any, Any, object]) -> None:
    """Nobody is waited for: who lets others have their turn goes on at once."""
    with suppress(StopIteration):
        while True:
            task.send(None)


def deletion(metadata: MetadataCache, topics: Collection[str]) -> UpdateMetadataRequest:
    """What a controller says of these, that has told all there is."""
    controller_epoch, broker_epoch = metadata._epochs
    states = tuple(
        UpdateMetadataTopicState(
            topic_name=topic,
            topic_id=metadata._ids.get(topic),
            partition_states=tuple(
                UpdateMetadataPartitionState(
                    partition_index=number,
                    controller_epoch=controller_epoch,
                    leader=LEADER_DURING_DELETE,
                    leader_epoch=LeaderEpoch(0),
                    isr=(),
                    zk_version=ZkVersion(0),
                    replicas=(),
                    offline_replicas=(),
                )
                for number in metadata.topics[topic]
            ),
        )
        for topic in sorted(topics)
    )
    return UpdateMetadataRequest(
        controller_id=metadata.controller,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=states,
        live_brokers=(),
    )
