"""What one sees of a selftest while it runs."""

import threading
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from ackproof.harness.selftest.attempt import Attempt, Outcome
from ackproof.harness.selftest.rounds import Round, Told


class Display(Told):
    """A bar on a terminal; everywhere a line for each attempt that has ended."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("", total=None)
        self._under_way: list[str] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def expect(self, attempts: int) -> None:
        """So many are to come."""
        self._progress.update(self._task, total=attempts)

    def begins(self, one: Round) -> None:
        with self._lock:
            self._under_way.append(one.name)
            self._show()

    def ends(self, one: Round, attempt: Attempt | None) -> None:
        with self._lock:
            self._under_way.remove(one.name)
            if attempt is not None:
                self._progress.advance(self._task)
                self._progress.console.print(Text(_line(attempt)), soft_wrap=True)
            self._show()

    def _show(self) -> None:
        self._progress.update(self._task, description=", ".join(self._under_way))


def _line(attempt: Attempt) -> str:
    finding = attempt.finding
    parts = [finding.by, finding.where, finding.looked, finding.in_seconds]
    if finding.outcome is Outcome.INCONCLUSIVE:
        parts = [finding.why, finding.in_seconds]
    told = ", ".join(filter(None, parts))
    return f"{attempt.bug}  {attempt.way.value}  {finding.outcome.value}: {told}"
