"""Servers that had to wait for a processor have as much more time for what they must do."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.checkers.context.faults import FOREVER
from ackproof.checkers.context.pace import FULL, ServerPace, lost_share, pace_of
from ackproof.checkers.verdict import CampaignResult, Verdict
from tests.support.builders.checked_runs import FAIL, INCONCLUSIVE, checked, told
from tests.support.builders.histories import (
    ACKS_1,
    FINISHED,
    KILL,
    MadeRun,
    at,
    cell,
    kept,
    losing,
    recovered,
    state,
    write_campaign,
)

SECOND = 10**9


def look(
    end_s: float, waited_s: float, span_s: float = 1.0, ran_s: float = 0.1, server: str = "broker-1"
) -> dict[str, Any]:
    """A row of ``scheduling`` that ends so long after the start of the workload."""
    return {
        "time": at(end_s),
        "server": server,
        "span_ns": int(span_s * SECOND),
        "ran_ns": int(ran_s * SECOND),
        "waited_ns": int(waited_s * SECOND),
    }


def waiting(since: int, until: int, share: float) -> list[dict[str, Any]]:
    """A look every second, in each of which broker-1 waited for a share of the time."""
    return [look(second + 1, share, ran_s=1 - share) for second in range(since, until)]


# --- what rows of the table come to -------------------------------------------------------------


@pytest.mark.parametrize(
    ("ran", "waited", "lost"),
    [
        (0.0, 0.0, 0.0),  # asleep
        (1.0, 0.0, 0.0),  # busy on its own account
        (0.2, 0.8, 0.8),  # one thread that was ready all the time
        (0.0, 0.1, 0.1),
        (1.0, 3.0, 0.75),  # many threads: served at a quarter of the speed
        (0.0, 5.0, 0.999),  # never is no speed that anything can be divided by
    ],
)
def test_share_that_a_server_lost(ran: float, waited: float, lost: float) -> None:
    assert lost_share(look(1, waited, ran_s=ran)) == pytest.approx(lost)


def test_slowest_server_of_each_moment_sets_the_pace() -> None:
    rows = [look(2, 1.0, span_s=2), look(3, 1.6, span_s=2, server="zookeeper-1")]
    told = [(one.start - at(0), one.end - at(0), one.lost) for one in pace_of(rows).windows]
    assert told == [
        (0, SECOND, 0.5),
        (SECOND, 2 * SECOND, 0.8),
        (2 * SECOND, 3 * SECOND, 0.8),
    ]


def test_time_of_its_own_takes_longer_for_a_server_that_waits() -> None:
    pace = pace_of(waiting(10, 60, 0.75))
    assert pace.after(at(0), 7 * SECOND) == at(7)
    assert pace.after(at(10), 7 * SECOND) == at(38)
    assert pace.after(at(8), 7 * SECOND) == at(30)
    assert pace.after(at(59), 7 * SECOND) == at(66.75)
    assert pace.after(at(60), 7 * SECOND) == at(67)
    assert pace.after(FOREVER, 7 * SECOND) == FOREVER


TIMES = st.integers(0, 10**12)
ROWS = st.lists(
    st.builds(
        lambda end, span, ran, waited, server: {
            "time": end + span,
            "server": f"broker-{server}",
            "span_ns": span,
            "ran_ns": ran,
            "waited_ns": waited,
        },
        *(TIMES, st.integers(0, 10**10), st.integers(0, 10**10), st.integers(0, 10**10)),
        st.integers(1, 3),
    ),
    max_size=20,
)


@given(rows=ROWS, time=TIMES, duration=st.integers(0, 10**11))
def test_span_minus_lost_time_is_the_requested_duration(
    rows: list[dict[str, Any]], time: int, duration: int
) -> None:
    pace = pace_of(rows)
    end = pace.after(time, duration)
    assert end >= time + duration
    assert end - time - pace.lost_ns(time, end) == pytest.approx(duration, abs=1_000, rel=1e-6)


@given(time=TIMES, duration=st.integers(0, 10**11))
def test_without_rows_nothing_is_lost(time: int, duration: int) -> None:
    assert FULL == pace_of([]) == ServerPace()
    assert FULL.after(time, duration) == time + duration
    assert FULL.lost_ns(time, time + duration) == 0


# --- what follows for promises ------------------------------------------------------------------

LATE = kept(1, 10, 25, 34, 100)
"""The kill of broker 1, the leader, is over at 20 s, and 2 leads from 13 s on. A deposed leader has
heard of that at 30 s. One that waits for most of its time has not by 34 s."""
TAKEN = [state(-5, 1, 0, (1, 2, 3)), state(13, 2, 1, (2, 3)), state(22, 2, 1, (2, 3, 1))]


def concluded(directory: Path, scheduling: list[dict[str, Any]], lost: int) -> CampaignResult:
    run = MadeRun(
        partitions={("t", 0): losing(LATE, lost)},
        cells=[cell(ACKS_1)],
        cluster=TAKEN,
        faults=KILL,
        scheduling=scheduling,
    )
    return checked(write_campaign(directory, run))


@pytest.mark.parametrize(
    ("scheduling", "verdict"),
    [
        ([], FAIL),
        (waiting(0, 60, 0.05), FAIL),
        (waiting(0, 60, 0.8), INCONCLUSIVE),
        (waiting(60, 90, 0.8), FAIL),  # it waited when it had heard long ago
    ],
)
def test_loss_by_a_deposed_leader_that_had_to_wait_is_inconclusive(
    tmp_path: Path, scheduling: list[dict[str, Any]], verdict: Verdict
) -> None:
    result = concluded(tmp_path, scheduling, lost=3)
    assert result.verdict is verdict
    said = "servers had to wait for a processor, and may have learned late of another leader"
    assert (said in told(result)) is (verdict is INCONCLUSIVE)


def test_loss_long_after_a_server_had_to_wait_is_a_broken_promise(tmp_path: Path) -> None:
    assert concluded(tmp_path, waiting(0, 60, 0.8), lost=4).verdict is FAIL


def test_recovery_of_servers_that_had_to_wait_has_more_time(tmp_path: Path) -> None:
    recovery = [recovered(isr=(1, 2), whole=False, seconds=85)]
    run = MadeRun(partitions={("t", 0): LATE}, recovery=recovery, scheduling=waiting(0, 300, 0.5))
    result = checked(write_campaign(tmp_path, run))
    assert result.verdict is INCONCLUSIVE
    assert "not recovered when it was last checked, but its time limit had not passed" in told(
        result
    )


# --- what a reader is told ----------------------------------------------------------------------


@pytest.mark.parametrize(("share", "is_told"), [(0.3, False), (0.7, True)])
def test_run_with_servers_that_mostly_waited_for_a_processor_has_a_finding(
    tmp_path: Path, share: float, is_told: bool
) -> None:
    ended = {"time": at(300)}
    phases = [{**row, **(ended if row["phase"] == "flush" else {})} for row in FINISHED]
    scheduling = waiting(0, 300, share)
    run = MadeRun(partitions={("t", 0): LATE}, phases=phases, scheduling=scheduling)
    findings = checked(write_campaign(tmp_path, run)).findings
    said = "the servers waited for a processor for most of the time (broker-1 70%)"
    assert any(said in finding for finding in findings) is is_told
