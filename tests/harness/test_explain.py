"""``ackproof explain`` and the catalogues with a name."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ackproof.checkers.checks.catalogue import CATALOGUE
from ackproof.checkers.guarantees.table import GUARANTEES
from ackproof.checkers.thresholds import MEASURES
from ackproof.checkers.verdict import CampaignResult, CellResult, RunResult, Verdict
from ackproof.harness.cli import cli
from ackproof.harness.exit_status import ExitStatus
from ackproof.harness.report import verdict
from ackproof.infra.clients.programs import CLIENTS
from ackproof.infra.systems import SYSTEMS
from ackproof.nemesis import FAULTS
from ackproof.workloads import WORKLOADS
from tests.support.builders.planted_logs import lost_in_an_election, reported
from tests.support.builders.results import cell_result

UNREAD = cell_result("unread", Verdict.INCONCLUSIVE, lost=None, duplicated=None, reordered=None)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


@pytest.mark.parametrize(
    "word",
    [
        *(*CATALOGUE, *GUARANTEES, *MEASURES, *Verdict, *FAULTS, *SYSTEMS, *CLIENTS, *WORKLOADS),
        *(str(one.value) for one in ExitStatus),
    ],
)
def test_each_word_of_a_report_is_explained(word: str) -> None:
    done = call("explain", word)
    assert done.exit_code == 0
    assert done.output.startswith(word)


def test_unknown_word_is_refused_with_the_one_that_was_meant() -> None:
    done = call("explain", "no-acked-record-lots")
    assert done.exit_code == 2
    assert "did you mean no-acked-record-lost?" in done.output


def test_catalogues_show_a_single_entry() -> None:
    fault = call("faults", "isolate")
    assert fault.output.startswith("isolate\n")
    assert "pause-client" not in fault.output
    checker = call("checkers", "lost")
    assert "lost" in checker.output
    assert "duplicated" not in checker.output


@pytest.mark.parametrize("catalogue", ["faults", "checkers"])
def test_catalogues_refuse_an_unknown_name(catalogue: str) -> None:
    assert call(catalogue, "no-such-thing").exit_code == 2


# --- pictures of a result -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reported(lost_in_an_election(tmp_path_factory.mktemp("drawn") / "results"))


@pytest.mark.parametrize("record", ["1", "c/1/1"])
def test_record_of_a_result_is_drawn(results: Path, record: str) -> None:
    done = call("explain", str(results), "--record", record)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0] == "t-0, offsets 1 to 2: 2 records acknowledged and lost"
    assert "acked, lost        x x" in lines
    assert max(map(len, lines)) <= 100
    assert "broker-1 acknowledged them as leader of epoch 0." in " ".join(lines)


def test_causes_of_a_result_are_listed_with_the_command_for_each(results: Path) -> None:
    done = call("explain", str(results))
    assert done.exit_code == 0, done.output
    assert done.output.startswith("c, t-0: 2 lost")
    assert f"ackproof explain {results} --record 1" in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("cells", "begins"),
    [
        ([cell_result()], "No record was lost, duplicated or read and later absent"),
        ([cell_result(), UNREAD], "In the cells that were checked, no record was lost"),
        ([UNREAD], "No cell was checked to its end, so that no cause is known: the log is gone"),
        ([], "No cell was checked to its end, so that no cause is known: the log is gone"),
    ],
)
def test_results_without_causes_do_not_speak_for_cells_that_were_not_checked(
    tmp_path: Path, cells: list[CellResult], begins: str
) -> None:
    run = RunResult(number=1, clock_bound_ns=0, infrastructure_failed=False)
    verdicts = {cell.verdict for cell in cells} or {Verdict.INCONCLUSIVE}
    found = CampaignResult(
        verdict=Verdict.INCONCLUSIVE if Verdict.INCONCLUSIVE in verdicts else Verdict.PASS,
        cells=tuple(cells),
        anomalies={},
        findings=("the log is gone",),
        runs=(run,),
    )
    verdict.write(tmp_path, verdict.to_document({"name": "c", "seed": 1}, found))
    (tmp_path / "manifest.json").touch()
    done = call("explain", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert done.output.startswith(begins)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ("0", "there is no anomaly 0: anomalies.parquet has the rows 1 to"),
        ("99", "there is no anomaly 99: anomalies.parquet has the rows 1 to"),
        ("c/1/99", "no anomaly concerns this record"),
        ("c/1", "must be the number of a row of anomalies.parquet"),
        ("-1", "must be the number of a row of anomalies.parquet"),
        ("\u00b2", "must be the number of a row of anomalies.parquet"),
        ("", "must be the number of a row of anomalies.parquet"),
        ("9" * 40, "there is no anomaly"),
        (f"c/{'9' * 30}/1", "no anomaly concerns this record"),
    ],
)
def test_record_that_does_not_exist_is_refused(results: Path, record: str, words: str) -> None:
    done = call("explain", str(results), "--record", record)
    assert done.exit_code == 2
    assert words in done.output
    assert "Traceback" not in done.output


def test_directory_without_results_has_nothing_to_draw(tmp_path: Path, results: Path) -> None:
    done = call("explain", str(tmp_path), "--record", "1")
    assert (done.exit_code, "has no results of a campaign" in done.output) == (2, True)
    (tmp_path / "manifest.json").write_bytes((results / "manifest.json").read_bytes())
    done = call("explain", str(tmp_path), "--record", "1")
    assert (done.exit_code, "has not been checked" in done.output) == (2, True)


def test_word_is_explained_even_if_a_directory_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lost").mkdir()
    monkeypatch.chdir(tmp_path)
    assert call("explain", "lost").output.startswith("lost: an anomaly")


def test_run_without_a_record_is_refused(results: Path) -> None:
    done = call("explain", str(results), "--run", "1")
    assert (done.exit_code, "--run needs --record" in done.output) == (2, True)
