"""JoinGroup (api 11), versions 0 to 9.

Made by ``python -m protocol``; do not edit.
"""

import struct
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.wire.message import message
from ackproof.broker.wire.reader import Reader, error
from ackproof.broker.wire.writer import Writer

_FORM_HI = struct.Struct(">hi")
_FORM_I = struct.Struct(">i")
_FORM_IHI = struct.Struct(">ihi")
_FORM_II = struct.Struct(">ii")
_FORM_O = struct.Struct(">?")


@message
class JoinGroupRequestProtocol:
    """Part of a request."""

    name: str
    """The protocol name."""
    metadata: bytes
    """The protocol metadata."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        metadata = reader.blob()
        if version >= 6:
            reader.skip_tags()
        return cls(
            name=name,
            metadata=metadata,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.name)
        writer.blob(self.metadata)
        if version >= 6:
            writer.no_tags()


@message
class JoinGroupRequest:
    """A request."""

    API_KEY: ClassVar[int] = 11
    VERSIONS: ClassVar[range] = range(10)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 6
    FLEXIBLE_SINCE: ClassVar[int] = 6

    version: int
    group_id: str
    """The group identifier."""
    session_timeout_ms: int
    """The coordinator considers the consumer dead if it receives no heartbeat after this timeout
    in milliseconds."""
    rebalance_timeout_ms: int = -1
    """The maximum time in milliseconds that the coordinator will wait for each member to rejoin
    when rebalancing the group."""
    member_id: str
    """The member id assigned by the group coordinator."""
    group_instance_id: str | None = None
    """The unique identifier of the consumer instance provided by end user."""
    protocol_type: str
    """The unique name the for class of protocols implemented by the group we want to join."""
    protocols: tuple[JoinGroupRequestProtocol, ...]
    """The list of protocols that the member supports."""
    reason: str | None = None
    """The reason why the member (re-)joins the group."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        group_id = reader.string()
        if version >= 1:
            (session_timeout_ms, rebalance_timeout_ms) = reader.unpack(_FORM_II)
        else:
            (session_timeout_ms,) = reader.unpack(_FORM_I)
            rebalance_timeout_ms = -1
        member_id = reader.string()
        if version >= 5:
            group_instance_id = reader.nullable_string()
        else:
            group_instance_id = None
        protocol_type = reader.string()
        protocols = reader.structs(JoinGroupRequestProtocol.read, version)
        if version >= 8:
            reason = reader.nullable_string()
        else:
            reason = None
        if version >= 6:
            reader.skip_tags()
        return cls(
            version=version,
            group_id=group_id,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            member_id=member_id,
            group_instance_id=group_instance_id,
            protocol_type=protocol_type,
            protocols=protocols,
            reason=reason,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.group_id)
        if version >= 1:
            writer.put(_FORM_II.pack(self.session_timeout_ms, self.rebalance_timeout_ms))
        else:
            writer.put(_FORM_I.pack(self.session_timeout_ms))
        writer.string(self.member_id)
        if version >= 5:
            writer.string(self.group_instance_id)
        writer.string(self.protocol_type)
        writer.structs(self.protocols, version)
        if version >= 8:
            writer.string(self.reason)
        if version >= 6:
            writer.no_tags()

    @staticmethod
    def response() -> type["JoinGroupResponse"]:
        """The class of what is answered."""
        return JoinGroupResponse


@message
class JoinGroupResponseMember:
    """Part of a response."""

    member_id: str
    """The group member ID."""
    group_instance_id: str | None = None
    """The unique identifier of the consumer instance provided by end user."""
    metadata: bytes
    """The group member metadata."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        member_id = reader.string()
        if version >= 5:
            group_instance_id = reader.nullable_string()
        else:
            group_instance_id = None
        metadata = reader.blob()
        if version >= 6:
            reader.skip_tags()
        return cls(
            member_id=member_id,
            group_instance_id=group_instance_id,
            metadata=metadata,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.member_id)
        if version >= 5:
            writer.string(self.group_instance_id)
        writer.blob(self.metadata)
        if version >= 6:
            writer.no_tags()


@message
class JoinGroupResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 6
    FLEXIBLE_SINCE: ClassVar[int] = 6

    throttle_time_ms: int = 0
    """The duration in milliseconds for which the request was throttled due to a quota violation,
    or zero if the request did not violate any quota."""
    error_code: ErrorCode
    """The error code, or 0 if there was no error."""
    generation_id: int = -1
    """The generation ID of the group."""
    protocol_type: str | None = None
    """The group protocol name."""
    protocol_name: str | None
    """The group protocol selected by the coordinator."""
    leader: str
    """The leader of the group."""
    skip_assignment: bool = False
    """True if the leader must skip running the assignment."""
    member_id: str
    """The member ID assigned by the group coordinator."""
    members: tuple[JoinGroupResponseMember, ...]
    """The group members."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 2:
            (throttle_time_ms, error_code, generation_id) = reader.unpack(_FORM_IHI)
        else:
            (error_code, generation_id) = reader.unpack(_FORM_HI)
            throttle_time_ms = 0
        if version >= 7:
            protocol_type = reader.nullable_string()
        else:
            protocol_type = None
        protocol_name = reader.nullable_string() if version >= 7 else reader.string()
        leader = reader.string()
        if version >= 9:
            (skip_assignment,) = reader.unpack(_FORM_O)
        else:
            skip_assignment = False
        member_id = reader.string()
        members = reader.structs(JoinGroupResponseMember.read, version)
        if version >= 6:
            reader.skip_tags()
        return cls(
            throttle_time_ms=throttle_time_ms,
            error_code=error(error_code),
            generation_id=generation_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            leader=leader,
            skip_assignment=skip_assignment,
            member_id=member_id,
            members=members,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 2:
            writer.put(_FORM_IHI.pack(self.throttle_time_ms, self.error_code, self.generation_id))
        else:
            writer.put(_FORM_HI.pack(self.error_code, self.generation_id))
        if version >= 7:
            writer.string(self.protocol_type)
        writer.string(self.protocol_name)
        writer.string(self.leader)
        if version >= 9:
            writer.put(_FORM_O.pack(self.skip_assignment))
        writer.string(self.member_id)
        writer.structs(self.members, version)
        if version >= 6:
            writer.no_tags()
