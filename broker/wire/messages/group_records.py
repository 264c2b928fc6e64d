"""The records of ``__consumer_offsets``.

Made by ``python -m protocol``; do not edit.
"""

import struct
from typing import Self

from ackproof.broker.wire.message import message
from ackproof.broker.wire.reader import Reader
from ackproof.broker.wire.writer import Writer

_FORM_I = struct.Struct(">i")
_FORM_II = struct.Struct(">ii")
_FORM_Q = struct.Struct(">q")
_FORM_QI = struct.Struct(">qi")


@message
class OffsetCommitKey:
    """The group and the partition of an offset."""

    group: str
    topic: str
    partition: int

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        group = reader.string()
        topic = reader.string()
        (partition,) = reader.unpack(_FORM_I)
        return cls(
            group=group,
            topic=topic,
            partition=partition,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.group)
        writer.string(self.topic)
        writer.put(_FORM_I.pack(self.partition))


@message
class OffsetCommitValue:
    """The offset of the next record to consume."""

    offset: int
    leader_epoch: int
    """The epoch of the last record consumed, or -1 if the client did not send it."""
    metadata: str
    commit_timestamp: int
    """The time in milliseconds since 1970."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (offset, leader_epoch) = reader.unpack(_FORM_QI)
        metadata = reader.string()
        (commit_timestamp,) = reader.unpack(_FORM_Q)
        return cls(
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=metadata,
            commit_timestamp=commit_timestamp,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_QI.pack(self.offset, self.leader_epoch))
        writer.string(self.metadata)
        writer.put(_FORM_Q.pack(self.commit_timestamp))


@message
class GroupMetadataKey:
    """The group of a generation."""

    group: str

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        group = reader.string()
        return cls(
            group=group,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.group)


@message
class MemberMetadata:
    """A member as of a generation."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout: int
    session_timeout: int
    subscription: bytes
    assignment: bytes

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        member_id = reader.string()
        group_instance_id = reader.nullable_string()
        client_id = reader.string()
        client_host = reader.string()
        (rebalance_timeout, session_timeout) = reader.unpack(_FORM_II)
        subscription = reader.blob()
        assignment = reader.blob()
        return cls(
            member_id=member_id,
            group_instance_id=group_instance_id,
            client_id=client_id,
            client_host=client_host,
            rebalance_timeout=rebalance_timeout,
            session_timeout=session_timeout,
            subscription=subscription,
            assignment=assignment,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.member_id)
        writer.string(self.group_instance_id)
        writer.string(self.client_id)
        writer.string(self.client_host)
        writer.put(_FORM_II.pack(self.rebalance_timeout, self.session_timeout))
        writer.blob(self.subscription)
        writer.blob(self.assignment)


@message
class GroupMetadataValue:
    """A generation. Without members, the group is empty."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp: int
    members: tuple[MemberMetadata, ...]

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        protocol_type = reader.string()
        (generation,) = reader.unpack(_FORM_I)
        protocol = reader.nullable_string()
        leader = reader.nullable_string()
        (current_state_timestamp,) = reader.unpack(_FORM_Q)
        members = reader.structs(MemberMetadata.read, version)
        return cls(
            protocol_type=protocol_type,
            generation=generation,
            protocol=protocol,
            leader=leader,
            current_state_timestamp=current_state_timestamp,
            members=members,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.protocol_type)
        writer.put(_FORM_I.pack(self.generation))
        writer.string(self.protocol)
        writer.string(self.leader)
        writer.put(_FORM_Q.pack(self.current_state_timestamp))
        writer.structs(self.members, version)
