"""Required files of each writer: missing, short or damaged files affect their cells, and unplanned
files are named."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ackproof.checkers.context.gaps import UNJUDGED
from ackproof.history.manifest import FILE, PlannedFault
from ackproof.history.schema import TABLES
from ackproof.history.writer import TableWriter
from tests.support.builders.checked_runs import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    TWO_CELLS,
    WELL,
    checked,
    run,
    told,
    two_cells,
    verdicts,
)
from tests.support.builders.histories import (
    AFTER,
    BEFORE,
    DURING,
    KILL,
    MadeRun,
    a_fault,
    at,
    history_of,
    kept,
    losing,
    send,
    write_campaign,
)


def two_producers() -> MadeRun:
    """Producers 1 and 2 on t-0; what 2 was acked is lost."""
    theirs = [send("invoke", 2, 0, at(15)), send("ok", 2, 0, at(15.1), 3)]
    return two_cells(partitions={**TWO_CELLS, ("t", 0): WELL.but(sends=[*WELL.sends, *theirs])})


def test_the_missing_file_of_one_of_two_producers_is_missed(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, two_producers())
    assert verdicts(checked(directory))["c"] is FAIL
    (history_of(directory) / "sends.t.0.c-2.parquet").unlink()
    result = checked(directory)
    assert verdicts(result) == {"c": INCONCLUSIVE, "d": PASS}
    assert "sends of t-0 by c-2 is missing, but its writer closed it with 2 rows" in told(result)
    (found, _) = result.cells
    assert (found.lost, found.duplicated, found.reordered) == (None, None, None)


def test_a_producer_that_left_nothing_at_all_is_missed(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, two_producers())
    for path in history_of(directory).glob("*c-2.parquet"):
        path.unlink()
    result = checked(directory)
    assert verdicts(result) == {"c": INCONCLUSIVE, "d": PASS}
    assert "sends by c-2: its writer did not close it" in told(result)


def test_violation_in_the_remaining_evidence_still_fails(tmp_path: Path) -> None:
    made = two_producers()
    directory = write_campaign(
        tmp_path,
        MadeRun(**{**vars(made), "partitions": {**TWO_CELLS, ("t", 0): losing(WELL, 1)}}),
    )
    for path in history_of(directory).glob("*c-99.parquet"):
        path.unlink()
    result = checked(directory)
    assert verdicts(result) == {"c": FAIL, "d": PASS}
    assert result.cells[0].lost == 1


@pytest.mark.parametrize("more", [-1, 1])
@pytest.mark.parametrize("table", ["sends", "log"])
def test_a_file_of_other_length_than_its_closing_is_a_gap(
    tmp_path: Path, table: str, more: int
) -> None:
    directory = write_campaign(tmp_path, two_cells())
    history = history_of(directory)
    kept_moments = (BEFORE, DURING, AFTER, 50)[: 3 + more]
    other = write_campaign(
        tmp_path / "other", two_cells(partitions={**TWO_CELLS, ("t", 0): kept(*kept_moments)})
    )
    (source,) = history_of(other).glob(f"{table}.t.*")
    source.replace(history / source.name)
    result = checked(directory)
    assert verdicts(result) == {"c": INCONCLUSIVE, "d": PASS}
    assert "its writer closed it with" in told(result)


@pytest.mark.parametrize(
    "table", ["faults", "cluster", "phases", "servers", "recovery", "reads", "clocks"]
)
def test_a_table_that_is_gone_is_missed(tmp_path: Path, table: str) -> None:
    directory = write_campaign(tmp_path, run())
    (path,) = history_of(directory).glob(f"{table}.*")
    path.unlink()
    result = checked(directory)
    assert result.verdict is INCONCLUSIVE
    assert f"{table} by " in told(result)


@pytest.mark.parametrize("table", ["faults", "cluster", "phases", "servers", "recovery"])
def test_a_table_that_is_gone_with_its_closing_is_missed(tmp_path: Path, table: str) -> None:
    directory = write_campaign(tmp_path, run())
    for path in history_of(directory).glob(f"*{table}*"):
        path.unlink()
    assert checked(directory).verdict is INCONCLUSIVE


def test_all_closings_gone_are_missed(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, run())
    for path in history_of(directory).glob("closings.*"):
        path.unlink()
    assert checked(directory).verdict is INCONCLUSIVE


def test_partition_without_a_planned_producer_is_inconclusive(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, run())
    manifest = (directory / FILE).read_text()
    (directory / FILE).write_text(manifest.replace('"c-1"', '"c-7"').replace('"sends"', '"log"'))
    result = checked(directory)
    assert result.verdict is INCONCLUSIVE
    assert "the manifest plans no client that sends to t-0" in told(result)


def test_unplanned_rows_are_no_evidence(tmp_path: Path) -> None:
    second = a_fault(30, 35, fault_id=2, fault="pause")
    plan = [PlannedFault(fault_id=1, fault="kill", target="t", start_ms=0, hold_ms=0)]
    directory = write_campaign(tmp_path, run(faults=[*KILL, *second], plan=plan))
    stray = TableWriter(history_of(directory), "sends", "stranger", partition=("t", 0))
    stray.append(("c", "t", 0, 9, 0, "invoke", at(1), *[None] * 5))
    stray.close()
    result = checked(directory)
    assert result.verdict is INCONCLUSIVE
    assert result.findings == (
        "run 1: sends of t-0 by stranger: the manifest plans no such writer",
        "run 1: pause#2 on leader(t, 0): the manifest plans no such fault",
    )


def truncated(content: bytes) -> bytes:
    return content[: len(content) // 2]


@pytest.mark.parametrize("table", sorted(TABLES.keys() - {"closings"} - UNJUDGED))
@pytest.mark.parametrize("spoil", [truncated, lambda _: b"", lambda _: b"PAR1 no parquet PAR1"])
def test_damage_is_named_and_never_raises_or_passes(
    tmp_path: Path, table: str, spoil: Callable[[bytes], bytes]
) -> None:
    directory = write_campaign(tmp_path, run())
    for path in history_of(directory).glob(f"{table}.*"):
        path.write_bytes(spoil(path.read_bytes()))
        result = checked(directory)
        assert result.verdict is INCONCLUSIVE
        assert path.name in told(result)


@pytest.mark.parametrize("table", ["phases", "faults", "servers", "recovery", "cluster", "sends"])
def test_a_broken_guarantee_wins_over_damage(tmp_path: Path, table: str) -> None:
    """Test two producers: the records of one are lost, and the damage is to the other's or the
    harness's tables."""
    theirs = [send("invoke", 2, 0, at(15)), send("ok", 2, 0, at(15.1), 3)]
    lost = WELL.but(sends=[*WELL.sends, *theirs])
    directory = write_campaign(tmp_path, run(partitions={("t", 0): lost}))
    name = "sends.t.0.c-1" if table == "sends" else table
    (path,) = history_of(directory).glob(f"{name}.*")
    path.write_bytes(b"no parquet")
    result = checked(directory)
    assert result.verdict is FAIL
    assert "no-acked-record-lost" in result.cells[0].reasons[0]


def test_a_file_of_unknown_name_costs_its_run(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, run(), run())
    (history_of(directory) / "log.whose.parquet").write_bytes(b"")
    result = checked(directory)
    assert [found.verdict for found in result.cells] == [INCONCLUSIVE, PASS]
    assert "log.whose.parquet" in told(result)


def test_a_log_that_lacks_rows_is_a_gap_and_no_loss(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, run())
    next(history_of(directory).glob("log.*")).unlink()
    result = checked(directory)
    assert result.verdict is INCONCLUSIVE
    assert result.cells[0].lost is None
    assert result.anomalies["lost"] == 0
