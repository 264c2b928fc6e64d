"""Evidence is the manifest minus the history, cell by cell: what is lacking is named, and it costs
the cells that lack it and no others."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ackproof.checkers.verdict import Verdict
from ackproof.history.cell import Value
from ackproof.history.manifest import FILE
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
    ACKS_0,
    ACKS_1,
    ALL,
    CLIENT,
    FINISHED,
    at,
    cell,
    entry,
    history_of,
    losing,
    send,
    write_campaign,
)


def test_complete_history_passes_and_names_its_evidence(tmp_path: Path) -> None:
    result = checked(write_campaign(tmp_path, two_cells()))
    assert verdicts(result) == {"c": PASS, "d": PASS}
    assert result.verdict is PASS
    assert result.findings == ()
    assert not result.infrastructure_failed
    assert not result.baseline
    assert "c: no-acked-record-lost" in told(result)
    assert "none of 3 acked records lost" in told(result)


@pytest.mark.parametrize("content", [None, b"", b"{", b"\x00\xff"])
def test_without_its_manifest_nothing_is_concluded(tmp_path: Path, content: bytes | None) -> None:
    directory = write_campaign(tmp_path, run())
    (directory / FILE).unlink()
    if content is not None:
        (directory / FILE).write_bytes(content)
    result = checked(directory)
    assert result.verdict is INCONCLUSIVE
    assert result.cells == ()
    assert result.infrastructure_failed
    assert str(directory / FILE) in result.findings[0]


def test_a_run_without_a_directory_lacks_all_of_its_cells(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, run(), run())
    history_of(directory, 2).rename(tmp_path / "elsewhere")
    result = checked(directory)
    assert [found.verdict for found in result.cells] == [PASS, INCONCLUSIVE]
    assert result.cells[1].lost is None
    assert f"{history_of(directory, 2)} does not exist" in result.cells[1].reasons[0]
    assert result.infrastructure_failed


def test_a_partition_without_a_final_read_costs_its_cell(tmp_path: Path) -> None:
    made = two_cells(partitions={**TWO_CELLS, ("t", 0): WELL.but(complete=False)})
    result = checked(write_campaign(tmp_path, made))
    assert verdicts(result) == {"c": INCONCLUSIVE, "d": PASS}
    assert "t-0: final read incomplete (timed out)" in told(result)
    assert result.cells[0].lost is None


def test_unread_partition_has_unknown_counts_instead_of_0(tmp_path: Path) -> None:
    """Ctrl-C in the middle: parts only, no final read, no row behind the heal."""
    made = run(closed=False, reads=False, phases=FINISHED[:9], recovery=())
    directory = write_campaign(tmp_path, made)
    for path in history_of(directory).glob("log.*"):
        path.unlink()
    result = checked(directory)
    (found,) = result.cells
    assert found.verdict is INCONCLUSIVE
    assert (found.sent, found.acked) == (3, 3)
    assert (found.lost, found.duplicated, found.reordered) == (None, None, None)
    assert "t-0: no final read" in told(result)
    assert "lost: none" not in told(result)
    assert result.infrastructure_failed


def test_too_few_acks_are_too_little(tmp_path: Path) -> None:
    result = checked(write_campaign(tmp_path, run(cells=[cell(acked_min=4)])))
    assert result.verdict is INCONCLUSIVE
    assert "3 acked records, but at least 4 are needed" in told(result)


def test_an_end_that_is_not_met_is_a_finding_and_no_gap(tmp_path: Path) -> None:
    made = run(partitions={("t", 0): WELL.but(end=7, met=3)})
    result = checked(write_campaign(tmp_path, made))
    assert result.verdict is PASS
    assert result.findings == (
        "run 1: t-0: ListOffsets returned the end 7, but the final read ended at 3",
    )


def test_listed_end_below_an_acked_record_breaks_a_promise_of_acks_all(tmp_path: Path) -> None:
    made = run(partitions={("t", 0): WELL.but(end=2, met=3)})
    result = checked(write_campaign(tmp_path, made))
    assert result.verdict is FAIL
    assert result.anomalies["watermark-regressed"] == 1
    assert "committed-stays: acks=all" in told(result)


def test_listed_end_below_the_end_of_the_log_is_a_finding_with_acks_1(tmp_path: Path) -> None:
    made = run(cells=[cell(ACKS_1)], partitions={("t", 0): WELL.but(end=2, met=3)})
    result = checked(write_campaign(tmp_path, made))
    assert result.verdict is PASS
    assert result.findings == (
        "run 1: t-0: ListOffsets returned the end 2, but the final read ended at 3",
    )


def test_listed_end_from_before_the_last_ack_breaks_nothing(tmp_path: Path) -> None:
    """The last record is acked at 40 s, and the final read began at 30 s."""
    phases = [{**row, "time": min(row["time"], at(30))} for row in FINISHED]
    made = run(phases=phases, partitions={("t", 0): WELL.but(end=2, met=3)})
    result = checked(write_campaign(tmp_path, made))
    assert result.anomalies["watermark-regressed"] == 0
    assert result.verdict is PASS


@pytest.mark.parametrize("bounds", [(600_000_000, 0), (-450_000_000, 100_000_000)])
def test_clock_beyond_its_allowed_bound_is_a_finding(
    tmp_path: Path, bounds: tuple[int, int]
) -> None:
    result = checked(write_campaign(tmp_path, run(bounds=bounds)))
    assert result.verdict is PASS
    (finding,) = result.findings
    assert f"the clock of {CLIENT} is up to" in finding
    assert result.runs[0].clock_bound_ns == sum(map(abs, bounds))


def test_a_clock_that_was_not_compared_is_a_gap(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, run())
    history = history_of(directory)
    for path in (*history.glob("clocks.*"), *history.glob("closings.clocks*")):
        path.unlink()
    once = TableWriter(history, "clocks", "harness")
    once.write(node=CLIENT, moment="start", time=at(0), offset_ns=0, bound_ns=1)
    once.close()
    result = checked(directory)
    assert result.verdict is INCONCLUSIVE
    assert f"the clock of {CLIENT} was not compared at the start and end of the run" in told(result)
    assert result.runs[0].clock_bound_ns is None


EVIDENCE = ("deploy", "ready", "workload", "faults", "heal", "recover", "flush", "final-read")


@pytest.mark.parametrize("step", EVIDENCE)
@pytest.mark.parametrize("end", ["failed", "failed and ended", "never"])
def test_a_step_that_did_not_end_well_is_a_gap(tmp_path: Path, step: str, end: str) -> None:
    failed = {"phase": step, "event": "failed", "time": at(5), "detail": "took too long"}
    ended = (step, "end")
    phases = [r for r in FINISHED if "ended" in end or (r["phase"], r["event"]) != ended]
    made = run(phases=[*phases, failed] if "failed" in end else phases)
    result = checked(write_campaign(tmp_path, made))
    words = "failed: took too long" if "failed" in end else "did not end"
    assert result.verdict is INCONCLUSIVE
    assert f"the step {step} {words}" in told(result)


@pytest.mark.parametrize(
    ("step", "ours"),
    [
        ("deploy", True),
        ("ready", True),
        ("collect", True),
        ("teardown", True),
        ("faults", False),
        ("recover", False),
        ("final-read", False),
    ],
)
def test_which_steps_are_the_infrastructures(tmp_path: Path, step: str, ours: bool) -> None:
    failed = {"phase": step, "event": "failed", "time": at(5), "detail": None}
    result = checked(write_campaign(tmp_path, run(phases=[*FINISHED, failed])))
    assert result.infrastructure_failed is ours
    assert result.runs[0].infrastructure_failed is ours
    assert (result.verdict is PASS) == (step in ("collect", "teardown"))


def test_a_run_that_did_not_come_to_its_end(tmp_path: Path) -> None:
    result = checked(write_campaign(tmp_path, run(phases=FINISHED[:-1])))
    assert result.infrastructure_failed


@pytest.mark.parametrize(
    ("expect", "partitions", "campaign"),
    [
        (("fail", "pass"), losing(WELL, 1), PASS),
        (("fail", "pass"), WELL, PASS),
        (("fail", "pass"), WELL.but(complete=False), INCONCLUSIVE),
        (("fail", "not-guaranteed"), WELL, FAIL),
        (("pass", "not-guaranteed"), losing(WELL, 1), FAIL),
        (("pass", "sunshine"), WELL, INCONCLUSIVE),
        ("fail", losing(WELL, 1), PASS),
        ("fail", WELL, FAIL),
        ("fail", WELL.but(complete=False), INCONCLUSIVE),
        ("pass", WELL, PASS),
        ("pass", losing(WELL, 1), FAIL),
        ("inconclusive", WELL.but(complete=False), INCONCLUSIVE),
        ("not-guaranteed", WELL, FAIL),
        ("sunshine", WELL, INCONCLUSIVE),
    ],
)
def test_a_cell_that_expects_passes_only_if_that_comes_true(
    tmp_path: Path, expect: str | tuple[str, ...], partitions: Any, campaign: Verdict
) -> None:
    made = run(cells=[cell(expect=expect)], partitions={("t", 0): partitions})
    result = checked(write_campaign(tmp_path, made))
    assert result.verdict is campaign
    several = (expect,) if isinstance(expect, str) else expect
    assert result.cells[0].expected == tuple(one for one in several if one != "sunshine")


def test_contradictory_events_are_no_evidence(tmp_path: Path) -> None:
    twice = WELL.but(sends=[*WELL.sends, send("invoke", 1, 1, at(16))])
    result = checked(write_campaign(tmp_path, run(partitions={("t", 0): twice})))
    assert result.verdict is INCONCLUSIVE


@pytest.mark.parametrize("settings", [ALL, ACKS_0])
def test_record_acknowledged_in_another_partition_fails(
    tmp_path: Path, settings: Mapping[str, Value]
) -> None:
    """Its ack has no offset where it was sent to; it stands where it was not sent to."""
    placed = WELL.but(sends=[*WELL.sends, send("invoke", 9, 0, at(16)), send("ok", 9, 0, at(17))])
    other = WELL.but(log=[*WELL.log, entry(3, 9, 0)], end=4)
    planned = cell(settings, partitions=2)
    made = run(cells=[planned], partitions={("t", 0): placed, ("t", 1): other})
    result = checked(write_campaign(tmp_path, made))
    assert result.verdict is FAIL
    assert "c: no-phantom: promised by every configuration: 1 phantom" in told(result)
    assert result.anomalies["lost"] == 1


def test_an_alien_payload_is_a_phantom(tmp_path: Path) -> None:
    made = WELL.but(log=[*WELL.log, entry(3)], end=4)
    result = checked(write_campaign(tmp_path, run(partitions={("t", 0): made})))
    assert result.verdict is FAIL
    assert "c: no-phantom: promised by every configuration: 1 phantom" in told(result)
