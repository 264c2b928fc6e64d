"""DescribeConfigs (api 32), versions 1 to 2.

Made by ``python -m protocol``; do not edit.
"""

import struct
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.wire.message import NEVER, message
from ackproof.broker.wire.reader import Reader, error
from ackproof.broker.wire.writer import Writer

_FORM_B = struct.Struct(">b")
_FORM_H = struct.Struct(">h")
_FORM_I = struct.Struct(">i")
_FORM_O = struct.Struct(">?")
_FORM_OBO = struct.Struct(">?b?")


@message
class DescribeConfigsResource:
    """Part of a request."""

    resource_type: int
    """The resource type."""
    resource_name: str
    """The resource name."""
    configuration_keys: tuple[str, ...] | None = ()
    """The configuration keys to list, or null to list all configuration keys."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (resource_type,) = reader.unpack(_FORM_B)
        resource_name = reader.string()
        configuration_keys = reader.nullable_strings()
        return cls(
            resource_type=resource_type,
            resource_name=resource_name,
            configuration_keys=configuration_keys,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_B.pack(self.resource_type))
        writer.string(self.resource_name)
        writer.strings(self.configuration_keys)


@message
class DescribeConfigsRequest:
    """A request."""

    API_KEY: ClassVar[int] = 32
    VERSIONS: ClassVar[range] = range(1, 3)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = NEVER
    FLEXIBLE_SINCE: ClassVar[int] = NEVER

    version: int
    resources: tuple[DescribeConfigsResource, ...]
    """The resources whose configurations we want to describe."""
    include_synonyms: bool = False
    """True if we should include all synonyms."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        resources = reader.structs(DescribeConfigsResource.read, version)
        (include_synonyms,) = reader.unpack(_FORM_O)
        return cls(
            version=version,
            resources=resources,
            include_synonyms=include_synonyms,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.structs(self.resources, version)
        writer.put(_FORM_O.pack(self.include_synonyms))

    @staticmethod
    def response() -> type["DescribeConfigsResponse"]:
        """The class of what is answered."""
        return DescribeConfigsResponse


@message
class DescribeConfigsSynonym:
    """Part of a response."""

    name: str
    """The synonym name."""
    value: str | None
    """The synonym value."""
    source: int
    """The synonym source."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        value = reader.nullable_string()
        (source,) = reader.unpack(_FORM_B)
        return cls(
            name=name,
            value=value,
            source=source,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.name)
        writer.string(self.value)
        writer.put(_FORM_B.pack(self.source))


@message
class DescribeConfigsResourceResult:
    """Part of a response."""

    name: str
    """The configuration name."""
    value: str | None
    """The configuration value."""
    read_only: bool
    """True if the configuration is read-only."""
    config_source: int = -1
    """The configuration source."""
    is_sensitive: bool
    """True if this configuration is sensitive."""
    synonyms: tuple[DescribeConfigsSynonym, ...]
    """The synonyms for this configuration key."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        value = reader.nullable_string()
        (read_only, config_source, is_sensitive) = reader.unpack(_FORM_OBO)
        synonyms = reader.structs(DescribeConfigsSynonym.read, version)
        return cls(
            name=name,
            value=value,
            read_only=read_only,
            config_source=config_source,
            is_sensitive=is_sensitive,
            synonyms=synonyms,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.name)
        writer.string(self.value)
        writer.put(_FORM_OBO.pack(self.read_only, self.config_source, self.is_sensitive))
        writer.structs(self.synonyms, version)


@message
class DescribeConfigsResult:
    """Part of a response."""

    error_code: ErrorCode
    """The error code, or 0 if we were able to successfully describe the configurations."""
    error_message: str | None
    """The error message, or null if we were able to successfully describe the configurations."""
    resource_type: int
    """The resource type."""
    resource_name: str
    """The resource name."""
    configs: tuple[DescribeConfigsResourceResult, ...]
    """Each listed configuration."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (error_code,) = reader.unpack(_FORM_H)
        error_message = reader.nullable_string()
        (resource_type,) = reader.unpack(_FORM_B)
        resource_name = reader.string()
        configs = reader.structs(DescribeConfigsResourceResult.read, version)
        return cls(
            error_code=error(error_code),
            error_message=error_message,
            resource_type=resource_type,
            resource_name=resource_name,
            configs=configs,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_H.pack(self.error_code))
        writer.string(self.error_message)
        writer.put(_FORM_B.pack(self.resource_type))
        writer.string(self.resource_name)
        writer.structs(self.configs, version)


@message
class DescribeConfigsResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = NEVER
    FLEXIBLE_SINCE: ClassVar[int] = NEVER

    throttle_time_ms: int = 0
    """The duration in milliseconds for which the request was throttled due to a quota violation,
    or zero if the request did not violate any quota."""
    results: tuple[DescribeConfigsResult, ...]
    """The results for each resource."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (throttle_time_ms,) = reader.unpack(_FORM_I)
        results = reader.structs(DescribeConfigsResult.read, version)
        return cls(
            throttle_time_ms=throttle_time_ms,
            results=results,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_I.pack(self.throttle_time_ms))
        writer.structs(self.results, version)
