"""DeleteGroups (api 42), versions 0 to 2.

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


@message
class DeleteGroupsRequest:
    """A request."""

    API_KEY: ClassVar[int] = 42
    VERSIONS: ClassVar[range] = range(3)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    version: int
    groups_names: tuple[str, ...] = ()
    """The group names to delete."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        groups_names = reader.strings()
        if version >= 2:
            reader.skip_tags()
        return cls(
            version=version,
            groups_names=groups_names,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.strings(self.groups_names)
        if version >= 2:
            writer.no_tags()

    @staticmethod
    def response() -> type["DeleteGroupsResponse"]:
        """The class of what is answered."""
        return DeleteGroupsResponse


@message
class DeletableGroupResult:
    """Part of a response."""

    group_id: str
    """The group id."""
    error_code: ErrorCode
    """The deletion error, or 0 if the deletion succeeded."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        group_id = reader.string()
        (error_code,) = reader.unpack(_FORM_H)
        if version >= 2:
            reader.skip_tags()
        return cls(
            group_id=group_id,
            error_code=error(error_code),
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.group_id)
        writer.put(_FORM_H.pack(self.error_code))
        if version >= 2:
            writer.no_tags()


@message
class DeleteGroupsResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    throttle_time_ms: int = 0
    """The duration in milliseconds for which the request was throttled due to a quota violation,
    or zero if the request did not violate any quota."""
    results: tuple[DeletableGroupResult, ...]
    """The deletion results."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (throttle_time_ms,) = reader.unpack(_FORM_I)
        results = reader.structs(DeletableGroupResult.read, version)
        if version >= 2:
            reader.skip_tags()
        return cls(
            throttle_time_ms=throttle_time_ms,
            results=results,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_I.pack(self.throttle_time_ms))
        writer.structs(self.results, version)
        if version >= 2:
            writer.no_tags()
