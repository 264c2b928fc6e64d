"""Our encoder writes what kio's writes."""

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v11.response import PartitionData
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_writer
from messages import entities

from broker.server.requests.table import SERVED
from broker.wire.encoding import encoder
from broker.wire.framing import LARGE_BYTES, FrameWriter
from broker.wire.registry import request_type, response_type

ALL = {int(key): schema_name_map[name] for key, name in api_key_map.items()}


def written(entity: Any) -> FrameWriter:
    writer = FrameWriter()
    encoder(type(entity))(writer, entity)
    return writer


def by_kio(entity: Any) -> bytes:
    with io.BytesIO() as buffer:
        entity_writer(type(entity))(buffer, entity)
        return buffer.getvalue()


def same(data: st.DataObject, api_key: int, version: int) -> None:
    for payload in (request_type(api_key, version), response_type(api_key, version)):
        for entity_type in (payload, payload.__header_schema__):
            entity = data.draw(entities(entity_type))
            assert b"".join(written(entity).pieces())[4:] == by_kio(entity)


@pytest.mark.parametrize(
    ("api_key", "version"),
    [(key, version) for key, versions in SERVED.items() for version in versions],
)
@settings(max_examples=8)
@given(data=st.data())
def test_every_served_version_is_written_as_by_kio(
    data: st.DataObject, api_key: int, version: int
) -> None:
    same(data, api_key, version)


@settings(max_examples=200)
@given(data=st.data(), api_key=st.sampled_from(sorted(ALL)))
def test_so_is_every_other(data: st.DataObject, api_key: int) -> None:
    same(data, api_key, data.draw(st.sampled_from(sorted(ALL[api_key]))))


def test_large_records_are_not_copied() -> None:
    records = memoryview(bytes(LARGE_BYTES))
    partition = PartitionData(
        partition_index=0,
        error_code=ErrorCode.none,
        high_watermark=0,
        aborted_transactions=None,
        records=records,
    )
    assert any(piece is records for piece in written(partition).pieces())
