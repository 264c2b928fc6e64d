"""Generated losses of one known kind each.

The root cause analysis names the leader that acknowledged the records, its epoch, the next leader,
the fault and the kind. A loss that nothing explains is reported as unexplained.
"""

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ackproof.checkers.root_cause.kinds import CauseKind
from tests.support.builders.examples import examples
from tests.support.builders.losses import Planted, World, cut_for_one_that_never_heard, lose

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
