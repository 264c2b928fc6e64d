"""One side of a comparison: a results directory, its cells with all their runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ackproof.checkers.verdict import WORST_FIRST, Verdict
from ackproof.harness.comparing import sends
from ackproof.harness.comparing.sends import Sends
from ackproof.harness.directory import NotResults
from ackproof.harness.report import verdict
from ackproof.harness.report.cell_document import CellDocument
from ackproof.harness.report.comparison import label
from ackproof.harness.report.document import VerdictDocument
from ackproof.history.cell import Value, as_text
from ackproof.history.errors import HistoryError

Key = tuple[str, str]
"""Cluster (empty for the only one there is) and cell, by name."""

Settings = tuple[str, frozenset[tuple[str, str]]]
"""Cluster and settings of a cell, with their values as text."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """The results of one campaign."""

    directory: Path
    document: VerdictDocument

    @cached_property
    def cells(self) -> Mapping[Key, "Pooled"]:
        """The runs of each cell, in the order of the results."""
        clusters = {run.number: label(run.cluster) for run in self.document.runs}
        found: dict[Key, list[CellDocument]] = {}
        for cell in self.document.cells:
            found.setdefault((clusters.get(cell.run, ""), cell.cell), []).append(cell)
        return {key: Pooled(side=self, runs=tuple(of)) for key, of in found.items()}

    @cached_property
    def by_settings(self) -> Mapping[Settings, Key]:
        """The key of each cell, by its cluster and its settings, where no other cell has these."""
        keys: dict[Settings, list[Key]] = {}
        for key, pooled in self.cells.items():
            keys.setdefault((key[0], pooled.settings), []).append(key)
        return {settings: of[0] for settings, of in keys.items() if len(of) == 1}

    @cached_property
    def sends(self) -> Mapping[int, Mapping[str, Sends]]:
        """By run and cell; what cannot be read is not there."""
        found = {}
        for number in sorted({cell.run for cell in self.document.cells}):
            try:
                found[number] = sends.read(self.directory / "runs" / str(number) / "history")
            except (HistoryError, OSError):
                continue
        return found


@dataclass(frozen=True, kw_only=True)
class Pooled:
    """A cell in all of its runs."""

    side: Side
    runs: Sequence[CellDocument]

    @property
    def settings(self) -> frozenset[tuple[str, str]]:
        """All its settings."""
        return frozenset((name, as_text(value)) for name, value in self._settings.items())

    @property
    def _settings(self) -> Mapping[str, Value]:
        return self.runs[0].model_extra or {}

    @property
    def verdict(self) -> Verdict:
        """The worst."""
        return min((run.verdict for run in self.runs), key=WORST_FIRST.index)

    def total(self, of: Callable[[CellDocument], int | None]) -> int | None:
        """Over all runs; None where it is unknown of one."""
        values = [of(run) for run in self.runs]
        known = [value for value in values if value is not None]
        return sum(known) if len(known) == len(values) else None

    def faults(self) -> tuple[int, int] | None:
        """Return in how many faults records were lost, and how many could have cost some
        (:mod:`harness.report.opportunities`); None where that is not known."""
        every = self.side.document.opportunities
        if every is None:
            return None
        runs = {run.run for run in self.runs}
        mine = [one for one in every if one.run in runs and one.cell == self.runs[0].cell]
        return sum(1 for one in mine if one.lost), len(mine)

    @cached_property
    def sends(self) -> Sequence[Sends]:
        """Of each run; none where those of one cannot be read, and with acks=0, whose acks are the
        client's own word."""
        if str(self._settings.get("acks")) == "0":
            return ()
        found = [self.side.sends.get(run.run, {}).get(run.cell) for run in self.runs]
        known = [one for one in found if one is not None]
        return known if len(known) == len(found) else ()


def read(directory: Path) -> Side:
    """Of a results directory. Raises NotResults where there is no verdict in it, DamagedResults
    where that cannot be believed."""
    file = directory / verdict.FILE
    if not file.is_file():
        raise NotResults(
            f"{directory} has no {verdict.FILE}: no results of a campaign, or not checked yet "
            f"(ackproof check {directory})"
        )
    return Side(directory=directory, document=verdict.read_document(file))


def partners(a: Side, b: Side) -> Mapping[Key, Key]:
    """Return which cell of ``b`` is compared with which of ``a``: the one with the same settings,
    whatever it is called, or else the one of the same name."""
    same = {
        of_a: b.by_settings[settings]
        for settings, of_a in a.by_settings.items()
        if settings in b.by_settings
    }
    taken = set(same.values())
    named = {key: key for key in a.cells if key in b.cells and key not in same and key not in taken}
    return {key: {**same, **named}[key] for key in a.cells if key in same or key in named}
