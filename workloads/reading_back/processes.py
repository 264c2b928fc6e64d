"""That librdkafka has ended the process of a final read, and who reads then."""

import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ackproof.history import reader
from ackproof.history.names import PARTITIONED, Stem, parse
from ackproof.history.schema import READS, TABLES
from ackproof.history.writer import TableWriter
from ackproof.workloads.interface import Client
from ackproof.workloads.process import ClientFailed
from ackproof.workloads.reading_back.partition_read import PartitionRead
from ackproof.workloads.spec import FINAL_READ, FinalReadSpec, TopicSpec

# --- crashes of the reader ------------------------------------------------------------------------

_SIGNALS = frozenset({signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV})
"""By which a process ends that nobody has killed."""


def crashed(status: int | None) -> str | None:
    """Why nothing more comes of a process that ended with this status, negative for a signal; None
    where librdkafka has not ended it."""
    if status is None or -status not in _SIGNALS:
        return None
    return f"librdkafka ended its process: {signal.Signals(-status).name}"


def apart(reader: Client, left_s: float) -> Client:
    """Who reads the same in so many seconds, a process a topic. It has a log of its own: in the
    other one stands what librdkafka said last."""
    specification = {**reader.specification, "deadline_s": left_s, "apart": True}
    return replace(reader, name=f"{reader.name}-apart", specification=specification)


# --- one process for each topic or partition ------------------------------------------------------
#
# A broker that serves what is no batch (half a page of it was written: its header is right, its
# records are zeros) ends librdkafka 2.16, which loses its place behind a wrong CRC (``check.crcs``)
# and asserts (``rd_slice_narrow_copy``). At whose batch is not told, and no partition is known to
# be read to its end by then. What is left of that reading is removed, and all read once more: the
# rows of a partition are of one reading. Only the partition that no process survives is incomplete.
#
# The processes write under the one name that the manifest has for the final read: ``log`` is in
# files of a partition each. What is in one file of all of them (``reads``, ``closings``) is
# gathered here, and written when all is read.

_LEAST_S = 0.1
_LOOK_S = 0.1

_CLOSINGS = "closings"
_OF_READS = frozenset(table for table, schema in TABLES.items() if schema == READS)
"""With a row for every partition."""

_S = TypeVar("_S", bound=FinalReadSpec)
Partition = tuple[str, int]
Row = Mapping[str, Any]


def run(
    spec: _S,
    tables: Sequence[str],
    together: Callable[[_S, float, Callable[[], bool]], None],
    stopping: Callable[[], bool],
) -> None:
    """Read as the specification says, until its deadline or ``stopping``: by ``together``, or
    apart. Raises as that, or as :meth:`Apart.run`."""
    deadline = time.monotonic() + spec.deadline_s
    if spec.apart:
        Apart(spec, tables, deadline, stopping).run()
    else:
        together(spec, deadline, stopping)


class Reading(NamedTuple):
    """What a process is to read. ``again``: it was read before, and had too little time."""

    topic: TopicSpec
    again: bool = False

    @property
    def partitions(self) -> Sequence[Partition]:
        return [(self.topic.topic, number) for number in self.topic.numbers]

    def after_crash(self) -> Sequence["Reading"]:
        """What is left to be read, each by a process of its own, where librdkafka has ended this
        one's: of several partitions each, of one nothing."""
        if len(self.topic.numbers) == 1:
            return ()
        alone = [self.topic.model_copy(update={"only": number}) for number in self.topic.numbers]
        return [Reading(one) for one in alone]


class Apart:
    """Reads the topics of a specification into its history.

    Args:
        tables: Those that their reader writes.
        deadline: For all of it, by ``time.monotonic``.
    """

    def __init__(
        self,
        spec: FinalReadSpec,
        tables: Sequence[str],
        deadline: float,
        stopping: Callable[[], bool],
    ) -> None:
        self._spec = spec
        self._by_partition = [table for table in tables if table in PARTITIONED]
        self._small = [table for table in tables if table not in PARTITIONED]
        self._deadline = deadline
        self._stopping = stopping
        self._told: dict[tuple[str, Partition], Row] = {}
        """By table, the row of each partition; of ``closings`` by the table that was closed."""
        self._ended: dict[Partition, str] = {}
        """How the process ended that read a partition last, where librdkafka ended it."""

    def run(self) -> None:
        """Read until all is read, the deadline has passed or ``stopping``; then write what is in
        one file of all. Raises ClientFailed where a reader fails by itself."""
        self._forget(self._spec.asked)
        # All topics first: those that crash nothing are complete before there is no time left.
        waiting = deque(map(Reading, self._spec.topics))
        while waiting and not self._stopping() and (left := self._left()) > 0:
            one = waiting.popleft()
            self._forget(one.partitions)
            # Else one that is never read to its end, having no leader, leaves the others no time.
            waiting += self._read(one, left / (1 + len(waiting)), last=not waiting)
        self._write("stopped" if self._stopping() else f"{self._spec.deadline_s:g} s had passed")

    def _left(self) -> float:
        return self._deadline - time.monotonic()

    def _read(self, one: Reading, seconds: float, *, last: bool) -> Sequence[Reading]:
        """What is left to be read of it."""
        status = self._process(one, seconds)
        if (why := crashed(status)) is not None:
            self._forget(one.partitions)
            self._ended |= dict.fromkeys(one.partitions, why)
            return one.after_crash()
        # Told to stop before it listens, or at its very end, when Python listens no more, it ends
        # by the signal: it has written nothing then, or all.
        was_told = self._stopping() and status == -signal.SIGTERM
        if status != 0 and not was_told:
            raise ClientFailed(f"the reader of {one.topic.topic} ended with status {status}")
        self._take()
        if one.again or last or all(map(self._got_to_the_end, one.partitions)):
            return ()
        return [one._replace(again=True)]

    def _process(self, one: Reading, seconds: float) -> int:
        """The exit status of our own command, given that alone to read. What it is told may hold
        passwords, and is in no file."""
        deadline_s = max(_LEAST_S, round(seconds, 1))
        changes = {"topics": (one.topic,), "deadline_s": deadline_s, "apart": False}
        told = self._spec.model_copy(update=changes).model_dump_json().encode()
        argv = [*sys.orig_argv[:-1], "/dev/stdin"]
        with subprocess.Popen(argv, stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.write(told)
                process.stdin.close()
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK_S)
                if self._stopping():
                    process.terminate()
            return process.returncode

    def _got_to_the_end(self, partition: Partition) -> bool:
        rows = [self._told.get((table, partition)) for table in self._small if table in _OF_READS]
        return all(row is not None and row["read_end_offset"] is not None for row in rows)

    def _forget(self, partitions: Container[Partition]) -> None:
        """Remove what a process has left that read these partitions, and no others since the
        last :meth:`_take`."""
        for path, stem in self._files():
            if stem.partition is None or stem.partition in partitions:
                path.unlink()
        for known in [known for known in self._told if known[1] in partitions]:
            del self._told[known]

    def _take(self) -> None:
        """Gather what a process has written that is not in a file of a partition."""
        for path, stem in self._files():
            if stem.partition is not None:
                continue
            for row in reader.read_files(stem.table, [path]).to_pylist():
                if stem.table != _CLOSINGS or row["table"] in PARTITIONED:
                    table = row["table"] if stem.table == _CLOSINGS else stem.table
                    self._told[table, (row["topic"], row["partition"])] = row
            path.unlink()

    def _files(self) -> Sequence[tuple[Path, Stem]]:
        """What the final read has in the history."""
        names = {FINAL_READ, *(f"{table}-{FINAL_READ}" for table in TABLES)}
        found = []
        for path in self._spec.history.glob("[!.]*.*"):
            with suppress(ValueError):  # whose it is its name does not tell
                found.append((path, parse(path.name)[0]))
        return [(path, stem) for path, stem in found if stem.writer in names]

    def _write(self, unfinished: str) -> None:
        history, asked = self._spec.history, sorted(self._spec.asked)
        for table in self._small:
            with closing(TableWriter(history, table, FINAL_READ)) as writer:
                for partition in asked:
                    if (row := self._told.get((table, partition))) is not None:
                        writer.append(tuple(row.values()))
                    elif table in _OF_READS:
                        read = PartitionRead(topic=partition[0], partition=partition[1])
                        writer.append(read.row(self._ended.get(partition, unfinished)))
        with closing(TableWriter(history, _CLOSINGS, FINAL_READ, closing=False)) as writer:
            for table in self._by_partition:
                for partition in asked:
                    row = self._told.get((table, partition), {"rows": 0, "digest": None})
                    writer.append((table, FINAL_READ, *partition, row["rows"], row["digest"]))
