"""Generated differences of two replicas, each for a known reason: the autopsy names it; and where
evidence is taken away it says that it does not know, or that nothing explains it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ackproof.checkers.checks.replicas import Difference, Parting, Side
from ackproof.checkers.checks.replicas import Kind as How
from ackproof.checkers.context.broker_logs import Truncation
from ackproof.checkers.root_cause.divergence import Partings
from ackproof.checkers.root_cause.kinds import Kind
from ackproof.checkers.root_cause.partition_context import FaultSeen, Reign, Scene
from ackproof.checkers.verdict import Cause

ANY_MACHINE = settings(deadline=None, max_examples=60)
WHOLE = Side(3, 0xAB, intact=True)
LATER = Side(4, 0xCD, intact=True)
OTHER = Side(3, 0xEF, intact=True)
DAMAGED = Side(3, 0xAB, intact=False)


def truncation(broker: int, offset: int, epoch: int) -> Truncation:
    return Truncation(
        broker=broker, leader=1, leader_epoch=epoch, log_end=90, offset=offset, due_to="a reason"
    )


def fault(broker: int) -> FaultSeen:
    return FaultSeen(label="bit-flip#1", servers=[f"broker-{broker}"], start=5, end=9, took=6)


SCENE = Scene(
    reigns=[
        Reign(epoch=epoch, leader=leader, seen=1, elected_after=0, deposed=9)
        for epoch, leader in ((3, 2), (4, 1))
    ],
    speak=[1, 2],
)
"""Broker 1 led epoch 4, broker 2 epoch 3, and both tell of it."""

PLANTED: dict[Kind, tuple[Side | None, Side | None, Scene]] = {
    Kind.NOT_CUT: (
        LATER,
        OTHER,
        replace(SCENE, truncations=[truncation(2, 9_000, 4), truncation(2, 10, 3)]),
    ),
    Kind.REFILLED: (WHOLE, OTHER, replace(SCENE, faults=[fault(2)])),
    Kind.TWO_LEADERS: (WHOLE, OTHER, replace(SCENE, contended=[3], faults=[fault(2)])),
    Kind.DAMAGED: (WHOLE, DAMAGED, replace(SCENE, faults=[fault(2)])),
    Kind.LOST_FROM_DISK: (WHOLE, None, replace(SCENE, faults=[fault(2)])),
    Kind.NOT_FETCHED: (WHOLE, None, replace(SCENE, truncations=[truncation(2, 10, 4)])),
}
"""What each of brokers 1 and 2 holds from offset 40 or above on, and what is known around it."""

BARE: dict[Kind, Kind] = {
    Kind.NOT_CUT: Kind.UNKNOWN,
    Kind.REFILLED: Kind.UNEXPLAINED,
    Kind.TWO_LEADERS: Kind.UNEXPLAINED,
    Kind.DAMAGED: Kind.UNEXPLAINED,
    Kind.LOST_FROM_DISK: Kind.UNKNOWN,
    Kind.NOT_FETCHED: Kind.UNKNOWN,
}
"""What each is called when no broker's log and no fault tells anything."""


def parting(one: Side | None, other: Side | None, first: int, count: int) -> Parting:
    difference = Difference(
        kind=How.DIFFERS if one and other else How.LACKS,
        first=first,
        last=first + count - 1,
        one=one and "one",
        other=other and "other",
        sides=(one, other),
        identity=None,
    )
    return Parting(one=1, other=2, difference=difference)


def performed(
    scene: Scene, partings: Sequence[Parting]
) -> tuple[list[dict[str, Any]], list[Cause]]:
    autopsies = Partings(scene=scene, cell="c", topic="t", partition=0, promised=True)
    rows = [row for one in partings for row in autopsies.performed([one]).of_records.to_pylist()]
    return rows, autopsies.causes()


@ANY_MACHINE
@given(
    st.sampled_from(sorted(PLANTED)),
    st.lists(st.integers(1, 20), min_size=1, max_size=5),
    st.booleans(),
)
def test_what_was_planted_is_found(kind: Kind, counts: list[int], bare: bool) -> None:
    one, other, scene = PLANTED[kind]
    expected = BARE[kind] if bare else kind
    if bare:
        scene = replace(scene, truncations=[], faults=[], contended=[], speak=[])
    starts = [40 + 30 * number for number in range(len(counts))]
    partings = [
        parting(one, other, start, count) for start, count in zip(starts, counts, strict=True)
    ]
    rows, causes = performed(scene, partings)
    assert [row["kind"] for row in rows] == [expected] * len(counts)
    (cause,) = causes
    assert (cause.kind, cause.records, cause.promised) == (expected, sum(counts), sum(counts))
    assert (cause.first_offset, cause.last_offset) == (40, starts[-1] + counts[-1] - 1)
    assert (cause.first_time, cause.anomaly) == (None, "divergent-replicas")
    sides = [side and side.leader_epoch for side in (one, other)]
    assert (rows[0]["brokers"], rows[0]["epochs"]) == ([1, 2], sides)
    assert rows[0]["crcs"] == [side and side.crc for side in (one, other)]


def test_several_stories_are_told_apart() -> None:
    known = [parting(*PLANTED[kind][:2], 40, 2) for kind in (Kind.NOT_CUT, Kind.NOT_FETCHED)]
    rows, causes = performed(SCENE, known)
    assert [row["cause"] for row in rows] == [1, 2]
    assert sorted(cause.records for cause in causes) == [2, 2]


def test_a_follower_that_was_not_cut_in_one_sentence() -> None:
    _, (cause,) = performed(PLANTED[Kind.NOT_CUT][2], [parting(LATER, OTHER, 2_475, 3)])
    assert cause.sentence == (
        "broker-1 holds from offset 2,475 on what was appended in epoch 4, broker-2 what was in "
        "epoch 3; broker-2 did not cut its log there when epoch 4 had begun; broker-2 last cut its "
        "log from 90 to 10 as follower of broker-1 in epoch 3 (a reason); broker-1 tells of no "
        "truncation."
    )


@pytest.mark.parametrize("reached", [2_475, 10])
def test_who_did_cut_its_log_there_is_not_explained(reached: int) -> None:
    scene = replace(SCENE, truncations=[truncation(2, reached, 4)])
    _, (cause,) = performed(scene, [parting(LATER, OTHER, 2_475, 3)])
    assert cause.kind == Kind.UNEXPLAINED
    assert cause.sentence.endswith("nothing that was recorded explains it.")
