"""The records of ``__consumer_offsets`` in the form of kio's classes. kio lacks them.

Schemas and versions are Kafka 3.x's (``OffsetCommitKey.json`` v1, ``OffsetCommitValue.json`` v3,
``GroupMetadataKey.json`` v2, ``GroupMetadataValue.json`` v3).
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.static.constants import EntityType
from kio.static.primitive import i16

from protocol.fields import BYTES, INT32, INT64, STRING


class _Data:
    __slots__ = ()
    __type__: ClassVar[EntityType] = EntityType.data
    __flexible__: ClassVar[bool] = False


class _Value(_Data):
    __slots__ = ()
    __version__: ClassVar[i16] = i16(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitKey(_Data):
    """The group and the partition of an offset."""

    __version__: ClassVar[i16] = i16(1)
    group: str = field(metadata=STRING)
    topic: str = field(metadata=STRING)
    partition: int = field(metadata=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValue(_Value):
    """The offset of the next record to consume."""

    offset: int = field(metadata=INT64)
    leader_epoch: int = field(metadata=INT32)
    """The epoch of the last record consumed, or -1 if the client did not send it."""
    metadata: str = field(metadata=STRING)
    commit_timestamp: int = field(metadata=INT64)
    """The time in milliseconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataKey(_Data):
    """The group of a generation."""

    __version__: ClassVar[i16] = i16(2)
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
    """A generation. Without members, the group is empty."""

    protocol_type: str = field(metadata=STRING)
    generation: int = field(metadata=INT32)
    protocol: str | None = field(metadata=STRING)
    leader: str | None = field(metadata=STRING)
    current_state_timestamp: int = field(metadata=INT64)
    members: tuple[MemberMetadata, ...]
