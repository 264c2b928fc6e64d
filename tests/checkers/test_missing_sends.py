"""Sends that are missing from a history are noticed by the sequence numbers of their producer,
though every file is as its closing says: nothing passes where records may have been sent of which
the history has nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ackproof.checkers.index.sequences import Numbers, all_together, missing
from ackproof.checkers.verdict import CampaignResult
from ackproof.history.sessions import session_number
from tests.support.builders.checked_runs import FAIL, INCONCLUSIVE, PASS, checked, told
from tests.support.builders.histories import (
    Entry,
    Made,
    MadeRun,
    Send,
    a_fault,
    at,
    cell,
    client_fault,
    entry,
    losing,
    send,
    write_campaign,
)

PARTITIONS = 3
RECORDS = 600
TOUCHED = tuple(f"t-{number}" for number in range(PARTITIONS))


def dealt(
    *producers: int,
    among: int = PARTITIONS,
    left_out: Callable[[int, int], bool] = lambda _producer, _number: False,
) -> list[Made]:
    """Return the sends to each partition: the records of the producers in turn, from 1 s to 61 s,
    all acknowledged. ``among``: the number of partitions that have a turn; ``left_out``: records,
    by producer and number, that neither the history nor the log has."""
    sends: list[list[Send]] = [[] for _ in range(PARTITIONS)]
    log: list[list[Entry]] = [[] for _ in range(PARTITIONS)]
    for number in range(RECORDS):
        for producer in producers or (1,):
            if left_out(producer, number):
                continue
            mine, there = sends[number % among], log[number % among]
            time = at(1 + 60 * number / RECORDS)
            mine.append(send("invoke", producer, number, time))
            mine.append(send("ok", producer, number, time + 5, len(there)))
            there.append(entry(len(there), producer, number))
    return [Made(sends=s, log=rows, end=len(rows)) for s, rows in zip(sends, log, strict=True)]


def check(tmp_path: Path, partitions: list[Made], **changes: object) -> CampaignResult:
    given = {
        "cells": [cell(partitions=PARTITIONS)],
        "faults": a_fault(partitions=TOUCHED),
        **changes,
    }
    by_key = {("t", number): made for number, made in enumerate(partitions)}
    return checked(write_campaign(tmp_path, MadeRun(partitions=by_key, **given)))


def test_producer_that_left_no_hole_passes(tmp_path: Path) -> None:
    result = check(tmp_path, dealt(1, 2))
    assert result.verdict is PASS, told(result)


@pytest.mark.parametrize("hole", [0, 1, 100, RECORDS - 2])
def test_one_missing_send_makes_its_cell_inconclusive(tmp_path: Path, hole: int) -> None:
    result = check(tmp_path, dealt(1, 2, left_out=lambda who, number: (who, number) == (2, hole)))
    assert result.verdict is INCONCLUSIVE
    assert "sends are missing: producer 2 numbers its records consecutively" in told(result)
    assert "but 1 of the numbers from " in told(result)


def test_rows_that_are_gone_with_their_closing_are_noticed(tmp_path: Path) -> None:
    """All sends to a partition from 21 s to 41 s."""
    gone = dealt(left_out=lambda _, number: number % 3 == 1 and 200 <= number < 400)
    result = check(tmp_path, gone)
    assert result.verdict is INCONCLUSIVE
    assert "sends are missing: producer 1" in told(result)


def test_record_that_is_lost_beside_missing_sends_stays_lost(tmp_path: Path) -> None:
    partitions = dealt(left_out=lambda _, number: number == 100)
    partitions[0] = losing(partitions[0], 3)
    assert check(tmp_path, partitions).verdict is FAIL


@pytest.mark.parametrize("before", [1, 2, 299])
def test_sessions_of_a_producer_count_on(tmp_path: Path, before: int) -> None:
    """A session that begins one number too late has left a record out."""
    for missed, verdict in ((0, PASS), (1, INCONCLUSIVE)):
        partitions = [
            made.but(
                sends=[renamed(row, before, missed) for row in made.sends],
                log=[renamed(row, before, missed) for row in made.log],
            )
            for made in dealt()
        ]
        result = check(tmp_path / str(missed), partitions)
        assert result.verdict is verdict, told(result)


def renamed(row: Send | Entry, before: int, missed: int) -> Send | Entry:
    """A row of the first session, or from the record with that number on of the next one."""
    assert row.sequence is not None
    if row.sequence < before:
        return row
    changes = {"producer": session_number(1, 1), "sequence": row.sequence + missed}
    return type(row)(**{**vars(row), **changes})


def test_partition_to_which_one_of_two_producers_sent_nothing_is_named(tmp_path: Path) -> None:
    """It deals its records to all partitions in turn, and cannot leave one out."""
    both = [
        one if one.log else other for one, other in zip(dealt(1, among=2), dealt(2), strict=True)
    ]
    by_2 = dealt(2, left_out=lambda _, number: number % PARTITIONS < 2)
    renumbered = {row.sequence: number for number, row in enumerate(by_2[2].log)}
    both[2] = both[2].but(
        sends=[type(r)(**{**vars(r), "sequence": renumbered[r.sequence]}) for r in both[2].sends],
        log=[type(r)(**{**vars(r), "sequence": renumbered[r.sequence or 0]}) for r in both[2].log],
    )
    result = check(tmp_path, both)
    assert result.verdict is INCONCLUSIVE
    assert f"t-2: no send by producer 1 is recorded, although it sent {RECORDS} records" in told(
        result
    )


KILLED = {"time": at(30), "client": "producer-2", "exit_code": -9, "fault_id": 2}


def crashed(tmp_path: Path, left_out: Callable[[int, int], bool]) -> CampaignResult:
    """Check a run in which producer 2 was killed, and producer 1 went on."""
    faults = [*a_fault(partitions=TOUCHED), *client_fault("crash-client", 30)]
    partitions = dealt(1, 2, left_out=lambda who, number: who == 2 and left_out(who, number))
    return check(tmp_path, partitions, faults=faults, clients=[KILLED], crashed={2})


def died(_producer: int, number: int) -> bool:
    """It died while it wrote what it had in memory, one partition after the other."""
    return number >= (330 if number % PARTITIONS == 0 else 300)


def test_killed_producer_may_have_recorded_more_of_one_partition(tmp_path: Path) -> None:
    result = crashed(tmp_path, died)
    assert result.verdict is PASS, told(result)


def test_send_that_a_killed_producer_recorded_and_is_missing_is_noticed(tmp_path: Path) -> None:
    result = crashed(tmp_path, lambda who, number: died(who, number) or number == 100)
    assert result.verdict is INCONCLUSIVE
    assert "sends are missing: producer 2" in told(result)


def numbers(*some: int, width: int) -> Numbers:
    counts = {place: sum(n // width == place for n in some) for place in {n // width for n in some}}
    return Numbers(last=max(some), counts=counts, crashed=False)


def test_numbers_far_apart_are_not_counted_through() -> None:
    (words,) = missing({"t-0": {1: numbers(0, 2**62, width=64)}}, 64, in_turn=True)
    assert "63 of the numbers from 0 to 63 have no recorded send" in words


def test_fewer_records_than_partitions_leave_some_without_a_send() -> None:
    few = {"t-0": {1: numbers(0, width=192)}, "t-1": {1: numbers(1, width=192)}, "t-2": {}}
    assert not list(missing(few, 192, in_turn=True))


def test_transactional_sessions_may_leave_a_partition_out() -> None:
    one = {"t-0": {1: numbers(0, 1, 2, width=128)}, "t-1": {}}
    assert not list(missing(one, 128, in_turn=False))
    assert list(missing(one, 128, in_turn=True))


def test_numbers_of_slices_add_up_to_those_of_the_partition() -> None:
    slices = [{1: numbers(*range(a, b), width=64)} for a, b in ((0, 77), (77, 400), (400, 500))]
    assert all_together(slices) == {1: numbers(*range(500), width=64)}
