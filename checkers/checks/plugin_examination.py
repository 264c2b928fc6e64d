"""The examination of a partition or a cell by a plug-in's checker, and its counts.

Nothing that the checker raises or returns affects another check. An unusable result becomes a
sentence in ``lacking``, and the guarantee of the checker is not checked.
"""

import operator
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.checks.catalogue import CATALOGUE, provider
from ackproof.checkers.checks.plugin_work import PluginWork, work_of
from ackproof.checkers.checks.rows import ANOMALIES, rows_of_findings
from ackproof.checkers.context.faults import FOREVER
from ackproof.checkers.context.run import RunEvidence
from ackproof.checkers.context.status import GuaranteeStatus, statuses
from ackproof.checkers.index import columns
from ackproof.checkers.interface import Anomaly, Examined, PluginChecker, RecordedRows
from ackproof.history import reader
from ackproof.history.messages import printable
from ackproof.history.names import PARTITIONED
from ackproof.history.schema import TABLES
from ackproof.history.storage import AnyPath


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginTotals:
    """The counts of one checker.

    Attributes:
        found: The number of anomalies by guarantee status.
        examined: The number of things that were examined.
        lacking: The missing evidence for saying that the guarantee held, a sentence each.
    """

    found: Counter[GuaranteeStatus] = field(default_factory=Counter)
    examined: int = 0
    lacking: tuple[str, ...] = ()


def added(totals: Iterable[PluginTotals]) -> PluginTotals:
    """Return the sum of the counts of one checker in several partitions."""
    found: Counter[GuaranteeStatus] = Counter()
    examined = 0
    lacking: list[str] = []
    for one in totals:
        found.update(one.found)
        examined += one.examined
        lacking += one.lacking
    return PluginTotals(found=found, examined=examined, lacking=tuple(dict.fromkeys(lacking)))


# --- examination ----------------------------------------------------------------------------------


_REASON_LENGTH_MAX = 300
_PLACE = ("topic", "partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """The result of an examination: the anomalies, as ANOMALIES, and the counts."""

    rows: pa.Table
    totals: PluginTotals


def examined(work: PluginWork) -> Examination:
    """Run a checker on its work. Raises nothing because of the checker or the contents of the
    files."""
    try:
        checker = _installed(work)
        missing = list(work.missing)
        recorded = None if missing else _recorded(work, checker, missing)
        if recorded is None or missing:
            lacking = tuple(printable(one) for one in missing)
            return Examination(rows=ANOMALIES.empty_table(), totals=PluginTotals(lacking=lacking))
        return _examined(work, _sound(work, _asked(checker, recorded)))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - one checker never takes down another
        lacking = (_failure(work, error),)
        return Examination(rows=ANOMALIES.empty_table(), totals=PluginTotals(lacking=lacking))


def _failure(work: PluginWork, error: BaseException) -> str:
    if isinstance(error, NotInstalled):
        return str(error)
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:_REASON_LENGTH_MAX]
    place = work.cell.topic if work.partition is None else f"{work.cell.topic}-{work.partition}"
    of_plugin = "" if work.plugin is None else f" of the plug-in {work.plugin}"
    words = f"the checker {work.checker}{of_plugin} failed on {place}: {reason}"
    return printable(words)


class NotInstalled(Exception):
    """The plug-in is not installed where the task runs."""


def _installed(work: PluginWork) -> PluginChecker:
    checker, plugin = CATALOGUE.get(work.checker), provider(work.checker)
    if isinstance(checker, PluginChecker) and plugin == work.plugin:
        return checker
    there = CATALOGUE.absence(work.checker) if checker is None else f"that host has {plugin}"
    raise NotInstalled(
        f"the checker {work.checker} cannot be used on {socket.gethostname()}, where Spark ran "
        f"its task: {there}. Install {work.plugin} on every worker"
    )


def _asked(checker: PluginChecker, recorded: RecordedRows) -> object:
    checker.concerns(recorded.cell)  # An exception of ``concerns`` becomes part of the result here.
    return checker.examine(recorded)


def _recorded(work: PluginWork, checker: PluginChecker, problems: list[str]) -> RecordedRows:
    """Return the rows for a checker. Rows that cannot be read add a sentence to ``problems``."""
    tables = {table: _table(work, table, names, problems) for table, names in checker.reads.items()}
    return RecordedRows(
        run=work.run,
        cell=work.cell,
        partition=work.partition,
        tables=tables,
        crashed=work.crashed,
        clock_bound_ns=work.clock_bound_ns,
        read_began=work.read_began,
        share_groups=work.share_groups,
        quiet_periods=work.quiet_periods,
    )


def _table(work: PluginWork, table: str, wanted: Sequence[str], problems: list[str]) -> pa.Table:
    """Return the rows of one table, with the columns that the checker reads."""
    names = list(dict.fromkeys(wanted))
    place = [name for name in _PLACE if name in TABLES[table].names]
    read = list(dict.fromkeys([*names, *place]))

    def read_file(file: AnyPath) -> pa.Table:
        return reader.read_files(table, [file], read)

    parts = [reader.decoded_schema(table).empty_table().select(read)]
    for one in work.tables:
        if one.table == table:
            expected = one.expected if "cell" in read else replace(one.expected, cell=None)
            found, of_files = columns.sound(one.files, read_file, expected)
            parts += found
            problems += of_files
    rows = pa.concat_tables(parts)
    if table == "log" and len(rows) != work.log_records:
        problems.append(
            f"the final read returned {work.log_records} records, but its files hold {len(rows)}"
        )
    return (rows if table in PARTITIONED else _of_place(rows, work)).select(names)


def _of_place(rows: pa.Table, work: PluginWork) -> pa.Table:
    """Return the rows that do not name another topic or partition than that of the work."""
    wanted = {"topic": work.cell.topic, "partition": work.partition}
    for name, value in wanted.items():
        if value is not None and name in rows.column_names:
            rows = rows.filter(pc.fill_null(pc.equal(rows[name], value), True))
    return rows


def _sound(work: PluginWork, returned: object) -> Examined:
    """Return the result of a checker with plain Python numbers. Raises TypeError or ValueError for
    a result that no checker may return."""
    if not isinstance(returned, Examined):
        raise TypeError(f"it returned {type(returned).__name__}, but must return Examined")
    count = _number("examined", returned.examined)
    anomalies = [_sound_anomaly(work, one) for one in returned.anomalies]
    if len(anomalies) and not count:
        raise ValueError(f"it reported {len(anomalies)} anomalies, but examined nothing")
    lacking = tuple(returned.lacking)
    if isinstance(returned.lacking, str) or not all(isinstance(one, str) for one in lacking):
        raise TypeError("lacking must be a list of sentences")
    return Examined(anomalies=anomalies, examined=count or 0, lacking=lacking)


def _sound_anomaly(work: PluginWork, anomaly: object) -> Anomaly:
    if not isinstance(anomaly, Anomaly):
        raise TypeError(f"an anomaly has the type {type(anomaly).__name__}, but must be Anomaly")
    if not isinstance(anomaly.detail, str):
        raise TypeError(f"the detail of an anomaly must be text, not {anomaly.detail!r}")
    partition = _number("partition", anomaly.partition)
    if work.partition is not None and partition not in (None, work.partition):
        raise ValueError(
            f"an anomaly names partition {partition}, but the checker received "
            f"partition {work.partition}"
        )
    if partition is not None and partition >= work.cell.partitions:
        raise ValueError(f"an anomaly names partition {partition}, which the cell does not have")
    return Anomaly(
        detail=printable(anomaly.detail),
        time=_number("time", anomaly.time),
        partition=partition if work.partition is None else work.partition,
        offset=_number("offset", anomaly.offset),
        producer=_number("producer", anomaly.producer, most=2**31 - 1),
        sequence=_number("sequence", anomaly.sequence),
    )


def _number(name: str, value: object, most: int = FOREVER) -> int | None:
    """Return a whole number as a plain Python number. Raises TypeError or ValueError for another
    value."""
    if value is None and name != "examined":
        return None
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    number = operator.index(value)
    if not 0 <= number <= most:
        raise ValueError(f"{name} is {number}, but must be between 0 and {most}")
    return number


def _examined(work: PluginWork, looked: Examined) -> Examination:
    found: Counter[GuaranteeStatus] = Counter()
    for anomaly in looked.anomalies:
        found[_standing(work, anomaly)] += 1
    totals = PluginTotals(
        found=found,
        examined=looked.examined,
        lacking=tuple(printable(" ".join(one.split())) for one in looked.lacking),
    )
    named = [(work.checker, anomaly) for anomaly in looked.anomalies]
    rows = rows_of_findings(work.run, work.cell, named, work.faults)
    return Examination(rows=rows, totals=totals)


def _standing(work: PluginWork, anomaly: Anomaly) -> GuaranteeStatus:
    """Return the guarantee status of an anomaly. One without a time counts as the earliest, for
    which the least is promised."""
    times = np.array([anomaly.time or 0], dtype=np.int64)
    unpromised, unknown = statuses(times, work.terms[anomaly.partition])
    if unpromised[0]:
        return GuaranteeStatus.UNPROMISED
    return GuaranteeStatus.UNKNOWN if unknown[0] else GuaranteeStatus.PROMISED


# --- cells ----------------------------------------------------------------------------------------
#
# The examination of whole cells by plug-ins' checkers, one cell at a time, in the process that runs
# the check.


CellExaminations = Mapping[tuple[int, str], Mapping[str, Examination]]
"""The examinations by run and cell, then by checker."""


def examine_cells(runs: Sequence[RunEvidence], tell: Callable[[str], None]) -> CellExaminations:
    """Run every checker of whole cells on each cell that it applies to."""
    found = {}
    for run in runs:
        for planned in run.planned.cells:
            work = work_of(run, planned, None)
            if work:
                names = ", ".join(one.checker for one in work)
                tell(f"{names} of {planned.cell.name}, run {run.number}")
            found[run.number, planned.cell.name] = {one.checker: examined(one) for one in work}
    return found
