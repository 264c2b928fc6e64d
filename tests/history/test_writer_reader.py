"""Flushed rows: readable, in order, once, wherever the writer stops."""

import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice, pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ackproof.history.errors import DamagedFiles, HistoryError, WriteFailed
from ackproof.history.reader import (
    count_rows,
    decoded_schema,
    files,
    listed,
    listed_by_table,
    partitions,
    read,
    read_files,
)
from ackproof.history.schema import TABLES
from ackproof.history.writer import MERGED_ROW_GROUP, PART_BYTES, PartitionedWriter, TableWriter
from tests.support.builders.examples import examples

PHASE = ("deploy", "start", 1, None)


def send(sequence: int, kind: str = "invoke", topic: str = "t", partition: int = 0) -> tuple:
    return (
        "acks-1.minisr-1",
        topic,
        partition,
        0,
        sequence,
        kind,
        10 + sequence,
        *[None] * 5,
    )


def sequences(directory: Path) -> list[int]:
    return read(directory, "sends").column("sequence").to_pylist()


def test_without_files_a_table_is_empty_and_has_its_schema(tmp_path: Path) -> None:
    for table in TABLES:
        assert read(tmp_path, table).schema == decoded_schema(table)
        assert read(tmp_path, table).num_rows == 0


def test_a_column_that_a_history_of_former_days_lacks_is_null(tmp_path: Path) -> None:
    """If it may be: what every row must have is missing."""
    row = dict.fromkeys(TABLES["cluster"].names) | {"time": 1, "kind": "controller", "broker": 2}
    whole = pa.Table.from_pylist([row], TABLES["cluster"])
    path = tmp_path / "cluster.harness.parquet"
    pq.write_table(whole.drop_columns(["version"]), path)
    assert read(tmp_path, "cluster").to_pylist() == [row]
    pq.write_table(whole.drop_columns(["kind"]), path)
    with pytest.raises(DamagedFiles, match=r"cluster\.harness"):
        read(tmp_path, "cluster")


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    rows = [
        ("a.b", "t", 0, 1, 2, "invoke", 3, None, None, 2, 7, True),
        ("a.b", "t", 0, 1, 2, "ok", 4, 7, None, None, None, None),
        ("a.b", "t", 0, 1, 3, "info", 4, None, "_MSG_TIMED_OUT", None, None, None),
    ]
    writer = TableWriter(tmp_path, "sends", "w", partition=("t", 0))
    for row in rows:
        writer.append(row)
    writer.close()
    assert [tuple(row.values()) for row in read(tmp_path, "sends").to_pylist()] == rows


def test_dictionaries_of_different_parts_and_files_decode_to_the_same_strings(
    tmp_path: Path,
) -> None:
    for name in ("a", "b"):
        writer = TableWriter(tmp_path, "sends", name, partition=("t", 0))
        for kind in ("invoke", "ok", "info"):
            writer.append(send(0, kind))
            writer.flush()
        if name == "a":
            writer.close()
    table = read(tmp_path, "sends", ["type", "sequence"])
    assert table.column("type").to_pylist() == ["invoke", "ok", "info"] * 2
    assert table.schema.names == ["type", "sequence"]
    assert table.schema.field("type").type == pa.string()


def test_flush_is_due_once_a_second(tmp_path: Path) -> None:
    writer = TableWriter(tmp_path, "sends", "w", partition=("t", 0))
    writer.flush_due(100.0)
    writer.append(send(0))
    writer.flush_due(100.9)
    assert sequences(tmp_path) == []
    writer.flush_due(101.0)
    assert sequences(tmp_path) == [0]


def test_many_rows_are_flushed_without_waiting(tmp_path: Path) -> None:
    writer = TableWriter(tmp_path, "sends", "w", partition=("t", 0), rows_max=3)
    for sequence in range(7):
        writer.append(send(sequence))
    assert sequences(tmp_path) == list(range(6))


def test_write_flushes_a_single_row_by_names(tmp_path: Path) -> None:
    writer = TableWriter(tmp_path, "phases", "orchestrator")
    writer.write(phase="deploy", event="start", time=1)
    assert [tuple(row.values()) for row in read(tmp_path, "phases").to_pylist()] == [PHASE]
    with pytest.raises(ValueError, match="phases has no when"):
        writer.write(phase="deploy", when=3)


@pytest.mark.parametrize("row", [("deploy", None, 1, None), ("deploy", "start", "one", None), ()])
def test_a_row_that_does_not_fit_is_refused_by_name(tmp_path: Path, row: tuple) -> None:
    writer = TableWriter(tmp_path, "phases", "orchestrator")
    writer.append(row)
    with pytest.raises(HistoryError, match=r"phases\.orchestrator"):
        writer.flush()


def test_a_writers_name_is_used_once(tmp_path: Path) -> None:
    writer = TableWriter(tmp_path, "phases", "orchestrator")
    writer.write(phase="deploy", event="start", time=1)
    with pytest.raises(HistoryError, match="already holds"):
        TableWriter(tmp_path, "phases", "orchestrator")
    writer.close()
    with pytest.raises(HistoryError, match="already holds"):
        TableWriter(tmp_path, "phases", "orchestrator")


def closings(directory: Path) -> list[tuple]:
    rows = read(directory, "closings").to_pylist()
    return [tuple(value for name, value in row.items() if name != "digest") for row in rows]


def test_closing_twice_is_closing_once_and_no_rows_make_no_file(tmp_path: Path) -> None:
    writer = TableWriter(tmp_path, "phases", "orchestrator")
    writer.close()
    writer.close()
    assert [path.name for path in tmp_path.iterdir()] == ["closings.phases-orchestrator.parquet"]
    assert closings(tmp_path) == [("phases", "orchestrator", None, None, 0)]
    with pytest.raises(HistoryError, match="closed"):
        writer.write(phase="deploy", event="start", time=1)


def test_small_batches_become_large_row_groups(tmp_path: Path) -> None:
    writer = TableWriter(tmp_path, "phases", "w", rows_max=200_000)
    for number in range(2 * MERGED_ROW_GROUP):
        writer.append(("deploy", "start", number, None))
    writer.close()
    (path,) = files(tmp_path, "phases")
    metadata = pq.ParquetFile(path).metadata
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [
        600_000,
        400_000,
    ]
    assert read(tmp_path, "phases").column("time").to_pylist() == list(range(1_000_000))


def test_a_part_that_is_large_is_followed_by_another(tmp_path: Path) -> None:
    writer = TableWriter(tmp_path, "sends", "w", partition=("t", 0))
    sizes = []
    for sequence in range(90_000):
        writer.append((*send(sequence)[:6], sequence * 7919 % 2**61, *[None] * 5))
        if sequence % 9_000 == 8_999:
            writer.flush()
            sizes.append([path.stat().st_size for path in files(tmp_path, "sends")])
    assert len(sizes[-1]) > 1
    for before, after in pairwise(sizes):
        assert after[: len(before) - 1] == before[:-1], "a part is written to that has a successor"
        assert (before[-1] < PART_BYTES) == (len(after) == len(before))
    assert sequences(tmp_path) == list(range(90_000))
    writer.close()
    assert sequences(tmp_path) == list(range(90_000))


@contextmanager
def looking(directory: Path, look: Callable[[], None]) -> Iterator[list[str]]:
    """Have ``look`` called before and after every change of the directory: each is a rename or a
    removal, and what is there in between is what a kill would leave. Gives the names that files
    were renamed to, in order."""
    rename, unlink = Path.rename, Path.unlink
    renamed: list[str] = []

    def watched_rename(path: Path, target: Path) -> object:
        renamed.append(target.name)
        return watched(rename, path, target)

    def watched(change: Callable, path: Path, *args: object, **kwargs: object) -> object:
        if path.parent != directory:
            return change(path, *args, **kwargs)
        look()
        result = change(path, *args, **kwargs)
        look()
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "rename", watched_rename)
        patch.setattr(Path, "unlink", lambda *a, **k: watched(unlink, *a, **k))
        yield renamed


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(st.integers(0, 5), max_size=8), st.booleans())
def test_a_kill_between_any_two_steps_leaves_a_prefix(
    tmp_path_factory: pytest.TempPathFactory, batches: list[int], close: bool
) -> None:
    directory = tmp_path_factory.mktemp("history")
    seen: list[list[int]] = []

    def look() -> None:
        copy = tmp_path_factory.mktemp("copy") / "history"
        shutil.copytree(directory, copy)
        seen.append(sequences(copy))

    numbers = iter(range(sum(batches)))
    flushed = [0]
    with looking(directory, look) as renamed:
        writer = TableWriter(directory, "sends", "w.1", partition=("a.b", 3))
        for size in batches:
            for sequence in islice(numbers, size):
                writer.append(send(sequence, topic="a.b", partition=3))
            writer.flush()
            flushed.append(flushed[-1] + size)
            assert sequences(directory) == list(range(flushed[-1]))
        if close:
            before_closing = len(seen)
            writer.close()
            assert all(len(found) == flushed[-1] for found in seen[before_closing:])
    assert all(found == list(range(len(found))) for found in seen)
    assert {len(found) for found in seen} <= set(flushed)
    merged = ["sends.a~b.3.w~1.parquet"] if close and any(batches) else []
    closed = ["closings.sends-w~1-a~b-3.parquet"] if close else []
    assert renamed == [*merged, *closed], "a closed file got its name without being renamed"
    assert sequences(directory) == list(range(sum(batches)))


WRITE_FOR_EVER = """
import itertools, sys
from pathlib import Path
from ackproof.history.writer import TableWriter
writer = TableWriter(Path(sys.argv[1]), "sends", "w", partition=("t", 0), rows_max=500)
for sequence in itertools.count():
    writer.append(("c", "t", 0, 0, sequence, "invoke", sequence, *[None] * 5))
    if sequence % 500 == 499:
        print(sequence + 1, flush=True)
"""


def test_killed_writer_leaves_at_least_the_flushed_rows(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITE_FOR_EVER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        told = 0
        while told < 10_000:
            told = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        told = max([told, *map(int, process.stdout.read().split())])
    found = sequences(tmp_path)
    assert found == list(range(len(found)))
    assert told <= len(found) <= told + 500


@contextmanager
def small_files() -> Iterator[None]:
    """Let this process write files of at most 64 KiB, as a full disk would (Python ignores
    SIGXFSZ, so that writing more is an OSError). Only around the write: pytest's own output may
    go to a file, too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_failed_write_is_reported_and_loses_no_earlier_rows(tmp_path: Path) -> None:
    writer = TableWriter(tmp_path, "sends", "w", partition=("t", 0))
    writer.append(send(0))
    writer.flush()
    for sequence in range(1, 90_000):
        writer.append((*send(sequence)[:6], sequence * 7919 % 2**61, *[None] * 5))
    with small_files(), pytest.raises(WriteFailed, match=r"part-000001"):
        writer.flush()
    assert sequences(tmp_path) == [0]
    writer.append(send(90_000))
    writer.close()
    assert sequences(tmp_path) == list(range(90_001)), "or the piece that was written stayed"


def test_rows_of_a_failed_write_are_written_at_the_next_flush(tmp_path: Path) -> None:
    writer = TableWriter(tmp_path / "history", "sends", "w", partition=("t", 0))
    writer.append(send(0))
    (tmp_path / "history").rename(tmp_path / "gone")
    with pytest.raises(WriteFailed):
        writer.flush()
    (tmp_path / "gone").rename(tmp_path / "history")
    writer.close()
    assert sequences(tmp_path / "history") == [0]


def test_damaged_files_are_named_all_of_them(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        writer = TableWriter(tmp_path, "phases", name)
        writer.write(phase="deploy", event="start", time=1)
        writer.close()
    whole = (tmp_path / "phases.b.parquet").read_bytes()
    (tmp_path / "phases.b.parquet").write_bytes(whole[:-10])
    (tmp_path / "phases.c.parquet").write_bytes(b"")
    with pytest.raises(DamagedFiles) as caught:
        read(tmp_path, "phases")
    assert {path.name for path in caught.value.reasons} == {"phases.b.parquet", "phases.c.parquet"}


def test_a_file_of_another_table_under_the_name_is_damage(tmp_path: Path) -> None:
    writer = TableWriter(tmp_path, "phases", "a")
    writer.write(phase="deploy", event="start", time=1)
    writer.close()
    (tmp_path / "phases.a.parquet").rename(tmp_path / "reads.a.parquet")
    with pytest.raises(DamagedFiles, match=r"reads\.a\.parquet"):
        read(tmp_path, "reads")


def test_a_name_that_does_not_parse_is_damage_not_silence(tmp_path: Path) -> None:
    (tmp_path / "sends.t.w.parquet").touch()
    with pytest.raises(DamagedFiles, match=r"sends\.t\.w\.parquet"):
        files(tmp_path, "sends")


def test_unfinished_files_do_not_count(tmp_path: Path) -> None:
    (tmp_path / ".sends.t.0.w.parquet").write_bytes(b"half")
    assert files(tmp_path, "sends") == ()


def test_partitions_put_the_tables_side_by_side(tmp_path: Path) -> None:
    sends = PartitionedWriter(tmp_path, "sends", "cell.a-0")
    sends.partition("a.b", 1).append(send(0, topic="a.b", partition=1))
    sends.partition("a-b", 10).append(send(1, topic="a-b", partition=10))
    sends.close()
    log = TableWriter(tmp_path, "log", "final-read", partition=("a.b", 1))
    log.append(("a.b", 1, 0, None, 5, None, None, None))
    log.flush()
    polls = PartitionedWriter(tmp_path, "polls", "reader-0", [("a.b", 1)])
    polls.partition("a.b", 1).append(("reader-0", "a.b", 1, 1, 5, 0, None, "c", 0, 0))
    polls.close()
    found = partitions(tmp_path)
    assert list(found) == [("a-b", 10), ("a.b", 1)]
    assert found["a-b", 10]["log"] == found["a-b", 10]["polls"] == ()
    assert read_files("sends", found["a.b", 1]["sends"]).column("sequence").to_pylist() == [0]
    assert read_files("log", found["a.b", 1]["log"]).num_rows == 1
    shown = read_files("polls", found["a.b", 1]["polls"]).to_pylist()
    assert [(row["client"], row["offset"], row["cell"]) for row in shown] == [("reader-0", 0, "c")]


def test_partitions_are_of_partitioned_tables(tmp_path: Path) -> None:
    writer = TableWriter(tmp_path, "phases", "a")
    writer.write(phase="deploy", event="start", time=1)
    with pytest.raises(ValueError, match="not written per partition"):
        partitions(tmp_path, ["phases"])


def test_unclosable_partition_does_not_keep_others_open(tmp_path: Path) -> None:
    writer = PartitionedWriter(tmp_path, "sends", "w")
    writer.partition("t", 0).append(("too", "short"))
    writer.partition("t", 1).append(send(1, partition=1))
    with pytest.raises(HistoryError):
        writer.close()
    assert sequences(tmp_path) == [1]


def test_a_writer_says_how_many_rows_it_wrote(tmp_path: Path) -> None:
    writer = TableWriter(tmp_path, "phases", "harness", rows_max=2)
    for number in range(5):
        writer.append(("deploy", "start", number, None))
    assert closings(tmp_path) == []
    writer.close()
    assert closings(tmp_path) == [("phases", "harness", None, None, 5)]


def test_every_partition_that_was_opened_has_a_closing(tmp_path: Path) -> None:
    """Opened at once, opened when it turned up; with rows and without."""
    writer = PartitionedWriter(tmp_path, "sends", "w", [("t", 0), ("t", 1)])
    writer.partition("t", 1).append(send(1, partition=1))
    writer.partition("u", 0)
    writer.close()
    assert closings(tmp_path) == [
        ("sends", "w", "t", 0, 0),
        ("sends", "w", "t", 1, 1),
        ("sends", "w", "u", 0, 0),
    ]
    assert {path.name for path in files(tmp_path, "closings")} == {"closings.sends-w.parquet"}


def test_table_that_could_not_be_closed_has_no_closing(tmp_path: Path) -> None:
    writer = PartitionedWriter(tmp_path, "sends", "w")
    writer.partition("t", 0).append(("too", "short"))
    writer.partition("t", 1).append(send(1, partition=1))
    with pytest.raises(HistoryError):
        writer.close()
    assert closings(tmp_path) == [("sends", "w", "t", 1, 1)]


def test_the_name_of_a_writer_that_wrote_nothing_is_used_up_too(tmp_path: Path) -> None:
    TableWriter(tmp_path, "phases", "harness").close()
    with pytest.raises(HistoryError, match="already holds"):
        TableWriter(tmp_path, "phases", "harness")


def test_footers_tell_how_many_rows_files_hold(tmp_path: Path) -> None:
    writer = TableWriter(tmp_path, "phases", "a")
    for number in range(3):
        writer.write(phase="deploy", event="start", time=number)
    assert count_rows(files(tmp_path, "phases")) == 3
    writer.close()
    (path,) = files(tmp_path, "phases")
    assert count_rows([path]) == 3
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(DamagedFiles, match=r"phases\.a"):
        count_rows([path])


def test_misnamed_files_are_listed_beside_the_others(tmp_path: Path) -> None:
    (tmp_path / "sends.t.w.parquet").touch()
    TableWriter(tmp_path, "sends", "w", partition=("t", 0)).write(
        **dict(zip(TABLES["sends"].names, send(0), strict=True))
    )
    found, misnamed = listed(tmp_path, "sends")
    assert [str(stem) for stem in found] == ["sends.t.0.w"]
    assert [path.name for path in misnamed] == ["sends.t.w.parquet"]


def test_all_tables_are_listed_as_each_is(tmp_path: Path) -> None:
    names = ("sends.t.0.c.parquet", "sends.t.0.c.part-000001.arrows", "sends.t.1.c.parquet")
    stray = ("sends.c.parquet", ".sends.t.0.c.parquet", "reads.final-read.csv", "notes.a.parquet")
    for name in (*names, *stray, "reads.final-read.parquet"):
        (tmp_path / name).touch()
    found = listed_by_table(tmp_path)
    assert found == {table: listed(tmp_path, table) for table in TABLES}
    stems, misnamed = found["sends"]
    assert [path.name for paths in stems.values() for path in paths] == [names[0], names[2]]
    assert [path.name for path in misnamed] == [stray[0]]
    assert [str(stem) for stem in found["reads"][0]] == ["reads.final-read"]
