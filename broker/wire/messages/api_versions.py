"""ApiVersions (api 18), versions 0 to 3.

Made by ``python -m protocol``; do not edit.
"""

import struct
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.wire.message import NEVER, message
from ackproof.broker.wire.reader import Reader, error
from ackproof.broker.wire.writer import Writer

_FORM_H = struct.Struct(">h")
_FORM_HHH = struct.Struct(">hhh")
_FORM_I = struct.Struct(">i")


@message
class ApiVersionsRequest:
    """A request."""

    API_KEY: ClassVar[int] = 18
    VERSIONS: ClassVar[range] = range(4)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = 3

    version: int
    client_software_name: str = ""
    """The name of the client."""
    client_software_version: str = ""
    """The version of the client."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 3:
            client_software_name = reader.string()
            client_software_version = reader.string()
        else:
            client_software_name = ""
            client_software_version = ""
        if version >= 3:
            reader.skip_tags()
        return cls(
            version=version,
            client_software_name=client_software_name,
            client_software_version=client_software_version,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 3:
            writer.string(self.client_software_name)
            writer.string(self.client_software_version)
        if version >= 3:
            writer.no_tags()

    @staticmethod
    def response() -> type["ApiVersionsResponse"]:
        """The class of what is answered."""
        return ApiVersionsResponse


@message
class ApiVersion:
    """Part of a response."""

    api_key: int
    """The API index."""
    min_version: int
    """The minimum supported version, inclusive."""
    max_version: int
    """The maximum supported version, inclusive."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (api_key, min_version, max_version) = reader.unpack(_FORM_HHH)
        if version >= 3:
            reader.skip_tags()
        return cls(
            api_key=api_key,
            min_version=min_version,
            max_version=max_version,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_HHH.pack(self.api_key, self.min_version, self.max_version))
        if version >= 3:
            writer.no_tags()


@message
class ApiVersionsResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = NEVER
    FLEXIBLE_SINCE: ClassVar[int] = 3

    error_code: ErrorCode
    """The top-level error code."""
    api_keys: tuple[ApiVersion, ...]
    """The APIs supported by the broker."""
    throttle_time_ms: int = 0
    """The duration in milliseconds for which the request was throttled due to a quota violation,
    or zero if the request did not violate any quota."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (error_code,) = reader.unpack(_FORM_H)
        api_keys = reader.structs(ApiVersion.read, version)
        if version >= 1:
            (throttle_time_ms,) = reader.unpack(_FORM_I)
        else:
            throttle_time_ms = 0
        if version >= 3:
            reader.skip_tags()
        return cls(
            error_code=error(error_code),
            api_keys=api_keys,
            throttle_time_ms=throttle_time_ms,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_H.pack(self.error_code))
        writer.structs(self.api_keys, version)
        if version >= 1:
            writer.put(_FORM_I.pack(self.throttle_time_ms))
        if version >= 3:
            writer.no_tags()
