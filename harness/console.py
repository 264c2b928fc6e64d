"""The console that everything is printed on."""

from rich.console import Console

_WIDTH_OF_A_LOG = 130
"""Columns where there is no terminal to ask: the table of cells fits."""


def console() -> Console:
    """Standard output, as wide as its terminal, or as wide as logs are."""
    found = Console()
    return found if found.is_terminal else Console(width=_WIDTH_OF_A_LOG)
