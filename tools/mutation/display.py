"""The progress of a session."""

import threading
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from tools.mutation.results import Outcome, Result


class Display:
    """A progress bar on a terminal, and a line for each finished examination everywhere.

    It is called from several threads.
    """

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

    def expect(self, examinations: int) -> None:
        """Set the number of examinations to come."""
        self._progress.update(self._task, total=examinations)

    def begins(self, name: str) -> None:
        """Show that a broker is being examined."""
        with self._lock:
            self._under_way.append(name)
            self._show()

    def ends(self, name: str, result: Result | None) -> None:
        """Show the result of an examination, or nothing if it was interrupted (None)."""
        with self._lock:
            self._under_way.remove(name)
            if result is not None:
                self._progress.advance(self._task)
                self._progress.console.print(_line(result), soft_wrap=True)
            self._show()

    def _show(self) -> None:
        self._progress.update(self._task, description=", ".join(self._under_way))


_STYLES = {Outcome.FOUND: "green", Outcome.NOT_FOUND: "yellow", Outcome.INCONCLUSIVE: "red"}


def _line(result: Result) -> Text:
    finding = result.finding
    parts = {
        Outcome.FOUND: (finding.by, finding.where, finding.in_seconds),
        Outcome.NOT_FOUND: (finding.examined, finding.in_seconds),
        Outcome.INCONCLUSIVE: (finding.why,),
    }[finding.outcome]
    words = ", ".join(filter(None, parts))
    line = Text(f"{result.mutant}  {result.method.value}  ")
    return line.append(f"{finding.outcome.value}: {words}", style=_STYLES[finding.outcome])
