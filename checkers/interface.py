"""The interface of plug-ins' checkers, which are registered under ``ackproof.checkers``.

Such a checker examines rows of a recorded history, of one partition at a time or of one cell. It
returns the anomalies that it found, the number of things it examined, and the evidence that it
lacked. Whether an anomaly violates its guarantee, and which verdict follows, is decided in the same
place as for the built-in checkers (:mod:`checkers.guarantees`).

A checker is called only if every row of the tables that it reads is present. If rows are missing or
damaged, its guarantee is not checked, and the cell is inconclusive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from ackproof.history.cell import Cell
from ackproof.history.manifest import PlannedShareGroup

if TYPE_CHECKING:  # lists of checkers do not need Arrow
    import pyarrow as pa


class Extent(StrEnum):
    """The rows that a checker gets in one call."""

    PARTITION = "partition"
    """The rows of one partition, in a Spark task. Memory grows with the partition."""
    CELL = "cell"
    """The rows of all partitions of a cell, in the process that runs the check."""


class Promised(StrEnum):
    """The validity window of the guarantee of a checker."""

    ALWAYS = "always"
    """The guarantee always holds, whatever happens to leaders and disks."""
    WHILE_ACKS_ARE_KEPT = "while acked records are kept"
    """The guarantee holds as long as ``no-acked-record-lost``. The time of each anomaly must be
    that of an ack."""
    WHILE_READS_STAY = "while the records that were read stay"
    """The guarantee holds as long as ``reads-stay``. The time of each anomaly must be that of a
    consumer's read."""
    WHILE_SHARES_STAY = "while the records that were read, and the state of share groups, stay"
    """The guarantee holds as long as ``reads-stay``, and while no member of the ISR of the topic
    with the state of share groups has lost data. The time of each anomaly must be that of a
    consumer's read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRows:
    """The rows that a checker receives.

    Attributes:
        run: The number of the run.
        cell: The cell, with its name, topic and settings.
        partition: The number of the partition, or None if the rows are those of the whole cell.
        tables: The rows of each table that the checker reads, with the columns that it reads, in
            the order in which each writer wrote them. Rows that name another topic, or another
            partition than this one, are left out.
        crashed: The tables with writers that a fault crashed. The last second, at most, of such a
            client's work is not recorded.
        clock_bound_ns: The largest possible difference between a client's clock and the harness's,
            in nanoseconds, or None if it is unknown. Two clients' clocks may differ by twice that.
        share_groups: The share groups of the cell.
        quiet_periods: The time in which nothing kept a share group from its work, by its name, as
            the time since which the cluster had recovered from all faults, and the time until which
            a member of the group surely worked. The time that servers waited for a processor is
            subtracted. A group without such a time is left out.
        read_began: The time, by the clients' clocks, before which every ack and every consumer's
            read preceded the start of the final read. None if it is unknown.
    """

    run: int
    cell: Cell
    partition: int | None
    tables: Mapping[str, pa.Table]
    crashed: frozenset[str] = frozenset()
    clock_bound_ns: int | None = None
    read_began: int | None = None
    share_groups: Sequence[PlannedShareGroup] = ()
    quiet_periods: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """One anomaly, which becomes a row of ``anomalies.parquet``.

    Attributes:
        detail: A sentence that says what is wrong.
        time: The time of the ack or of the consumer's read, in nanoseconds of the Unix epoch. None
            if it is unknown: the guarantee then counts as promised only if it holds for the whole
            partition or cell.
        partition: The number of the partition. A checker of partitions may omit it. None if the
            anomaly does not concern a single partition.
        offset, producer, sequence: The record, or None if the anomaly does not concern a record.
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
        anomalies: The anomalies that were found.
        examined: The number of things that were examined, each of which might have been an anomaly.
            If nothing was examined in a cell, its guarantee is not checked.
        lacking: The evidence that is missing to say that the guarantee held, a sentence each.
            Missing evidence makes the cell inconclusive.
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
        name: The name of its entry point, of its anomalies and of its row in the report, as
            lower-case words joined by hyphens. Its guarantee is ``no-NAME``.
        summary: One line that says what one of its anomalies is.
        guarantee: A sentence that states the guarantee and its conditions.
        reads: The columns that it reads, by table (:mod:`history.schema`). It applies to cells for
            which all these tables are recorded.
        examine: The function that examines the rows. If it raises an exception, its guarantee is
            not checked.
        extent: The rows that it gets in one call.
        promised: The validity window of its guarantee.
        concerns: Returns whether it applies to a cell with these settings.
        not_promised: Returns why a cell's settings do not promise the guarantee, or None if they
            do. Without the guarantee, anomalies are counted but violate nothing.
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
"""The prefix of the names of guarantees of plug-ins' checkers."""


def guarantee_of(name: str) -> str:
    """Return the name of the guarantee of a plug-in's checker."""
    return NO + name
