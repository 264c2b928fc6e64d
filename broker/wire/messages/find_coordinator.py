"""FindCoordinator (api 10), versions 0 to 4.

Made by ``python -m protocol``; do not edit.
"""

import struct
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.types import BrokerId
from ackproof.broker.wire.message import message
from ackproof.broker.wire.reader import Reader, error
from ackproof.broker.wire.writer import Writer

_FORM_B = struct.Struct(">b")
_FORM_H = struct.Struct(">h")
_FORM_I = struct.Struct(">i")
_FORM_IH = struct.Struct(">ih")


@message
class FindCoordinatorRequest:
    """A request."""

    API_KEY: ClassVar[int] = 10
    VERSIONS: ClassVar[range] = range(5)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = 3

    version: int
    key: str = ""
    """The coordinator key."""
    key_type: int = 0
    """The coordinator key type. (group, transaction, share)."""
    coordinator_keys: tuple[str, ...] = ()
    """The coordinator keys."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version <= 3:
            key = reader.string()
        else:
            key = ""
        if version >= 1:
            (key_type,) = reader.unpack(_FORM_B)
        else:
            key_type = 0
        if version >= 4:
            coordinator_keys = reader.strings()
        else:
            coordinator_keys = ()
        if version >= 3:
            reader.skip_tags()
        return cls(
            version=version,
            key=key,
            key_type=key_type,
            coordinator_keys=coordinator_keys,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version <= 3:
            writer.string(self.key)
        if version >= 1:
            writer.put(_FORM_B.pack(self.key_type))
        if version >= 4:
            writer.strings(self.coordinator_keys)
        if version >= 3:
            writer.no_tags()

    @staticmethod
    def response() -> type["FindCoordinatorResponse"]:
        """The class of what is answered."""
        return FindCoordinatorResponse


@message
class Coordinator:
    """Part of a response."""

    key: str
    """The coordinator key."""
    node_id: BrokerId
    """The node id."""
    host: str
    """The host name."""
    port: int
    """The port."""
    error_code: ErrorCode
    """The error code, or 0 if there was no error."""
    error_message: str | None
    """The error message, or null if there was no error."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        key = reader.string()
        (node_id,) = reader.unpack(_FORM_I)
        host = reader.string()
        (port, error_code) = reader.unpack(_FORM_IH)
        error_message = reader.nullable_string()
        reader.skip_tags()
        return cls(
            key=key,
            node_id=node_id,
            host=host,
            port=port,
            error_code=error(error_code),
            error_message=error_message,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.key)
        writer.put(_FORM_I.pack(self.node_id))
        writer.string(self.host)
        writer.put(_FORM_IH.pack(self.port, self.error_code))
        writer.string(self.error_message)
        writer.no_tags()


@message
class FindCoordinatorResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = 3

    throttle_time_ms: int = 0
    """The duration in milliseconds for which the request was throttled due to a quota violation,
    or zero if the request did not violate any quota."""
    coordinators: tuple[Coordinator, ...] = ()
    """Each coordinator result in the response."""
    error_code: ErrorCode = ErrorCode.none
    """The error code, or 0 if there was no error."""
    error_message: str | None = None
    """The error message, or null if there was no error."""
    node_id: BrokerId = BrokerId(0)
    """The node id."""
    host: str = ""
    """The host name."""
    port: int = 0
    """The port."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 1:
            (throttle_time_ms,) = reader.unpack(_FORM_I)
        else:
            throttle_time_ms = 0
        if version >= 4:
            coordinators = reader.structs(Coordinator.read, version)
        else:
            coordinators = ()
        if version >= 4:
            error_code = 0
        else:
            (error_code,) = reader.unpack(_FORM_H)
        if 1 <= version <= 3:
            error_message = reader.nullable_string()
        else:
            error_message = None
        if version >= 4:
            node_id = BrokerId(0)
        else:
            (node_id,) = reader.unpack(_FORM_I)
        if version <= 3:
            host = reader.string()
        else:
            host = ""
        if version >= 4:
            port = 0
        else:
            (port,) = reader.unpack(_FORM_I)
        if version >= 3:
            reader.skip_tags()
        return cls(
            throttle_time_ms=throttle_time_ms,
            coordinators=coordinators,
            error_code=error(error_code),
            error_message=error_message,
            node_id=node_id,
            host=host,
            port=port,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 1:
            writer.put(_FORM_I.pack(self.throttle_time_ms))
        if version >= 4:
            writer.structs(self.coordinators, version)
        if version >= 4:
            pass
        else:
            writer.put(_FORM_H.pack(self.error_code))
        if 1 <= version <= 3:
            writer.string(self.error_message)
        if version >= 4:
            pass
        else:
            writer.put(_FORM_I.pack(self.node_id))
        if version <= 3:
            writer.string(self.host)
        if version >= 4:
            pass
        else:
            writer.put(_FORM_I.pack(self.port))
        if version >= 3:
            writer.no_tags()
