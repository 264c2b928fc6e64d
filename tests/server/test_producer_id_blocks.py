"""The znode from which producer ids come, as Kafka writes it."""

import pytest

from ackproof.broker.server.zk.znodes import (
    MalformedNode,
    decode_producer_ids_end,
    encode_producer_ids,
)
from ackproof.broker.types import BrokerId


def test_a_block_is_written_as_kafka_does() -> None:
    data = encode_producer_ids(BrokerId(3), range(2000, 3000))
    assert data == b'{"version":1,"broker":3,"block_start":"2000","block_end":"2999"}'
    assert decode_producer_ids_end(data) == 3000


def test_the_first_block_begins_at_0() -> None:
    assert decode_producer_ids_end(b"") == 0


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b'{"block_end":"x"}',
        b'{"block_end":"-2"}',
        b'{"block_end":"9223372036854775807"}',
        b'{"block_end":1e999}',
        b"[]",
        b"\xff",
    ],
)
def test_anything_else_is_named(data: bytes) -> None:
    with pytest.raises(MalformedNode, match="/latest_producer_id_block"):
        decode_producer_ids_end(data)
