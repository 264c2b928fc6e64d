from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.broker.log.disk import Directory
from ackproof.broker.log.segment import CorruptIndex, OffsetIndex, TimeIndex

STEPS = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 9000)), max_size=40)


@given(steps=STEPS, key=st.integers(-5, 2200), kept=st.integers(0, 2200))
def test_index_lookup_agrees_with_a_linear_scan(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]], key: int, kept: int
) -> None:
    directory = Directory(tmp_path_factory.mktemp("index"))
    index = OffsetIndex(directory, "0.index")
    pairs: list[tuple[int, int]] = []
    offset = position = 0
    for offset_step, position_step in steps:
        offset += offset_step
        position += position_step
        index.append(offset, position)
        pairs.append((offset, position))
    for asked in (key, *(pair[0] for pair in pairs)):
        expected = max((pair for pair in pairs if pair[0] <= asked), default=None)
        assert index.floor(asked) == expected
    index.truncate_to(kept)
    index.close()
    pairs = [pair for pair in pairs if pair[0] < kept]
    again = OffsetIndex(directory, "0.index")
    assert len(again) == len(pairs)
    assert again.last == (pairs[-1] if pairs else None)
    assert again.floor(key) == max((pair for pair in pairs if pair[0] <= key), default=None)
    assert (directory.path / "0.index").stat().st_size == again.size == 8 * len(pairs)
    again.close()


def test_index_entries_have_kafkas_format(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    offsets, times = OffsetIndex(directory, "0.index"), TimeIndex(directory, "0.timeindex")
    offsets.append(5, 4097)
    times.append(1_700_000_000_000, 5)
    assert directory.read("0.index").hex() == "00000005" + "00001001"
    assert directory.read("0.timeindex").hex() == "0000018bcfe56800" + "00000005"
    offsets.close()
    times.close()


def test_time_index_is_truncated_by_offset(tmp_path: Path) -> None:
    index = TimeIndex(Directory(tmp_path), "0.timeindex")
    for timestamp, offset in ((100, 3), (200, 7), (300, 9)):
        index.append(timestamp, offset)
    index.truncate_to(7)
    assert index.last == (100, 3)
    index.append(150, 8)
    assert index.floor(151) == (150, 8)
    index.close()


@pytest.mark.parametrize(
    "content",
    [bytes(7), b"\0\0\0\5\0\0\0\1" * 2, b"\0\0\0\5\0\0\0\2" + b"\0\0\0\6\0\0\0\1"],
    ids=["half an entry", "offset twice", "position goes back"],
)
def test_index_damage_is_detected(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "0.index").write_bytes(content)
    with pytest.raises(CorruptIndex, match=r"0\.index"):
        OffsetIndex(Directory(tmp_path), "0.index")
