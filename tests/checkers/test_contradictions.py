"""Evidence that contradicts itself blames no cluster: the check is inconclusive and names it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackproof.checkers.verdict import CampaignResult
from tests.support.builders.checked_runs import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    WELL,
    checked,
    collected,
    replicas_of,
    run,
    told,
)
from tests.support.builders.consumers import MadeConsumer, seen
from tests.support.builders.histories import (
    ACKS_0,
    AFTER,
    BEFORE,
    DURING,
    FINISHED,
    at,
    cell,
    entry,
    history_of,
    kept,
    send,
    write_campaign,
)
from tests.support.builders.raw_logs import batches, write_replicas

READ_FROM = 50
LOG = batches(2, 1)
"""The raw log of the three records of WELL."""


def read_from(seconds: float) -> list[dict[str, Any]]:
    """The steps of a run whose final read began at that time."""
    return [{**row, "time": min(row["time"], at(seconds))} for row in FINISHED]


def lost(result: CampaignResult) -> int | None:
    (found,) = result.cells
    return found.lost


@pytest.mark.parametrize(
    ("acked_at", "verdict"),
    [(READ_FROM - 1, FAIL), (READ_FROM + 0.1, INCONCLUSIVE), (READ_FROM + 30, INCONCLUSIVE)],
)
def test_record_acked_after_the_final_read_began_is_unread_and_not_lost(
    tmp_path: Path, acked_at: float, verdict: Any
) -> None:
    made = kept(BEFORE, DURING, AFTER, acked_at)
    short = made.but(log=made.log[:3], end=3)
    result = checked(
        write_campaign(tmp_path, run(partitions={("t", 0): short}, phases=read_from(READ_FROM)))
    )
    assert result.verdict is verdict
    assert result.anomalies["lost"] == int(verdict is FAIL)
    if verdict is INCONCLUSIVE:
        assert lost(result) is None
        assert "1 records were acked after the final read had begun, and are not in it" in told(
            result
        )


def test_record_acked_after_the_final_read_began_and_read_all_the_same_passes(
    tmp_path: Path,
) -> None:
    late = kept(BEFORE, DURING, AFTER, READ_FROM + 1)
    made = run(partitions={("t", 0): late}, phases=read_from(READ_FROM))
    assert checked(write_campaign(tmp_path, made)).verdict is PASS


SHORT = WELL.but(log=WELL.log[:2], end=2)


def with_logs(tmp_path: Path, *logs: Any, **changes: Any) -> CampaignResult:
    directory = write_campaign(
        tmp_path / "results", collected(**{"partitions": {("t", 0): SHORT}, **changes})
    )
    write_replicas(replicas_of(directory), *logs)
    return checked(directory)


def test_final_read_shorter_than_all_raw_logs_is_inconclusive(tmp_path: Path) -> None:
    result = with_logs(tmp_path, LOG, LOG, LOG)
    assert result.verdict is INCONCLUSIVE
    assert (result.anomalies["lost"], lost(result)) == (0, None)
    words = "the logs of broker-1, broker-2, broker-3 hold 1 acked records from offset 2 to 2"
    assert words in told(result)
    assert any(words in finding for finding in result.findings)


def test_record_that_one_in_sync_replica_lacks_is_lost(tmp_path: Path) -> None:
    result = with_logs(tmp_path, LOG, LOG, LOG[:1])
    assert result.verdict is FAIL
    assert lost(result) == 1


def test_record_acked_twice_at_two_offsets_blames_no_cluster(tmp_path: Path) -> None:
    twice = [*WELL.sends, send("ok", 1, 2, at(AFTER + 1), 7)]
    result = checked(write_campaign(tmp_path, run(partitions={("t", 0): WELL.but(sends=twice)})))
    assert result.verdict is INCONCLUSIVE
    assert not any(result.anomalies.values())
    assert "1 records with contradictory events" in told(result)


@pytest.mark.parametrize("second", ["fail", "info", "ok"])
def test_lost_record_with_two_outcomes_blames_no_cluster(tmp_path: Path, second: str) -> None:
    twice = [*WELL.sends, send(second, 1, 2, at(AFTER + 1), None)]
    made = run(partitions={("t", 0): SHORT.but(sends=twice)})
    result = checked(write_campaign(tmp_path, made))
    assert result.verdict is INCONCLUSIVE
    assert (result.anomalies["lost"], lost(result)) == (0, None)


def test_record_that_failed_and_was_unknown_and_stands_blames_no_cluster(tmp_path: Path) -> None:
    again = [send(kind, 1, 2, at(AFTER)) for kind in ("invoke", "fail", "info")]
    sends = [*WELL.sends[:4], *again]
    result = checked(write_campaign(tmp_path, run(partitions={("t", 0): WELL.but(sends=sends)})))
    assert result.verdict is INCONCLUSIVE
    assert result.anomalies["failed-but-present"] == 0


def test_acks_before_their_sends_blame_no_cluster(tmp_path: Path) -> None:
    """Each record is acked 100 s before it is sent, in the order of the log."""
    sends = [
        replace(one, time=one.time + (100 * 10**9 if one.type == "invoke" else 0))
        for one in WELL.sends
    ]
    result = checked(write_campaign(tmp_path, run(partitions={("t", 0): WELL.but(sends=sends)})))
    assert result.verdict is INCONCLUSIVE
    assert not any(result.anomalies.values())
    assert "3 records with contradictory events" in told(result)


def test_lost_record_that_the_log_has_at_the_offset_of_another_is_inconclusive(
    tmp_path: Path,
) -> None:
    """With acks=0 no ack tells an offset, so that nothing else shows it."""
    sends = [replace(one, offset=None) for one in WELL.sends]
    log = [*WELL.log[:2], entry(1, 1, 2)]
    made = run(cells=[cell(ACKS_0)], partitions={("t", 0): WELL.but(sends=sends, log=log, end=2)})
    result = checked(write_campaign(tmp_path, made))
    assert result.verdict is INCONCLUSIVE
    assert lost(result) is None
    words = "1 records are in the final log at an offset that holds another record"
    assert words in told(result)


def test_polls_file_with_more_rows_than_its_closing_breaks_no_order(tmp_path: Path) -> None:
    polls = [seen(1, offset, 1, offset, at(AFTER)) for offset in range(3)]
    reader = MadeConsumer(client="reader-0", polls=polls)
    made = run(consumers=(reader,), digests=False)
    directory = write_campaign(tmp_path, made)
    (path,) = history_of(directory).glob("polls.*.parquet")
    rows = pq.read_table(path)
    pq.write_table(pa.concat_tables([rows, rows]), path)
    result = checked(directory)
    assert result.anomalies["nonmonotonic-poll"] == 0
    assert {one.name: one.held for one in result.cells[0].guarantees}["polls-in-order"] is None
    assert any("polls" in finding for finding in result.findings)
