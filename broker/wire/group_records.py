"""The records of ``__consumer_offsets``: keys and values, to bytes and back.

Key and value begin with an int16 for the version of the schema that follows. Schemas and versions
are Kafka 3.x's (``OffsetCommitKey.json`` v1, ``OffsetCommitValue.json`` v3,
``GroupMetadataKey.json`` v2, ``GroupMetadataValue.json`` v3), so that Kafka's own tools can read
the topic. A null value is a tombstone. Versions of older Kafkas are not read, because only this
broker writes this topic.
"""

import struct
from typing import Final, TypeVar

from ackproof.broker.wire.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ackproof.broker.wire.reader import UNREADABLE, Reader
from ackproof.broker.wire.writer import Writer

__all__ = [
    "GroupMetadataKey",
    "GroupMetadataValue",
    "Key",
    "MalformedGroupRecord",
    "MemberMetadata",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "Value",
    "decode",
    "encode",
]

Key = OffsetCommitKey | GroupMetadataKey
Value = OffsetCommitValue | GroupMetadataValue

E = TypeVar("E", OffsetCommitKey, GroupMetadataKey, OffsetCommitValue, GroupMetadataValue)

_VERSION = struct.Struct(">h")
_VERSIONS: Final[dict[type, int]] = {
    OffsetCommitKey: 1,
    GroupMetadataKey: 2,
    OffsetCommitValue: 3,
    GroupMetadataValue: 3,
}


class MalformedGroupRecord(ValueError):
    """A key or value of another kind. The text says what is wrong."""


def encode(entity: Key | Value) -> bytes:
    """Encode a key or a value of a record."""
    version = _VERSIONS[type(entity)]
    writer = Writer()
    writer.put(_VERSION.pack(version))
    entity.write(writer, version)
    return writer.payload()


def decode(key: bytes | None, value: bytes | None) -> tuple[Key, Value | None]:
    """Return a record's key and value. The value is None for a tombstone.

    Raises:
        MalformedGroupRecord: they are not of the versions above.
    """
    if key is None:
        raise MalformedGroupRecord("a record without key")
    version = _version(key)
    if version == _VERSIONS[OffsetCommitKey]:
        return _read(OffsetCommitKey, key), _read_value(OffsetCommitValue, value)
    if version == _VERSIONS[GroupMetadataKey]:
        return _read(GroupMetadataKey, key), _read_value(GroupMetadataValue, value)
    raise MalformedGroupRecord(f"key of version {version}, should be 1 or 2")


def _read_value(entity_type: type[E], data: bytes | None) -> E | None:
    if data is None:
        return None
    wanted = _VERSIONS[entity_type]
    if _version(data) != wanted:
        raise MalformedGroupRecord(f"value of version {_version(data)}, should be {wanted}")
    return _read(entity_type, data)


def _version(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise MalformedGroupRecord(f"{len(data)} bytes are too few for a version")
    return int(_VERSION.unpack_from(data)[0])


def _read(entity_type: type[E], data: bytes) -> E:
    reader = Reader(data, _VERSION.size)
    try:
        entity = entity_type.read(reader, _VERSIONS[entity_type])
    except UNREADABLE as error:
        raise MalformedGroupRecord(f"{entity_type.__name__}: {error}") from error
    if reader.at != len(data):
        raise MalformedGroupRecord(f"{entity_type.__name__}: {len(data)} bytes are too many")
    return entity
