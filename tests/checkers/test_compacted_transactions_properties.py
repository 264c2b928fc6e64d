"""Generated transactions in compacted topics: a sound cell is clean, and each planted anomaly is
found alone."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.support.builders.compacted_transactions import (
    PARTITIONS,
    READS,
    Compacted,
    Record,
    compacted,
    found,
    names,
    of_readers,
    of_records,
    of_transactions,
)
from tests.support.builders.examples import examples

pytestmark = pytest.mark.long

ANY_MACHINE = settings(
    max_examples=examples(300),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def chosen(data: Any, some: Sequence[Any]) -> Any:
    assume(some)
    return data.draw(st.sampled_from(some))


# --- sound cells ----------------------------------------------------------------------------------


@ANY_MACHINE
@given(compacted())
def test_sound_compacted_transactions_have_no_anomaly(cell: Compacted) -> None:
    assert found(cell) == {}


@ANY_MACHINE
@given(compacted(isolated=False))
def test_reader_of_uncommitted_records_sees_no_anomaly_when_aborted_ones_go(
    cell: Compacted,
) -> None:
    assert of_records(cell) + of_readers(cell) == {}


@ANY_MACHINE
@given(compacted())
def test_every_absent_record_is_forgotten_in_a_sound_cell(cell: Compacted) -> None:
    for number in range(PARTITIONS):
        history = cell.partition(number)
        acked = [one for one in cell.records if one.acked and one.partition == number]
        gone = sorted(one.offset for one in acked if one not in cell.log[number])
        assert sorted(history.acked_offset[history.forgotten].tolist()) == gone
        assert not history.is_keyless


# --- plants ---------------------------------------------------------------------------------------


def shown(cell: Compacted) -> set[Record]:
    return {one for some in cell.read for one, _ in some}


def standing(cell: Compacted) -> list[Record]:
    """The last committed values of their keys that no reader was shown, if their clients know that
    they were committed."""
    lasts = cell.last_committed()
    return [one for one in lasts if one.is_certain and one not in shown(cell)]


def read_with(reads: Sequence[Sequence[Record]], more: Record, *gone: Record) -> Any:
    """Return a final read with one record more, and without others."""
    return [
        sorted({*some, more} - {*gone} if number == more.partition else some, key=_place)
        for number, some in enumerate(reads)
    ]


def _place(one: Record) -> int:
    assert one.offset is not None
    return one.offset


def of_transaction_of(cell: Compacted, gone: Record) -> list[str]:
    """The anomaly of the transaction of a missing record: it is torn if another one of its records
    is left, and lost if not."""
    left = [one for some in cell.committed for one in some if one.txn is gone.txn]
    return ["torn-transaction" if left else "lost-commit"]


@ANY_MACHINE
@given(compacted(ends=("send", "other", "commit")), st.data())
def test_last_committed_value_that_is_gone_is_lost_with_its_transaction(
    cell: Compacted, data: Any
) -> None:
    gone = chosen(data, standing(cell))
    planted = cell.without(gone)
    assert of_records(planted) == {("lost", gone.partition, gone.offset): 1}
    # The outputs of a transformer's lost transaction are missing, too.
    told = [name for name in names(of_transactions(planted)) if name != "offsets-without-records"]
    assert told == of_transaction_of(planted, gone)
    assert of_readers(planted) == {}


@ANY_MACHINE
@given(compacted(ends=("send", "other", "commit", "send", "abort")), st.data())
def test_committed_value_that_an_aborted_record_superseded_is_lost(
    cell: Compacted, data: Any
) -> None:
    """The cleaner has kept the aborted record as the newest, or discarded it, too."""
    aborted = [
        one
        for one in cell.records
        if one.acked and not one.txn.committed and one.offset is not None
    ]
    superseded = [
        (one, other)
        for one in standing(cell)
        for other in aborted
        if other.key == one.key and other.offset > one.offset
    ]
    gone, newest = chosen(data, superseded)
    planted = cell.without(gone)
    if data.draw(st.booleans()):
        planted = planted.but(log=read_with(planted.log, newest))
    assert of_records(planted) == {("lost", gone.partition, gone.offset): 1}


@ANY_MACHINE
@given(compacted(ends=("send", "commit", "send", "commit", *READS)), st.data())
def test_older_value_that_is_back_after_a_newer_one_was_shown_is_found(
    cell: Compacted, data: Any
) -> None:
    pairs = [
        (newer, older)
        for newer in cell.last_committed()
        for older in cell.older(newer)
        if newer.is_certain and newer in shown(cell)
    ]
    newer, older = chosen(data, pairs)
    planted = cell.but(
        log=read_with(cell.log, older, newer), committed=read_with(cell.committed, older, newer)
    )
    at = newer.partition, newer.offset
    assert of_records(planted) == {("lost", *at): 1}
    assert of_readers(planted)["vanished-read", *at] == 1


@ANY_MACHINE
@given(compacted(ends=("send", "lose", *READS)), st.data())
def test_value_of_unknown_outcome_that_was_shown_may_not_vanish(cell: Compacted, data: Any) -> None:
    """Its client did not learn that it was committed, but a reader of committed records did."""
    lone = [one for one in cell.last_committed() if one in shown(cell) and not one.txn.answered]
    gone = chosen(data, lone)
    planted = cell.without(gone)
    assert of_readers(planted) == {("vanished-read", gone.partition, gone.offset): 1}


@ANY_MACHINE
@given(compacted(), st.data())
def test_aborted_record_that_is_shown_is_found(cell: Compacted, data: Any) -> None:
    dead = [
        one
        for one in cell.records
        if one.offset is not None and one.txn.committed is False and _is_certain_abort(cell, one)
    ]
    one = chosen(data, dead)
    if data.draw(st.booleans()):
        read = [list(some) for some in cell.read]
        read[one.partition].append((one, cell.over))
        told = of_transactions(cell.but(read=read))
        assert told == {("aborted-read", one.partition, one.offset): 1}
        return
    planted = cell.but(
        log=read_with(cell.log, one),
        committed=read_with(cell.committed, one),
        inputs=(),
        positions={},
    )
    assert ("resurrected-write", one.partition, one.offset) in of_transactions(planted)


def _is_certain_abort(cell: Compacted, record: Record) -> bool:
    """Return whether its client knows that its transaction was not committed."""
    return record.txn.answered or not any(
        (row["producer"], row["transaction"], row["event"])
        == (record.txn.producer, record.txn.number, "commit")
        for row in cell.rows
    )


@ANY_MACHINE
@given(compacted(ends=("send", "other", "commit")), st.data())
def test_committed_transaction_with_an_aborted_record_is_torn(cell: Compacted, data: Any) -> None:
    """The record is in the log and no reader of committed records is shown it."""
    wholes = [
        one
        for one in standing(cell)
        if sum(one.txn is other.txn for some in cell.committed for other in some) > 1
    ]
    hidden = chosen(data, wholes)
    committed = [[one for one in some if one is not hidden] for some in cell.committed]
    planted = cell.but(committed=committed)
    told = [one for one in of_transactions(planted) if one[0] != "offsets-without-records"]
    assert told == [("torn-transaction", hidden.partition, None)]


@ANY_MACHINE
@given(compacted(ends=("send", "other", "lose")), st.data())
def test_transaction_of_unknown_outcome_is_torn_if_a_record_of_it_should_stand(
    cell: Compacted, data: Any
) -> None:
    torn = [
        one
        for one in cell.last_committed()
        if not one.txn.answered
        and one not in shown(cell)
        and sum(one.txn is other.txn for some in cell.committed for other in some) > 1
    ]
    gone = chosen(data, torn)
    told = [
        one for one in of_transactions(cell.without(gone)) if one[0] != "offsets-without-records"
    ]
    assert told == [("torn-transaction", gone.partition, None)]


@ANY_MACHINE
@given(compacted(), st.data())
def test_group_that_commits_past_an_unprocessed_record_is_found(cell: Compacted, data: Any) -> None:
    left = [
        one
        for some in cell.committed
        for one in some
        if one.made_of is None and one.offset >= cell.positions[one.partition]
    ]
    row = chosen(data, left)
    unknown = {one for *of, one in cell.inputs if tuple(of) in cell.unanswered()}
    passed = [one for one in left if one.partition == row.partition and one.offset <= row.offset]
    assume(unknown.isdisjoint(passed))
    positions = {**cell.positions, row.partition: row.offset + 1}
    assert of_transactions(cell.but(positions=positions)) == {
        ("offsets-without-records", one.partition, one.offset): 1 for one in passed
    }
