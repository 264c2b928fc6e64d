"""Latencies: since when a record was due, of every record, added up over partitions."""

from collections.abc import Sequence
from math import ceil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.checkers.checks.latency import (
    ACK,
    BIN,
    SHOWN,
    acks_per_second,
    latency,
    of_acks,
    of_reader,
    together,
)
from ackproof.checkers.checks.reads import ReadRecords
from ackproof.checkers.index.partition_history import PartitionHistory
from ackproof.checkers.verdict import CampaignResult, Latency
from tests.support.builders.checked_runs import WELL, checked, run
from tests.support.builders.consumers import MadeConsumer, left_by, seen
from tests.support.builders.consumers import given as assigned
from tests.support.builders.histories import (
    Made,
    MadeRun,
    Send,
    at,
    entry,
    indexed,
    send,
    write_campaign,
)

MS = 1_000_000


def record(
    number: int, due_ms: float | None, sent_ms: float, acked_ms: float | None, kind: str = "ok"
) -> list[Send]:
    due = None if due_ms is None else at(due_ms / 1000)
    invoke = send("invoke", 1, number, at(sent_ms / 1000), due=due)
    if acked_ms is None:
        return [invoke]
    return [invoke, send(kind, 1, number, at(acked_ms / 1000), number)]


def history(*sends: Send) -> PartitionHistory:
    last = max((one.sequence for one in sends), default=-1)
    log = [entry(number, 1, number) for number in range(last + 1)]
    return indexed(Made(sends=sends, log=log, end=last + 1))


def acks(*sends: Send) -> Latency | None:
    return latency(ACK, [of_acks(history(*sends))])


def test_nothing_acknowledged_has_none() -> None:
    assert acks() is None
    assert acks(*record(0, 1, 1, None), *record(1, 1, 1, 5, "info")) is None
    assert acks_per_second([of_acks(history(*record(0, 1, 1, None)))]) is None


def test_stall_counts_for_every_record_due_during_it() -> None:
    """Ten a second, each acked within 1 ms of being sent; after the first the client was held up
    for a second, and sent the ten that had become due at once. Since they were sent, none of them
    took longer than any other."""
    sends = record(0, 0, 0, 1)
    for number in range(1, 11):
        sends += record(number, 100 * number, 1_100, 1_101)
    found = acks(*sends)
    assert found is not None
    assert (found.records, found.since_due, found.longest_ms) == (11, True, 1_001)
    assert found.p50_ms == pytest.approx(501, rel=0.01)
    told = acks(*(replaced(one) for one in sends))
    assert told is not None
    assert (told.since_due, told.longest_ms) == (False, 1)


def replaced(one: Send) -> Send:
    return Send(**{**vars(one), "due": None})


def test_acks_a_second_are_between_the_first_and_the_last_of_all_partitions() -> None:
    first = of_acks(history(*record(0, 0, 0, 500), *record(1, 0, 0, 1_000))) | {"acked": 2}
    second = of_acks(history(*record(0, 0, 0, 2_500))) | {"acked": 1}
    assert acks_per_second([first, second]) == 1.0
    assert acks_per_second([second]) is None
    assert acks_per_second([]) is None


def test_read_latency_counts_first_reads_of_scheduled_records_only() -> None:
    made = history(*record(0, 100, 150, 160), *record(1, None, 200, 210))
    rows = [
        seen(1, 0, 1, 0, at(0.130)),
        seen(1, 1, 1, 1, at(0.230)),
        seen(2, 0, 1, 0, at(9)),
        seen(2, 2, 7, 7, at(9)),
        seen(2, 3, None, None, at(9)),
    ]
    shown = ReadRecords(made).seen(left_by(MadeConsumer(polls=rows)).rows)
    found = latency(SHOWN, [of_reader(made, shown.record, shown.time)])
    assert found is not None
    assert (found.records, found.since_due, found.longest_ms) == (2, False, 30)
    assert found.p50_ms == pytest.approx(30, rel=0.01)


def test_latency_of_a_record_read_before_its_send_is_zero() -> None:
    made = history(*record(0, 100, 150, 160))
    shown = ReadRecords(made).seen(left_by(MadeConsumer(polls=[seen(1, 0, 1, 0, at(0.09))])).rows)
    found = latency(SHOWN, [of_reader(made, shown.record, shown.time)])
    assert found is not None
    assert (found.p50_ms, found.longest_ms) == (0, 0)


@given(st.lists(st.lists(st.integers(1, 10**10), max_size=40), min_size=1, max_size=4))
def test_percentiles_of_partitions_together_are_those_of_all_records(
    partitions: Sequence[Sequence[int]],
) -> None:
    counted = [
        of_acks(
            history(
                *(
                    event
                    for number, took in enumerate(some)
                    for event in (
                        send("invoke", 1, number, at(1), due=at(1)),
                        send("ok", 1, number, at(1) + took, number),
                    )
                )
            )
        )
        for some in partitions
    ]
    found = latency(ACK, counted)
    assert found == latency(ACK, [together(counted)])
    everything = sorted(took for some in partitions for took in some)
    if found is None:
        assert not everything
        return
    assert found.records == len(everything)
    assert found.longest_ms == pytest.approx(everything[-1] / MS, abs=0.001)
    for share, told_ms in ((0.5, found.p50_ms), (0.99, found.p99_ms)):
        exact_ms = everything[ceil(len(everything) * share) - 1] / MS
        assert exact_ms - 0.001 <= told_ms <= exact_ms * BIN + 0.001


def checked_run(directory: Path, made: MadeRun) -> CampaignResult:
    write_campaign(directory, made)
    return checked(directory)


def test_a_checked_cell_has_them_and_without_readers_nothing_was_shown(tmp_path: Path) -> None:
    (cell,) = checked_run(tmp_path / "alone", run()).cells
    assert cell.ack_latency is not None
    assert cell.ack_latency.records == cell.acked
    assert cell.shown_latency is None
    rows = [seen(1, e.offset, e.producer, e.sequence, at(60)) for e in WELL.log]
    reader = MadeConsumer(polls=rows, assigned=[assigned(0, at(0), 0)])
    (read,) = checked_run(tmp_path / "read", run(consumers=[reader])).cells
    assert read.shown_latency is not None
    assert read.shown_latency.records == len(rows)


def test_missing_sends_leave_latencies_unknown(tmp_path: Path) -> None:
    (cell,) = checked_run(tmp_path / "open", run(closed=False)).cells
    assert (cell.acks_per_second, cell.ack_latency, cell.shown_latency) == (None, None, None)
