"""One side of a comparison: a results directory, and its cells with all their runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.verdict import WORST_FIRST, Verdict
from ackproof.harness.directory import ResultsDirectoryError
from ackproof.harness.report import cell_names, verdict
from ackproof.harness.report.cell_document import CellDocument
from ackproof.harness.report.comparison import label
from ackproof.harness.report.document import VerdictDocument
from ackproof.harness.report.opportunities import ExposureSummary, of_documents
from ackproof.history import reader
from ackproof.history.cell import Value, as_text
from ackproof.history.errors import HistoryError
from ackproof.history.names import SendType

# --- recorded sends -------------------------------------------------------------------------------

BINS = np.geomspace(0.05, 3.6e6, 600)
"""The limits of the bins in milliseconds, 3 % apart."""

LASTED_MAX_S = 7 * 24 * 3_600
"""The longest time between sends of one run, in seconds. If it is longer, one of the times is
damaged, and the rate of the run would mean nothing."""

_NS_PER_S = 1_000_000_000
_NS_PER_MS = 1_000_000
_COLUMNS = ("cell", "producer", "sequence", "type", "time")

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sends:
    """The acknowledged sends of a cell in a run.

    Attributes:
        waited_ms: The time of each from handing the record to the client to its ack.
        waits: The number of sends in each bin of these times (:data:`BINS`).
        lasted_s: The time from the first hand-over to the last.
    """

    waited_ms: Array
    waits: Array
    lasted_s: float


def read_sends(history: Path) -> Mapping[str, Sends]:
    """Return the sends of each cell, in all of its partitions. Raises HistoryError."""
    parts: dict[str, list[pa.Table]] = {}
    for paths in reader.by_stem(history, "sends").values():
        table = reader.read_files("sends", paths, _COLUMNS)
        for cell in table["cell"].unique().to_pylist():
            took = acked(table.filter(pc.equal(table["cell"], cell)))
            parts.setdefault(cell, []).append(took)
    joined = {cell: pa.concat_tables(tables) for cell, tables in parts.items()}
    return {cell: _sends(table) for cell, table in joined.items() if len(table)}


def acked(sends: pa.Table) -> pa.Table:
    """Return ``time`` and ``time_acked`` of every acknowledged record."""
    of = {
        kind: sends.filter(pc.equal(sends["type"], kind.value)).select(
            ["producer", "sequence", "time"]
        )
        for kind in (SendType.INVOKE, SendType.OK)
    }
    names = ["producer", "sequence"]
    both = of[SendType.INVOKE].join(
        of[SendType.OK], names, join_type="inner", right_suffix="_acked"
    )
    return both.select(["time", "time_acked"])


def _sends(took: pa.Table) -> Sends:
    began = took["time"].to_numpy()
    waited_ms = (took["time_acked"].to_numpy() - began) / _NS_PER_MS
    lasted_s = float(began.max() - began.min()) / _NS_PER_S
    if lasted_s > LASTED_MAX_S:
        raise HistoryError(f"sends of one run that are {lasted_s / 86_400:.0f} days apart")
    counted = np.bincount(np.digitize(waited_ms, BINS), minlength=len(BINS) + 1)
    return Sends(
        waited_ms=waited_ms,
        waits=counted.astype(np.float64),
        lasted_s=lasted_s,
    )


# --- sides ----------------------------------------------------------------------------------------

Key = tuple[str, str]
"""The names of a cluster (empty for a single one) and a cell."""


def cell_name(key: Key) -> str:
    """Return the stable name of a cell, after that of its cluster."""
    return ", ".join(part for part in key if part)


Settings = tuple[str, frozenset[tuple[str, str]]]
"""The cluster and the settings of a cell, with their values as text."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """The results of one campaign."""

    directory: Path
    document: VerdictDocument

    @cached_property
    def cells(self) -> Mapping[Key, "PooledCell"]:
        """Return the runs of each cell, in the order of the results."""
        clusters = {run.number: label(run.cluster) for run in self.document.runs}
        found: dict[Key, list[CellDocument]] = {}
        for cell in self.document.cells:
            found.setdefault((clusters.get(cell.run, ""), cell.cell), []).append(cell)
        return {key: PooledCell(side=self, runs=tuple(of)) for key, of in found.items()}

    @cached_property
    def titles(self) -> Mapping[Key, str]:
        """Return the name of each cell for readers."""
        settings = {(1, cell_name(key)): one.runs[0].model_extra for key, one in self.cells.items()}
        words = cell_names.in_words({key: of or {} for key, of in settings.items()})
        return {key: words[1, cell_name(key)] for key in self.cells}

    @cached_property
    def by_settings(self) -> Mapping[Settings, Key]:
        """Return the key of each cell by its cluster and its settings, unless another cell has the
        same."""
        keys: dict[Settings, list[Key]] = {}
        for key, pooled in self.cells.items():
            keys.setdefault((key[0], pooled.settings), []).append(key)
        return {settings: of[0] for settings, of in keys.items() if len(of) == 1}

    @property
    def exposure(self) -> ExposureSummary | None:
        """Return the exposure of the cells that guarantee no loss, or None if it is unknown."""
        return None if self.document.exposure is None else of_documents([self.document])

    @cached_property
    def sends(self) -> Mapping[int, Mapping[str, Sends]]:
        """Return the sends by run and cell, without those that cannot be read."""
        found = {}
        for number in sorted({cell.run for cell in self.document.cells}):
            try:
                found[number] = read_sends(self.directory / "runs" / str(number) / "history")
            except (HistoryError, OSError):
                continue
        return found


@dataclass(frozen=True, kw_only=True)
class PooledCell:
    """A cell in all of its runs."""

    side: Side
    runs: Sequence[CellDocument]

    @property
    def settings(self) -> frozenset[tuple[str, str]]:
        """Return all its settings."""
        return frozenset((name, as_text(value)) for name, value in self._settings.items())

    @property
    def _settings(self) -> Mapping[str, Value]:
        return self.runs[0].model_extra or {}

    @property
    def verdict(self) -> Verdict:
        """Return the worst verdict of its runs."""
        return min((run.verdict for run in self.runs), key=WORST_FIRST.index)

    def total(self, of: Callable[[CellDocument], int | None]) -> int | None:
        """Return a sum over all runs, or None if it is unknown for one."""
        values = [of(run) for run in self.runs]
        known = [value for value in values if value is not None]
        return sum(known) if len(known) == len(values) else None

    def faults(self) -> tuple[int, int] | None:
        """Return the number of faults in which records were lost, and of those that could have cost
        some (:mod:`harness.report.opportunities`), or None if they are unknown."""
        every = self.side.document.opportunities
        if every is None:
            return None
        runs = {run.run for run in self.runs}
        mine = [one for one in every if one.run in runs and one.cell == self.runs[0].cell]
        return sum(1 for one in mine if one.lost), len(mine)

    @cached_property
    def sends(self) -> Sequence[Sends]:
        """Return the sends of each run. There are none if those of one run cannot be read, and with
        acks=0, because the client itself gives those acks."""
        if str(self._settings.get("acks")) == "0":
            return ()
        found = [self.side.sends.get(run.run, {}).get(run.cell) for run in self.runs]
        known = [one for one in found if one is not None]
        return known if len(known) == len(found) else ()


def read(directory: Path) -> Side:
    """Return the side of a results directory. Raises ResultsDirectoryError if it has no verdict,
    and DamagedResults if the verdict cannot be trusted."""
    file = directory / verdict.FILE
    if not file.is_file():
        raise ResultsDirectoryError(
            f"{directory} has no {verdict.FILE}: it holds no results of a campaign, or they "
            f"have not been checked (ackproof check {directory})"
        )
    return Side(directory=directory, document=verdict.read_document(file))


def partners(a: Side, b: Side) -> Mapping[Key, Key]:
    """Return the cell of ``b`` with which each cell of ``a`` is compared: the one with the same
    settings, whatever its name is, or else the one of the same name."""
    same = {
        of_a: b.by_settings[settings]
        for settings, of_a in a.by_settings.items()
        if settings in b.by_settings
    }
    taken = set(same.values())
    named = {key: key for key in a.cells if key in b.cells and key not in same and key not in taken}
    return {key: {**same, **named}[key] for key in a.cells if key in same or key in named}
