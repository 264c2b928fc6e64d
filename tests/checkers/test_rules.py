"""Literal histories of a few rows, expected rows beside them."""

from dataclasses import replace
from typing import Any

import pytest

from ackproof.checkers.checks.catalogue import (
    CATALOGUE,
    CONSUMPTION,
    DIVERGENT,
    TRANSACTION_CHECKERS,
)
from ackproof.checkers.checks.partition_rules import CHECKERS
from ackproof.checkers.checks.records import duplicated
from ackproof.checkers.checks.rows import ROWS
from ackproof.checkers.checks.share_groups import SHARE_CHECKERS
from ackproof.checkers.context.fault_windows import FaultWindows
from ackproof.checkers.index.raw_logs import ProducerPosition
from tests.support.builders.histories import Entry, Made, Send, entry, indexed, send

SENT_TWO_ACKED = [
    send("invoke", 1, 0, 10),
    send("ok", 1, 0, 11, 0),
    send("invoke", 1, 1, 12),
    send("ok", 1, 1, 13, 1),
]
TWO_ENTRIES = [entry(0, 1, 0), entry(1, 1, 1)]


def found(made: Made, **options: Any) -> list[tuple[Any, ...]]:
    """(anomaly, offset, producer, sequence, detail) of everything that any rule finds."""
    history = indexed(made, **options)
    rows = [row for c in CHECKERS.values() for row in c(history).to_pylist()]
    return [
        tuple(row[n] for n in ("anomaly", "offset", "producer", "sequence", "detail"))
        for row in rows
    ]


def made(sends: list[Send], log: list[Entry], end: int | None = None, **rest: Any) -> Made:
    return Made(sends=sends, log=log, end=len(log) if end is None else end, **rest)


def test_a_clean_history_has_no_anomaly() -> None:
    assert found(made(SENT_TWO_ACKED, TWO_ENTRIES)) == []


def test_an_empty_history_has_no_anomaly() -> None:
    assert found(made([], [])) == []


def test_rows_have_the_schema_of_anomalies_without_the_run() -> None:
    history = indexed(made(SENT_TWO_ACKED, [entry(0), entry(2, 1, 1)], 3))
    for checker in CHECKERS.values():
        assert checker(history).schema == ROWS


def test_lost_with_the_tail_of_the_log() -> None:
    assert found(made(SENT_TWO_ACKED, TWO_ENTRIES[:1])) == [
        ("lost", 1, 1, 1, "acked at offset 1; truncated: the log ends at 1")
    ]


def test_lost_and_its_offset_rewritten_by_another_record() -> None:
    sends = [*SENT_TWO_ACKED, send("invoke", 2, 0, 20)]
    assert found(made(sends, [entry(0, 1, 0), entry(1, 2, 0)])) == [
        ("lost", 1, 1, 1, "acked at offset 1; rewritten: it now holds producer 2 sequence 0")
    ]


def test_lost_without_an_offset_as_with_acks_0() -> None:
    sends = [send("invoke", 1, 0, 10), send("ok", 1, 0, 11)]
    assert found(made(sends, [])) == [("lost", None, 1, 0, "acked without an offset")]


def test_record_deleted_by_order_is_not_lost_and_records_above_are() -> None:
    begun = made(SENT_TWO_ACKED, [], 2, start=2)
    assert [row[:2] for row in found(begun)] == [("lost", 0), ("lost", 1)]
    assert found(begun, deleted_before=1) == [
        ("lost", 1, 1, 1, "acked at offset 1; the log starts at 2")
    ]
    assert found(begun, deleted_before=2) == []


def test_a_copy_that_was_deleted_by_order_may_have_been_the_one_that_was_acked() -> None:
    twice = [entry(0, 1, 0), entry(1, 1, 1), entry(2, 1, 0)]
    left = made(SENT_TWO_ACKED, twice[2:], 3, start=2)
    assert found(left, deleted_before=2) == []
    kinds = [row[:4] for row in found(left, deleted_before=0)]
    assert ("offset-mismatch", 0, 1, 0) in kinds
    above = made(SENT_TWO_ACKED, [entry(2, 1, 0), entry(3, 1, 1)], 4, start=1)
    moved = [row[:4] for row in found(above, deleted_before=1) if row[0] == "offset-mismatch"]
    assert moved == [("offset-mismatch", 1, 1, 1)]


def test_ack_without_offset_may_be_of_a_deleted_record() -> None:
    sends = [*SENT_TWO_ACKED, send("invoke", 1, 2, 14), send("ok", 1, 2, 15)]
    begun = made(sends, [], 3, start=3)
    assert found(begun, deleted_before=3) == []
    assert indexed(begun, deleted_before=3).lost_or_deleted == 1
    assert indexed(begun).lost_or_deleted == 0


def test_nothing_is_called_lost_where_the_final_read_is_incomplete() -> None:
    assert found(made(SENT_TWO_ACKED, TWO_ENTRIES[:1], 2, complete=False)) == []


@pytest.mark.parametrize("events", [[], [send("info", 1, 0, 11)]])
@pytest.mark.parametrize("log", [[], [entry(0, 1, 0)]])
def test_an_unknown_outcome_may_be_in_the_log_or_not(events: list[Send], log: list[Entry]) -> None:
    assert found(made([send("invoke", 1, 0, 10), *events], log)) == []


def test_duplicated_is_one_row_a_record_with_all_offsets() -> None:
    log = [*TWO_ENTRIES, entry(2, 1, 0), entry(3, 1, 0)]
    assert found(made(SENT_TWO_ACKED, log)) == [
        ("duplicated", 0, 1, 0, "in the log at offsets 0, 2, 3")
    ]


@pytest.mark.parametrize(
    ("sessions", "told"),
    [
        ({0: (7, 0), 2: (7, 1), 3: (7, 2)}, ", each written in another session of its producer"),
        ({0: (7, 0), 2: (7, 1), 3: (7, 1)}, ""),
        ({0: (7, 0), 2: (7, 1)}, ""),
    ],
)
def test_duplicated_tells_of_sessions_where_no_two_copies_share_one(
    sessions: dict[int, tuple[int, int]], told: str
) -> None:
    log = [*TWO_ENTRIES, entry(2, 1, 0), entry(3, 1, 0)]
    written = {offset: ProducerPosition(*session, 0) for offset, session in sessions.items()}
    history = replace(indexed(made(SENT_TWO_ACKED, log)), written=written)
    (row,) = duplicated(history).to_pylist()
    assert row["detail"] == f"in the log at offsets 0, 2, 3{told}"


def test_an_ack_of_the_second_copy_is_no_mismatch() -> None:
    sends = [send("invoke", 1, 0, 10), send("ok", 1, 0, 11, 1)]
    log = [entry(0, 1, 0), entry(1, 1, 0)]
    assert [row[0] for row in found(made(sends, log))] == ["duplicated"]


def test_reordered_names_the_one_that_overtook() -> None:
    sends = [send("invoke", 1, 0, 10), send("invoke", 1, 1, 11), send("invoke", 1, 2, 12)]
    log = [entry(0, 1, 2), entry(1, 1, 0), entry(2, 1, 1)]
    assert found(made(sends, log)) == [
        ("reordered", 1, 1, 0, "in the log behind producer 1 sequence 2 at offset 0"),
        ("reordered", 2, 1, 1, "in the log behind producer 1 sequence 2 at offset 0"),
    ]


def test_order_is_a_matter_of_one_producer() -> None:
    sends = [send("invoke", 1, 5, 10), send("invoke", 2, 0, 11)]
    assert found(made(sends, [entry(0, 1, 5), entry(1, 2, 0)])) == []


def test_phantom_record_and_phantom_payload() -> None:
    assert found(made(SENT_TWO_ACKED, [*TWO_ENTRIES, entry(2, 7, 7), entry(3)])) == [
        ("phantom", 2, 7, 7, "producer 7 sequence 7 was never sent to this partition"),
        ("phantom", 3, None, None, "the payload was not sent by any client, or is damaged"),
    ]


def test_record_that_was_sent_to_another_topic_is_no_phantom() -> None:
    """An acked record, and one that another cell's producer 1 sent with the same number."""
    strange = replace(entry(2, 1, 0), cell="d")
    told = "cell d producer 1 sequence 0 was sent to the topic of that cell"
    expected = [("wrong-topic", 2, 1, 0, told)]
    history = made(SENT_TWO_ACKED, [*TWO_ENTRIES, strange])
    assert found(history) == expected
    assert found(history, sends_whole=False) == expected


def test_nothing_is_called_phantom_where_sends_may_be_missing() -> None:
    log = [*TWO_ENTRIES, entry(2, 7, 7)]
    assert found(made(SENT_TWO_ACKED, log), sends_whole=False) == []


def test_only_alien_payloads() -> None:
    assert [row[:2] for row in found(made([], [entry(0), entry(1)]))] == [
        ("phantom", 0),
        ("phantom", 1),
    ]


def test_failed_but_present() -> None:
    sends = [send("invoke", 1, 0, 10), send("fail", 1, 0, 11)]
    assert found(made(sends, [entry(0, 1, 0)])) == [
        ("failed-but-present", 0, 1, 0, "certainly failed, but is in the log")
    ]


def test_offset_mismatch_names_the_record_at_the_acked_offset() -> None:
    sends = [send("invoke", 1, 0, 1), send("invoke", 1, 1, 2), send("ok", 1, 0, 3, 1)]
    assert found(made(sends, TWO_ENTRIES)) == [
        (
            "offset-mismatch",
            1,
            1,
            0,
            "acked at offset 1, but stands at 0; offset 1 now holds producer 1 sequence 1",
        )
    ]


def test_offset_gaps_at_the_start_in_the_middle_and_at_the_end() -> None:
    sends = [send("invoke", 1, 0, 10), send("invoke", 1, 1, 12)]
    assert found(made(sends, [entry(6, 1, 0), entry(8, 1, 1)], 12, start=4)) == [
        ("offset-gap", 4, None, None, "no record at offsets 4 to 5"),
        ("offset-gap", 7, None, None, "no record at offset 7"),
        ("offset-gap", 9, None, None, "no record at offsets 9 to 11"),
    ]


def test_a_log_that_should_hold_something_and_is_empty() -> None:
    assert [row[:2] for row in found(made([], [], 3))] == [("offset-gap", 0)]


def test_a_record_of_huge_numbers_is_still_itself() -> None:
    big = 2**62
    sends = [send("invoke", 2**31 - 1, big, 1), send("ok", 2**31 - 1, big, 2, 0)]
    assert found(made(sends, [entry(0, 2**31 - 1, big)])) == []


def test_time_is_of_the_ack_and_faults_are_those_on_at_that_time() -> None:
    windows = FaultWindows(bounds=(13, 20), labels=(None, "kill#1,pause#2", None))
    history = indexed(made(SENT_TWO_ACKED, []), faults=windows)
    rows = CHECKERS["lost"](history).to_pylist()
    assert [(row["time"], row["fault"]) for row in rows] == [(11, None), (13, "kill#1,pause#2")]


def test_contradictions_are_counted() -> None:
    sends = [
        *[send("invoke", 1, 0, 1), send("invoke", 1, 0, 2)],
        *[send("invoke", 1, 1, 1), send("ok", 1, 1, 2, 0), send("fail", 1, 1, 3)],
        send("ok", 1, 2, 2, 0),
        *[send("invoke", 1, 3, 1), send("ok", 1, 3, 2, 0)],
    ]
    assert indexed(made(sends, [])).contradictory == 3


def test_the_catalogue_has_one_line_each() -> None:
    built_in = {*CHECKERS, *CONSUMPTION, *TRANSACTION_CHECKERS, DIVERGENT}
    assert CATALOGUE.keys() == built_in | SHARE_CHECKERS.keys()
    assert all(one.summary and "\n" not in one.summary for one in CATALOGUE.values())
