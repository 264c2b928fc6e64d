"""Generated differences of two replicas with one known reason each. The root cause analysis names
it. Without the evidence it says that it does not know, or that nothing explains the difference."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ackproof.checkers.checks.replicas import Difference, DivergentRange, HeldBatch
from ackproof.checkers.checks.replicas import DifferenceKind as How
from ackproof.checkers.context.broker_logs import ReplicaTruncation
from ackproof.checkers.root_cause.divergence import DivergenceCauses
from ackproof.checkers.root_cause.kinds import CauseKind
from ackproof.checkers.root_cause.partition_context import (
    ContextFault,
    LeadershipTerm,
    PartitionContext,
)
from ackproof.checkers.verdict import Cause
from tests.support.builders.examples import examples

ANY_MACHINE = settings(deadline=None, max_examples=examples(30))
WHOLE = HeldBatch(3, 0xAB, intact=True)
LATER = HeldBatch(4, 0xCD, intact=True)
OTHER = HeldBatch(3, 0xEF, intact=True)
DAMAGED = HeldBatch(3, 0xAB, intact=False)


def truncation(broker: int, offset: int, epoch: int) -> ReplicaTruncation:
    return ReplicaTruncation(
        broker=broker, leader=1, leader_epoch=epoch, log_end=90, offset=offset, due_to="a reason"
    )


def fault(broker: int) -> ContextFault:
    return ContextFault(label="bit-flip#1", servers=[f"broker-{broker}"], start=5, end=9, took=6)


SCENE = PartitionContext(
    leadership_terms=[
        LeadershipTerm(epoch=epoch, leader=leader, seen=1, elected_after=0, deposed=9)
        for epoch, leader in ((3, 2), (4, 1))
    ],
    logged_brokers=[1, 2],
)
"""Broker 1 led epoch 4, broker 2 epoch 3, and both tell of it."""

PLANTED: dict[CauseKind, tuple[HeldBatch | None, HeldBatch | None, PartitionContext]] = {
    CauseKind.NOT_TRUNCATED: (
        LATER,
        OTHER,
        replace(SCENE, truncations=[truncation(2, 9_000, 4), truncation(2, 10, 3)]),
    ),
    CauseKind.REFILLED: (WHOLE, OTHER, replace(SCENE, faults=[fault(2)])),
    CauseKind.TWO_LEADERS: (WHOLE, OTHER, replace(SCENE, contended=[3], faults=[fault(2)])),
    CauseKind.DAMAGED: (WHOLE, DAMAGED, replace(SCENE, faults=[fault(2)])),
    CauseKind.LOST_FROM_DISK: (WHOLE, None, replace(SCENE, faults=[fault(2)])),
    CauseKind.NOT_FETCHED: (WHOLE, None, replace(SCENE, truncations=[truncation(2, 10, 4)])),
}
"""What each of brokers 1 and 2 holds from offset 40 or above on, and what is known around it."""

BARE: dict[CauseKind, CauseKind] = {
    CauseKind.NOT_TRUNCATED: CauseKind.UNKNOWN,
    CauseKind.REFILLED: CauseKind.UNEXPLAINED,
    CauseKind.TWO_LEADERS: CauseKind.UNEXPLAINED,
    CauseKind.DAMAGED: CauseKind.UNEXPLAINED,
    CauseKind.LOST_FROM_DISK: CauseKind.UNKNOWN,
    CauseKind.NOT_FETCHED: CauseKind.UNKNOWN,
}
"""What each is called when no broker's log and no fault tells anything."""


def parting(
    one: HeldBatch | None, other: HeldBatch | None, first: int, count: int
) -> DivergentRange:
    difference = Difference(
        kind=How.DIFFERS if one and other else How.LACKS,
        first=first,
        last=first + count - 1,
        one=one and "one",
        other=other and "other",
        sides=(one, other),
        identity=None,
    )
    return DivergentRange(one=1, other=2, difference=difference)


def performed(
    context: PartitionContext, divergent_ranges: Sequence[DivergentRange]
) -> tuple[list[dict[str, Any]], list[Cause]]:
    root_causes = DivergenceCauses(context=context, cell="c", topic="t", partition=0, promised=True)
    rows = [
        row
        for one in divergent_ranges
        for row in root_causes.performed([one]).of_records.to_pylist()
    ]
    return rows, root_causes.causes()


@ANY_MACHINE
@given(
    st.sampled_from(sorted(PLANTED)),
    st.lists(st.integers(1, 20), min_size=1, max_size=5),
    st.booleans(),
)
def test_planted_divergences_are_explained(kind: CauseKind, counts: list[int], bare: bool) -> None:
    one, other, context = PLANTED[kind]
    expected = BARE[kind] if bare else kind
    if bare:
        context = replace(context, truncations=[], faults=[], contended=[], logged_brokers=[])
    starts = [40 + 30 * number for number in range(len(counts))]
    divergent_ranges = [
        parting(one, other, start, count) for start, count in zip(starts, counts, strict=True)
    ]
    rows, causes = performed(context, divergent_ranges)
    assert [row["kind"] for row in rows] == [expected] * len(counts)
    (cause,) = causes
    assert (cause.kind, cause.records, cause.promised) == (expected, sum(counts), sum(counts))
    assert (cause.first_offset, cause.last_offset) == (40, starts[-1] + counts[-1] - 1)
    assert (cause.first_time, cause.anomaly) == (None, "divergent-replicas")
    sides = [side and side.leader_epoch for side in (one, other)]
    assert (rows[0]["brokers"], rows[0]["epochs"]) == ([1, 2], sides)
    assert rows[0]["crcs"] == [side and side.crc for side in (one, other)]


def test_divergences_with_different_causes_are_reported_apart() -> None:
    known = [
        parting(*PLANTED[kind][:2], 40, 2)
        for kind in (CauseKind.NOT_TRUNCATED, CauseKind.NOT_FETCHED)
    ]
    rows, causes = performed(SCENE, known)
    assert [row["cause"] for row in rows] == [1, 2]
    assert sorted(cause.records for cause in causes) == [2, 2]


def test_a_follower_that_was_not_cut_in_one_sentence() -> None:
    _, (cause,) = performed(PLANTED[CauseKind.NOT_TRUNCATED][2], [parting(LATER, OTHER, 2_475, 3)])
    assert cause.sentence == (
        "from offset 2,475 onwards broker-1 holds records of epoch 4, and broker-2 holds records "
        "of epoch 3; broker-2 did not truncate its log there when epoch 4 had begun; "
        "broker-2 last truncated its log from 90 to 10 as follower of broker-1 in epoch 3 (a "
        "reason); broker-1 logged no truncation."
    )


@pytest.mark.parametrize("reached", [2_475, 10])
def test_divergence_of_a_replica_that_truncated_there_is_unexplained(reached: int) -> None:
    context = replace(SCENE, truncations=[truncation(2, reached, 4)])
    _, (cause,) = performed(context, [parting(LATER, OTHER, 2_475, 3)])
    assert cause.kind == CauseKind.UNEXPLAINED
    assert cause.sentence.endswith("nothing in the history explains it.")
