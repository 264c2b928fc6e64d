"""``ackproof export`` checks what it is given, and exports no history with holes."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ackproof.harness.cli import cli
from ackproof.harness.directory import create
from ackproof.history.manifest import Manifest, PlannedRun, PlannedWriter
from ackproof.history.writer import TableWriter


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["export", *map(str, arguments)])


def run(number: int) -> PlannedRun:
    writer = PlannedWriter(table="log", writer="final", node="n", partitions=(("t", 0),))
    return PlannedRun(
        number=number,
        seed=1,
        session_timeout_ms=1,
        replica_lag_ms=1,
        recovery_ms=1,
        cells=(),
        faults=(),
        writers=(writer,),
    )


def results(campaign, tmp_path: Path, runs: int = 1) -> Path:
    directory = create(campaign, 0, tmp_path / "out")
    planned = tuple(run(number) for number in range(1, runs + 1))
    Manifest(campaign="c", seed=1, baseline=True, runs=planned).write(directory)
    (directory / "runs" / "1" / "history").mkdir(parents=True)
    return directory


@pytest.mark.parametrize("place", ["nowhere", "out/runs", "out/runs/1/history"])
def test_directory_without_results_is_refused(campaign, tmp_path: Path, place: str) -> None:
    results(campaign, tmp_path)
    done = invoke(tmp_path / place)
    assert done.exit_code == 2
    assert "has no results of a campaign" in done.stderr
    assert done.stdout == ""


def test_missing_argument_is_refused_and_help_is_help() -> None:
    assert invoke().exit_code == 2
    helped = invoke("--help")
    assert helped.exit_code == 0
    assert "Jepsen" in helped.output


def test_run_must_be_one_of_the_results(campaign, tmp_path: Path) -> None:
    directory = results(campaign, tmp_path, runs=2)
    assert "choose one with --run N" in invoke(directory).stderr
    assert "has no run 3" in invoke(directory, "--run", 3).stderr
    for done in (invoke(directory), invoke(directory, "--run", 3), invoke(directory, "--run", 2)):
        assert done.exit_code == 2


def test_history_with_a_missing_file_is_not_exported(campaign, tmp_path: Path) -> None:
    done = invoke(results(campaign, tmp_path))
    assert done.exit_code == 3
    assert "log.t.0.final.parquet" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("table", ["cluster", "faults", "phases", "commits"])
def test_history_without_a_table_is_not_exported(campaign, tmp_path: Path, table: str) -> None:
    directory = results(campaign, tmp_path)
    TableWriter(directory / "runs/1/history", "log", "final", partition=("t", 0)).close()
    other = PlannedWriter(table=table, writer="harness", node="harness")
    planned = run(1).model_copy(update={"writers": (*run(1).writers, other)})
    Manifest(campaign="c", seed=1, baseline=True, runs=(planned,)).write(directory)
    done = invoke(directory)
    assert done.exit_code == 3
    assert f"{table}.harness.parquet: is missing" in done.stderr
    assert done.stdout == ""


def test_history_of_a_run_is_exported(campaign, tmp_path: Path) -> None:
    directory = results(campaign, tmp_path)
    log = TableWriter(directory / "runs/1/history", "log", "final", partition=("t", 0))
    log.write(topic="t", partition=0, offset=0, timestamp=0, cell="c", producer=0, sequence=7)
    log.close()
    done = invoke(directory)
    assert done.exit_code == 0
    assert '[[:poll {"t-0" [[0 "c/0/7"]]}]]' in done.stdout


def test_history_of_a_run_without_records_is_exported(campaign, tmp_path: Path) -> None:
    directory = results(campaign, tmp_path)
    TableWriter(directory / "runs/1/history", "log", "final", partition=("t", 0)).close()
    assert invoke(directory).exit_code == 0
