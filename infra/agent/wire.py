"""How harness and agent talk: frames over a stream, each a length (four bytes) and its bytes.

A message is a header (a frame of JSON) and a body (frames of bytes, ended by an empty one):

    request   header, body
    answer    body, header

The answer's header comes last: what goes wrong in the middle of a body is told after it. A request
is one of

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
"""Bytes in a frame of a body, at most; large enough that frames cost nothing."""

ERRORS: Mapping[str, type[Exception]] = {
    "no-process": ProcessLookupError,
    "no-file": FileNotFoundError,
}
"""What the agent tells apart, and what it stands for; anything else is ``failed``."""

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
        """A part of a body, not empty."""
        self._send(chunk)

    def end_body(self) -> None:
        self._send(b"")

    def header(self) -> dict[str, Any]:
        """Raises EOFError when the other end is gone, ValueError for what is no header."""
        header = json.loads(self._frame())
        if not isinstance(header, dict):
            raise ValueError(f"not a header: {header!r}")
        return header

    def body(self) -> Iterator[bytes]:
        """Must be read to its end. Raises as :meth:`header`."""
        while chunk := self._frame():
            yield chunk

    def close(self) -> None:
        self.stream.close()

    def flush(self) -> None:
        """Call it at the end of a message."""
        self.stream.sendall(self._unsent)
        self._unsent = b""

    def _send(self, frame: bytes) -> None:
        # A message in one piece: in two, the second waits for the acknowledgement of the first,
        # and that, where the other end has nothing to say yet, for 40 ms (Nagle, delayed ACK).
        self._unsent += _LENGTH.pack(len(frame)) + frame
        if len(self._unsent) >= CHUNK:
            self.flush()

    def _frame(self) -> bytes:
        start = self._exactly(_LENGTH.size)
        (length,) = _LENGTH.unpack(start)
        # What a login prints before the program starts would else be waited for as a gigabyte.
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
    """The header that tells of an error."""
    kind = next((kind for kind, known in ERRORS.items() if isinstance(error, known)), FAILED)
    expected = isinstance(error, OSError | Refused)
    return {"error": kind, "text": str(error) if expected else f"{type(error).__name__}: {error}"}


class Refused(Exception):
    """The node cannot or must not do what was asked; says why."""
