"""DescribeGroups (api 15), versions 0 to 5.

Made by ``python -m protocol``; do not edit.
"""

import struct
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.wire.message import message
from ackproof.broker.wire.reader import Reader, error
from ackproof.broker.wire.writer import Writer

_FORM_H = struct.Struct(">h")
_FORM_I = struct.Struct(">i")
_FORM_O = struct.Struct(">?")


@message
class DescribeGroupsRequest:
    """A request."""

    API_KEY: ClassVar[int] = 15
    VERSIONS: ClassVar[range] = range(6)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 5
    FLEXIBLE_SINCE: ClassVar[int] = 5

    version: int
    groups: tuple[str, ...] = ()
    """The names of the groups to describe."""
    include_authorized_operations: bool = False
    """Whether to include authorized operations."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        groups = reader.strings()
        if version >= 3:
            (include_authorized_operations,) = reader.unpack(_FORM_O)
        else:
            include_authorized_operations = False
        if version >= 5:
            reader.skip_tags()
        return cls(
            version=version,
            groups=groups,
            include_authorized_operations=include_authorized_operations,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.strings(self.groups)
        if version >= 3:
            writer.put(_FORM_O.pack(self.include_authorized_operations))
        if version >= 5:
            writer.no_tags()

    @staticmethod
    def response() -> type["DescribeGroupsResponse"]:
        """The class of what is answered."""
        return DescribeGroupsResponse


@message
class DescribedGroupMember:
    """Part of a response."""

    member_id: str
    """The member id."""
    group_instance_id: str | None = None
    """The unique identifier of the consumer instance provided by end user."""
    client_id: str
    """The client ID used in the member's latest join group request."""
    client_host: str
    """The client host."""
    member_metadata: bytes
    """The metadata corresponding to the current group protocol in use."""
    member_assignment: bytes
    """The current assignment provided by the group leader."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        member_id = reader.string()
        if version >= 4:
            group_instance_id = reader.nullable_string()
        else:
            group_instance_id = None
        client_id = reader.string()
        client_host = reader.string()
        member_metadata = reader.blob()
        member_assignment = reader.blob()
        if version >= 5:
            reader.skip_tags()
        return cls(
            member_id=member_id,
            group_instance_id=group_instance_id,
            client_id=client_id,
            client_host=client_host,
            member_metadata=member_metadata,
            member_assignment=member_assignment,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.member_id)
        if version >= 4:
            writer.string(self.group_instance_id)
        writer.string(self.client_id)
        writer.string(self.client_host)
        writer.blob(self.member_metadata)
        writer.blob(self.member_assignment)
        if version >= 5:
            writer.no_tags()


@message
class DescribedGroup:
    """Part of a response."""

    error_code: ErrorCode
    """The describe error, or 0 if there was no error."""
    group_id: str
    """The group ID string."""
    group_state: str
    """The group state string, or the empty string."""
    protocol_type: str
    """The group protocol type, or the empty string."""
    protocol_data: str
    """The group protocol data, or the empty string."""
    members: tuple[DescribedGroupMember, ...]
    """The group members."""
    authorized_operations: int = -2147483648
    """32-bit bitfield to represent authorized operations for this group."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (error_code,) = reader.unpack(_FORM_H)
        group_id = reader.string()
        group_state = reader.string()
        protocol_type = reader.string()
        protocol_data = reader.string()
        members = reader.structs(DescribedGroupMember.read, version)
        if version >= 3:
            (authorized_operations,) = reader.unpack(_FORM_I)
        else:
            authorized_operations = -2147483648
        if version >= 5:
            reader.skip_tags()
        return cls(
            error_code=error(error_code),
            group_id=group_id,
            group_state=group_state,
            protocol_type=protocol_type,
            protocol_data=protocol_data,
            members=members,
            authorized_operations=authorized_operations,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_H.pack(self.error_code))
        writer.string(self.group_id)
        writer.string(self.group_state)
        writer.string(self.protocol_type)
        writer.string(self.protocol_data)
        writer.structs(self.members, version)
        if version >= 3:
            writer.put(_FORM_I.pack(self.authorized_operations))
        if version >= 5:
            writer.no_tags()


@message
class DescribeGroupsResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 5
    FLEXIBLE_SINCE: ClassVar[int] = 5

    throttle_time_ms: int = 0
    """The duration in milliseconds for which the request was throttled due to a quota violation,
    or zero if the request did not violate any quota."""
    groups: tuple[DescribedGroup, ...]
    """Each described group."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 1:
            (throttle_time_ms,) = reader.unpack(_FORM_I)
        else:
            throttle_time_ms = 0
        groups = reader.structs(DescribedGroup.read, version)
        if version >= 5:
            reader.skip_tags()
        return cls(
            throttle_time_ms=throttle_time_ms,
            groups=groups,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 1:
            writer.put(_FORM_I.pack(self.throttle_time_ms))
        writer.structs(self.groups, version)
        if version >= 5:
            writer.no_tags()
