"""A bit that flips in a closed file of a history is noticed, or it changes nothing."""

import random
from pathlib import Path

import pytest

from ackproof.history import reader
from ackproof.history.errors import DamagedFiles
from tests.support.builders.checked_runs import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    WELL,
    checked,
    run,
    told,
    two_cells,
    verdicts,
)
from tests.support.builders.histories import history_of, losing, write_campaign

FLIPS = 40


def flip(path: Path, place: int, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(content)


def test_each_flipped_bit_is_noticed_or_harmless(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, two_cells())
    files = sorted(history_of(directory).glob("*.parquet"))
    chance = random.Random(1)
    for _ in range(FLIPS):
        path = chance.choice(files)
        content = path.read_bytes()
        place, bit = chance.randrange(len(content)), chance.randrange(8)
        flip(path, place, bit)
        result = checked(directory)
        of_closings = path.name.startswith("closings.")
        harmless = set(verdicts(result).values()) == {PASS}
        assert set(verdicts(result).values()) <= {PASS, INCONCLUSIVE}, (path.name, place, bit)
        assert of_closings or path.name in "".join(result.findings), (path.name, place, bit)
        assert not harmless or of_closings or path.name.startswith(("zookeeper", "failovers"))
        path.write_bytes(content)
    assert set(verdicts(checked(directory)).values()) == {PASS}


@pytest.mark.parametrize("name", ["sends.t.0.c-1.parquet", "log.t.0.final-read.parquet"])
def test_a_loss_is_not_claimed_from_a_file_with_a_flipped_bit(tmp_path: Path, name: str) -> None:
    directory = write_campaign(tmp_path, run(partitions={("t", 0): losing(WELL, 1)}))
    assert checked(directory).verdict is FAIL
    path = history_of(directory) / name
    flip(path, path.stat().st_size // 2, 3)
    result = checked(directory)
    assert result.verdict is INCONCLUSIVE
    assert name in told(result)


def test_page_checksum_shows_flipped_bit_to_reader_without_closing(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, run())
    path = history_of(directory) / "sends.t.0.c-1.parquet"
    column = reader.storage.parquet(path).metadata.row_group(0).column(6)
    assert column.path_in_schema == "time"
    # The page's last byte is of its values.
    flip(path, column.dictionary_page_offset + column.total_compressed_size - 1, 0)
    with pytest.raises(DamagedFiles, match=path.name):
        reader.read(path.parent, "sends")


def test_closings_that_contradict_each_other_are_damage(tmp_path: Path) -> None:
    directory, other = (
        write_campaign(tmp_path / name, two_cells(partitions=partitions))
        for name, partitions in (
            ("this", {("t", 0): WELL, ("u", 0): WELL}),
            ("other", {("t", 0): losing(WELL, 1), ("u", 0): WELL}),
        )
    )
    source = history_of(other) / "closings.log-final-read.parquet"
    (history_of(directory) / "closings.log-again.parquet").write_bytes(source.read_bytes())
    result = checked(directory)
    assert verdicts(result) == {"c": INCONCLUSIVE, "d": PASS}
    assert "log.t.0.final-read.parquet: its writer's closings contradict each other" in told(result)


def test_damaged_closings_of_one_writer_leave_the_digests_of_others(tmp_path: Path) -> None:
    """A loss must not be claimed from an altered log because another writer's closings are gone."""
    directory = write_campaign(tmp_path, run(partitions={("t", 0): losing(WELL, 1)}))
    (history_of(directory) / "closings.clients-harness.parquet").write_bytes(b"PAR1")
    assert checked(directory).verdict is FAIL
    log = history_of(directory) / "log.t.0.final-read.parquet"
    flip(log, log.stat().st_size // 2, 3)
    assert checked(directory).verdict is INCONCLUSIVE


def test_closed_file_without_a_closing_is_not_believed(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, run(partitions={("t", 0): losing(WELL, 1)}))
    (history_of(directory) / "closings.log-final-read.parquet").unlink()
    result = checked(directory)
    assert result.verdict is INCONCLUSIVE
    assert "no closing says whether it is unchanged" in told(result)
