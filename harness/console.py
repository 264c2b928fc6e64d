"""Standard output: the console for all output, and its behaviour when the output cannot be
written."""

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from rich.console import Console
    from rich.text import Text

_WIDTH_OF_A_LOG = 130
"""The columns without a terminal, so that the table of cells fits."""


def console() -> "Console":
    """Return the console of standard output, as wide as its terminal, or as wide as a log."""
    from rich.console import Console  # ``ackproof --help`` and wrong usage do not need it

    found = Console()
    return found if found.is_terminal else Console(width=_WIDTH_OF_A_LOG)


def plain(text: str) -> "Text":
    """Return a text without markup or escape sequences. Some of it comes from the logs of
    servers."""
    from rich.text import Text

    return Text("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text))


def go_on_unread() -> None:
    """Continue silently from now on when output is no longer read (``ackproof run ... | head``) or
    cannot be written (a full disk), and end with the status of the command.

    A letter that the output's encoding lacks is written as an escape sequence. Rich and click would
    end the program in the middle of a run with status 1, which means a broken guarantee. Python's
    own last flush would end it with 120.
    """
    sys.stdout = _unread(sys.stdout)
    sys.stderr = _unread(sys.stderr)


def _unread(stream: TextIO) -> TextIO:
    stream.flush()
    raw = _ClosableOutput(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=True,
    )


class _ClosableOutput(io.FileIO):
    """An output that is redirected to /dev/null when it cannot be written, also for child
    processes."""

    def write(self, content: "ReadableBuffer", /) -> int:
        try:
            return super().write(content)
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return memoryview(content).nbytes
