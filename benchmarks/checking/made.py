"""Synthetic histories of any size with planted and counted anomalies.

Sends are compared with as many log records. Four producers of a partition take turns. Each numbers
its records over all partitions of its cell, like those of a campaign. A fixed share of the records
is lost, is in the log twice, or got no answer.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ackproof.checkers.context.steps import STEPS
from ackproof.history.cell import Cell
from ackproof.history.manifest import Manifest, PlannedCell, PlannedFault, PlannedRun, PlannedWriter
from ackproof.history.names import FileStem
from ackproof.history.schema import LOG, SENDS, TABLES

Array = npt.NDArray[np.int64]

START_NS = 1_700_000_000_000_000_000
NS_EACH = 100_000
ROW_GROUP = 500_000
PRODUCERS = 4
WRITER = "benchmark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The shape of a history: so many sends, spread evenly over ``cells`` cells of
    ``partitions`` partitions each. Of 1,000 sends, ``lost``, ``doubled`` and ``unanswered`` have
    these anomalies."""

    sends: int
    cells: int = 6
    partitions: int = 3
    lost: int = 1
    doubled: int = 1
    unanswered: int = 1

    @property
    def each(self) -> int:
        """The number of sends to a partition."""
        return self.sends // (self.cells * self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """The history that was made, and the numbers of its anomalies."""

    sent: int
    lost: int
    duplicated: int


def make(directory: Path, shape: Shape) -> Planted:
    """Write the results of a campaign with one run into an existing directory."""
    history = directory / "runs" / "1" / "history"
    history.mkdir(parents=True)
    cells = [_cell(number, shape) for number in range(shape.cells)]
    total = [0, 0, 0]
    closings: list[tuple[object, ...]] = []
    reads: list[tuple[object, ...]] = []
    for cell in cells:
        for number in range(shape.partitions):
            part = _Part(shape, cell.topic, number)
            part.write(history, cell.name)
            closings += part.closings()
            reads.append((cell.topic, number, 0, part.end, part.end, part.end, True, None))
            total = [a + b for a, b in zip(total, part.planted(), strict=True)]
    _table(history, "closings", "files", closings)
    tables = _small_tables(shape, cells) | {"reads": reads}
    for table, rows in tables.items():
        _table(history, table, WRITER, rows)
        _table(history, "closings", table, [(table, WRITER, None, None, len(rows), None)])
    _manifest(cells, tables.keys()).write(directory)
    (directory / "campaign.yaml").write_text("name: benchmark\nseed: 1\n", encoding="utf-8")
    return Planted(sent=total[0], lost=total[1], duplicated=total[2])


class _Part:
    """The sends and the log of one partition."""

    def __init__(self, shape: Shape, topic: str, partition: int) -> None:
        number = np.arange(shape.each)
        self._place = (topic, partition)
        self._producer = (number % PRODUCERS).astype(np.int32)
        self._sequence = number // PRODUCERS * shape.partitions + partition
        self._time = START_NS + number * NS_EACH
        self._kept = ~_chosen(number, shape.lost, offset=0)
        self._answered = ~_chosen(number, shape.unanswered, offset=1)
        # The record after a lost one and after one without an answer is in the log again.
        self._again = np.flatnonzero(_chosen(number, shape.doubled, offset=2) & self._kept)
        self._offset = np.cumsum(self._kept) - self._kept
        self.end = int(self._kept.sum()) + len(self._again)

    def planted(self) -> tuple[int, int, int]:
        """Return the numbers of records that were sent, lost (of the acked ones), and that are in
        the log twice."""
        lost = int(np.count_nonzero(~self._kept & self._answered))
        return len(self._kept), lost, len(self._again)

    def closings(self) -> Iterator[tuple[object, ...]]:
        events = len(self._answered) + int(self._answered.sum())
        for table, rows in (("sends", events), ("log", self.end)):
            yield table, WRITER, *self._place, rows, None

    def write(self, history: Path, cell: str) -> None:
        done = self._answered
        count = len(done)
        events = {
            "producer": np.concatenate([self._producer, self._producer[done]]),
            "sequence": np.concatenate([self._sequence, self._sequence[done]]),
            "time": np.concatenate([self._time, self._time[done] + 5_000_000]),
            "offset": pa.array(
                np.concatenate([self._offset, self._offset[done]]),
                mask=np.arange(count + int(done.sum())) < count,
            ),
            "type": pa.array(["invoke"] * count + ["ok"] * int(done.sum())),
        }
        in_time = np.argsort(events["time"], kind="stable")
        self._write(history, cell, "sends", SENDS, pa.table(events).take(pa.array(in_time)))
        stands = np.concatenate([np.flatnonzero(self._kept), self._again])
        log = {
            "offset": np.arange(self.end),
            "producer": self._producer[stands],
            "sequence": self._sequence[stands],
            "timestamp": self._time[stands] // 1_000_000,
            "leader_epoch": np.zeros(self.end, dtype=np.int32),
        }
        self._write(history, cell, "log", LOG, pa.table(log))

    def _write(
        self, history: Path, cell: str, table: str, schema: pa.Schema, rows: pa.Table
    ) -> None:
        topic, partition = self._place
        constant = {"cell": cell, "topic": topic, "partition": partition}
        columns = [_column(rows, field, constant.get(field.name)) for field in schema]
        name = FileStem(table=table, writer=WRITER, partition=self._place).closed
        whole = pa.Table.from_arrays(columns, schema=schema)
        pq.write_table(whole, history / name, compression="zstd", row_group_size=ROW_GROUP)


def _chosen(number: Array, of_thousand: int, offset: int) -> npt.NDArray[np.bool_]:
    """Return which records are chosen: so many of a thousand, spread evenly, beginning with that
    one."""
    if not of_thousand:
        return np.zeros(len(number), dtype=bool)
    # 7,919 is prime to 1,000, so each of the thousand comes up once.
    drawn: npt.NDArray[np.bool_] = ((number - offset) * 7_919) % 1_000 < of_thousand
    return drawn


def _column(rows: pa.Table, field: pa.Field, constant: object) -> pa.Array | pa.ChunkedArray:
    plain = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if field.name in rows.column_names:
        column = rows[field.name].cast(plain)
    else:
        column = pa.repeat(pa.scalar(constant, plain), len(rows))
    return column.dictionary_encode() if pa.types.is_dictionary(field.type) else column


def _cell(number: int, shape: Shape) -> Cell:
    name = f"acks-all-minisr-2-unclean-false-idempotence-true-{number}"
    return Cell(
        name=name,
        topic=name,
        settings={"acks": "all", "min.insync.replicas": 2, "partitions": shape.partitions}
        | {"enable.idempotence": True},
    )


def _small_tables(shape: Shape, cells: Sequence[Cell]) -> dict[str, list[tuple[object, ...]]]:
    """Return the tables of a run with two faults, except sends, log and reads."""
    places = [place for cell in cells for place in cell.topic_partitions]
    end = START_NS + NS_EACH * shape.each
    return {
        "phases": [(step, "end", START_NS, None) for step in STEPS],
        "faults": [row for number in (1, 2) for row in _fault(number, places, shape.each)],
        "cluster": [
            (START_NS - 1, "partition", *place, 1, 0, [1, 2, 3], 1, None, 0) for place in places
        ],
        "servers": [(START_NS - 1, "broker-1", "started", None, None)],
        "recovery": [(end, *place, 1, [1, 2, 3], True) for place in places],
        "clocks": [("client", moment, START_NS, 0, 1_000_000) for moment in ("start", "end")],
    }


def _fault(
    number: int, places: Sequence[tuple[str, int]], each: int
) -> Iterator[tuple[object, ...]]:
    """Return the rows of a fault that is active from one third to two thirds of its half of the
    workload."""
    half = each * NS_EACH // 2
    begun = START_NS + (number - 1) * half + half // 3
    touched = [f"{topic}-{partition}" for topic, partition in places]
    for step, (event, proven) in enumerate(
        [("inject", None), ("injected", None), ("verified", True), ("heal", None), ("healed", True)]
    ):
        yield (
            *(number, "kill", event, begun + step * half // 12, "one"),
            *(["broker-1"], touched, None, None, proven, None),
        )


def _manifest(cells: Sequence[Cell], tables: Iterable[str]) -> Manifest:
    faults = tuple(
        PlannedFault(fault_id=number, fault="kill", target="one", start_ms=0, hold_ms=0)
        for number in (1, 2)
    )
    places = tuple(place for cell in cells for place in cell.topic_partitions)
    partitioned = [
        PlannedWriter(table=table, writer=WRITER, node="client", partitions=places)
        for table in ("sends", "log")
    ]
    small = [PlannedWriter(table=table, writer=WRITER, node="harness") for table in tables]
    run = PlannedRun(
        number=1,
        seed=1,
        session_timeout_ms=3_000,
        replica_lag_ms=4_000,
        recovery_ms=60_000,
        cells=tuple(PlannedCell(cell=cell) for cell in cells),
        faults=faults,
        writers=(*partitioned, *small),
    )
    return Manifest(campaign="benchmark", seed=1, baseline=False, runs=(run,))


def _table(history: Path, table: str, writer: str, rows: Sequence[tuple[object, ...]]) -> None:
    columns = [
        pa.array(column, field.type.value_type).dictionary_encode()
        if pa.types.is_dictionary(field.type)
        else pa.array(column, field.type)
        for column, field in zip(zip(*rows, strict=True), TABLES[table], strict=True)
    ]
    name = FileStem(table=table, writer=writer).closed
    pq.write_table(pa.Table.from_arrays(columns, schema=TABLES[table]), history / name)
