"""The records of ``__consumer_offsets``: keys and values, to bytes and back.

Key and value begin with an int16 that says which version of which schema follows. Schemas and
versions are Kafka 3.x's (``OffsetCommitKey.json`` v1, ``OffsetCommitValue.json`` v3,
``GroupMetadataKey.json`` v2, ``GroupMetadataValue.json`` v3), so that Kafka's own tools can read
the topic. A null value is a tombstone. Versions that older Kafkas wrote are not read: this topic
is written by nobody else.

The classes have the shape of kio's generated ones; kio lacks these four.
"""

import io
import struct
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError
from kio.static.constants import EntityType
from kio.static.primitive import i16
from kio.static.protocol import Entity

from broker.wire.fields import BYTES, INT32, INT64, STRING

_VERSION = struct.Struct(">h")
_OFFSET_KEY_VERSION = 1
_GROUP_KEY_VERSION = 2
_VALUE_VERSION = 3

E = TypeVar("E", bound=Entity)


class MalformedGroupRecord(ValueError):
    """A key or value that is none of ours; the text says what is wrong."""


class _Data:
    __slots__ = ()
    __type__: ClassVar[EntityType] = EntityType.data
    __flexible__: ClassVar[bool] = False


class _Value(_Data):
    __slots__ = ()
    __version__: ClassVar[i16] = i16(_VALUE_VERSION)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitKey(_Data):
    """Whose offset, and of which partition."""

    __version__: ClassVar[i16] = i16(_OFFSET_KEY_VERSION)
    group: str = field(metadata=STRING)
    topic: str = field(metadata=STRING)
    partition: int = field(metadata=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValue(_Value):
    """The offset of the next record to consume."""

    offset: int = field(metadata=INT64)
    leader_epoch: int = field(metadata=INT32)
    """Of the last record consumed; -1: the client did not say."""
    metadata: str = field(metadata=STRING)
    commit_timestamp: int = field(metadata=INT64)
    """Milliseconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataKey(_Data):
    """Which group."""

    __version__: ClassVar[i16] = i16(_GROUP_KEY_VERSION)
    group: str = field(metadata=STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata(_Value):
    """A member as of a generation."""

    __type__: ClassVar[EntityType] = EntityType.nested
    member_id: str = field(metadata=STRING)
    group_instance_id: str | None = field(metadata=STRING)
    client_id: str = field(metadata=STRING)
    client_host: str = field(metadata=STRING)
    rebalance_timeout: int = field(metadata=INT32)
    session_timeout: int = field(metadata=INT32)
    subscription: bytes = field(metadata=BYTES)
    assignment: bytes = field(metadata=BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue(_Value):
    """A generation; without members, the group is empty."""

    protocol_type: str = field(metadata=STRING)
    generation: int = field(metadata=INT32)
    protocol: str | None = field(metadata=STRING)
    leader: str | None = field(metadata=STRING)
    current_state_timestamp: int = field(metadata=INT64)
    members: tuple[MemberMetadata, ...]


Key = OffsetCommitKey | GroupMetadataKey
Value = OffsetCommitValue | GroupMetadataValue


def encode(entity: Key | Value) -> bytes:
    """A key or a value as it stands in a record."""
    with io.BytesIO() as buffer:
        buffer.write(_VERSION.pack(entity.__version__))
        entity_writer(type(entity))(buffer, entity)
        return buffer.getvalue()


def decode(key: bytes | None, value: bytes | None) -> tuple[Key, Value | None]:
    """A record's key and value; the value is None for a tombstone.

    Raises:
        MalformedGroupRecord: they are not of the versions above.
    """
    if key is None:
        raise MalformedGroupRecord("a record without key")
    version = _version(key)
    if version == _OFFSET_KEY_VERSION:
        return _read(OffsetCommitKey, key), _read_value(OffsetCommitValue, value)
    if version == _GROUP_KEY_VERSION:
        return _read(GroupMetadataKey, key), _read_value(GroupMetadataValue, value)
    raise MalformedGroupRecord(f"key of version {version}, should be 1 or 2")


def _read_value(entity_type: type[E], data: bytes | None) -> E | None:
    if data is None:
        return None
    if _version(data) != _VALUE_VERSION:
        raise MalformedGroupRecord(f"value of version {_version(data)}, should be {_VALUE_VERSION}")
    return _read(entity_type, data)


def _version(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise MalformedGroupRecord(f"{len(data)} bytes are too few for a version")
    return int(_VERSION.unpack_from(data)[0])


def _read(entity_type: type[E], data: bytes) -> E:
    try:
        entity, size = entity_reader(entity_type)(data, _VERSION.size)
    except (SerialError, ValueError, TypeError) as error:
        raise MalformedGroupRecord(f"{entity_type.__name__}: {error}") from error
    if _VERSION.size + size != len(data):
        raise MalformedGroupRecord(f"{entity_type.__name__}: {len(data)} bytes are too many")
    return entity
