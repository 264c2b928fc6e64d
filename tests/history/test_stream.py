"""A stream that is appended to ends with whole batches, wherever its writer was stopped."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import ipc

from ackproof.history import stream
from tests.support.builders.examples import examples

SCHEMA = pa.schema([pa.field("number", pa.int64()), pa.field("word", pa.string())])


def batch(numbers: list[int]) -> pa.RecordBatch:
    return pa.record_batch([numbers, list(map(str, numbers))], schema=SCHEMA)


def numbers(path: Path) -> list[list[int]]:
    return [one.column("number").to_pylist() for one in stream.read_batches(path)[0]]


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 2**62), min_size=1, max_size=30), min_size=1, max_size=4),
    st.data(),
)
def test_torn_stream_yields_its_whole_batches(
    tmp_path_factory: pytest.TempPathFactory, written: list[list[int]], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("stream") / "a.arrows"
    ends = [0]
    for some in written:
        ends.append(stream.append_batches(path, ends[-1], batch(some)))
    assert numbers(path) == written
    whole = path.read_bytes()
    assert len(whole) == ends[-1]
    assert ipc.open_stream(whole).read_all().num_rows == sum(map(len, written)), "for others, too"
    left = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:left])
    assert numbers(path) == [
        some for some, end in zip(written, ends[1:], strict=True) if end <= left
    ]
    schema = SCHEMA.serialize().size
    assert stream.read_batches(path)[1] == (left not in {schema, *ends[1:]})


def test_a_piece_that_was_left_behind_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a.arrows"
    size = stream.append_batches(path, 0, batch([1, 2]))
    with path.open("ab") as file:
        file.write(b"x" * 10_000)
    size = stream.append_batches(path, size, batch([3]))
    assert numbers(path) == [[1, 2], [3]]
    assert path.stat().st_size == size


def test_damage_before_the_end_of_a_stream_is_an_error(tmp_path: Path) -> None:
    """An end marker, among others: a reader that believes it does not miss the rest."""
    path = tmp_path / "a.arrows"
    first = stream.append_batches(path, 0, batch([1]))
    stream.append_batches(path, first, batch(list(range(1000))))
    whole = path.read_bytes()
    for damage in (
        b"\xff\xff\xff\xff\x00\x00\x00\x00",
        b"\x00" * 8,
        b"\xff\xff\xff\xff\x10\x00\x00\x00",
    ):
        path.write_bytes(whole[:first] + damage + whole[first + 8 :])
        with pytest.raises((OSError, pa.ArrowException)):
            stream.read_batches(path)
