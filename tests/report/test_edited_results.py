"""Results that were edited after their check are refused by every command that reads them."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from ackproof.checkers.checks.rows import ANOMALIES
from ackproof.checkers.root_cause.rows import ROOT_CAUSES
from ackproof.checkers.verdict import CampaignResult
from ackproof.harness import report
from ackproof.harness.cli import cli
from ackproof.harness.directory import DamagedResults
from ackproof.harness.exit_status import ExitStatus
from ackproof.harness.report import index, losses, verdict
from ackproof.harness.side_by_side.members import MatrixSystem, read
from ackproof.harness.subprocesses import CachedRun
from tests.support.builders.checked_runs import WELL, checked, two_cells
from tests.support.builders.histories import losing, write_campaign

LOST = 2
PARTITIONS = {("t", 0): losing(WELL, 0, 1), ("u", 0): WELL}

Document = dict[str, Any]
Change = Callable[[Document], None]


@pytest.fixture(scope="module")
def checked_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of a campaign of two cells, one of which has lost records."""
    directory = tmp_path_factory.mktemp("checked") / "one"
    write_campaign(directory, two_cells(partitions=PARTITIONS))
    result = checked(directory)
    assert [cell.lost for cell in result.cells] == [LOST, 0]
    write_companions(directory, result)
    report.write(directory, result)
    return directory


@pytest.fixture
def results(checked_results: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(checked_results, tmp_path / "results" / "one"))


def write_companions(directory: Path, result: CampaignResult) -> None:
    """Write the files that a check writes beside ``verdict.json``."""
    place = {"run": 1, "cell": "c", "topic": "t", "partition": 0, "time": 1}
    names = [name for name, count in result.anomalies.items() for _ in range(count)]
    rows = [{**place, "anomaly": name} for name in names]
    pq.write_table(pa.Table.from_pylist(rows, schema=ANOMALIES), directory / "anomalies.parquet")
    pq.write_table(ROOT_CAUSES.empty_table(), directory / "root-causes.parquet")


def edit(directory: Path, change: Change, *, sealed: bool = True) -> None:
    """Edit ``verdict.json``. Unless ``sealed``, its seal is taken off."""
    file = directory / verdict.FILE
    document = json.loads(file.read_text())
    change(document)
    if not sealed:
        del document["sha256"], document["files"]
    file.write_text(json.dumps(document))


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, arguments)])


def refused(directory: Path) -> Iterator[tuple[str, str]]:
    """Yield what each reader of ``verdict.json`` says of results that it refuses."""
    history = str(directory.parent / "history.jsonl")
    for command in (["report"], ["compare", directory], ["history", "add", "--to", history]):
        told = invoke(*command, directory)
        assert told.exit_code == ExitStatus.USAGE, (command, told.output)
        assert f"check them again: ackproof check {directory}" in told.stderr
        assert "Traceback" not in told.output
        assert told.stdout == ""
        yield command[0], told.stderr
    assert not (directory / report.PAGE).exists()
    assert not (directory / report.JUNIT).exists()
    (entry,) = index.entries(directory.parent)
    assert (entry.document, entry.occasion.square.kind) == (None, "broken")
    assert '<span class="badge pass">' not in index.render(directory.parent)
    yield "index", entry.trouble
    once = CachedRun(
        file=directory / "campaign.yaml", system="bundled", seed=1, directory=directory
    )
    with pytest.raises(DamagedResults) as caught:
        read(MatrixSystem(once=once))
    yield "matrix", str(caught.value)
    with pytest.raises(DamagedResults):
        _ = once.result


def nothing_lost(document: Document) -> None:
    """Edit all that says that records were lost."""
    for cell in document["cells"]:
        cell |= {"lost": 0, "verdict": "pass"}
        for one in cell["guarantees"]:
            one |= {"held": True, "broken": 0, "promised": True}
    document["anomalies"] = dict.fromkeys(document["anomalies"], 0)
    document |= {"verdict": "pass", "exit_status": 0, "losses": [], "causes": []}


def passed(document: Document) -> None:
    for cell in document["cells"]:
        cell["verdict"] = "pass"
        for one in cell["guarantees"]:
            one |= {"held": True, "broken": 0}
    document |= {"verdict": "pass", "exit_status": 0}


def cells_lost_nothing(document: Document) -> None:
    nothing = dict(document["anomalies"])
    nothing_lost(document)
    document["anomalies"] = nothing


def other_cell_lost(document: Document) -> None:
    one, other = document["cells"]
    one["lost"], other["lost"] = other["lost"], one["lost"]
    for name in ("verdict", "guarantees", "reasons"):
        one[name], other[name] = other[name], one[name]


def without_cell(document: Document) -> None:
    """Remove the cell without a loss: nothing else in the document tells of it."""
    del document["cells"][1]


def without_faults(document: Document) -> None:
    document["faults"] = []


def other_fault(document: Document) -> None:
    document["faults"][0]["name"] = "pause#1"


def other_threshold(document: Document) -> None:
    limit = {"measure": "lost", "operator": "<=", "limit": 0, "unit": "records", "reason": ""}
    document["cells"][1]["thresholds"] = [{**limit, "measured": 5, "met": True}]


EDITS: Mapping[str, tuple[Change, str]] = {
    "all lost": (nothing_lost, "anomalies.parquet has 2 rows of lost, but the verdict counts 0"),
    "verdicts": (passed, "c is pass, but lost 2 records"),
    "cells": (cells_lost_nothing, "it counts 2 lost records under anomalies, but 0 in its cells"),
    "swapped": (other_cell_lost, "has 0 rows of lost of d in run 1, but the verdict counts 2"),
    "no cell": (without_cell, "plans the cell d of run 1, but the verdict judges no such cell"),
    "no faults": (without_faults, "has the fault kill#1, but the verdict does not"),
    "another fault": (other_fault, "the verdict has the fault pause#1 in run 1"),
    "a threshold": (
        other_threshold,
        "the threshold on lost of d does not agree with the measured value",
    ),
}


@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "unsealed"])
@pytest.mark.parametrize("name", EDITS)
def test_edited_verdict_is_refused_by_every_reader(results: Path, name: str, sealed: bool) -> None:
    change, words = EDITS[name]
    edit(results, change, sealed=sealed)
    for reader, told in refused(results):
        assert words in told, reader
        assert ("was changed after the check" in told) == sealed


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document["cells"][0].update(acked=10**6, sent=10**6),
        lambda document: document.update(opportunities=[]),
        lambda document: document.update(findings=["another"]),
        lambda document: document.update(seed=2),
    ],
)
def test_edit_that_contradicts_nothing_is_noticed_by_the_seal(
    results: Path, change: Change
) -> None:
    edit(results, change)
    for reader, told in refused(results):
        assert "verdict.json was changed after the check wrote it" in told, reader


@pytest.mark.parametrize(
    "name",
    [
        "anomalies.parquet",
        "root-causes.parquet",
        "manifest.json",
        "campaign.yaml",
        "runs/1/history/faults.harness.parquet",
    ],
)
def test_changed_file_beside_the_verdict_is_refused(results: Path, name: str) -> None:
    file = results / name
    file.write_bytes(file.read_bytes() + b"\n")
    for reader, told in refused(results):
        assert f"{name} was changed after the check" in told, reader


@pytest.mark.parametrize("name", ["anomalies.parquet", "root-causes.parquet", "manifest.json"])
def test_missing_file_beside_the_verdict_is_named_once(results: Path, name: str) -> None:
    (results / name).unlink()
    told = invoke("report", results)
    assert told.exit_code == ExitStatus.USAGE
    assert told.stderr.count(name) == 1
    assert f"{name} is missing" in told.stderr


def test_unedited_results_are_accepted(results: Path) -> None:
    first = invoke("report", results)
    assert first.exit_code == invoke("report", results).exit_code == ExitStatus.BROKEN
    assert invoke("compare", results, results).exit_code == 0
    edit(results, lambda _: None, sealed=False)
    assert invoke("report", results).exit_code == ExitStatus.BROKEN, "of a former version"


def test_results_with_the_former_name_of_the_root_causes_are_accepted(results: Path) -> None:
    former, document = results / "autopsies.parquet", results / verdict.FILE
    (results / "root-causes.parquet").rename(former)
    content = json.loads(document.read_text())
    rest = {name: value for name, value in content.items() if name not in ("sha256", "files")}
    document.write_text(json.dumps(verdict.sealed(results, rest)))
    assert former.name in json.loads(document.read_text())["files"]
    assert invoke("report", results).exit_code == ExitStatus.BROKEN
    assert losses.root_causes(results) == ROOT_CAUSES.empty_table()
    report.remove(results)
    assert not former.exists()


def test_verdict_alone_is_compared(results: Path, tmp_path: Path) -> None:
    """Test that these files alone suffice for comparisons."""
    (alone := tmp_path / "alone").mkdir()
    for name in ("verdict.json", "campaign.yaml"):
        shutil.copy(results / name, alone)
    assert invoke("compare", alone, results).exit_code == 0


DAMAGES = {
    "": "it is not valid JSON: Expecting value at line 1 column 1",
    "{": "it is not valid JSON",
    "[]": "it must be an object with names and values",
    '{"version": 3, "verdict": "pass"}': "cells: is missing",
    '{"version": 4, "verdict": "pass", "cells": []}': "its version is 4, but this Ackproof",
    '{"verdict": "green", "cells": []}': "verdict: must be one of 'pass', 'fail'",
    '{"verdict": "pass", "cells": [], "seed": "x"}': "seed: must be a whole number",
    "\0": "it is not valid JSON",
    "[" * 100_000: "it is nested too deeply",
}


@pytest.mark.parametrize("written", DAMAGES, ids=range(len(DAMAGES)))
def test_damaged_verdict_is_refused_in_plain_words(results: Path, written: str) -> None:
    (results / verdict.FILE).write_text(written)
    for reader, told in refused(results):
        assert f"verdict.json: {DAMAGES[written]}" in told, reader
        for word in ("pydantic", "Input should", "Field required", "VerdictDocument"):
            assert word not in told
