from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.broker.log.disk import CorruptCheckpoint, Directory, carry_out
from ackproof.broker.log.epochs import FILE_NAME, LeaderEpochCache

RUNS = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5)), min_size=1, max_size=8)
"""Leader epochs in order: the increase over the previous one, and the number of records
appended."""


@given(runs=RUNS, start=st.integers(0, 40), end=st.integers(0, 40))
def test_epoch_cache_agrees_with_the_epoch_of_every_record(
    tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[int, int]], start: int, end: int
) -> None:
    directory = tmp_path_factory.mktemp("log")
    cache = LeaderEpochCache(Directory(directory))
    of_record: list[int] = []
    epoch = 0
    for step, count in runs:
        epoch += step
        cache.assign(epoch, len(of_record))
        cache.assign(epoch, len(of_record) + count)  # the latest one does not change
        of_record += [epoch] * count
    end = min(end, len(of_record))
    start = min(start, end)
    cache.truncate_from_end(end)
    cache.truncate_from_start(start)
    cache.write()
    kept = dict(list(enumerate(of_record))[start:end])
    for again in (cache, LeaderEpochCache(Directory(directory))):
        assert {offset: again.epoch_for_offset(offset) for offset in kept} == kept
        for asked in set(kept.values()):
            last = max(offset for offset, epoch in kept.items() if epoch <= asked)
            assert again.end_offset_for(asked, end) == (asked, last + 1)
        assert again.end_offset_for(epoch + 1, end) == (-1, -1)


def test_unknown_epoch_ends_with_the_next_lower_epoch(tmp_path: Path) -> None:
    cache = LeaderEpochCache(Directory(tmp_path))
    cache.assign(2, 5)
    cache.assign(7, 9)
    assert cache.end_offset_for(4, 20) == (2, 9)
    assert cache.end_offset_for(7, 20) == (7, 20)
    assert cache.end_offset_for(8, 20) == (-1, -1)
    assert cache.end_offset_for(1, 20) == (1, 5)
    assert cache.end_offset_for(-1, 20) == (-1, -1)


def test_pending_epoch_write_does_not_overwrite_a_later_one(tmp_path: Path) -> None:
    cache = LeaderEpochCache(Directory(tmp_path))
    cache.assign(4, 0)
    cache.write()
    cache.assign(5, 25)
    slow = cache.write_steps()
    sync = next(slow)
    cache.truncate_from_end(20)
    cache.write()
    sync()
    carry_out(slow)
    assert LeaderEpochCache(Directory(tmp_path)).entries == ((4, 0),)


def test_epoch_file_has_kafkas_format(tmp_path: Path) -> None:
    cache = LeaderEpochCache(Directory(tmp_path))
    cache.assign(0, 0)
    cache.assign(3, 17)
    cache.write()
    assert (tmp_path / FILE_NAME).read_text() == "0\n2\n0 0\n3 17\n"
    assert LeaderEpochCache(Directory(tmp_path)).entries == ((0, 0), (3, 17))
    cache.clear()
    cache.write()
    assert (tmp_path / FILE_NAME).read_text() == "0\n0\n"


@pytest.mark.parametrize(
    "content", ["", "1\n0\n", "0\n2\n0 0\n", "0\n1\n0\n", "0\n1\nx 0\n", "0\n2\n3 0\n2 5\n", "\xff"]
)
def test_damaged_epoch_file_is_rejected(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE_NAME).write_bytes(content.encode("latin-1"))
    with pytest.raises(CorruptCheckpoint, match=FILE_NAME):
        LeaderEpochCache(Directory(tmp_path))
