"""Standard output: the console that everything is printed on, and what becomes of it unread."""

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_WIDTH_OF_A_LOG = 130
"""Columns where there is no terminal to ask: the table of cells fits."""


def console() -> Console:
    """Standard output, as wide as its terminal, or as wide as logs are."""
    found = Console()
    return found if found.is_terminal else Console(width=_WIDTH_OF_A_LOG)


def plain(text: str) -> Text:
    """Nothing in it is markup or an escape sequence: some of it comes from the servers' mouths."""
    return Text("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text))


def go_on_unread() -> None:
    """From now on, go on without words when nobody reads them any more (``ackproof run ... |
    head``) or when they cannot be written (a full disk), and end with the status of what was done.
    A letter that the output's encoding lacks is written as an escape sequence.

    Rich and click would end the program, with status 1: that of a broken guarantee, in the middle
    of a run. Python's own last flush would end it with 120.
    """
    sys.stdout = _unread(sys.stdout)
    sys.stderr = _unread(sys.stderr)


def _unread(stream: TextIO) -> TextIO:
    stream.flush()
    raw = _PerhapsUnread(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=True,
    )


class _PerhapsUnread(io.FileIO):
    """Where words go. Once they cannot be written, it leads nowhere, for our children as well."""

    def write(self, content: "ReadableBuffer", /) -> int:
        try:
            return super().write(content)
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return memoryview(content).nbytes
