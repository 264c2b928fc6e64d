"""Requests and responses, bytes to messages and back, for both ends of a connection.

Readers take a frame's payload as :class:`~broker.wire.framing.FrameBuffer` gives it; writers hand
back whole frames. Which header goes with a message is the message's own knowledge (flexible
versions have tagged headers, responses to ApiVersions never do, KIP-511). ``records`` fields are
opaque bytes here: see :mod:`broker.wire.batch`.

Bytes after the last field are refused: a peer that sends them speaks another version than it
says. So are error codes that Kafka does not have. Tagged fields are skipped (KIP-482). One request
may have more behind it, by name (``_MORE_BEHIND``).
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
"""API keys of requests whose rest is passed over, as Kafka does with all. librdkafka 2.16 asks for
the metadata of all topics in v9 with a count of four bytes, all zero, where one belongs: read field
by field it says the same, and there are bytes left."""


class MalformedRequest(MalformedMessage):
    """A client (or another broker) sent bytes that are no request."""


class MalformedResponse(MalformedMessage):
    """A server sent bytes that are no response to what it was asked."""


class FirstFields(NamedTuple):
    """What every version of every request begins with: what follows can be read by them alone."""

    api_key: int
    version: int
    correlation_id: int


class RequestHeader(NamedTuple):
    """What stands before every request.

    ``correlation_id`` is the client's own number for it; ``client_id`` is null where the client
    does not say who it is.
    """

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None


class UnsupportedVersion(Exception):
    """Nobody here speaks this version of this API.

    ``first`` are the request's: ApiVersions is answered nevertheless (KIP-511: in version 0, with
    error UNSUPPORTED_VERSION).
    """

    def __init__(self, first: FirstFields) -> None:
        super().__init__(f"version {first.version} of API key {first.api_key} is not supported")
        self.first = first


def first_fields(payload: BytesLike) -> FirstFields:
    """A request's API key, version and correlation id.

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
    """Decodes a request of a type and version that its ``first`` fields have told; ``payload`` has
    them, too.

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
    """Encodes a request as a whole frame."""
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
    """Encodes the response to the request of that correlation id and version as a whole frame."""
    return b"".join(response_pieces(correlation_id, response, version))


def response_pieces(correlation_id: int, response: Response, version: int) -> list[BytesLike]:
    """Like :func:`write_response`, for a socket that gathers: large ``records`` are not copied."""
    writer = _writer(response, version)
    writer.put(_INT32.pack(correlation_id))
    if version >= response.HEADER_FLEXIBLE_SINCE:
        writer.no_tags()
    response.write(writer, version)
    return writer.pieces()


def read_response(request: Request[R], payload: BytesLike) -> tuple[int, R]:
    """Decodes the response to ``request``: its correlation id, and what it says.

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
    """The one string that has the old form in flexible versions, too: a server must be able to
    read it before it knows the version."""
    (size,) = reader.unpack(_INT16)
    return None if size == _NULL else reader.text(size)


def _nothing_left(reader: Reader) -> None:
    if reader.at != len(reader.data):
        raise MalformedMessage(f"takes {reader.at} bytes, but {len(reader.data)} were sent")
