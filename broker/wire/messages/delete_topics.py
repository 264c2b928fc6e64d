"""DeleteTopics (api 20), versions 1 to 5.

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
class DeleteTopicsRequest:
    """A request."""

    API_KEY: ClassVar[int] = 20
    VERSIONS: ClassVar[range] = range(1, 6)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 4
    FLEXIBLE_SINCE: ClassVar[int] = 4

    version: int
    topic_names: tuple[str, ...] = ()
    """The names of the topics to delete."""
    timeout_ms: int
    """The length of time in milliseconds to wait for the deletions to complete."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        topic_names = reader.strings()
        (timeout_ms,) = reader.unpack(_FORM_I)
        if version >= 4:
            reader.skip_tags()
        return cls(
            version=version,
            topic_names=topic_names,
            timeout_ms=timeout_ms,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.strings(self.topic_names)
        writer.put(_FORM_I.pack(self.timeout_ms))
        if version >= 4:
            writer.no_tags()

    @staticmethod
    def response() -> type["DeleteTopicsResponse"]:
        """The class of what is answered."""
        return DeleteTopicsResponse


@message
class DeletableTopicResult:
    """Part of a response."""

    name: str
    """The topic name."""
    error_code: ErrorCode
    """The deletion error, or 0 if the deletion succeeded."""
    error_message: str | None = None
    """The error message, or null if there was no error."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        (error_code,) = reader.unpack(_FORM_H)
        if version >= 5:
            error_message = reader.nullable_string()
        else:
            error_message = None
        if version >= 4:
            reader.skip_tags()
        return cls(
            name=name,
            error_code=error(error_code),
            error_message=error_message,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.name)
        writer.put(_FORM_H.pack(self.error_code))
        if version >= 5:
            writer.string(self.error_message)
        if version >= 4:
            writer.no_tags()


@message
class DeleteTopicsResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 4
    FLEXIBLE_SINCE: ClassVar[int] = 4

    throttle_time_ms: int = 0
    """The duration in milliseconds for which the request was throttled due to a quota violation,
    or zero if the request did not violate any quota."""
    responses: tuple[DeletableTopicResult, ...]
    """The results for each topic we tried to delete."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (throttle_time_ms,) = reader.unpack(_FORM_I)
        responses = reader.structs(DeletableTopicResult.read, version)
        if version >= 4:
            reader.skip_tags()
        return cls(
            throttle_time_ms=throttle_time_ms,
            responses=responses,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_I.pack(self.throttle_time_ms))
        writer.structs(self.responses, version)
        if version >= 4:
            writer.no_tags()
