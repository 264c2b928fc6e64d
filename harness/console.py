"""The console that everything is printed on."""

import os
import sys

from rich.console import Console

_WIDTH_OF_A_LOG = 130
"""Columns where there is no terminal to ask: the table of cells fits."""


class QuietConsole(Console):
    """Goes on without words when nobody reads them any more (``ackproof run ... | head``).

    Rich would end the program, with status 1: that of a broken guarantee, in the middle of a run.
    """

    def on_broken_pipe(self) -> None:
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def console() -> Console:
    """Standard output, as wide as its terminal, or as wide as logs are."""
    found = QuietConsole()
    return found if found.is_terminal else QuietConsole(width=_WIDTH_OF_A_LOG)
