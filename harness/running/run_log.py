"""The log of a run, ``logs/harness.log``."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def logging_to(path: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Everything that is logged meanwhile goes to ``path`` and not to the terminal. That it cannot
    be written any more (a full disk) is told once."""
    handler = _RunLog(path, tell)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.setLevel(before)
        root.removeHandler(handler)
        with suppress(OSError):  # what is still held back cannot be written either, which was told
            handler.close()


class _RunLog(logging.FileHandler):
    """A file that may run out of room: Python's own handler would print a traceback of dozens of
    lines for each record."""

    def __init__(self, path: Path, tell: Callable[[str], None]) -> None:
        super().__init__(path, encoding="utf-8")
        self._path = path
        self._tell: Callable[[str], None] | None = tell

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif self._tell is not None:
            tell, self._tell = self._tell, None
            tell(f"{self._path} cannot be written: {error.strerror or error}; it has no more lines")
