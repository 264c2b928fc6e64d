"""The writers of a run's tables: the files of each, compared with the manifest; how each was
closed; and which writers were crashed."""

import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pyarrow as pa

from ackproof.checkers.context.faults import FaultFacts, Partition
from ackproof.checkers.context.gaps import UNJUDGED, Gap
from ackproof.history import names, reader, storage
from ackproof.history.errors import DamagedFiles
from ackproof.history.manifest import PlannedRun, PlannedWriter
from ackproof.history.names import CLOSED_SUFFIX, CONSUMPTION, FileStem
from ackproof.history.reader import Listed
from ackproof.history.schema import TABLES
from ackproof.history.sessions import LIBRARY, SHOWN_NOTHING, in_words
from ackproof.history.storage import AnyPath, StoredPath, each


def crashes_of(
    rows: Iterable[Mapping[str, Any]], faults: Iterable[FaultFacts]
) -> Mapping[str, FaultFacts]:
    """Return the fault that crashed each client, if that is proven: the kernel reports signal 9,
    and the fault that sent it was planned, is proven effective, and affected a node of clients.

    Args:
        rows: The rows of the table ``clients``.
        faults: The faults of the run.
    """
    bitten = {fault.fault_id: fault for fault in faults if fault.proven and fault.on_clients}
    return {
        row["client"]: bitten[row["fault_id"]]
        for row in rows
        if row["exit_code"] == -signal.SIGKILL and row["fault_id"] in bitten
    }


def with_consumer_crashes(
    faults: Iterable[FaultFacts], crashes: Mapping[str, FaultFacts], run: PlannedRun
) -> tuple[FaultFacts, ...]:
    """Return the faults, and mark those that only crashed consumers, that is, clients on whose
    tables no verdict depends. ``crashes`` is the result of :func:`crashes_of`."""
    judged = {writer.client for writer in run.writers if writer.table not in UNJUDGED}
    crashed = {fault.fault_id for fault in crashes.values()}
    others = {fault.fault_id for client, fault in crashes.items() if client in judged}
    return tuple(
        replace(fault, consumers_alone=fault.fault_id in crashed - others) for fault in faults
    )


def without_unused_replacements(run: PlannedRun, crashes: Mapping[str, FaultFacts]) -> PlannedRun:
    """Return the run without the writers of replacement clients that were never needed. Nothing is
    missing of them. ``crashes`` is the result of :func:`crashes_of`."""
    brings_back = {plan.fault_id for plan in run.faults if plan.parameters.get("comes_back")}
    followed = {client for client, fault in crashes.items() if fault.fault_id in brings_back}
    writers = [one for one in run.writers if one.instead_of in {None, *followed}]
    return run.model_copy(update={"writers": tuple(writers)})


def lack_of_crashed(paths: Sequence[AnyPath]) -> str | None:
    """Return why these files of a crashed writer, in their order, are not the beginning of what it
    wrote, or None if they are."""
    try:
        rows = reader.count_rows(paths)
        torn = [path.name for path in paths[:-1] if reader.cut_short(path)]
    except DamagedFiles as damaged:
        return str(damaged)
    if rows == 0:
        return "its client recorded nothing before it was crashed"
    numbers = [names.parse(path.name)[1] for path in paths]
    if numbers != [None] and numbers != list(range(1, len(paths) + 1)):
        return "part of what its client recorded before it was crashed is missing"
    if torn:
        return f"{torn[0]} is truncated, but other files follow it"
    return None


# --- closings -------------------------------------------------------------------------------------
#
# The closings of a run's writers, and the check that each closed file is as its writer left it.
#
# A closed file must have the same content when it is checked. A flipped bit may decode to another
# offset, and an acknowledged record would seem to be lost. Every closing therefore has a digest of
# its file, and a file with another digest is not read. A history from before there were digests is
# only compared with the numbers of rows.


File = tuple[str, str, Partition | None]
"""The table, the writer and, for a partitioned table, the topic and partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """The number of rows in a file and its digest (None in older histories), as its writer recorded
    them."""

    rows: int
    digest: str | None


class Closings:
    """All closings of a run, from the rows of its table ``closings``."""

    def __init__(self, rows: Sequence[Mapping[str, Any]] = ()) -> None:
        self._of: dict[File, set[Closing]] = {}
        for row in rows:
            closing = Closing(rows=row["rows"], digest=row["digest"])
            self._of.setdefault(_named(row), set()).add(closing)

    @property
    def files(self) -> frozenset[File]:
        """The files that have a closing."""
        return frozenset(self._of)

    def of(self, file: File) -> Closing | None:
        """Return a closing of a file, or None. If several contradict each other, any of them is
        returned."""
        return next(iter(self._of.get(file, ())), None)

    def contradict(self, file: File) -> bool:
        """Return whether a file has contradictory closings."""
        return len(self._of.get(file, ())) > 1

    def held_against(self, listed: Mapping[str, Listed]) -> Mapping[str, Listed]:
        """Return the listing of a history's files, with each file that differs from its closing
        moved to the damaged ones."""
        looks = list(self._looks(listed))
        stored = any(isinstance(path, StoredPath) for path, _ in looks)
        found = zip(looks, each(_altered, looks, stored=stored), strict=True)
        altered = {path: words for (path, _), words in found if words is not None}
        return {table: _parted(altered, *files) for table, files in listed.items()}

    def _looks(self, listed: Mapping[str, Listed]) -> Iterator[tuple[AnyPath, Closing | str]]:
        """Yield the closed files of a history with digests, each with its closing, or with the
        reason why it has no trustworthy one."""
        if not any(one.digest for several in self._of.values() for one in several):
            return
        for table, (sound, _) in listed.items():
            for stem, paths in sound.items() if table != "closings" else ():
                closing = self._believed(file_of(stem))
                yield from ((path, closing) for path in paths if path.suffix == CLOSED_SUFFIX)

    def _believed(self, file: File) -> Closing | str:
        if self.contradict(file):
            return "its writer's closings contradict each other"
        return self.of(file) or "is closed, but no closing says whether it is unchanged"


def read_closings(listed: Listed) -> tuple[Closings, Mapping[AnyPath, str]]:
    """Return the closings of a history, and the problems of the files of closings that cannot be
    read. One damaged file must not invalidate the digests of all others."""
    sound, wrong = listed
    files = [path for paths in sound.values() for path in paths]
    stored = any(isinstance(path, StoredPath) for path in files)
    rows: list[Mapping[str, Any]] = []
    damaged = dict(wrong)
    for path, found in zip(files, each(_rows, files, stored=stored), strict=True):
        if isinstance(found, str):
            damaged[path] = found
        else:
            rows += found
    return Closings(rows), damaged


def _rows(path: AnyPath) -> Sequence[Mapping[str, Any]] | str:
    try:
        rows: Sequence[Mapping[str, Any]] = reader.read_files("closings", [path]).to_pylist()
    except (DamagedFiles, ValueError, pa.ArrowException) as error:
        return str(error)
    return rows


def file_of(stem: FileStem) -> File:
    """Return the file that a stem names."""
    return stem.table, stem.writer, stem.partition


def other_length(rows: int, paths: Sequence[AnyPath]) -> str | None:
    """Return a sentence about the number of rows in these files if it is not ``rows``, otherwise
    None. Raises DamagedFiles."""
    held = reader.count_rows(paths)
    return None if held == rows else f"holds {held} rows, but its writer closed it with {rows}"


def _altered(look: tuple[AnyPath, Closing | str]) -> str | None:
    path, closing = look
    if isinstance(closing, str):
        return closing
    if closing.digest is None:
        return None
    try:
        if storage.digest(path) == closing.digest:
            return None
        length = other_length(closing.rows, [path])
    except DamagedFiles as error:
        return error.reasons[path]
    except OSError as error:
        return str(error)
    return length or "is not the file that its writer closed: its digest differs"


def _parted(
    altered: Mapping[AnyPath, str],
    sound: Mapping[FileStem, tuple[AnyPath, ...]],
    wrong: Mapping[AnyPath, str],
) -> Listed:
    kept = {stem: paths for stem, paths in sound.items() if altered.keys().isdisjoint(paths)}
    mine = {path for paths in sound.values() for path in paths}
    return kept, {**wrong, **{path: why for path, why in altered.items() if path in mine}}


def _named(row: Mapping[str, Any]) -> File:
    partition = None if row["topic"] is None else (row["topic"], row["partition"])
    return row["table"], row["writer"], partition


# --- writers --------------------------------------------------------------------------------------
#
# The planned writers, their closings and their files, compared with each other.
#
# Suppose that two producers write to a partition and the file of one is missing. Its records are in
# no ``sends``, and those of them that are lost are in no log either. The rest is consistent. Only
# the plan shows that there were two producers.


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterFiles:
    """The files of one writer, whether they are complete (except for the last moments of a crashed
    client), and whether the writer was crashed before it closed them."""

    files: Sequence[AnyPath]
    whole: bool
    cut: bool


class Writers:
    """All writers of a run.

    Args:
        run: The planned run.
        history: The files of each of its tables.
        closings: The closings of its writers.
        crashed: The faults that crashed clients, by client (:mod:`checkers.context.writers`).
        ends: The rows of the table ``clients``.
    """

    def __init__(
        self,
        run: PlannedRun,
        history: Mapping[str, Listed],
        closings: Closings,
        crashed: Mapping[str, FaultFacts],
        ends: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._run = run
        by_themselves = [row for row in ends if row["fault_id"] is None]
        self._ends = [row for row in by_themselves if row["session"] is None]
        self._sessions = [row for row in by_themselves if row["session"] is not None]
        self._stopped = [
            (row["time"], row["client"])
            for row in ends
            if row["session"] is None and not str(row["detail"]).endswith(SHOWN_NOTHING)
        ]
        self._files, self._damaged, self._misnamed = _files(history)
        self._closings = closings
        self._closed = {file[:2] for file in closings.files}
        self._owner = {
            partition: planned.cell.name
            for planned in run.cells
            for partition in planned.cell.topic_partitions
        }
        self._planned = {file: writer for writer in run.writers for file in _written_by(writer)}
        self._cut = {
            file: crashed[writer.client]
            for file, writer in self._planned.items()
            if writer.client and writer.client in crashed and file not in closings.files
        }
        """The files that were not closed because of a fault."""
        self._unplanned = sorted(self._files.keys() - self._planned.keys(), key=str)
        self._planned_of = _by_partition(self._planned)
        self._files_of = _by_partition(self._files)
        files = list(self._planned)
        paths = chain.from_iterable(self._files.values())
        stored = any(isinstance(path, StoredPath) for path in paths)
        lacks = each(self._lack, files, stored=stored)
        self._lacking = {
            file: words for file, words in zip(files, lacks, strict=True) if words is not None
        }

    def gaps(self) -> Iterator[Gap]:
        """Yield the planned evidence that is missing or differs from what its writer closed."""
        for words, table in self._misnamed.items():
            yield Gap(words=words, cells=frozenset() if table in UNJUDGED else None)
        for file in self._damaged.keys() - self._planned.keys():
            yield Gap(words=self._damaged[file], cells=self._cells(file))
        cells: dict[str, list[frozenset[str] | None]] = {}
        for file, words in self._lacking.items():
            cells.setdefault(words, []).append(self._cells(file))
        for words, concerned in cells.items():
            yield Gap(words=words, cells=_joined(concerned))
        for row in self._ends:
            how = row["detail"] or "did not end when it was asked to"
            # A client that only read belongs to no cell whose evidence ends with it.
            mine = [file for file, who in self._planned.items() if who.client == row["client"]]
            mine_alone = _joined([self._cells(file) for file in mine])
            yield Gap(words=f"the client {row['client']} {how}", cells=mine_alone)
        for file in self._unplanned:
            if file[0] != "closings":
                # Such a file may have the only copy of a record, or excuse a loss.
                yield Gap(words=_unplanned(file), cells=self._cells(file))
        for planned in self._run.cells:
            yield from self._unplanned_partitions(planned.cell.name, planned.cell.topic_partitions)
            yield from self._silenced(planned.cell.name, planned.cell.topic_partitions)

    def findings(self) -> Iterator[str]:
        """Yield sentences about unplanned closings, records that crashes cut off, and sessions that
        ended before their clients did."""
        yield from map(_ended, self._sessions)
        for file, fault in self._cut.items():
            if file not in self._lacking:
                yield f"{file[0]} by {file[1]}: recorded until {fault.label} crashed its client"
        for file in sorted(
            self._closings.files - self._planned.keys() - self._files.keys(), key=str
        ):
            yield _unplanned(file)

    def fatal(self, cell: str) -> Iterator[str]:
        """Yield a sentence for each session of a cell's producers that ended by a fatal error."""
        for row in self._sessions:
            theirs = {who.cell for who in self._planned.values() if who.client == row["client"]}
            if cell in theirs and row["detail"] not in LIBRARY:
                yield _ended(row)

    def went_on(self, client: str, until: int) -> bool:
        """Return whether a client ran and polled until a time, as far as is known: it did not end
        before, by a fault or by itself, and it did not stop polling, except if it only had nothing
        to read."""
        return not any(who == client and time < until for time, who in self._stopped)

    def lived(self, client: str, table: str, until: int) -> bool:
        """Return whether a client surely ran until a time: it closed this table, which clients do
        when they are asked to end, and nothing ended it before."""
        return (table, client) in self._closed and self.went_on(client, until)

    def incomplete(self, table: str) -> bool:
        """Return whether a table of the whole run differs from what its planned writers closed: a
        part is missing or damaged, or there are unplanned files."""
        planned = {file for file in self._planned if file[0] == table}
        there = {file for file in (*self._files, *self._damaged) if file[0] == table}
        # Nothing can be missing from a table without planned writers.
        strange = there - planned if planned else set()
        return bool(strange or planned & self._lacking.keys()) or table in self._misnamed.values()

    def whole(self, table: str, partition: Partition) -> bool:
        """Return whether all planned files of a partition's table are complete, except for the last
        moments of crashed clients (:meth:`cut`)."""
        mine = self._planned_of.get((table, partition), ())
        return bool(mine) and not any(file in self._lacking for file in mine)

    def files(self, table: str, partition: Partition | None = None) -> list[AnyPath]:
        """Return the files of a table, or of one partition of it, by any writer."""
        mine = self._files_of.get((table, partition), ())
        return [path for file in mine for path in self._files[file]]

    def cut(self, table: str, partition: Partition) -> list[AnyPath]:
        """Return those of these files whose writers were crashed."""
        mine = self._planned_of.get((table, partition), ())
        return [path for file in mine if file in self._cut for path in self._files.get(file, ())]

    def left(self, writer: PlannedWriter, partition: Partition | None) -> WriterFiles:
        """Return the files of a planned writer, for a partitioned table those of one partition."""
        file = (writer.table, writer.writer, partition)
        return WriterFiles(
            files=tuple(self._files.get(file, ())),
            whole=file in self._planned and file not in self._lacking,
            cut=file in self._cut,
        )

    def nodes(self, partition: Partition | None, table: str = "sends") -> set[str]:
        """Return the nodes whose clocks the rows of a partition's table have, or of a table that is
        not partitioned."""
        mine = self._planned_of.get((table, partition), ())
        return {self._planned[file].node for file in mine}

    def _lack(self, file: File) -> str | None:
        """Return a sentence about the first problem of a planned file, or None."""
        return next(self._lacks(file), None)

    def _lacks(self, file: File) -> Iterator[str]:
        closing, paths = self._closings.of(file), self._files.get(file, ())
        if file in self._damaged:
            yield self._damaged[file]
        elif self._closings.contradict(file):
            yield f"{_words(file)}: its writer's closings contradict each other"
        elif file in self._cut:
            # A consumer may have read nothing from a partition, or may not have committed yet.
            silent = file[0] in CONSUMPTION and not paths
            if not silent and (lack := lack_of_crashed(paths)) is not None:
                yield f"{_words(file)}: {lack} ({self._cut[file].label})"
        elif closing is None:
            closed = self._closed & {file[:2]}
            told = _words(file) if closed else f"{file[0]} by {file[1]}"
            yield f"{told}: its writer did not close it"
        elif closing.rows and not paths:
            yield f"{_words(file)} is missing, but its writer closed it with {closing.rows} rows"
        elif paths:
            yield from _other_than(closing.rows, file, paths)

    def _cells(self, file: File) -> frozenset[str] | None:
        writer, (_, _, partition) = self._planned.get(file), file
        if file[0] in UNJUDGED:
            return frozenset()
        if partition in self._owner:
            return frozenset({self._owner[partition]})
        return None if writer is None or writer.cell is None else frozenset({writer.cell})

    def _unplanned_partitions(self, cell: str, partitions: Iterable[Partition]) -> Iterator[Gap]:
        for partition in partitions:
            if not self.nodes(partition):
                words = f"the manifest plans no client that sends to {_dashed(partition)}"
                yield Gap(words=words, cells=frozenset({cell}))

    def _silenced(self, cell: str, partitions: Sequence[Partition]) -> Iterator[Gap]:
        """Yield a gap if all clients that send to a cell were crashed, because it then shows
        nothing about later times."""
        senders = [file for one in partitions for file in self._planned_of.get(("sends", one), ())]
        if senders and all(file in self._cut for file in senders):
            last = max((self._cut[file] for file in senders), key=lambda fault: fault.start)
            words = (
                f"no client sends to this cell after {last.label}, which crashed its last client"
            )
            yield Gap(words=words, cells=frozenset({cell}))


def _ended(session: Mapping[str, Any]) -> str:
    return in_words(session["client"], session["session"], session["detail"])


def _joined(cells: Sequence[frozenset[str] | None]) -> frozenset[str] | None:
    """Return the union of the cells, or None for every cell of the run if one of them is None or
    there are none."""
    known = [names for names in cells if names is not None]
    return frozenset().union(*known) if cells and len(known) == len(cells) else None


def _files(
    history: Mapping[str, Listed],
) -> tuple[dict[File, Sequence[AnyPath]], dict[File, str], dict[str, str]]:
    """Return the files, the problems of damaged files, and for files whose name does not identify
    their writer the table by the problem."""
    found: dict[File, Sequence[AnyPath]] = {}
    damaged: dict[File, str] = {}
    misnamed: dict[str, str] = {}
    for table in TABLES:
        stems, wrong = history[table]
        found |= {file_of(stem): paths for stem, paths in stems.items()}
        for path, why in wrong.items():
            try:
                damaged[file_of(names.parse(path.name)[0])] = f"{path}: {why}"
            except ValueError:
                misnamed[f"{path}: {why}"] = table
    return found, damaged, misnamed


def _by_partition(files: Iterable[File]) -> dict[tuple[str, Partition | None], list[File]]:
    found: dict[tuple[str, Partition | None], list[File]] = {}
    for file in files:
        found.setdefault((file[0], file[2]), []).append(file)
    return found


def _written_by(writer: PlannedWriter) -> Iterator[File]:
    for partition in writer.partitions or (None,):
        yield writer.table, writer.writer, partition


def _unplanned(file: File) -> str:
    return f"{_words(file)}: the manifest plans no such writer"


def _other_than(rows: int, file: File, paths: Sequence[AnyPath]) -> Iterator[str]:
    try:
        length = other_length(rows, paths)
    except DamagedFiles as error:
        yield str(error)
        return
    if length is not None:
        yield f"{_words(file)} {length}"


def _words(file: File) -> str:
    """Return the name of a file, for example ``sends of t-0 by c-0``."""
    table, writer, partition = file
    return f"{table}{f' of {_dashed(partition)}' if partition else ''} by {writer}"


def _dashed(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"
