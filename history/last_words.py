"""What a process has left in its log, where its end is reported."""

import re
from collections.abc import Iterable

_ERROR = re.compile(
    r"\b(ERROR|FATAL|CRITICAL)\b|^(Caused by: )?([\w$]+\.)*\w*(Error|Exception)\b"
    r"|^(panic|fatal error|Fatal error|Traceback): |\bpanicked at\b|^terminate called "
)
"""Log lines of servers and clients, and how the reports of uncaught errors begin: of Python, Java
(the last ``Caused by`` is the root cause), Go, Rust and C++."""
_WORDS_MAX = 300


def last_error(lines: Iterable[str]) -> str | None:
    """Return the last line of a log that reports an error; None if none does."""
    found = None
    for line in lines:
        found = line.strip() if _ERROR.search(line) else found
    return found and found[:_WORDS_MAX]


def quoted(log: bytes, where: str) -> str:
    """Return what the log of a process that has ended adds to the message that it ended: the last
    error, or the last line where no line reports an error. ``where``: the log's path."""
    lines = [line.strip() for line in log.decode(errors="replace").splitlines() if line.strip()]
    if (error := last_error(lines)) is not None:
        return f"; the last error in {where}: {error}"
    return f"; the last line in {where}: {lines[-1][:_WORDS_MAX]}" if lines else ""
