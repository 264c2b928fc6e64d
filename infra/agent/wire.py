"""The protocol of harness and agent: frames over a stream, each a length (four bytes) and its
bytes.

A message has a header (a frame of JSON) and a body (frames of bytes, ended by an empty one):

    request   header, body
    answer    body, header

The answer's header comes last, so that it can report an error in the middle of a body. A request is
one of

    {"ask": verb, "arguments": {...}, "id": "..."}     -> {"result": ...}
    {"read": path}                                     -> the file's content, {"result": null}
    {"write": path}, the content                       -> {"result": null}

and any of them may be answered with {"error": kind, "text": ...}; see :data:`ERRORS`.
"""

import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

CHUNK = 1 << 18
"""The maximum bytes in a frame of a body, large enough that the cost of frames does not matter."""

ERRORS: Mapping[str, type[Exception]] = {
    "no-process": ProcessLookupError,
    "no-file": FileNotFoundError,
}
"""The kinds of errors that the agent distinguishes; any other is ``failed``."""

FAILED = "failed"
_LENGTH = struct.Struct(">I")
_FRAME_MAX = 1 << 26


class Stream(Protocol):
    """A socket, or what serves as one."""

    def sendall(self, data: bytes, /) -> object: ...

    def recv(self, size: int, /) -> bytes: ...

    def settimeout(self, seconds: float | None, /) -> object: ...

    def close(self) -> object: ...


class Wire:
    """One end of a conversation."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._unsent = b""

    def send_header(self, header: Mapping[str, Any]) -> None:
        self._send(json.dumps(header).encode())

    def send_chunk(self, chunk: bytes) -> None:
        """Send a part of a body, which must not be empty."""
        self._send(chunk)

    def end_body(self) -> None:
        self._send(b"")

    def header(self) -> dict[str, Any]:
        """Return the next header. Raises EOFError at the end of the stream, ValueError for no
        header."""
        header = json.loads(self._frame())
        if not isinstance(header, dict):
            raise ValueError(f"not a header: {header!r}")
        return header

    def body(self) -> Iterator[bytes]:
        """Yield the body, which must be read to its end. Raises the errors of :meth:`header`."""
        while chunk := self._frame():
            yield chunk

    def close(self) -> None:
        self.stream.close()

    def flush(self) -> None:
        """Send what is collected. Call it at the end of a message."""
        self.stream.sendall(self._unsent)
        self._unsent = b""

    def _send(self, frame: bytes) -> None:
        # A message is sent in one piece. The second of two would wait 40 ms for the acknowledgement
        # of the first if the other end has nothing to send (Nagle, delayed ACK).
        self._unsent += _LENGTH.pack(len(frame)) + frame
        if len(self._unsent) >= CHUNK:
            self.flush()

    def _frame(self) -> bytes:
        start = self._exactly(_LENGTH.size)
        (length,) = _LENGTH.unpack(start)
        # A text that a login prints before the program starts must not be taken for the length of a
        # huge frame.
        if length > _FRAME_MAX:
            raise ValueError(f"this is no agent, it begins with {start!r}")
        return self._exactly(length)

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            part = self.stream.recv(size)
            if not part:
                raise EOFError("the connection was closed")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def error_of(error: Exception) -> dict[str, Any]:
    """Return the header that reports an error."""
    kind = next((kind for kind, known in ERRORS.items() if isinstance(error, known)), FAILED)
    expected = isinstance(error, OSError | RefusedByNode)
    return {"error": kind, "text": str(error) if expected else f"{type(error).__name__}: {error}"}


class RefusedByNode(Exception):
    """The node cannot or must not do what was requested. The text says why."""
