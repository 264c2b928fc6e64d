"""UnregisterBroker (api 64), version 0.

Made by ``python -m protocol``; do not edit.
"""

import struct
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.types import BrokerId
from ackproof.broker.wire.message import message
from ackproof.broker.wire.reader import Reader, error
from ackproof.broker.wire.writer import Writer

_FORM_I = struct.Struct(">i")
_FORM_IH = struct.Struct(">ih")


@message
class UnregisterBrokerRequest:
    """A request."""

    API_KEY: ClassVar[int] = 64
    VERSIONS: ClassVar[range] = range(1)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    version: int = 0
    broker_id: BrokerId
    """The broker ID to unregister."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (broker_id,) = reader.unpack(_FORM_I)
        reader.skip_tags()
        return cls(
            version=version,
            broker_id=broker_id,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_I.pack(self.broker_id))
        writer.no_tags()

    @staticmethod
    def response() -> type["UnregisterBrokerResponse"]:
        """The class of what is answered."""
        return UnregisterBrokerResponse


@message
class UnregisterBrokerResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = 0
    """Duration in milliseconds for which the request was throttled due to a quota violation, or
    zero if the request did not violate any quota."""
    error_code: ErrorCode
    """The error code, or 0 if there was no error."""
    error_message: str | None
    """The top-level error message, or `null` if there was no top-level error."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (throttle_time_ms, error_code) = reader.unpack(_FORM_IH)
        error_message = reader.nullable_string()
        reader.skip_tags()
        return cls(
            throttle_time_ms=throttle_time_ms,
            error_code=error(error_code),
            error_message=error_message,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_IH.pack(self.throttle_time_ms, self.error_code))
        writer.string(self.error_message)
        writer.no_tags()
