"""How long checking takes, and how much memory: sends against as many log records.

    python benchmarks/checking.py [--sends 10000000] [--partitions 12] [--keep DIR]

Writes a synthetic history (acked records, one in a thousand lost, one in a thousand given up),
checks it, and prints one line of JSON. Peak memory is the greatest sum of the resident sets of
this process and its children (JVM and Spark's Python workers), looked at five times a second.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from checkers.check import check
from checkers.steps import STEPS
from history.cell import Cell
from history.manifest import Manifest, PlannedCell, PlannedFault, PlannedRun, PlannedWriter
from history.names import Stem
from history.schema import LOG, SENDS, TABLES

TOPIC = "acks-all"
START_NS = 1_700_000_000_000_000_000
NS_EACH = 100_000
ROW_GROUP = 500_000
WRITER = "benchmark"


def main() -> None:
    """Generate, check, print."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory() as temporary:
        directory = arguments.keep or Path(temporary)
        history = directory / "runs" / "1" / "history"
        history.mkdir(parents=True)
        _small_tables(
            directory, history, arguments.partitions, arguments.sends // arguments.partitions
        )
        with _peak_memory() as peak:
            began = time.perf_counter()
            result = check(directory)
            seconds = time.perf_counter() - began
        figures = {
            "sends": arguments.sends,
            "partitions": arguments.partitions,
            "seconds": round(seconds, 1),
            "peak_mb": peak[0] // 2**20,
            "peak_mb_of_largest_worker": peak[1] // 2**20,
            "verdict": result.verdict,
            "lost": result.cells[0].lost,
        }
        sys.stdout.write(json.dumps(figures) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sends", type=int, default=10_000_000)
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--keep", type=Path, help="directory for the history, left there")
    return parser.parse_args()


def _small_tables(directory: Path, history: Path, partitions: int, sends: int) -> None:
    """Everything but sends and log: what a run with two faults leaves, and its manifest."""
    cell = Cell(
        name="all",
        topic=TOPIC,
        settings={"acks": "all", "min.insync.replicas": 2, "partitions": partitions}
        | {"enable.idempotence": True},
    )
    records = [_partition(history, number, sends) for number in range(partitions)]
    closings = [("log", WRITER, TOPIC, number, records[number]) for number in range(partitions)] + [
        ("sends", WRITER, TOPIC, number, _events(sends)) for number in range(partitions)
    ]
    _table(history, "closings", "files", closings)
    tables = {
        "reads": [
            (TOPIC, n, 0, count, count, count, True, None) for n, count in enumerate(records)
        ],
        "phases": [(step, "end", START_NS, None) for step in STEPS],
        "faults": [row for number in (1, 2) for row in _fault(number, partitions, sends)],
        "cluster": [
            (START_NS - 1, "partition", TOPIC, number, 1, 0, [1, 2, 3], 1, None)
            for number in range(partitions)
        ],
        "servers": [(START_NS - 1, "broker-1", "started", None, None)],
        "recovery": [
            (START_NS + NS_EACH * sends, TOPIC, number, 1, [1, 2, 3], True)
            for number in range(partitions)
        ],
        "clocks": [("client", moment, START_NS, 0, 1_000_000) for moment in ("start", "end")],
    }
    for table, rows in tables.items():
        _table(history, table, WRITER, rows)
        _table(history, "closings", table, [(table, WRITER, None, None, len(rows))])
    _manifest(cell, tables.keys()).write(directory)


def _fault(number: int, partitions: int, sends: int) -> Iterator[tuple[object, ...]]:
    """From a third to two thirds of its half of the workload."""
    half = sends * NS_EACH // 2
    begun = START_NS + (number - 1) * half + half // 3
    touched = [f"{TOPIC}-{partition}" for partition in range(partitions)]
    for step, (event, proven) in enumerate(
        [("inject", None), ("injected", None), ("verified", True), ("heal", None), ("healed", True)]
    ):
        yield (
            *(number, "kill", event, begun + step * half // 12, "one"),
            *(["broker-1"], touched, None, None, proven, None),
        )


def _manifest(cell: Cell, tables: Iterable[str]) -> Manifest:
    faults = tuple(
        PlannedFault(fault_id=number, fault="kill", target="one", start_ms=0, hold_ms=0)
        for number in (1, 2)
    )
    partitioned = [
        PlannedWriter(table=table, writer=WRITER, node="client", partitions=cell.topic_partitions)
        for table in ("sends", "log")
    ]
    small = [PlannedWriter(table=table, writer=WRITER, node="harness") for table in tables]
    run = PlannedRun(
        number=1,
        seed=1,
        session_timeout_ms=3_000,
        replica_lag_ms=4_000,
        recovery_ms=60_000,
        cells=(PlannedCell(cell=cell),),
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
    name = Stem(table=table, writer=writer).closed
    pq.write_table(pa.Table.from_arrays(columns, schema=TABLES[table]), history / name)


def _events(sends: int) -> int:
    """Rows of ``sends``: all are invoked, all but some completed."""
    return sends + int((np.arange(sends) % 1000 != 11).sum())


def _partition(history: Path, partition: int, sends: int) -> int:
    """Write one partition; four producers take turns. Returns the number of log records."""
    number = np.arange(sends)
    producer, sequence = (number % 4).astype(np.int32), number // 4
    kept = number % 1000 != 7
    offset = np.cumsum(kept) - kept
    completed = number % 1000 != 11
    time_ns = START_NS + number * NS_EACH
    events = {
        "producer": np.concatenate([producer, producer[completed]]),
        "sequence": np.concatenate([sequence, sequence[completed]]),
        "time": np.concatenate([time_ns, time_ns[completed] + 5_000_000]),
        "offset": pa.array(
            np.concatenate([offset, offset[completed]]),
            mask=np.arange(sends + completed.sum()) < sends,
        ),
        "type": pa.array(["invoke"] * sends + ["ok"] * int(completed.sum())),
    }
    order = np.argsort(events["time"], kind="stable")
    _write(history, "sends", SENDS, partition, pa.table(events).take(order))
    log = {
        "offset": offset[kept],
        "producer": producer[kept],
        "sequence": sequence[kept],
        "timestamp": time_ns[kept] // 1_000_000,
        "leader_epoch": np.zeros(kept.sum(), dtype=np.int32),
    }
    _write(history, "log", LOG, partition, pa.table(log))
    return int(kept.sum())


def _write(history: Path, table: str, schema: pa.Schema, partition: int, rows: pa.Table) -> None:
    constant = {"cell": "all", "topic": TOPIC, "partition": partition, "error": None}
    columns = [
        _column(
            rows[field.name] if field.name in rows.column_names else None,
            field,
            len(rows),
            constant.get(field.name),
        )
        for field in schema
    ]
    name = Stem(table=table, writer=WRITER, partition=(TOPIC, partition)).closed
    table_rows = pa.Table.from_arrays(columns, schema=schema)
    pq.write_table(table_rows, history / name, compression="zstd", row_group_size=ROW_GROUP)


def _column(
    given: pa.ChunkedArray | None, field: pa.Field, count: int, constant: object
) -> pa.ChunkedArray | pa.Array:
    plain = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    column = pa.repeat(pa.scalar(constant, plain), count) if given is None else given.cast(plain)
    return column.dictionary_encode() if pa.types.is_dictionary(field.type) else column


@contextmanager
def _peak_memory() -> Iterator[list[int]]:
    """Yields [greatest sum, greatest of one Python worker] of resident bytes, kept up to date."""
    peak = [0, 0]
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.2):
            resident = list(_resident())
            peak[0] = max(peak[0], sum(size for _, size in resident))
            workers = [size for name, size in resident if name.startswith("python")]
            peak[1] = max([peak[1], *workers[1:]])

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        ended.set()
        watcher.join()


def _resident() -> Iterator[tuple[str, int]]:
    me = psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        try:
            yield process.name(), process.memory_info().rss
        except psutil.NoSuchProcess:
            continue


if __name__ == "__main__":
    main()
