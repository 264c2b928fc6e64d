"""Whatever becomes of a run, what there is is checked and reported, and a broken guarantee wins."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from ackproof.harness.campaign.backends import BACKENDS, BackendContext, BackendKind
from ackproof.harness.campaign.validation import load
from ackproof.harness.directory import create
from ackproof.harness.exit_status import ExitStatus
from ackproof.harness.interruption import SIGNALS, Interruption
from ackproof.harness.running import execution
from ackproof.harness.running.deadline import SystemClock
from ackproof.history import manifest, reader
from ackproof.history.writer import TableWriter
from ackproof.infra.api.interface import Backend, InfraError

pytestmark = pytest.mark.spark


@pytest.fixture
def interruption() -> Iterator[Interruption]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    taking = Interruption()
    taking.install()
    yield taking
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def carry_out(campaign_file, tmp_path: Path, interruption, monkeypatch, capsys):
    """Carries out a campaign of two runs whose backend is the one given; what it exits with, and
    what it says."""

    def carry_out(open_backend, **more: object) -> tuple[ExitStatus, str]:
        place = BackendKind(
            capabilities=lambda _: frozenset(), obstacle=lambda: None, open=open_backend, enter=exit
        )
        monkeypatch.setitem(BACKENDS, "local", place)
        campaign = load(campaign_file({"runs": 2, "cells.acks": "all", "faults": [], **more}))
        directory = create(campaign.resolved(seed=1), 0, tmp_path / "out")
        console = Console(width=200)
        status = execution.carry_out(
            campaign.resolved(seed=1), directory, console, SystemClock(), interruption
        )
        return status, capsys.readouterr().out

    return carry_out


def phases(out: Path, number: int) -> list[tuple[str, str, str]]:
    rows = reader.read(out / "runs" / str(number) / "history", "phases").to_pylist()
    return [(row["phase"], row["event"], row["detail"]) for row in rows]


def refuses(_site: BackendContext, _scratch: Path, _results: Path) -> Backend:
    raise InfraError("there is no room for a cluster")


def test_a_backend_that_does_not_open_skips_neither_the_next_run_nor_the_check(
    carry_out, tmp_path: Path
) -> None:
    status, said = carry_out(refuses)
    out = tmp_path / "out"
    assert status is ExitStatus.INFRASTRUCTURE
    for number in (1, 2):
        why = "the run did not begin: there is no room for a cluster"
        assert phases(out, number) == [("deploy", "failed", why)]
    assert "run 2 failed: InfraError: there is no room for a cluster" in said
    assert json.loads((out / "verdict.json").read_text())["verdict"] == "inconclusive"
    assert (out / "report.html").exists()
    assert len(manifest.read(out).runs) == 2


def test_a_fault_of_our_own_does_not_either(carry_out, tmp_path: Path) -> None:
    def breaks(_site: BackendContext, _scratch: Path, _results: Path) -> Backend:
        raise ZeroDivisionError("a slip of ours")

    status, said = carry_out(breaks)
    assert status is ExitStatus.INFRASTRUCTURE
    assert "ZeroDivisionError: a slip of ours" in said
    assert "Traceback" in (tmp_path / "out/runs/2/logs/harness.log").read_text()
    assert (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize(
    ("until", "begun"),
    [("first-broken-guarantee", 2), pytest.param("end", 3, marks=pytest.mark.long)],
)
def test_no_further_run_once_one_broke_a_guarantee(
    carry_out, tmp_path: Path, until: str, begun: int
) -> None:
    """Test three runs, of which the second records an acknowledgement without a record in the
    log."""
    opened: list[str] = []

    def loses_in_the_second(site: BackendContext, scratch: Path, results: Path) -> Backend:
        opened.append(results.name)
        if results.name == "2":
            _record_a_loss(manifest.read(tmp_path / "out"), results / "history")
        return refuses(site, scratch, results)

    status, said = carry_out(loses_in_the_second, runs=3, schedule={"until": until})
    assert status is ExitStatus.BROKEN
    assert opened == [str(number) for number in range(1, begun + 1)]
    assert [run.number for run in manifest.read(tmp_path / "out").runs] == list(range(1, begun + 1))
    assert ("run 2 broke a guarantee: no further run is started" in said) == (begun == 2)
    assert "verdict: fail" in said, "the loss wins over the failure of another run"
    document = json.loads((tmp_path / "out" / "verdict.json").read_text())
    assert document["verdict"] == "fail"
    assert [run["number"] for run in document["runs"]] == list(range(1, begun + 1))


def test_asked_to_stop_while_a_backend_opens_nothing_more_begins(carry_out, tmp_path: Path) -> None:
    def asked(_site: BackendContext, _scratch: Path, _results: Path) -> Backend:
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("the signal was not taken")

    status, _ = carry_out(asked)
    assert status is ExitStatus.INCONCLUSIVE
    assert phases(tmp_path / "out", 1) == [("deploy", "failed", "interrupted")]
    assert not (tmp_path / "out" / "runs" / "2").exists()
    assert (tmp_path / "out" / "report.html").exists()


def test_second_interruption_skips_the_check(carry_out, tmp_path: Path, interruption) -> None:
    def asked_twice(_site: BackendContext, _scratch: Path, _results: Path) -> Backend:
        interruption._times = 1
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("the signal was not taken")

    with pytest.raises(KeyboardInterrupt):
        carry_out(asked_twice)
    assert not (tmp_path / "out" / "report.html").exists()


def _record_a_loss(planned: manifest.Manifest, history: Path) -> None:
    """Record an acknowledged record in the first partition of each cell; the logs are read, and
    empty."""
    cells = [one.cell for one in planned.runs[0].cells]
    now = SystemClock().time_ns()
    reads = TableWriter(history, "reads", "final-read")
    for cell in cells:
        for topic, number in cell.topic_partitions:
            sends = TableWriter(history, "sends", f"{cell.name}-0", partition=(topic, number))
            log = TableWriter(history, "log", "final-read", partition=(topic, number))
            for kind, offset in (("invoke", None), ("ok", 0)) if number == 0 else ():
                names = (cell.name, topic, number, 0, 0, kind, now, offset)
                sends.append((*names, None, None, None, None))
            reads.append((topic, number, 0, 0, 0, 0, True, None))
            sends.close()
            log.close()
    reads.close()
