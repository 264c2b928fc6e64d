"""A client of bare sockets, for what no Kafka client would send."""

import contextlib
import socket
import struct
from collections.abc import Iterator
from typing import Any

from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.static.protocol import RequestPayload

from tests.support.clients.kio_peer import read_response, write_request

DEADLINE_S = 60
GLANCE_S = 0.03


class RawClient:
    """One connection; every wait on it ends after ``DEADLINE_S``."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Sends ``data``; harmless when the other side has closed already."""
        with contextlib.suppress(ConnectionError):
            self._socket.sendall(data)

    def ask(self, request: RequestPayload) -> Any:
        """A request's response."""
        self.send(write_request(request, 1, "raw"))
        (size,) = struct.unpack(">i", self._exactly(4))
        _, response = read_response(type(request), self._exactly(size))
        return response

    def advertised(self) -> dict[int, range]:
        """Return the versions that the broker advertises."""
        answer = self.ask(ApiVersionsRequest())
        return {
            int(api.api_key): range(api.min_version, api.max_version + 1) for api in answer.api_keys
        }

    def glance(self) -> None:
        """Waits for an answer to begin, not for long: the peer has at least begun an answer."""
        self._socket.settimeout(GLANCE_S)
        with contextlib.suppress(OSError):
            self._socket.recv(1)
        self._socket.settimeout(DEADLINE_S)

    def finish(self) -> bytes:
        """Sends no more, and returns what still comes until the other side closes."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        return self.until_closed()

    def until_closed(self) -> bytes:
        """Return the bytes that arrive until the other side closes, in whatever way."""
        return b"".join(self._chunks())

    def _chunks(self) -> Iterator[bytes]:
        with contextlib.suppress(ConnectionError):
            while chunk := self._socket.recv(2**16):
                yield chunk

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self._socket.recv(size - len(data))
            assert chunk, f"closed after {len(data)} of {size} bytes"
            data += chunk
        return data
