"""Requests of Kafka's protocol and their answers, for what librdkafka does not speak."""

import io
import socket
import struct
import time
from collections.abc import Callable
from typing import TypeVar

from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError
from kio.static.primitive import i32
from kio.static.protocol import RequestPayload, ResponsePayload

R = TypeVar("R", bound=ResponsePayload)

Connect = Callable[[tuple[str, int], float], socket.socket]
"""Opens a connection to an address, until that time of time.monotonic(). Raises OSError."""

_CORRELATION_ID = 1
"""A connection carries one request at a time."""
_CLIENT = "ackproof"
_LENGTH = struct.Struct(">i")
_ANSWER_MAX_BYTES = 16 * 1024 * 1024


def in_the_clear(address: tuple[str, int], deadline: float) -> socket.socket:
    """A :data:`Connect`."""
    return socket.create_connection(address, timeout=max(deadline - time.monotonic(), 0.001))


def call(
    address: tuple[str, int],
    request: RequestPayload,
    answer: type[R],
    timeout_s: float,
    connect: Connect = in_the_clear,
) -> R:
    """Ask a broker, over a connection of its own, and wait at most ``timeout_s`` seconds.

    Raises OSError (TimeoutError is one) when it does not answer, or not with what was asked for:
    whether it has carried out the request is unknown then.
    """
    deadline = time.monotonic() + timeout_s
    with connect(address, deadline) as connection:
        return ask(connection, request, answer, deadline)


def ask(connection: socket.socket, request: RequestPayload, answer: type[R], deadline: float) -> R:
    """As :func:`call`, over a connection that there is, which is to be closed after an OSError: an
    answer that comes late would be taken for the next one. ``deadline``: of time.monotonic()."""
    connection.settimeout(max(deadline - time.monotonic(), 0.001))
    connection.sendall(_frame(request))
    (length,) = _LENGTH.unpack(_read(connection, _LENGTH.size, deadline))
    if not 0 <= length <= _ANSWER_MAX_BYTES:
        raise OSError(f"it answers with {length} bytes")
    return _decoded(_read(connection, length, deadline), answer)


def _frame(request: RequestPayload) -> bytes:
    buffer = io.BytesIO()
    header = request.__header_schema__
    entity_writer(header)(
        buffer,
        header(
            request_api_key=request.__api_key__,
            request_api_version=request.__version__,
            correlation_id=i32(_CORRELATION_ID),
            client_id=_CLIENT,
        ),
    )
    entity_writer(type(request))(buffer, request)
    return _LENGTH.pack(buffer.tell()) + buffer.getvalue()


def _read(connection: socket.socket, size: int, deadline: float) -> bytes:
    read = bytearray()
    while len(read) < size:
        # By the one deadline: a broker that sends a byte now and then is given up like one that
        # sends none.
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        piece = connection.recv(size - len(read))
        if not piece:
            raise ConnectionError("the broker closed the connection")
        read += piece
    return bytes(read)


def _decoded(payload: bytes, answer: type[R]) -> R:
    try:
        header, start = entity_reader(answer.__header_schema__)(payload, 0)
        entity, _ = entity_reader(answer)(payload, start)
    except (SerialError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise OSError(f"no {answer.__name__}: {error}") from error
    if header.correlation_id != _CORRELATION_ID:
        raise OSError(f"the answer to request {header.correlation_id}")
    return entity
