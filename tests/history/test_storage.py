"""Results in a store: the same words, the same files, and nothing half."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackproof.history import reader, storage
from ackproof.history.storage import AnyPath, StoredPath, located, matching, whole, write_text
from ackproof.history.writer import PART_BYTES, PartitionedWriter, TableWriter
from tests.support.fakes.s3_store import Store, store

NAMES = ("a.txt", "b.log", "c/d.log", "c/1/e.log", "broker-1/0/t-0/1.log", "broker-1/t-1/2.log")


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with store(tmp_path_factory.mktemp("store") / "log") as found, found.in_environment():
        yield found


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3a://bucket/a/run", "s3a://bucket/a/run"),
        ("s3://bucket/a/run/", "s3://bucket/a/run"),
        ("gs://bucket", "gs://bucket"),
        ("hdfs://host:8020/a", "hdfs://host:8020/a"),
    ],
)
def test_path_with_a_uri_is_in_a_store(text: str, shown: str) -> None:
    assert isinstance(located(text), StoredPath)
    assert str(located(text)) == shown
    assert located(str(located(text))) == located(text)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("results/latest", "results/latest"),
        ("/a/run", "/a/run"),
        ("a:b", "a:b"),
        ("//[a/run", "//[a/run"),
        ("file:///a/run", "/a/run"),
        ("file:/a/a%20run", "/a/a run"),
    ],
)
def test_all_else_is_here(text: str, path: str) -> None:
    assert located(text) == Path(path)


@pytest.mark.parametrize(
    "text",
    [
        "ftp://host/run",
        "s3a://key:hidden@bucket/run",
        "s3a://bucket/run?secret_key=hidden",
        "s3a://bucket/run#hidden",
        "s3a:///run",
    ],
)
def test_invalid_uri_is_refused_without_its_secret(text: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        located(text)
    assert "hidden" not in str(refused.value)


def test_a_path_there_goes_as_one_here() -> None:
    one = located("s3a://bucket/a") / "runs" / "1" / "sends.t.0.c.parquet"
    assert (one.name, one.stem, one.suffix) == ("sends.t.0.c.parquet", "sends.t.0.c", ".parquet")
    assert one.parent.parent == located("s3a://bucket/a/runs")
    assert one.parts == ("s3a://bucket", "a", "runs", "1", "sends.t.0.c.parquet")
    assert sorted([one, one.parent]) == [one.parent, one]


@pytest.mark.parametrize(
    "pattern", ["*", "*.log", "b.*", "c/*", "*/*.log", "broker-*/[0-9]*/t-0", "none/*", "*/none"]
)
def test_patterns_match_alike_on_disk_and_in_a_store(
    tmp_path: Path, there: Store, pattern: str
) -> None:
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    copy = located(there.copy(tmp_path, "tree"))
    here = [str(path.relative_to(tmp_path)) for path in matching(tmp_path, pattern)]
    assert [str(PurePosixPath(*path.parts[2:])) for path in matching(copy, pattern)] == here
    for path in matching(tmp_path, pattern):
        other = copy / str(path.relative_to(tmp_path))
        assert (other.exists(), other.is_file(), other.is_dir()) == (
            True,
            path.is_file(),
            path.is_dir(),
        )
        assert path.is_dir() or storage.size(other) == storage.size(path)
    below = [str(path.relative_to(tmp_path)) for path in storage.files_below(tmp_path)]
    assert [str(PurePosixPath(*path.parts[2:])) for path in storage.files_below(copy)] == below
    assert set(NAMES) <= set(below)
    names = [path.name for path in storage.directories(tmp_path)]
    assert [path.name for path in storage.directories(copy)] == names


def test_a_file_there_is_whole_or_not_there(there: Store) -> None:
    path = located(there.uri("whole")) / "text"
    write_text(path, "ä")
    assert path.read_text() == "ä"
    with path.open(encoding="utf-8") as lines:
        assert list(lines) == ["ä"]
    with pytest.raises(ZeroDivisionError):
        write_half(path.parent / "half")
    assert there.holds("whole").keys() == {"text"}
    storage.remove_tree(path.parent)
    assert not path.exists()
    path.unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError):
        path.unlink()
    with pytest.raises(FileNotFoundError):
        storage.size(path)


def write_half(path: AnyPath) -> None:
    with whole(path) as file:
        file.write(b"half")
        raise ZeroDivisionError


@pytest.mark.parametrize("closed", [True, False])
def test_a_history_there_is_read_as_one_here(tmp_path: Path, there: Store, closed: bool) -> None:
    sends = PartitionedWriter(tmp_path, "sends", "c", [("t", 0), ("t", 1)], part_bytes=PART_BYTES)
    phases = TableWriter(tmp_path, "phases", "harness")
    for number in range(4):
        row = ("cell", "t", number % 2, 0, number, "invoke", 10 + number, *[None] * 5)
        sends.partition("t", number % 2).append(row)
    phases.append(("deploy", "start", 1, None))
    for writer in (sends, phases):
        writer.close() if closed else writer.flush()
    if not closed:
        part = reader.files(tmp_path, "phases")[0]
        part.write_bytes(part.read_bytes()[:-9])
    copy = located(there.copy(tmp_path, f"history-{closed}"))
    for table in ("sends", "phases", "log"):
        assert reader.read(copy, table).equals(reader.read(tmp_path, table))
        here, stored = reader.files(tmp_path, table), reader.files(copy, table)
        assert [path.name for path in stored] == [path.name for path in here]
        assert reader.count_rows(stored) == reader.count_rows(here)
        assert [reader.cut_short(path) for path in stored] == [
            reader.cut_short(path) for path in here
        ]
    assert reader.read(copy, "sends").num_rows == 4
    assert len(reader.read(copy, "phases")) == closed


def test_many_are_looked_at_in_their_order() -> None:
    assert storage.each(str, range(100), stored=True) == storage.each(str, range(100), stored=False)
    with pytest.raises(pa.ArrowInvalid):
        storage.each(pa.scalar, [1, object()], stored=True)


def test_a_small_file_is_read_as_a_large_one_is(tmp_path: Path) -> None:
    small, large = tmp_path / "small.parquet", tmp_path / "large.parquet"
    pq.write_table(pa.table({"offset": [1, 2], "time": [3, None]}), small)
    scattered = pa.array(os.urandom(8) for _ in range(2 * storage.SMALL_FILE // 8))
    pq.write_table(pa.table({"offset": scattered}), large, use_dictionary=False)
    assert small.stat().st_size < storage.SMALL_FILE < large.stat().st_size
    for path in (small, large):
        file, by_path = storage.parquet(path), pq.ParquetFile(path)
        assert file.metadata.equals(by_path.metadata)
        assert file.read(["offset"]).equals(by_path.read(["offset"]))


@pytest.mark.parametrize("held", [b"", b"PAR1"])
def test_file_without_parquet_content_is_refused(held: bytes, tmp_path: Path) -> None:
    (tmp_path / "damaged.parquet").write_bytes(held)
    with pytest.raises((OSError, pa.ArrowInvalid)):
        storage.parquet(tmp_path / "damaged.parquet")
    with pytest.raises(OSError, match="nowhere"):
        storage.parquet(tmp_path / "nowhere.parquet")


def test_link_beside_a_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("kept")
    (tmp_path / ".page").symlink_to(tmp_path / "elsewhere")
    write_text(tmp_path / "page", "new")
    assert (tmp_path / "elsewhere").read_text() == "kept"
    assert (tmp_path / "page").read_text() == "new"
    assert not (tmp_path / "page").is_symlink()
