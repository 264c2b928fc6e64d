"""Generated transactions: where all is well nothing is found that is promised, and an anomaly that
is planted is found, and nothing else."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ackproof.checkers.arrays import NONE
from ackproof.checkers.checks.catalogue import G0, TRANSACTION_CHECKERS
from ackproof.checkers.checks.transaction_history import (
    Transaction,
    TransactionOutcome,
    TransactionViolation,
    transactions_of,
)
from ackproof.checkers.checks.transaction_rules import RULES
from ackproof.checkers.index.partition_history import Fate
from ackproof.history.transactional import TRANSFORMERS
from tests.support.builders.examples import examples
from tests.support.builders.transactional_histories import (
    READER,
    InputRow,
    LogRow,
    SentRow,
    ShownRow,
    World,
    sound,
)

ANY_MACHINE = settings(
    deadline=None,
    max_examples=examples(12),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

Finding = tuple[str, int | None, int | None]
"""Anomaly, partition and offset."""
Choose = Callable[[Sequence[Any]], Any]
Planted = tuple[World, dict[Finding, int]]


def offences(world: World) -> Iterator[TransactionViolation]:
    history = world.history
    return (one for rule in RULES.values() for one in rule(history))


def found(world: World) -> Counter[Finding]:
    """Return the anomalies under a guarantee: G0 is not."""
    told = [one for one in offences(world) if one.anomaly != G0]
    assert {one.anomaly for one in told} <= TRANSACTION_CHECKERS.keys()
    return Counter((one.anomaly, one.partition, one.offset) for one in told)


@ANY_MACHINE
@given(sound())
def test_where_all_is_well_nothing_is_found(world: World) -> None:
    assert found(world) == {}


@ANY_MACHINE
@given(sound(reads_committed=False))
def test_read_uncommitted_shows_aborted_records_and_no_other_anomaly(world: World) -> None:
    certain = {
        (one.producer, one.number)
        for one in transactions_of(world.rows)
        if one.outcome is TransactionOutcome.NOT_COMMITTED
    }
    shown = Counter(
        ("aborted-read", row.partition, row.offset)
        for row in world.shown
        if _transaction(world, row) in certain
    )
    assert found(world) == shown


@ANY_MACHINE
@given(sound(), st.data())
def test_missing_part_of_the_final_log_is_no_lost_commit(world: World, data: Any) -> None:
    kept = data.draw(st.lists(st.sampled_from(world.log))) if world.log else []
    partial = world.but(log=tuple(sorted(set(kept), key=world.log.index)), log_complete=False)
    assert not {"lost-commit", "torn-transaction", "offsets-without-records"} & {
        one.anomaly for one in offences(partial)
    }


def _members(world: World) -> dict[tuple[int, int], Transaction]:
    return {(one.producer, one.number): one for one in transactions_of(world.rows)}


def _transaction(world: World, row: SentRow | LogRow | ShownRow) -> tuple[int, int]:
    """Producer and number of the transaction of a record, looked for one by one."""
    return max(
        key
        for key, one in _members(world).items()
        if one.producer == row.producer and one.first <= row.sequence
    )


def _records(world: World, key: tuple[int, int]) -> list[LogRow]:
    return [row for row in world.log if _transaction(world, row) == key]


def _with(world: World, rows: Sequence[LogRow], committed: bool) -> World:
    log = [replace(row, committed=committed) if row in rows else row for row in world.log]
    return world.but(log=tuple(log))


def _some(choose: Choose, of: Sequence[Any]) -> Any:
    assume(of)
    return choose(of)


def lose_commit(world: World, choose: Choose) -> Planted:
    """Plant a lost commit of a producer. That of a transformer would also waste its input
    records."""
    committed = [
        key
        for key, one in _members(world).items()
        if one.outcome is TransactionOutcome.COMMITTED and one.producer < TRANSFORMERS
    ]
    records = _records(world, _some(choose, committed))
    return _with(world, records, committed=False), {("lost-commit", None, None): 1}


def tear(world: World, choose: Choose) -> Planted:
    """Plant a torn transaction that was committed, also where only its records show that."""
    whole = [
        records
        for key, one in _members(world).items()
        if len(records := _records(world, key)) > 1
        and one.outcome is not TransactionOutcome.NOT_COMMITTED
        and all(row.committed for row in records)
    ]
    gone = choose(_some(choose, whole))
    return _with(world, [gone], committed=False), {("torn-transaction", gone.partition, None): 1}


def resurrect(world: World, choose: Choose) -> Planted:
    """Beyond what the group has committed: below it nothing would have been made of it."""
    dead = [
        row
        for row in world.log
        if _members(world)[_transaction(world, row)].outcome is TransactionOutcome.NOT_COMMITTED
        and row.producer < TRANSFORMERS
        and row.offset >= world.positions[row.partition]
    ]
    row = _some(choose, dead)
    expected = {("resurrected-write", row.partition, row.offset): 1}
    return _with(world, [row], committed=True), expected


def let_zombie_write(world: World, choose: Choose) -> Planted:
    fenced = {key: one for key, one in _members(world).items() if one.fenced is not None}
    late = [
        row
        for row in world.sent
        if row.fate is Fate.INDETERMINATE
        and row.producer < TRANSFORMERS
        and (one := fenced.get(_transaction(world, row))) is not None
        and row.asked > one.fenced
    ]
    row = _some(choose, late)
    offset = 1_000
    written = LogRow(row.partition, offset, row.producer, row.sequence, committed=True)
    return world.but(log=(*world.log, written)), {("zombie-write", row.partition, offset): 1}


def show_aborted(world: World, choose: Choose) -> Planted:
    """Also where it is known by what does not stand alone."""
    dead = [row for row in world.log if not row.committed]
    row = _some(choose, dead)
    shown = ShownRow(READER, row.partition, row.offset, 1, row.producer, row.sequence)
    return world.but(shown=(*world.shown, shown)), {("aborted-read", row.partition, row.offset): 1}


def show_early(world: World, choose: Choose) -> Planted:
    members = _members(world)
    rows = [row for row in world.shown if row.client == READER]
    row = _some(choose, rows)
    asked = members[_transaction(world, row)].asked
    assert asked is not None
    shown = [replace(row, time=asked - 1) if one == row else one for one in world.shown]
    expected = {("precommitted-read", row.partition, row.offset): 1}
    return world.but(shown=tuple(shown)), expected


def skip_offsets(world: World, choose: Choose) -> Planted:
    """The group has committed past what nothing was made of."""
    left = [
        row
        for row in world.log
        if row.committed
        and row.producer < TRANSFORMERS
        and row.offset >= world.positions[row.partition]
    ]
    row = _some(choose, left)
    position = row.offset + 1
    passed = [one for one in left if one.partition == row.partition and one.offset < position]
    expected = {("offsets-without-records", one.partition, one.offset): 1 for one in passed}
    return world.but(positions={**world.positions, row.partition: position}), expected


def forget_offsets(world: World, choose: Choose) -> Planted:
    """The group has forgotten what something was made of; -1: that it ever committed."""
    row = _some(choose, _transformed(world))
    position = choose([row.offset, NONE])
    back = [one for one in _transformed(world) if one.partition == row.partition]
    expected = {
        ("records-without-offsets", one.partition, one.offset): 1
        for one in back
        if one.offset >= position
    }
    return world.but(positions={**world.positions, row.partition: position}), expected


def transform_again(world: World, choose: Choose) -> Planted:
    row = _some(choose, _transformed(world))
    others = {
        (one.reader, one.transaction)
        for one in _transformed(world)
        if (one.reader, one.transaction) != (row.reader, row.transaction)
    }
    reader, number = _some(choose, sorted(others))
    again = replace(row, reader=reader, transaction=number)
    expected = {("transformed-twice", row.partition, row.offset): 1}
    return world.but(inputs=(*world.inputs, again)), expected


def read_the_next(world: World, choose: Choose) -> Planted:
    """A transaction was shown what its session's next one wrote."""
    standing = sorted({_transaction(world, row) for row in world.log if row.committed})
    pairs = [
        (one, other) for one, other in pairwise(standing) if one[0] == other[0] >= TRANSFORMERS
    ]
    first, second = _some(choose, pairs)
    row = choose([row for row in _records(world, second) if row.committed])
    read = (row.partition, row.offset, row.producer, row.sequence)
    inputs = (*world.inputs, InputRow(*first, *read, made=NONE))
    return world.but(inputs=inputs), {("G1c", None, None): 1}


def _transformed(world: World) -> list[InputRow]:
    """Return the input records with an output record in the log."""
    standing = {_transaction(world, row) for row in world.log if row.committed}
    return [
        row
        for row in world.inputs
        if row.made != NONE and (row.reader, row.transaction) in standing
    ]


PLANTS = (
    lose_commit,
    tear,
    resurrect,
    let_zombie_write,
    show_aborted,
    show_early,
    skip_offsets,
    forget_offsets,
    transform_again,
    read_the_next,
)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_planted_transaction_anomalies_are_found_and_no_others(
    plant: Callable[..., Planted],
) -> None:
    planted = 0

    @ANY_MACHINE
    @given(sound(), st.data())
    def check(world: World, data: Any) -> None:
        nonlocal planted
        wrong, expected = plant(world, lambda some: data.draw(st.sampled_from(list(some))))
        planted += 1
        assert found(wrong) == expected

    check()
    assert planted, "it was never planted"
