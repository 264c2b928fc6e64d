"""The display of a run while it runs.

On a terminal it is a live line: the step, the elapsed time and what is left of the plan, acks per
second, and the active fault. Elsewhere (CI) it is plain lines: one for every change, and a
heartbeat every ten seconds, so that nothing looks hung. Every call passes the time.
"""

import logging
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

# --- the display ----------------------------------------------------------------------------------

HEARTBEAT_S = 10.0
"""The seconds between two lines of the plain display when nothing changes."""
_RATE_OVER_S = 10.0
"""The seconds over which the rate is averaged. Counts of clients on other machines arrive every few
seconds, so that the rate between two ticks would be 0 and then far too high."""


class RunProgress(Protocol):
    """The receiver of a run's progress. It is called from several threads."""

    def phase(self, name: str) -> None:
        """Show the step that begins."""

    def fault(self, on: str | None, said: str) -> None:
        """Show a change of a fault: ``on`` is the fault that is active from now, None for none, and
        ``said`` the event."""

    def tick(self, elapsed_s: float, left: str, acked: int, shown: int = 0) -> None:
        """Show the figures, about once a second: the time since the run began, what is left of it
        in words (empty if unknown), the records acknowledged so far, and the records that consumers
        read."""

    def note(self, text: str) -> None:
        """Show a line, such as a finding."""


class _State:
    """The state of both displays, with the rate of acks over the last seconds."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.phase = "starting"
        self.fault: str | None = None
        self.elapsed_s = 0.0
        self.left = ""
        self.acked = 0
        self.shown = 0
        self.rate = 0.0
        self._acked_at = deque([(0.0, 0)])

    def tick(self, elapsed_s: float, left: str, acked: int, shown: int) -> None:
        self._acked_at.append((elapsed_s, acked))
        while self._acked_at[1][0] <= elapsed_s - _RATE_OVER_S:
            self._acked_at.popleft()
        since_s, then = self._acked_at[0]
        if elapsed_s > since_s:
            self.rate = max(0.0, (acked - then) / (elapsed_s - since_s))
        self.elapsed_s, self.left = elapsed_s, left
        self.acked, self.shown = acked, shown

    def line(self) -> str:
        parts = [f"{self.title}  {self.elapsed_s:4.0f} s  {self.phase}"]
        if self.left:
            parts.append(f"{self.left} left")
        if self.acked:
            parts.append(f"{self.acked:,} acked, {self.rate:,.0f}/s")
        if self.shown:
            parts.append(f"{self.shown:,} read by consumers")
        if self.fault:
            parts.append(self.fault)
        return "  |  ".join(parts)


class PlainProgress:
    """A display of one line for each change, and a heartbeat."""

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._state = _State(title)
        self._last_line_s = 0.0

    def phase(self, name: str) -> None:
        self._state.phase = name
        self._print()

    def fault(self, on: str | None, said: str) -> None:
        self._state.fault = on
        self.note(said)

    def tick(self, elapsed_s: float, left: str, acked: int, shown: int = 0) -> None:
        self._state.tick(elapsed_s, left, acked, shown)
        if elapsed_s - self._last_line_s >= HEARTBEAT_S:
            self._print()

    def note(self, text: str) -> None:
        self._line(f"{self._state.title}  {self._state.elapsed_s:4.0f} s  {text}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing, because no resource is held."""

    def _print(self) -> None:
        self._last_line_s = self._state.elapsed_s
        self._line(self._state.line())

    def _line(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class LiveProgress:
    """A line that is redrawn. Findings and faults scroll above it."""

    def __init__(self, console: Console, title: str) -> None:
        self._state = _State(title)
        self._live = Live(Text(self._state.line()), console=console, transient=True)

    def phase(self, name: str) -> None:
        self._state.phase = name
        self._redraw()

    def fault(self, on: str | None, said: str) -> None:
        self._state.fault = on
        self.note(said)

    def tick(self, elapsed_s: float, left: str, acked: int, shown: int = 0) -> None:
        self._state.tick(elapsed_s, left, acked, shown)
        self._redraw()

    def note(self, text: str) -> None:
        self._live.console.print(f"{self._state.elapsed_s:4.0f} s  {text}", markup=False)
        self._redraw()

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def _redraw(self) -> None:
        self._live.update(Text(self._state.line(), style="bold"))


def progress(console: Console, title: str) -> PlainProgress | LiveProgress:
    """Return the display that fits ``console``."""
    return LiveProgress(console, title) if console.is_terminal else PlainProgress(console, title)


# --- the log of a run, logs/harness.log -----------------------------------------------------------


@contextmanager
def logging_to(path: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Write everything that is logged to ``path`` instead of the terminal. If it can no longer be
    written (a full disk), that is reported once."""
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
        with suppress(OSError):  # buffered lines cannot be written either, which was reported
            handler.close()


class _RunLog(logging.FileHandler):
    """A log file on a disk that may become full. Python's own handler would print a traceback of
    dozens of lines for each record."""

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
            tell(
                f"{self._path} cannot be written: {error.strerror or error}; it gets no more lines"
            )
