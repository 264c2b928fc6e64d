"""The conversation with the agent: one line of JSON each way."""

import json
from dataclasses import dataclass
from itertools import count
from typing import Any

import paramiko

from infra.interface import InfraError

ERRORS: dict[str, type[Exception]] = {
    "no-process": ProcessLookupError,
    "no-file": FileNotFoundError,
    "failed": InfraError,
}
"""What the agent tells apart, and what it stands for here."""

_CHUNK = 65536


@dataclass(frozen=True, slots=True)
class Answer:
    """What the agent said. ``error``: a key of :data:`ERRORS`; None when it went well."""

    result: Any = None
    error: str | None = None
    text: str = ""


class AgentChannel:
    """One agent, as long as its connection lives. Serves one caller at a time.

    Args:
        command_line: Starts the agent, quoted.
    """

    def __init__(self, client: paramiko.SSHClient, command_line: str) -> None:
        transport = client.get_transport()
        if transport is None:
            raise EOFError("not connected")
        self._channel = transport.open_session()
        self._channel.exec_command(command_line)
        self._received = b""
        self._numbers = count()

    def ask(self, operation: str, arguments: dict[str, Any], timeout: float) -> Answer:
        """Raises TimeoutError and EOFError when there is no answer: the channel is of no use
        then."""
        number = next(self._numbers)
        request = {"id": number, "operation": operation, "arguments": arguments}
        self._channel.settimeout(timeout)
        self._channel.sendall(json.dumps(request).encode() + b"\n")
        said = json.loads(self._line())
        assert said.pop("id") == number
        return Answer(**said)

    def _line(self) -> bytes:
        while b"\n" not in self._received:
            chunk = self._channel.recv(_CHUNK)
            if not chunk:
                raise EOFError(f"the agent has ended: {self._last_words()}")
            self._received += chunk
        line, self._received = self._received.split(b"\n", 1)
        return line

    def _last_words(self) -> str:
        self._channel.settimeout(1.0)
        try:
            return self._channel.recv_stderr(_CHUNK).decode(errors="replace").strip()
        except TimeoutError:
            return ""
