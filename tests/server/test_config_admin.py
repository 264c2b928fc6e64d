"""Resources with readable and changeable settings.

There is no ZooKeeper here: a request that is not refused before waits for it without end.
"""

import asyncio

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.server.admin import BROKER, TOPIC, ConfigAdmin, Refused, TopicConfigs
from ackproof.broker.server.zk.kafka_zk import KafkaZk

LOGGER = 8
ILLEGAL = (".", "..", "../ids", "known/partitions", "a\0b", "x" * 250)

REFUSED_TO_ALL = [
    *((TOPIC, name, ErrorCode.invalid_topic_exception) for name in ILLEGAL),
    (TOPIC, "no-such", ErrorCode.unknown_topic_or_partition),
    *((BROKER, name, ErrorCode.invalid_request) for name in ("x", "2", "1/..", "1.0")),
    *((kind, "1", ErrorCode.invalid_request) for kind in (-1, 0, 1, LOGGER, 16, 127)),
]


@pytest.fixture
def admin(config, metadata, updated) -> ConfigAdmin:
    """Its broker was told of topics that nothing can be called."""
    metadata.update(updated({name: {0: 1} for name in ILLEGAL}))
    zk = KafkaZk(config.zookeeper_connect, 1000)
    return ConfigAdmin(zk, zk, TopicConfigs(config, zk), metadata)


def refusal(asking) -> ErrorCode:
    with pytest.raises(Refused) as caught:
        asyncio.run(asyncio.wait_for(asking, 5))
    return caught.value.error


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [*REFUSED_TO_ALL, (TOPIC, "", ErrorCode.invalid_topic_exception)],
)
def test_description_of_an_unknown_resource_is_refused(admin, kind, name, error) -> None:
    assert refusal(admin.describe(kind, name)) is error


@pytest.mark.parametrize("validate_only", [True, False])
@pytest.mark.parametrize(
    ("kind", "name", "error"), [*REFUSED_TO_ALL, (TOPIC, "", ErrorCode.invalid_request)]
)
def test_change_to_an_unknown_resource_is_refused(admin, kind, name, error, validate_only) -> None:
    asking = admin.alter(kind, name, dict, validate_only=validate_only)
    assert refusal(asking) is error
