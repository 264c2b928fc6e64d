"""Requests and responses, bytes to messages and back, for both ends of a connection.

Readers take a frame's payload from :class:`~broker.wire.framing.FrameBuffer`, and writers return
whole frames. The message itself knows its header (flexible versions have tagged headers, responses
to ApiVersions never do, KIP-511). ``records`` fields are opaque bytes here: see
:mod:`broker.wire.batch`.

Bytes after the last field are rejected: a peer that sends them uses another version than it says.
So are error codes that Kafka does not have. Tagged fields are skipped (KIP-482). One request may
have more bytes after its fields (``_MORE_BEHIND``).
"""

import struct
from typing import Final, NamedTuple, TypeVar

from ackproof.broker.wire.framing import BytesLike
from ackproof.broker.wire.message import Request, Response
from ackproof.broker.wire.reader import UNREADABLE, FlexibleReader, MalformedMessage, Reader
from ackproof.broker.wire.writer import FlexibleWriter, Writer

Q = TypeVar("Q", bound=Request[Response])
R = TypeVar("R", bound=Response)
M = TypeVar("M", bound=Response | Request[Response])

_FIRST_FIELDS = struct.Struct(">hhi")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_NULL = -1

_MORE_BEHIND: Final = frozenset({3})
"""The API keys of requests whose remaining bytes are ignored, as in Kafka for all. librdkafka 2.16
asks for the metadata of all topics in v9 with a count of four zero bytes instead of one. Read field
by field it says the same, and bytes are left over."""


class MalformedRequest(MalformedMessage):
    """Bytes from a client (or another broker) that are no request."""


class MalformedResponse(MalformedMessage):
    """Bytes from a server that are no response to the request."""


class FirstFields(NamedTuple):
    """The beginning of every version of every request. It is enough to read the rest."""

    api_key: int
    version: int
    correlation_id: int


class RequestHeader(NamedTuple):
    """The header of every request.

    ``correlation_id`` is the client's own number for it. ``client_id`` is null if the client does
    not name itself.
    """

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None


class UnsupportedVersion(Exception):
    """A version of an API that this broker does not serve.

    ``first`` has the request's first fields. ApiVersions is answered nevertheless (KIP-511: in
    version 0, with error UNSUPPORTED_VERSION).
    """

    def __init__(self, first: FirstFields) -> None:
        super().__init__(f"version {first.version} of API key {first.api_key} is not supported")
        self.first = first


def first_fields(payload: BytesLike) -> FirstFields:
    """Return a request's API key, version and correlation id.

    Raises:
        MalformedRequest: there are not even these.
    """
    try:
        return FirstFields(*_FIRST_FIELDS.unpack_from(payload))
    except struct.error as error:
        raise MalformedRequest(f"{len(payload)} bytes are too few for a header") from error


def read_request(
    request_type: type[Q], first: FirstFields, payload: BytesLike
) -> tuple[RequestHeader, Q]:
    """Decode a request whose type and version are known from its ``first`` fields. ``payload`` has
    these fields, too.

    Raises:
        MalformedRequest: the bytes are no such request.
    """
    version = first.version
    reader = _reader(request_type, version, payload, _FIRST_FIELDS.size)
    try:
        client_id = _client_id(reader)
        if version >= request_type.HEADER_FLEXIBLE_SINCE:
            reader.skip_tags()
        request = request_type.read(reader, version)
        if first.api_key not in _MORE_BEHIND:
            _nothing_left(reader)
    except UNREADABLE as error:
        raise MalformedRequest(f"{request_type.__name__} v{version}: {error}") from error
    return RequestHeader(*first, client_id), request


def write_request(request: Request[R], correlation_id: int, client_id: str | None) -> bytes:
    """Encode a request as a whole frame."""
    version = request.version
    writer = _writer(request, version)
    writer.put(_FIRST_FIELDS.pack(request.API_KEY, version, correlation_id))
    encoded = client_id.encode() if client_id is not None else b""
    writer.put(_INT16.pack(_NULL if client_id is None else len(encoded)) + encoded)
    if version >= request.HEADER_FLEXIBLE_SINCE:
        writer.no_tags()
    request.write(writer, version)
    return b"".join(writer.pieces())


def write_response(correlation_id: int, response: Response, version: int) -> bytes:
    """Encode the response to the request of that correlation id and version as a whole frame."""
    return b"".join(response_pieces(correlation_id, response, version))


def response_pieces(correlation_id: int, response: Response, version: int) -> list[BytesLike]:
    """Do as :func:`write_response`, for a socket that gathers: large ``records`` are not copied."""
    writer = _writer(response, version)
    writer.put(_INT32.pack(correlation_id))
    if version >= response.HEADER_FLEXIBLE_SINCE:
        writer.no_tags()
    response.write(writer, version)
    return writer.pieces()


def read_response(request: Request[R], payload: BytesLike) -> tuple[int, R]:
    """Decode the response to ``request``, and return its correlation id and the response.

    Raises:
        MalformedResponse: the bytes are no such response.
    """
    response_type, version = request.response(), request.version
    reader = _reader(response_type, version, payload, 0)
    try:
        (correlation_id,) = reader.unpack(_INT32)
        if version >= response_type.HEADER_FLEXIBLE_SINCE:
            reader.skip_tags()
        response = response_type.read(reader, version)
        _nothing_left(reader)
    except UNREADABLE as error:
        raise MalformedResponse(f"{response_type.__name__} v{version}: {error}") from error
    return correlation_id, response


def _reader(message_type: type[M], version: int, payload: BytesLike, at: int) -> Reader:
    flexible = version >= message_type.FLEXIBLE_SINCE
    return (FlexibleReader if flexible else Reader)(payload, at)


def _writer(message: Response | Request[Response], version: int) -> Writer:
    return (FlexibleWriter if version >= message.FLEXIBLE_SINCE else Writer)()


def _client_id(reader: Reader) -> str | None:
    """Return the client id. This string has the old form in flexible versions, too, because a
    server must be able to read it before it knows the version."""
    (size,) = reader.unpack(_INT16)
    return None if size == _NULL else reader.text(size)


def _nothing_left(reader: Reader) -> None:
    if reader.at != len(reader.data):
        raise MalformedMessage(f"takes {reader.at} bytes, but {len(reader.data)} were sent")
