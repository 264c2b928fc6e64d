"""Requests and responses, bytes to entities and back, for both ends of a connection.

Readers take a frame's payload as :class:`~broker.wire.framing.FrameBuffer` gives it; writers hand
back whole frames. Which header goes with an entity is the entity's own knowledge (flexible
versions have tagged headers, responses to ApiVersions never do, KIP-511). ``records`` fields are
opaque bytes here: see :mod:`broker.wire.batch`.

Bytes after the last field are refused: a peer that sends them speaks another version than it
says. So are, by kio, error codes that are not in the schema. Tagged fields that are not in the
schema are skipped (KIP-482), and lengths are checked before kio believes them: see
:mod:`broker.wire.shape`.
"""

import struct
from collections.abc import Container, Mapping
from typing import TypeVar, cast

from kio.serial import entity_reader
from kio.serial.errors import SerialError
from kio.static.primitive import i32
from kio.static.protocol import Entity, Payload, RequestHeader, RequestPayload, ResponsePayload

from broker.wire.encoding import encoder
from broker.wire.framing import BytesLike, FrameWriter
from broker.wire.registry import UnsupportedVersion, request_type, response_type
from broker.wire.shape import checked

E = TypeVar("E", bound=Entity)
H = TypeVar("H", bound=Entity)

_FIRST_FIELDS = struct.Struct(">hhi")


class MalformedMessage(ValueError):
    """Bytes that are not what they should be; the text says which message and what is wrong."""


class MalformedRequest(MalformedMessage):
    """A client (or another broker) sent bytes that are no request."""


class MalformedResponse(MalformedMessage):
    """A server sent bytes that are no response to what it was asked."""


def read_request(
    payload: BytesLike, served: Mapping[int, Container[int]] | None = None
) -> tuple[RequestHeader, RequestPayload]:
    """Decodes a request.

    Args:
        served: the versions served of each API key, e.g. ``{0: range(3, 10)}``; None serves all
            that is known.

    Raises:
        MalformedRequest: the bytes are no request.
        UnsupportedVersion: a request whose version is unknown or not served.
    """
    try:
        api_key, version, correlation_id = _FIRST_FIELDS.unpack_from(payload)
    except struct.error as error:
        raise MalformedRequest(f"{len(payload)} bytes are too few for a header") from error
    if served is not None and version not in served.get(api_key, ()):
        raise UnsupportedVersion(api_key, version, correlation_id)
    try:
        entity_type = request_type(api_key, version)
    except UnsupportedVersion as error:
        raise UnsupportedVersion(api_key, version, correlation_id) from error
    header_type: type[RequestHeader] = entity_type.__header_schema__
    return _read_message(header_type, entity_type, payload, MalformedRequest)


def write_request(entity: RequestPayload, correlation_id: int, client_id: str | None) -> bytes:
    """Encodes a request as a whole frame."""
    header = entity.__header_schema__(
        request_api_key=entity.__api_key__,
        request_api_version=entity.__version__,
        correlation_id=cast(i32, correlation_id),
        client_id=client_id,
    )
    return b"".join(_write_message(header, entity))


def write_response(correlation_id: int, entity: ResponsePayload) -> bytes:
    """Encodes the response to the request of that correlation id as a whole frame."""
    return b"".join(response_pieces(correlation_id, entity))


def response_pieces(correlation_id: int, entity: ResponsePayload) -> list[BytesLike]:
    """Like :func:`write_response`, for a socket that gathers: large ``records`` are not copied."""
    return _write_message(
        entity.__header_schema__(correlation_id=cast(i32, correlation_id)), entity
    )


def read_response(request: type[RequestPayload], payload: BytesLike) -> tuple[int, ResponsePayload]:
    """Decodes the response to a request of type ``request``: its correlation id and entity.

    Raises:
        MalformedResponse: the bytes are no such response.
    """
    entity_type = response_type(request.__api_key__, request.__version__)
    header, entity = _read_message(
        entity_type.__header_schema__, entity_type, payload, MalformedResponse
    )
    return header.correlation_id, entity


def _read_message(
    header_type: type[H],
    entity_type: type[E],
    payload: BytesLike,
    malformed: type[MalformedMessage],
) -> tuple[H, E]:
    try:
        payload = checked(payload, header_type, entity_type)
        header, start = entity_reader(header_type)(payload, 0)
        entity, size = entity_reader(entity_type)(payload, start)
    except (SerialError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise malformed(f"{_title(entity_type)}: {error}") from error
    if start + size != len(payload):
        raise malformed(
            f"{_title(entity_type)}: takes {start + size} bytes, but {len(payload)} were sent"
        )
    return header, entity


def _write_message(header: Entity, entity: Payload) -> list[BytesLike]:
    writer = FrameWriter()
    encoder(type(header))(writer, header)
    encoder(type(entity))(writer, entity)
    return writer.pieces()


def _title(entity_type: type[Entity]) -> str:
    return f"{entity_type.__name__} v{entity_type.__version__}"
