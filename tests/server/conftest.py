"""A metadata cache filled by the controller's word, and a configuration to go with it."""

from pathlib import Path

import pytest

from ackproof.broker.config import BrokerConfig
from ackproof.broker.server.metadata_cache import MetadataCache
from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, ZkVersion
from ackproof.broker.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)


def update(
    topics: dict[str, dict[int, int]], brokers: tuple[int, ...] = (1, 2, 3), controller: int = 1
) -> UpdateMetadataRequest:
    """``topics``: leader by partition, by topic."""
    return UpdateMetadataRequest(
        controller_id=BrokerId(controller),
        controller_epoch=ControllerEpoch(1),
        live_brokers=tuple(
            UpdateMetadataBroker(
                id=BrokerId(broker),
                endpoints=(
                    UpdateMetadataEndpoint(
                        port=9000 + broker, host="h", listener="PLAINTEXT", security_protocol=0
                    ),
                ),
                rack=None,
            )
            for broker in brokers
        ),
        topic_states=tuple(
            UpdateMetadataTopicState(
                topic_name=name,
                topic_id=None,
                partition_states=tuple(
                    UpdateMetadataPartitionState(
                        partition_index=partition,
                        controller_epoch=ControllerEpoch(1),
                        leader=BrokerId(leader),
                        leader_epoch=LeaderEpoch(0),
                        isr=(BrokerId(1),),
                        zk_version=ZkVersion(0),
                        replicas=(BrokerId(1),),
                        offline_replicas=(),
                    )
                    for partition, leader in partitions.items()
                ),
            )
            for name, partitions in topics.items()
        ),
    )


@pytest.fixture
def updated():
    """Builds UpdateMetadata requests."""
    return update


@pytest.fixture
def metadata() -> MetadataCache:
    """Three live brokers and one topic."""
    cache = MetadataCache()
    cache.update(update({"known": {0: 1}}))
    return cache


@pytest.fixture
def config(tmp_path: Path) -> BrokerConfig:
    """Broker 1 with Kafka's defaults."""
    return BrokerConfig(broker_id=1, zookeeper_connect="127.0.0.1:1", log_dirs=(tmp_path,))
