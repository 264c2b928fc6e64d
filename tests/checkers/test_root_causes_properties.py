"""Generated losses of one known kind each.

The root cause analysis names the leader that acknowledged the records, its epoch, the next leader,
the fault and the kind. A loss that nothing explains is reported as unexplained.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from ackproof.checkers.context.retention import TombstoneEvidence
from ackproof.checkers.context.validity import ALWAYS_VALID
from ackproof.checkers.root_cause.kinds import CauseKind
from ackproof.checkers.root_cause.missing_records import explain_lost
from tests.support.builders.examples import examples
from tests.support.builders.histories import indexed
from tests.support.builders.losses import (
    Planted,
    World,
    change_leader,
    cut_for_one_that_never_heard,
    lose,
)

ANY_MACHINE = settings(
    deadline=None, max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow]
)

OF_ALL = (
    CauseKind.DEPOSED_LEADER,
    CauseKind.UNCLEAN_ELECTION,
    CauseKind.LOST_FROM_DISK,
    CauseKind.TRUNCATED_BEFORE_LEADING,
    CauseKind.ISR_EXPANDED_TOO_EARLY,
    CauseKind.UNEXPLAINED,
)
OF_ONE = (CauseKind.DEPOSED_LEADER, CauseKind.UNCLEAN_ELECTION, CauseKind.NOT_REPLICATED)


def losses(kinds: tuple[CauseKind, ...]) -> st.SearchStrategy[list[tuple[CauseKind, int, int]]]:
    """Kind, how many records, how many are appended after."""
    one = st.tuples(st.sampled_from(kinds), st.integers(1, 5), st.integers(1, 8))
    return st.lists(one, min_size=1, max_size=4)


def holds(world: World) -> None:
    performed = world.root_causes()
    rows = performed.of_records.to_pylist()
    lost = [sequence for planted in world.planted for sequence in planted.sequences]
    assert len(rows) == len(lost)
    assert sum(cause.records for cause in performed.causes) == len(lost)
    by_sequence = dict(zip(lost, rows, strict=True))
    for planted in world.planted:
        for sequence in planted.sequences:
            row = by_sequence[sequence]
            assert planted.epoch in row["epochs"]
            if planted.rewritten:
                agrees(planted, row)
                cause = next(one for one in performed.causes if one.number == row["cause"])
                assert cause.kind == planted.kind
                assert cause.records == len(planted.sequences)
                assert planted.fault in cause.faults
                assert f"broker-{planted.next_leader}" in cause.sentence


def agrees(planted: Planted, row: dict[str, object]) -> None:
    assert (row["epochs"], row["leaders"]) == ([planted.epoch], [planted.leader])
    assert (row["next_leader"], row["next_offset"]) == (planted.next_leader, planted.next_offset)
    assert (row["kind"], row["cut_by"]) == (planted.kind, planted.cut_by)


@ANY_MACHINE
@given(losses(OF_ALL))
@example([(kind, 2, 3) for kind in OF_ALL])
def test_losses_with_acks_all_are_attributed_to_the_planted_causes(
    planted: list[tuple[CauseKind, int, int]],
) -> None:
    world = World(acks="all")
    for kind, count, appended in planted:
        lose(world, kind, count, appended)
    holds(world)


@ANY_MACHINE
@given(losses(OF_ONE), st.booleans())
@example([(kind, 2, 3) for kind in OF_ONE], False)
def test_losses_with_acks_1_are_attributed_to_the_planted_causes(
    planted: list[tuple[CauseKind, int, int]], speaks: bool
) -> None:
    """Whether brokers' logs tell anything or not: the final log has where each epoch began."""
    world = World(acks="1", speaks=speaks)
    for kind, count, appended in planted:
        lose(world, kind, count, appended)
    holds(world)


@ANY_MACHINE
@given(
    losses((CauseKind.TRUNCATED_BEFORE_LEADING, CauseKind.DEPOSED_LEADER, CauseKind.UNEXPLAINED))
)
@example([(CauseKind.TRUNCATED_BEFORE_LEADING, 2, 3), (CauseKind.TRUNCATED_BEFORE_LEADING, 2, 3)])
def test_unaware_elected_leader_does_not_hide_a_later_leader(
    planted: list[tuple[CauseKind, int, int]],
) -> None:
    world = World(acks="all")
    for kind, count, appended in planted:
        truncation = kind is CauseKind.TRUNCATED_BEFORE_LEADING
        lose(world, kind, count, appended, way=cut_for_one_that_never_heard if truncation else None)
    holds(world)


def tombstone_causes(
    world: World, gone: set[int], *, idempotent: bool = True, alike: tuple[int, int] = (0, 0)
) -> dict[int, str]:
    """Return the kind of the cause of each lost record by its sequence number. All records of the
    world are tombstones of a key each that must stay, and these are gone from the log. Two records
    have the same key."""
    context, known = world.context()
    made = replace(world.made(), log=[one for one in world.log if one.sequence not in gone])
    history = indexed(made, timeline=known)
    history = replace(
        history,
        keys=np.where(history.sequence == alike[1], alike[0], history.sequence),
        deletes=np.ones(len(history.sequence), dtype=bool),
        tombstones=TombstoneEvidence(retention_ms=10**9, read_over=int(history.time.max()) + 1),
    )
    context = replace(context, sender=replace(context.sender, idempotent=idempotent))
    rows = explain_lost(history, context, ALWAYS_VALID).of_records.to_pylist()
    sequences = history.sequence[history.lost].tolist()
    return {one: row["kind"] for one, row in zip(sequences, rows, strict=True)}


@ANY_MACHINE
@given(losses(OF_ALL), st.lists(st.integers(1, 5), min_size=1, max_size=2), st.data())
def test_tombstones_that_cleaners_removed_too_early_have_a_cause_of_their_own(
    planted: list[tuple[CauseKind, int, int]], changes: list[int], data: st.DataObject
) -> None:
    world = World(acks="all")
    removed = [one for count in changes for one in change_leader(world, count)]
    for kind, count, appended in planted:
        lose(world, kind, count, appended)
    claims = Counter(one.offset for one in world.sends if one.type == "ok")
    others = [one.sequence for one in world.log if claims[one.offset] == 1]
    gone = {*removed, *data.draw(st.sets(st.sampled_from(others)))}
    kinds = tombstone_causes(world, gone)
    for one in gone:
        assert kinds.pop(one) == CauseKind.TOMBSTONE_TOO_EARLY
    assert CauseKind.TOMBSTONE_TOO_EARLY not in kinds.values()
    for loss in world.planted:
        if loss.rewritten:
            assert {kinds[one] for one in loss.sequences} == {loss.kind}


@ANY_MACHINE
@given(st.integers(1, 5), st.booleans())
def test_tombstone_is_a_deposed_leaders_if_another_record_may_have_been_in_its_place(
    count: int, changed: bool
) -> None:
    """A copy of another record may have been there, if the producer is not idempotent."""
    world = World(acks="all")
    gone = set(change_leader(world, count) if changed else [2, 3])
    kinds = tombstone_causes(world, gone, idempotent=False)
    deposed, early = CauseKind.DEPOSED_LEADER, CauseKind.TOMBSTONE_TOO_EARLY
    assert kinds == dict.fromkeys(gone, deposed if changed else early)


@ANY_MACHINE
@given(st.integers(1, 5), st.integers(1, 5))
def test_lost_tombstone_with_a_removed_successor_is_a_deposed_leaders(
    count: int, appended: int
) -> None:
    world = World(acks="all")
    lose(world, CauseKind.DEPOSED_LEADER, count, appended)
    (loss,) = world.planted
    assume(loss.rewritten)
    claims = {one.offset for one in world.sends if one.sequence in loss.sequences}
    successors = {one.sequence for one in world.log if one.offset in claims}
    kinds = tombstone_causes(world, successors)
    assert {kinds[one] for one in loss.sequences} == {CauseKind.DEPOSED_LEADER}


def test_gap_of_a_tombstone_is_a_cleaners_even_if_its_value_stands() -> None:
    """A replica that missed the tombstone may still have the value."""
    world = World(acks="all")
    (changed,) = change_leader(world, 1)
    for gone in (3, changed):
        kinds = tombstone_causes(world, {gone}, alike=(2, gone))
        assert kinds == {gone: CauseKind.TOMBSTONE_TOO_EARLY}
    kinds = tombstone_causes(world, {3}, alike=(2, 3), idempotent=False)
    assert kinds == {3: CauseKind.UNEXPLAINED}
