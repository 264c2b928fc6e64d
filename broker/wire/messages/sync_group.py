"""SyncGroup (api 14), versions 0 to 5.

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
_FORM_IH = struct.Struct(">ih")


@message
class SyncGroupRequestAssignment:
    """Part of a request."""

    member_id: str
    """The ID of the member to assign."""
    assignment: bytes
    """The member assignment."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        member_id = reader.string()
        assignment = reader.blob()
        if version >= 4:
            reader.skip_tags()
        return cls(
            member_id=member_id,
            assignment=assignment,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.member_id)
        writer.blob(self.assignment)
        if version >= 4:
            writer.no_tags()


@message
class SyncGroupRequest:
    """A request."""

    API_KEY: ClassVar[int] = 14
    VERSIONS: ClassVar[range] = range(6)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 4
    FLEXIBLE_SINCE: ClassVar[int] = 4

    version: int
    group_id: str
    """The unique group identifier."""
    generation_id: int
    """The generation of the group."""
    member_id: str
    """The member ID assigned by the group."""
    group_instance_id: str | None = None
    """The unique identifier of the consumer instance provided by end user."""
    protocol_type: str | None = None
    """The group protocol type."""
    protocol_name: str | None = None
    """The group protocol name."""
    assignments: tuple[SyncGroupRequestAssignment, ...]
    """Each assignment."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        group_id = reader.string()
        (generation_id,) = reader.unpack(_FORM_I)
        member_id = reader.string()
        if version >= 3:
            group_instance_id = reader.nullable_string()
        else:
            group_instance_id = None
        if version >= 5:
            protocol_type = reader.nullable_string()
            protocol_name = reader.nullable_string()
        else:
            protocol_type = None
            protocol_name = None
        assignments = reader.structs(SyncGroupRequestAssignment.read, version)
        if version >= 4:
            reader.skip_tags()
        return cls(
            version=version,
            group_id=group_id,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=group_instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=assignments,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.group_id)
        writer.put(_FORM_I.pack(self.generation_id))
        writer.string(self.member_id)
        if version >= 3:
            writer.string(self.group_instance_id)
        if version >= 5:
            writer.string(self.protocol_type)
            writer.string(self.protocol_name)
        writer.structs(self.assignments, version)
        if version >= 4:
            writer.no_tags()

    @staticmethod
    def response() -> type["SyncGroupResponse"]:
        """The class of what is answered."""
        return SyncGroupResponse


@message
class SyncGroupResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 4
    FLEXIBLE_SINCE: ClassVar[int] = 4

    throttle_time_ms: int = 0
    """The duration in milliseconds for which the request was throttled due to a quota violation,
    or zero if the request did not violate any quota."""
    error_code: ErrorCode
    """The error code, or 0 if there was no error."""
    protocol_type: str | None = None
    """The group protocol type."""
    protocol_name: str | None = None
    """The group protocol name."""
    assignment: bytes
    """The member assignment."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 1:
            (throttle_time_ms, error_code) = reader.unpack(_FORM_IH)
        else:
            (error_code,) = reader.unpack(_FORM_H)
            throttle_time_ms = 0
        if version >= 5:
            protocol_type = reader.nullable_string()
            protocol_name = reader.nullable_string()
        else:
            protocol_type = None
            protocol_name = None
        assignment = reader.blob()
        if version >= 4:
            reader.skip_tags()
        return cls(
            throttle_time_ms=throttle_time_ms,
            error_code=error(error_code),
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignment=assignment,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 1:
            writer.put(_FORM_IH.pack(self.throttle_time_ms, self.error_code))
        else:
            writer.put(_FORM_H.pack(self.error_code))
        if version >= 5:
            writer.string(self.protocol_type)
            writer.string(self.protocol_name)
        writer.blob(self.assignment)
        if version >= 4:
            writer.no_tags()
