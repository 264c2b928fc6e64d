"""AlterConfigs (api 33), versions 0 to 2.

Made by ``python -m protocol``; do not edit.
"""

import struct
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.wire.message import message
from ackproof.broker.wire.reader import Reader, error
from ackproof.broker.wire.writer import Writer

_FORM_B = struct.Struct(">b")
_FORM_H = struct.Struct(">h")
_FORM_I = struct.Struct(">i")
_FORM_O = struct.Struct(">?")


@message
class AlterableConfig:
    """Part of a request."""

    name: str
    """The configuration key name."""
    value: str | None
    """The value to set for the configuration key."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        value = reader.nullable_string()
        if version >= 2:
            reader.skip_tags()
        return cls(
            name=name,
            value=value,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.name)
        writer.string(self.value)
        if version >= 2:
            writer.no_tags()


@message
class AlterConfigsResource:
    """Part of a request."""

    resource_type: int
    """The resource type."""
    resource_name: str
    """The resource name."""
    configs: tuple[AlterableConfig, ...]
    """The configurations."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (resource_type,) = reader.unpack(_FORM_B)
        resource_name = reader.string()
        configs = reader.structs(AlterableConfig.read, version)
        if version >= 2:
            reader.skip_tags()
        return cls(
            resource_type=resource_type,
            resource_name=resource_name,
            configs=configs,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_B.pack(self.resource_type))
        writer.string(self.resource_name)
        writer.structs(self.configs, version)
        if version >= 2:
            writer.no_tags()


@message
class AlterConfigsRequest:
    """A request."""

    API_KEY: ClassVar[int] = 33
    VERSIONS: ClassVar[range] = range(3)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    version: int
    resources: tuple[AlterConfigsResource, ...]
    """The updates for each resource."""
    validate_only: bool
    """True if we should validate the request, but not change the configurations."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        resources = reader.structs(AlterConfigsResource.read, version)
        (validate_only,) = reader.unpack(_FORM_O)
        if version >= 2:
            reader.skip_tags()
        return cls(
            version=version,
            resources=resources,
            validate_only=validate_only,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.structs(self.resources, version)
        writer.put(_FORM_O.pack(self.validate_only))
        if version >= 2:
            writer.no_tags()

    @staticmethod
    def response() -> type["AlterConfigsResponse"]:
        """The class of what is answered."""
        return AlterConfigsResponse


@message
class AlterConfigsResourceResponse:
    """Part of a response."""

    error_code: ErrorCode
    """The resource error code."""
    error_message: str | None
    """The resource error message, or null if there was no error."""
    resource_type: int
    """The resource type."""
    resource_name: str
    """The resource name."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (error_code,) = reader.unpack(_FORM_H)
        error_message = reader.nullable_string()
        (resource_type,) = reader.unpack(_FORM_B)
        resource_name = reader.string()
        if version >= 2:
            reader.skip_tags()
        return cls(
            error_code=error(error_code),
            error_message=error_message,
            resource_type=resource_type,
            resource_name=resource_name,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_H.pack(self.error_code))
        writer.string(self.error_message)
        writer.put(_FORM_B.pack(self.resource_type))
        writer.string(self.resource_name)
        if version >= 2:
            writer.no_tags()


@message
class AlterConfigsResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    throttle_time_ms: int = 0
    """Duration in milliseconds for which the request was throttled due to a quota violation, or
    zero if the request did not violate any quota."""
    responses: tuple[AlterConfigsResourceResponse, ...]
    """The responses for each resource."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (throttle_time_ms,) = reader.unpack(_FORM_I)
        responses = reader.structs(AlterConfigsResourceResponse.read, version)
        if version >= 2:
            reader.skip_tags()
        return cls(
            throttle_time_ms=throttle_time_ms,
            responses=responses,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_I.pack(self.throttle_time_ms))
        writer.structs(self.responses, version)
        if version >= 2:
            writer.no_tags()
