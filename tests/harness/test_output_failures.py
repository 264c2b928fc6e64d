"""Whatever goes wrong while something is told, the verdict is printed and decides the status."""

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from rich.console import Console

from ackproof.checkers.check import SCRATCH, check
from ackproof.checkers.checks.rows import ANOMALIES
from ackproof.checkers.engine.tasks import rows_of
from ackproof.checkers.verdict import CampaignResult, RunResult, Verdict
from ackproof.harness import report
from ackproof.harness.cli import cli
from ackproof.harness.directory import alone
from ackproof.harness.exit_status import ExitStatus
from ackproof.harness.report import index, verdict
from ackproof.harness.running import execution
from tests.support.builders.checked_runs import run
from tests.support.builders.histories import write_campaign
from tests.support.builders.results import cell_result, guarantee

ROOT = Path(__file__).parents[2]
RUN = RunResult(number=1, clock_bound_ns=0, infrastructure_failed=False)
BROKEN = CampaignResult(
    verdict=Verdict.FAIL,
    cells=(cell_result("all", Verdict.FAIL, lost=1, guarantees=[guarantee(held=False, broken=1)]),),
    anomalies={"lost": 1},
    findings=("a server says \u2026",),
    runs=(RUN,),
)
HELD = replace(
    BROKEN,
    verdict=Verdict.PASS,
    cells=(cell_result("all", guarantees=[guarantee()]),),
    anomalies={"lost": 0},
)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Results among others, with an index beside them."""
    directory = tmp_path / "results" / "one"
    (directory / "runs" / "1").mkdir(parents=True)
    (directory / "campaign.yaml").write_text("name: one\nseed: 1\n", encoding="utf-8")
    pq.write_table(ANOMALIES.empty_table(), directory / "anomalies.parquet")
    (directory.parent / "latest").symlink_to("one")
    return directory


def lose(directory: Path, count: int) -> None:
    """Write so many rows of lost records."""
    row = {"run": 1, "cell": "all", "anomaly": "lost", "topic": "all", "partition": 0, "time": 1}
    rows = pa.Table.from_pylist([row] * count, schema=ANOMALIES)
    pq.write_table(rows, directory / "anomalies.parquet")


def tell(directory: Path, result: CampaignResult, capsys) -> tuple[ExitStatus, str, str]:
    status = execution.tell(directory, result, Console(width=200))
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.mark.parametrize("name", ["report.html", "junit.xml", "verdict.json"])
@pytest.mark.parametrize(
    ("result", "expected"), [(BROKEN, ExitStatus.BROKEN), (HELD, ExitStatus.INFRASTRUCTURE)]
)
def test_unwritable_file_hides_neither_verdict_nor_the_other_files(
    results: Path, capsys, name: str, result: CampaignResult, expected: ExitStatus
) -> None:
    (results / name).mkdir()
    status, out, err = tell(results, result, capsys)
    assert status is expected
    assert f"verdict: {result.verdict.value}" in out
    assert f"the report is not complete: {name}: IsADirectoryError" in err
    others = {"report.html", "junit.xml", "verdict.json"} - {name}
    assert all((results / other).is_file() for other in others)


NEIGHBOURS: Mapping[str, str] = {
    "infinite": '{"verdict": "pass", "cells": [], "duration_s": 1e999}',
    "no-number": '{"verdict": "pass", "cells": [], "duration_s": NaN}',
    "negative": '{"verdict": "pass", "cells": [], "duration_s": -1}',
    "year-10000": '{"verdict": "pass", "cells": [], "began": "10000-01-01T00:00:00Z"}',
    "last-hour": '{"verdict": "pass", "cells": [], "began": "9999-12-31T23:30:00-10:00"}',
    "first-hour": '{"verdict": "pass", "cells": [], "began": "0001-01-01T00:30:00+10:00"}',
    "surrogate": '{"verdict": "pass", "cells": [], "campaign": "\\ud800"}',
    "deep": "[" * 100_000,
    "long-number": f'{{"verdict": "pass", "cells": [], "seed": {"9" * 5000}}}',
    "no-text": "\0",
}


def test_neighbours_with_strange_verdicts_hide_nothing(results: Path, capsys) -> None:
    for neighbour, content in NEIGHBOURS.items():
        (results.parent / neighbour).mkdir()
        (results.parent / neighbour / "verdict.json").write_text(content)
    status, out, err = tell(results, BROKEN, capsys)
    assert (status, err) == (ExitStatus.BROKEN, "")
    assert "verdict: fail" in out
    page = (results.parent / index.FILE).read_text(encoding="utf-8")
    assert "one/report.html" in page
    assert all(f'href="{neighbour}/"' in page for neighbour in NEIGHBOURS)


def test_strange_names_in_the_results_hide_nothing(results: Path, capsys) -> None:
    for where in ("runs", "runs/1", "runs/1/history", "runs/1/logs", ".."):
        for name in (b"\xb2", "\u00b2".encode(), b"7\xff"):
            strange = results / where / os.fsdecode(name)
            strange.mkdir(parents=True)
            (strange / "campaign.yaml").touch()
    status, out, err = tell(results, BROKEN, capsys)
    assert (status, err) == (ExitStatus.BROKEN, "")
    assert out.rstrip().endswith("report.html")
    page = (results.parent / index.FILE).read_text(encoding="utf-8")
    assert "one/report.html" in page
    assert 'href="%B2/"' in page


def test_strange_names_are_checked_and_reported(results: Path) -> None:
    write_campaign(results, run())
    shutil.rmtree(results / "runs" / "1" / "history")
    for place in (b"runs/\xb2", b"runs/1/history/sends.x\xff.p0.parquet"):
        Path(os.fsdecode(os.fsencode(results) + b"/" + place)).mkdir(parents=True)
    result = check(results)
    assert any("\\udcb2" in finding for finding in result.findings)
    report.write(results, result)
    assert "\\udcb2" in (results / report.PAGE).read_text(encoding="utf-8")
    assert report.load(results) == result
    assert verdict.read_document(results / verdict.FILE).findings == result.findings


@pytest.mark.parametrize(
    ("output", "environ"),
    [("/dev/full", {}), ("/dev/null", {"PYTHONIOENCODING": "ascii"})],
)
def test_output_that_cannot_be_written_does_not_change_the_status(
    results: Path, output: str, environ: Mapping[str, str]
) -> None:
    lose(results, 1)
    report.write(results, BROKEN)
    with Path(output).open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "ackproof.harness", "report", str(results)],
            env={**os.environ, **environ},
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, b"")


def test_verdict_that_contradicts_its_cells_is_refused(results: Path) -> None:
    report.write(results, BROKEN)
    document = json.loads((results / verdict.FILE).read_text(encoding="utf-8"))
    for changes in ({"verdict": "pass"}, {"verdict": "pass", "exit_status": 0}, {"exit_status": 0}):
        edited = json.dumps({**document, **changes})
        (results / verdict.FILE).write_text(edited, encoding="utf-8")
        told = CliRunner().invoke(cli, ["report", str(results)])
        assert told.exit_code == ExitStatus.USAGE
        assert "contradicts itself" in told.stderr
        assert "Every guarantee held" not in told.output
        assert not (results / report.PAGE).exists()
    assert "no verdict" in (results.parent / index.FILE).read_text(encoding="utf-8")


def test_hint_is_printed_before_path_of_report(results: Path) -> None:
    lose(results, 1)
    printed = io.StringIO()
    execution.tell(results, BROKEN, Console(file=printed), hint="The tutorial: docs/tutorial.md")
    *_, hint, path = printed.getvalue().splitlines()
    assert (hint, path) == ("The tutorial: docs/tutorial.md", str(results / report.PAGE))


@pytest.mark.parametrize(("rows", "result"), [(0, BROKEN), (2, BROKEN), (1, HELD)])
def test_anomalies_of_another_check_are_refused(
    results: Path, rows: int, result: CampaignResult
) -> None:
    lose(results, result.anomalies["lost"])
    report.write(results, result)
    lose(results, rows)
    told = CliRunner().invoke(cli, ["report", str(results)])
    assert told.exit_code == ExitStatus.USAGE
    assert f"anomalies.parquet has {rows} rows of lost, but the verdict counts" in told.stderr
    assert not (results / report.PAGE).exists()


def test_check_that_fails_leaves_no_verdict_in_the_index(results: Path) -> None:
    report.write(results, HELD)
    index.write(results.parent)
    assert '<span class="badge pass">' in (results.parent / index.FILE).read_text()
    (results / "anomalies.parquet").unlink()
    (results / "anomalies.parquet").mkdir()
    told = CliRunner().invoke(cli, ["check", str(results)])
    assert told.exit_code == 5
    page = (results.parent / index.FILE).read_text(encoding="utf-8")
    assert '<span class="badge pass">' not in page
    assert "no verdict" in page


@pytest.mark.parametrize("command", ["check", "report"])
def test_second_check_of_a_directory_is_refused(results: Path, command: str) -> None:
    report.write(results, HELD)
    with alone(results):
        told = CliRunner().invoke(cli, [command, str(results)])
    assert told.exit_code == 2
    assert f"another ackproof process checks or reports {results}" in told.stderr
    assert report.load(results) is not None, "the verdict stays as it was"


def test_link_in_place_of_the_scratch_directory_is_not_followed(results: Path) -> None:
    (elsewhere := results.parent.parent / "elsewhere").mkdir()
    (elsewhere / "kept").touch()
    (results / SCRATCH).symlink_to(elsewhere)
    check(results)
    assert [path.name for path in elsewhere.iterdir()] == ["kept"]
    assert not (results / SCRATCH).is_symlink()


def test_rows_that_were_removed_meanwhile_are_missed(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="were removed in the meantime"):
        next(rows_of(tmp_path))


def test_endless_aliases_in_the_campaign_file_hide_nothing(results: Path, capsys) -> None:
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    bomb = "\n".join(["a0: &a0 [x]", *levels, "name: *a29"])
    (results / "campaign.yaml").write_text(bomb, encoding="utf-8")
    status, out, err = tell(results, BROKEN, capsys)
    assert (status, err) == (ExitStatus.BROKEN, "")
    assert out.rstrip().endswith("report.html")
