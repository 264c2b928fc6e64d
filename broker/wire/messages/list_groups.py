"""ListGroups (api 16), versions 0 to 4.

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
class ListGroupsRequest:
    """A request."""

    API_KEY: ClassVar[int] = 16
    VERSIONS: ClassVar[range] = range(5)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = 3

    version: int
    states_filter: tuple[str, ...] = ()
    """The states of the groups we want to list. If empty, all groups are returned with their
    state."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 4:
            states_filter = reader.strings()
        else:
            states_filter = ()
        if version >= 3:
            reader.skip_tags()
        return cls(
            version=version,
            states_filter=states_filter,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 4:
            writer.strings(self.states_filter)
        if version >= 3:
            writer.no_tags()

    @staticmethod
    def response() -> type["ListGroupsResponse"]:
        """The class of what is answered."""
        return ListGroupsResponse


@message
class ListedGroup:
    """Part of a response."""

    group_id: str
    """The group ID."""
    protocol_type: str
    """The group protocol type."""
    group_state: str = ""
    """The group state name."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        group_id = reader.string()
        protocol_type = reader.string()
        if version >= 4:
            group_state = reader.string()
        else:
            group_state = ""
        if version >= 3:
            reader.skip_tags()
        return cls(
            group_id=group_id,
            protocol_type=protocol_type,
            group_state=group_state,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.group_id)
        writer.string(self.protocol_type)
        if version >= 4:
            writer.string(self.group_state)
        if version >= 3:
            writer.no_tags()


@message
class ListGroupsResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = 3

    throttle_time_ms: int = 0
    """The duration in milliseconds for which the request was throttled due to a quota violation,
    or zero if the request did not violate any quota."""
    error_code: ErrorCode
    """The error code, or 0 if there was no error."""
    groups: tuple[ListedGroup, ...]
    """Each group in the response."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 1:
            (throttle_time_ms, error_code) = reader.unpack(_FORM_IH)
        else:
            (error_code,) = reader.unpack(_FORM_H)
            throttle_time_ms = 0
        groups = reader.structs(ListedGroup.read, version)
        if version >= 3:
            reader.skip_tags()
        return cls(
            throttle_time_ms=throttle_time_ms,
            error_code=error(error_code),
            groups=groups,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 1:
            writer.put(_FORM_IH.pack(self.throttle_time_ms, self.error_code))
        else:
            writer.put(_FORM_H.pack(self.error_code))
        writer.structs(self.groups, version)
        if version >= 3:
            writer.no_tags()
