"""The records of KRaft's metadata log of which a view is made.

Written as kio writes entities, which has none of them; fields and tags are those of
``metadata/src/main/resources/common/metadata/*.json`` in Apache Kafka 4.1.1, in the versions that
releases from 3.3 on write when they format a log of their own. Pure.
"""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, ClassVar, TypeAlias

from kio.records.readers import read_batch
from kio.serial import entity_reader
from kio.serial.errors import SerialError
from kio.serial.readers import read_unsigned_varint
from kio.static.constants import EntityType
from kio.static.primitive import i8, i16, i32, i64, u16

_CONTROL = 0x20
"""Of a batch's attributes: what the quorum writes for itself, a new leader or a snapshot's ends."""
_BATCH_OVERHEAD = 12
_FRAME_VERSION = 1
_INT8, _INT16, _INT32, _INT64 = ({"kafka_type": f"int{bits}"} for bits in (8, 16, 32, 64))
_UINT16 = {"kafka_type": "uint16"}
_STRING, _UUID, _BOOL = ({"kafka_type": name} for name in ("string", "uuid", "bool"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Endpoint:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(3)
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=_STRING)
    host: str = field(metadata=_STRING)
    port: u16 = field(metadata=_UINT16)
    security_protocol: i16 = field(metadata=_INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Feature:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(3)
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=_STRING)
    min_supported_version: i16 = field(metadata=_INT16)
    max_supported_version: i16 = field(metadata=_INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    """A process of a broker has registered. ``broker_epoch``: the offset of this record, so that no
    two registrations have the same."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(3)
    __flexible__: ClassVar[bool] = True
    broker_id: i32 = field(metadata=_INT32)
    is_migrating_zk_broker: bool = field(metadata=_BOOL, default=False)
    incarnation_id: uuid.UUID | None = field(metadata=_UUID)
    broker_epoch: i64 = field(metadata=_INT64)
    end_points: tuple[_Endpoint, ...]
    features: tuple[_Feature, ...]
    rack: str | None = field(metadata=_STRING, default=None)
    fenced: bool = field(metadata=_BOOL, default=True)
    in_controlled_shutdown: bool = field(metadata=_BOOL, default=False)
    log_dirs: tuple[uuid.UUID | None, ...] = field(metadata={**_UUID, "tag": 0}, default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBroker:
    """A broker was taken out of the cluster for good."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    broker_id: i32 = field(metadata=_INT32)
    broker_epoch: i64 = field(metadata=_INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChange:
    """``fenced``: 1 from now on, -1 no more, 0 as before. ``in_controlled_shutdown``: 1 from now
    on."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(2)
    __flexible__: ClassVar[bool] = True
    broker_id: i32 = field(metadata=_INT32)
    broker_epoch: i64 = field(metadata=_INT64)
    fenced: i8 = field(metadata={**_INT8, "tag": 0}, default=i8(0))
    in_controlled_shutdown: i8 = field(metadata={**_INT8, "tag": 1}, default=i8(0))
    log_dirs: tuple[uuid.UUID | None, ...] = field(metadata={**_UUID, "tag": 2}, default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic is made."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=_STRING)
    topic_id: uuid.UUID | None = field(metadata=_UUID)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopic:
    """A topic is deleted, with all its partitions."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    topic_id: uuid.UUID | None = field(metadata=_UUID)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """All of a partition."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(2)
    __flexible__: ClassVar[bool] = True
    partition_id: i32 = field(metadata=_INT32)
    topic_id: uuid.UUID | None = field(metadata=_UUID)
    replicas: tuple[i32, ...] = field(metadata=_INT32)
    isr: tuple[i32, ...] = field(metadata=_INT32)
    removing_replicas: tuple[i32, ...] = field(metadata=_INT32)
    adding_replicas: tuple[i32, ...] = field(metadata=_INT32)
    leader: i32 = field(metadata=_INT32)
    leader_recovery_state: i8 = field(metadata={**_INT8, "tag": 0}, default=i8(0))
    leader_epoch: i32 = field(metadata=_INT32)
    partition_epoch: i32 = field(metadata=_INT32)
    directories: tuple[uuid.UUID | None, ...] = field(metadata=_UUID, default=())
    eligible_leader_replicas: tuple[i32, ...] | None = field(
        metadata={**_INT32, "tag": 1}, default=None
    )
    last_known_elr: tuple[i32, ...] | None = field(metadata={**_INT32, "tag": 2}, default=None)


NO_LEADER_CHANGE = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChange:
    """What of a partition is another from now on: None, and :data:`NO_LEADER_CHANGE`, for what is
    not. A leader that is given raises the leader epoch by one, be it the same; every change raises
    the partition epoch (``PartitionRegistration.merge``)."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(2)
    __flexible__: ClassVar[bool] = True
    partition_id: i32 = field(metadata=_INT32)
    topic_id: uuid.UUID | None = field(metadata=_UUID)
    isr: tuple[i32, ...] | None = field(metadata={**_INT32, "tag": 0}, default=None)
    leader: i32 = field(metadata={**_INT32, "tag": 1}, default=i32(NO_LEADER_CHANGE))
    replicas: tuple[i32, ...] | None = field(metadata={**_INT32, "tag": 2}, default=None)
    removing_replicas: tuple[i32, ...] | None = field(metadata={**_INT32, "tag": 3}, default=None)
    adding_replicas: tuple[i32, ...] | None = field(metadata={**_INT32, "tag": 4}, default=None)
    leader_recovery_state: i8 = field(metadata={**_INT8, "tag": 5}, default=i8(-1))
    eligible_leader_replicas: tuple[i32, ...] | None = field(
        metadata={**_INT32, "tag": 6}, default=None
    )
    last_known_elr: tuple[i32, ...] | None = field(metadata={**_INT32, "tag": 7}, default=None)
    directories: tuple[uuid.UUID | None, ...] | None = field(
        metadata={**_UUID, "tag": 8}, default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A setting of a resource; ``value`` None: it has none of its own any more."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    resource_type: i8 = field(metadata=_INT8)
    resource_name: str = field(metadata=_STRING)
    name: str = field(metadata=_STRING)
    value: str | None = field(metadata=_STRING)


Record: TypeAlias = (
    RegisterBroker
    | UnregisterBroker
    | BrokerRegistrationChange
    | Topic
    | RemoveTopic
    | Partition
    | PartitionChange
    | Config
)


def _without(kind: type[Any], name: str) -> type[Any]:
    """``kind`` as it was before it had the field of that name, which is no tagged one: it has a
    default, and stands in the middle."""
    older = [
        (one.name, one.type, field(default=one.default, metadata=one.metadata))
        for one in fields(kind)
        if one.name != name
    ]
    of_a_record = {"__type__": kind.__type__, "__version__": i16(0), "__flexible__": True}
    return make_dataclass(f"{kind.__name__}Without", older, kw_only=True, namespace=of_a_record)


_REGISTER_BROKER_1 = _without(RegisterBroker, "is_migrating_zk_broker")
_PARTITION_0 = _without(Partition, "directories")
_KINDS: Mapping[int, tuple[type[Any], Mapping[int, type[Any]]]] = {
    0: (RegisterBroker, {1: _REGISTER_BROKER_1, 2: RegisterBroker, 3: RegisterBroker}),
    1: (UnregisterBroker, {0: UnregisterBroker}),
    2: (Topic, {0: Topic}),
    3: (Partition, {0: _PARTITION_0, 1: Partition, 2: Partition}),
    4: (Config, {0: Config}),
    5: (PartitionChange, dict.fromkeys(range(3), PartitionChange)),
    9: (RemoveTopic, {0: RemoveTopic}),
    17: (BrokerRegistrationChange, dict.fromkeys(range(3), BrokerRegistrationChange)),
}
"""By API key: the record, and by version what its bytes are. (FenceBroker and UnfenceBroker are not
written any more since 3.3.)"""


class UnknownRecord(ValueError):
    """A record that is of a view, and cannot be read."""


@dataclass(frozen=True, slots=True)
class Written:
    """A batch of the log.

    Attributes:
        end: The offset behind it.
        epoch: Of the active controller that wrote it.
        records: Those of a view, in their order.
    """

    end: int
    epoch: int
    records: tuple[Record, ...]


def batches(content: bytes) -> Iterator[Written]:
    """The whole batches of what was fetched. Raises UnknownRecord."""
    start = 0
    while (size := _whole(content, start)) is not None:
        piece = content[start : start + size]
        start += size
        try:
            batch, _ = read_batch(piece, 0)
        except (SerialError, ValueError) as error:
            raise UnknownRecord(f"a batch of the metadata log: {error}") from error
        values = () if batch.attributes & _CONTROL else batch.records
        yield Written(
            end=batch.base_offset + batch.last_offset_delta + 1,
            epoch=batch.partition_leader_epoch,
            records=tuple(
                found for one in values if (found := decoded(one.value or b"")) is not None
            ),
        )


def decoded(value: bytes) -> Record | None:
    """A record of a view; None for any other. Raises UnknownRecord."""
    try:
        frame, at = read_unsigned_varint(value, 0)
        key, size = read_unsigned_varint(value, at)
        version, further = read_unsigned_varint(value, at + size)
        if frame != _FRAME_VERSION:
            raise UnknownRecord(f"frame version {frame}")
        if key not in _KINDS:
            return None
        kind, versions = _KINDS[key]
        if version not in versions:
            raise UnknownRecord(f"{kind.__name__} in version {version}")
        found = entity_reader(versions[version])(value, at + size + further)[0]
        record: Record = kind(**{one.name: getattr(found, one.name) for one in fields(found)})
        return record
    except (SerialError, KeyError, ValueError, TypeError, OverflowError) as error:
        raise UnknownRecord(f"a record of the metadata log: {error!r}") from error


def _whole(content: bytes, start: int) -> int | None:
    """How long the batch is that begins there; None where it is not there to its end."""
    if len(content) - start < _BATCH_OVERHEAD:
        return None
    size = _BATCH_OVERHEAD + int.from_bytes(content[start + 8 : start + 12], "big")
    return size if len(content) - start >= size else None
