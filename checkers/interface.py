"""The interface of plug-ins' checkers, which are registered under ``ackproof.checkers``.

Such a checker looks at rows of a recorded history, of one partition at a time or of one cell. It
returns the anomalies it found, how many things it examined, and what it lacked. Which anomalies
break its guarantee, and which verdict follows, is decided where that of the built-in checkers is
(:mod:`checkers.guarantees`).

A checker is called only where every row of the tables that it reads is there. Where rows are
missing or damaged, its guarantee is not checked, and the cell is inconclusive.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from ackproof.history.cell import Cell


class Extent(StrEnum):
    """The rows that a checker gets in one call."""

    PARTITION = "partition"
    """The rows of one partition, in a task of Spark's: memory grows with the partition."""
    CELL = "cell"
    """The rows of all partitions of a cell, in the process that checks."""


class Promised(StrEnum):
    """When the guarantee of a checker is promised."""

    ALWAYS = "always"
    """Whatever happens to leaders and disks."""
    WHILE_ACKS_ARE_KEPT = "while acks are kept"
    """Like ``no-acked-record-lost``: the time of each anomaly must be that of an ack."""
    WHILE_READS_STAY = "while reads stay"
    """Like ``reads-stay``: the time of each anomaly must be that of a consumer's read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRows:
    """The rows that a checker is given.

    Attributes:
        run: The number of the run.
        cell: The cell: its name, topic and settings.
        partition: The number of the partition; None where the rows are of the whole cell.
        tables: The rows of each table that the checker reads, with the columns that it reads, in
            the order in which each writer wrote them. Rows that name another topic, or another
            partition than this one, are left out.
        crashed: The tables with writers that a fault crashed. The last second, or less, of what
            such a client did is recorded nowhere.
        clock_bound_ns: How far the clocks of the clients may be from the harness's, and twice that
            from each other; nanoseconds. None where that is not known.
        read_began: What was acked, or shown to a consumer, before this time was in the log when the
            final read began; by the clocks of the clients, None where that is not known.
    """

    run: int
    cell: Cell
    partition: int | None
    tables: Mapping[str, pa.Table]
    crashed: frozenset[str] = frozenset()
    clock_bound_ns: int | None = None
    read_began: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """One anomaly, which becomes a row of ``anomalies.parquet``.

    Attributes:
        detail: What is wrong, in words.
        time: When: of the ack, or of what a consumer was shown; nanoseconds of the Unix epoch.
            None where nothing tells: the guarantee then counts as promised only if it is promised
            of the whole partition, or cell.
        partition: Its number; of a checker of partitions it is known, and may be left out. None
            where the anomaly is about no single one.
        offset, producer, sequence: Which record; None where it is about none.
    """

    detail: str
    time: int | None = None
    partition: int | None = None
    offset: int | None = None
    producer: int | None = None
    sequence: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """The result of one call of a checker.

    Attributes:
        anomalies: What was found.
        examined: How many things were looked at, each of which might have been an anomaly. Where
            nothing was examined in a cell, its guarantee is not checked.
        lacking: What is missing to say that the guarantee held, a sentence each: too little
            evidence makes the cell inconclusive.
    """

    anomalies: Sequence[Anomaly] = ()
    examined: int
    lacking: Sequence[str] = ()


def _every_cell(_: Cell) -> bool:
    return True


def _every_configuration(_: Cell) -> str | None:
    return None


@dataclass(frozen=True, kw_only=True)
class PluginChecker:
    """A checker that a package registers.

    Attributes:
        name: The name of its entry point, of its anomalies and of its place in the report:
            lower-case words, joined by hyphens. Its guarantee is ``no-NAME``.
        summary: What one anomaly is, in one line.
        guarantee: What is promised, in a sentence, with its conditions.
        reads: The columns that it reads, by table (:mod:`history.schema`). It concerns the cells of
            which all these tables are recorded.
        examine: Looks at the rows. What it raises makes its guarantee not checked.
        extent: What it is shown at a time.
        promised: While what its guarantee is promised.
        concerns: Whether it is about a cell at all, by its settings.
        not_promised: Why the settings of a cell do not promise the guarantee; None if they do. What
            is found there is counted, and breaks nothing.
    """

    name: str
    summary: str
    guarantee: str
    reads: Mapping[str, Sequence[str]]
    examine: Callable[[RecordedRows], Examined]
    extent: Extent = Extent.PARTITION
    promised: Promised = Promised.ALWAYS
    concerns: Callable[[Cell], bool] = _every_cell
    not_promised: Callable[[Cell], str | None] = _every_configuration

    @property
    def breaks(self) -> str:
        """The name of its guarantee."""
        return guarantee_of(self.name)


NO = "no-"
"""How the names of guarantees of plug-ins' checkers begin."""


def guarantee_of(name: str) -> str:
    """Return the name of the guarantee of a plug-in's checker."""
    return NO + name
