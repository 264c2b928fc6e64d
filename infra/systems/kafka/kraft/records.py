"""The records of KRaft's metadata log that describe brokers, topics, partitions and settings.

Each release of Apache Kafka defines how it encodes its records. The schemas of its generated
classes are listed once, when the release is fetched (``infra/systems/kafka/ListRecords.java``). A
record of an unknown release is therefore read as that release writes it. This module knows the
names of the fields that it needs. Fields that a release adds are skipped. The names and meanings of
the fields are those of ``metadata/src/main/resources/common/metadata/*.json`` in Apache Kafka
4.1.1. Pure.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeAlias

from kio.records.readers import read_batch
from kio.serial import readers
from kio.serial.errors import SerialError
from kio.serial.readers import read_unsigned_varint

_CONTROL = 0x20
"""The bit of a batch's attributes that marks records of the quorum for itself.

Such records are about a new leader, or the ends of a snapshot.
"""
_BATCH_OVERHEAD = 12
_FRAME_VERSION = 1
NO_LEADER_CHANGE = -2
"""The value of ``PartitionChangeRecord.leader`` when the leader stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    """A broker process has registered. ``broker_epoch`` is the offset of this record, so that no
    two registrations have the same."""

    broker_id: int
    broker_epoch: int
    fenced: bool = True
    in_controlled_shutdown: bool = False
    is_migrating_zk_broker: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBroker:
    """A broker was removed from the cluster for good."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChange:
    """A registration has changed. ``fenced`` is 1 if the broker is fenced from now on, -1 if it no
    longer is, and 0 if that stays. ``in_controlled_shutdown`` is 1 from the beginning of one."""

    broker_id: int
    broker_epoch: int
    fenced: int = 0
    in_controlled_shutdown: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic was created."""

    name: str
    topic_id: uuid.UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopic:
    """A topic was deleted, with all its partitions."""

    topic_id: uuid.UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition, as a whole."""

    partition_id: int
    topic_id: uuid.UUID | None
    replicas: Sequence[int]
    isr: Sequence[int]
    leader: int
    leader_epoch: int
    partition_epoch: int
    eligible_leader_replicas: Sequence[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChange:
    """The changes in a partition. None stands for what stays as it was."""

    partition_id: int
    topic_id: uuid.UUID | None
    isr: Sequence[int] | None = None
    leader: int = NO_LEADER_CHANGE
    replicas: Sequence[int] | None = None
    eligible_leader_replicas: Sequence[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A setting of a resource. ``value`` is None when the resource's own setting was removed."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ZkMigrationState:
    """The migration from ZooKeeper has reached a state, by its number."""

    zk_migration_state: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortTransaction:
    """The records since the beginning of a transaction (KIP-868) do not count."""


Record: TypeAlias = (
    RegisterBroker
    | UnregisterBroker
    | BrokerRegistrationChange
    | Topic
    | RemoveTopic
    | Partition
    | PartitionChange
    | Config
    | ZkMigrationState
    | AbortTransaction
)

_KINDS: Mapping[str, type[Any]] = {
    "RegisterBrokerRecord": RegisterBroker,
    "UnregisterBrokerRecord": UnregisterBroker,
    "TopicRecord": Topic,
    "PartitionRecord": Partition,
    "ConfigRecord": Config,
    "PartitionChangeRecord": PartitionChange,
    "RemoveTopicRecord": RemoveTopic,
    "BrokerRegistrationChangeRecord": BrokerRegistrationChange,
    "ZkMigrationStateRecord": ZkMigrationState,
    "AbortTransactionRecord": AbortTransaction,
}
"""The classes by the names of Kafka's.

FenceBrokerRecord and UnfenceBrokerRecord are no longer written since 3.3.
"""


class UnknownRecord(ValueError):
    """The metadata log has a record that cannot be read, and that this module needs."""


# --- decoding by a release's own schemas ----------------------------------------------------------


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value, size = read_unsigned_varint(content, at)
    return value, at + size


_Read: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
"""A function that reads a value at an offset, and returns it and the offset behind it."""


def _fixed(read: _Read) -> _Read:
    """Return the reader made of one of kio's, which returns a size in place of the offset."""

    def at(content: bytes, start: int) -> tuple[Any, int]:
        value, size = read(content, start)
        return value, start + size

    return at


def _sized(content: bytes, at: int) -> tuple[bytes | None, int]:
    """Read a compact length and as many bytes; None for null."""
    length, at = _varint(content, at)
    if length == 0:
        return None, at
    end = at + length - 1
    if end > len(content):
        raise UnknownRecord(f"a field of {length - 1} bytes ends behind the record")
    return content[at:end], end


def _text(content: bytes, at: int) -> tuple[str | None, int]:
    value, at = _sized(content, at)
    return None if value is None else value.decode(), at


_PRIMITIVES: Mapping[str, _Read] = {
    "BOOLEAN": _fixed(readers.read_boolean),
    "INT8": _fixed(readers.read_int8),
    "INT16": _fixed(readers.read_int16),
    "INT32": _fixed(readers.read_int32),
    "INT64": _fixed(readers.read_int64),
    "UINT16": _fixed(readers.read_uint16),
    "UINT32": _fixed(readers.read_uint32),
    "FLOAT64": _fixed(readers.read_float64),
    "UUID": _fixed(readers.read_uuid),
    "COMPACT_STRING": _text,
    "COMPACT_NULLABLE_STRING": _text,
    "COMPACT_BYTES": _sized,
    "COMPACT_NULLABLE_BYTES": _sized,
}
"""The readers by the names of ``org.apache.kafka.common.protocol.types.Type``.

Records are flexible in all versions, so that there are compact strings and arrays only.
"""


def _value(kind: Any, content: bytes, at: int) -> tuple[Any, int]:
    """Read a value of a type, as ``ListRecords.java`` writes types.

    A type is a primitive type's name, or a JSON object with ``fields`` (a structure) or ``array``
    (the type of its elements).
    """
    if isinstance(kind, str):
        if kind not in _PRIMITIVES:
            raise UnknownRecord(f"type {kind} is not supported")
        return _PRIMITIVES[kind](content, at)
    if "fields" in kind:
        return _structure(kind["fields"], content, at)
    if not kind["compact"]:
        raise UnknownRecord("arrays that are not compact are not supported")
    length, at = _varint(content, at)
    if length == 0:
        return None, at
    values = []
    for _ in range(length - 1):
        value, at = _value(kind["array"], content, at)
        values.append(value)
    return tuple(values), at


def _structure(members: Sequence[Any], content: bytes, at: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    for name, kind in members:
        if isinstance(kind, dict) and "tags" in kind:
            tagged, at = _tagged(kind["tags"], content, at)
            found |= tagged
        else:
            found[name], at = _value(kind, content, at)
    return found, at


def _tagged(tags: Mapping[str, Any], content: bytes, at: int) -> tuple[dict[str, Any], int]:
    """Read tagged fields (KIP-482). Those with an unknown tag are skipped by their size."""
    found: dict[str, Any] = {}
    count, at = _varint(content, at)
    for _ in range(count):
        tag, at = _varint(content, at)
        size, at = _varint(content, at)
        if (known := tags.get(str(tag))) is not None:
            name, kind = known
            found[name], _ = _value(kind, content, at)
        at += size
    if at > len(content):
        raise UnknownRecord("its tagged fields end behind the record")
    return found, at


@dataclass(frozen=True, slots=True)
class RecordSchemas:
    """The encoding of the records of one release's metadata log.

    Attributes:
        release: The release, as messages name it.
        records: By record id as text: ``name`` and, by version as text, ``versions``.
    """

    release: str
    records: Mapping[str, Any]

    def decoded(self, value: bytes) -> Record | None:
        """Return a record of the log, or None for one of a kind that is not needed.

        Raises UnknownRecord.
        """
        try:
            return self._decoded(value)
        except (SerialError, KeyError, ValueError, TypeError, OverflowError) as error:
            if isinstance(error, UnknownRecord):
                raise
            raise UnknownRecord(f"a record of the metadata log is damaged: {error!r}") from error

    def _decoded(self, value: bytes) -> Record | None:
        frame, at = _varint(value, 0)
        key, at = _varint(value, at)
        version, at = _varint(value, at)
        if frame != _FRAME_VERSION:
            raise self._unsupported(f"frame version {frame}")
        known = self.records.get(str(key))
        if known is None:
            raise self._unsupported(f"record type {key}")
        kind = _KINDS.get(known["name"])
        if kind is None:
            return None
        title = f"{known['name']} version {version}"
        schema = known["versions"].get(str(version))
        if schema is None:
            raise self._unsupported(title)
        found, _ = _value(schema, value, at)
        needed = {one.name for one in fields(kind) if one.default is MISSING}
        if lacking := sorted(needed - found.keys()):
            raise self._unsupported(f"{title}, which has no {', '.join(lacking)},")
        names = {one.name for one in fields(kind)} & found.keys()
        record: Record = kind(**{name: found[name] for name in names})
        return record

    def _unsupported(self, what: str) -> UnknownRecord:
        return UnknownRecord(f"{what} in the metadata log is not supported ({self.release})")


@dataclass(frozen=True, slots=True)
class MetadataBatch:
    """A batch of the log.

    Attributes:
        end: The offset behind it.
        epoch: The epoch of the active controller that wrote it.
        records: The needed records, in their order.
    """

    end: int
    epoch: int
    records: tuple[Record, ...]


def batches(content: bytes, schemas: RecordSchemas) -> Iterator[MetadataBatch]:
    """Yield the whole batches of a fetched piece. Raises UnknownRecord."""
    start = 0
    while (size := _whole(content, start)) is not None:
        piece = content[start : start + size]
        start += size
        try:
            batch, _ = read_batch(piece, 0)
        except (SerialError, ValueError) as error:
            raise UnknownRecord(f"a batch of the metadata log is damaged: {error}") from error
        values = () if batch.attributes & _CONTROL else batch.records
        decoded = (schemas.decoded(one.value or b"") for one in values)
        yield MetadataBatch(
            end=batch.base_offset + batch.last_offset_delta + 1,
            epoch=batch.partition_leader_epoch,
            records=tuple(record for record in decoded if record is not None),
        )


def parts(records: Iterable[Record]) -> Iterator[tuple[Record, ...]]:
    """Yield the records in parts that change no partition twice.

    A controller may write two elections of a partition into one batch, and each of them counts.
    """
    part: list[Record] = []
    changed: set[tuple[uuid.UUID | None, int]] = set()
    for record in records:
        if isinstance(record, Partition | PartitionChange):
            partition = record.topic_id, int(record.partition_id)
            if partition in changed:
                yield tuple(part)
                part, changed = [], set()
            changed.add(partition)
        part.append(record)
    if part:
        yield tuple(part)


def _whole(content: bytes, start: int) -> int | None:
    """Return the size of the batch that begins there, or None if its end is missing."""
    if len(content) - start < _BATCH_OVERHEAD:
        return None
    size = _BATCH_OVERHEAD + int.from_bytes(content[start + 8 : start + 12], "big")
    return size if len(content) - start >= size else None
