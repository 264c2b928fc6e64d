"""LeaveGroup (api 13), versions 0 to 5.

Made by ``python -m protocol``; do not edit.
"""

import struct
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.wire.message import message
from ackproof.broker.wire.reader import Reader, error
from ackproof.broker.wire.writer import Writer

_FORM_H = struct.Struct(">h")
_FORM_IH = struct.Struct(">ih")


@message
class MemberIdentity:
    """Part of a request."""

    member_id: str
    """The member ID to remove from the group."""
    group_instance_id: str | None = None
    """The group instance ID to remove from the group."""
    reason: str | None = None
    """The reason why the member left the group."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        member_id = reader.string()
        group_instance_id = reader.nullable_string()
        if version >= 5:
            reason = reader.nullable_string()
        else:
            reason = None
        if version >= 4:
            reader.skip_tags()
        return cls(
            member_id=member_id,
            group_instance_id=group_instance_id,
            reason=reason,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.member_id)
        writer.string(self.group_instance_id)
        if version >= 5:
            writer.string(self.reason)
        if version >= 4:
            writer.no_tags()


@message
class LeaveGroupRequest:
    """A request."""

    API_KEY: ClassVar[int] = 13
    VERSIONS: ClassVar[range] = range(6)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 4
    FLEXIBLE_SINCE: ClassVar[int] = 4

    version: int
    group_id: str
    """The ID of the group to leave."""
    members: tuple[MemberIdentity, ...] = ()
    """List of leaving member identities."""
    member_id: str = ""
    """The member ID to remove from the group."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        group_id = reader.string()
        if version >= 3:
            members = reader.structs(MemberIdentity.read, version)
        else:
            members = ()
        if version <= 2:
            member_id = reader.string()
        else:
            member_id = ""
        if version >= 4:
            reader.skip_tags()
        return cls(
            version=version,
            group_id=group_id,
            members=members,
            member_id=member_id,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.group_id)
        if version >= 3:
            writer.structs(self.members, version)
        if version <= 2:
            writer.string(self.member_id)
        if version >= 4:
            writer.no_tags()

    @staticmethod
    def response() -> type["LeaveGroupResponse"]:
        """The class of what is answered."""
        return LeaveGroupResponse


@message
class MemberResponse:
    """Part of a response."""

    member_id: str
    """The member ID to remove from the group."""
    group_instance_id: str | None
    """The group instance ID to remove from the group."""
    error_code: ErrorCode
    """The error code, or 0 if there was no error."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        member_id = reader.string()
        group_instance_id = reader.nullable_string()
        (error_code,) = reader.unpack(_FORM_H)
        if version >= 4:
            reader.skip_tags()
        return cls(
            member_id=member_id,
            group_instance_id=group_instance_id,
            error_code=error(error_code),
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.member_id)
        writer.string(self.group_instance_id)
        writer.put(_FORM_H.pack(self.error_code))
        if version >= 4:
            writer.no_tags()


@message
class LeaveGroupResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 4
    FLEXIBLE_SINCE: ClassVar[int] = 4

    throttle_time_ms: int = 0
    """The duration in milliseconds for which the request was throttled due to a quota violation,
    or zero if the request did not violate any quota."""
    error_code: ErrorCode
    """The error code, or 0 if there was no error."""
    members: tuple[MemberResponse, ...] = ()
    """List of leaving member responses."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 1:
            (throttle_time_ms, error_code) = reader.unpack(_FORM_IH)
        else:
            (error_code,) = reader.unpack(_FORM_H)
            throttle_time_ms = 0
        if version >= 3:
            members = reader.structs(MemberResponse.read, version)
        else:
            members = ()
        if version >= 4:
            reader.skip_tags()
        return cls(
            throttle_time_ms=throttle_time_ms,
            error_code=error(error_code),
            members=members,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 1:
            writer.put(_FORM_IH.pack(self.throttle_time_ms, self.error_code))
        else:
            writer.put(_FORM_H.pack(self.error_code))
        if version >= 3:
            writer.structs(self.members, version)
        if version >= 4:
            writer.no_tags()
