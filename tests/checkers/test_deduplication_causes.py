"""Records that were acked at the offsets of others, which their producer had given up: told as that
where no leader that may have acked them can have appended them there, and nowhere else."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ackproof.checkers.context.validity import ALWAYS_VALID
from ackproof.checkers.index.partition_history import PartitionHistory
from ackproof.checkers.root_cause.attribution import LostRecords
from ackproof.checkers.root_cause.kinds import CauseKind
from ackproof.checkers.root_cause.missing_records import RootCauses, deduplicated, explain_lost
from ackproof.checkers.root_cause.partition_context import PartitionContext
from ackproof.checkers.verdict import Cause
from tests.support.builders.examples import examples
from tests.support.builders.histories import at, connection, entry, indexed, state
from tests.support.builders.losses import World, deduplicate, lose

ANY_MACHINE = settings(
    deadline=None, max_examples=examples(30), suppress_health_check=[HealthCheck.too_slow]
)

LOSSES = (
    CauseKind.DEPOSED_LEADER,
    CauseKind.UNCLEAN_ELECTION,
    CauseKind.LOST_FROM_DISK,
    CauseKind.TRUNCATED_BEFORE_LEADING,
    CauseKind.ISR_EXPANDED_TOO_EARLY,
    CauseKind.UNEXPLAINED,
)
COUNT = st.integers(1, 5)
LOSS = st.tuples(st.sampled_from(LOSSES), COUNT, st.integers(0, 8))
"""How they are lost, how many, and how many that were given up come late to their offsets."""
TAKEN = st.tuples(st.just(CauseKind.DEDUPLICATED), COUNT, st.integers(0, 3))
"""How many, and how many elections after the others were appended."""


@ANY_MACHINE
@given(st.lists(LOSS | TAKEN, min_size=1, max_size=4), st.booleans())
@example([(kind, 2, 2) for kind in (CauseKind.DEDUPLICATED, *LOSSES, CauseKind.DEDUPLICATED)], True)
def test_deduplicated_records_are_found_exactly_where_planted(
    planted: list[tuple[CauseKind, int, int]], speaks: bool
) -> None:
    """Test that a record lost with its leader is not taken for a deduplicated one. Another record
    of the same producer, which the producer had given up before, has its offset."""
    world = World(speaks=speaks)
    taken: set[int] = set()
    for kind, count, others in planted:
        if kind is CauseKind.DEDUPLICATED:
            taken.update(deduplicate(world, count, elected=others))
        else:
            lose(world, kind, count, appended=1, late=others)
    history, context = known(world)
    performed = explain_lost(history, context, ALWAYS_VALID)
    rows = zip(history.sequence[history.lost], performed.of_records.to_pylist(), strict=True)
    assert {n for n, row in rows if row["kind"] == CauseKind.DEDUPLICATED} == taken
    causes = [one for one in performed.causes if one.kind == CauseKind.DEDUPLICATED]
    assert sum(one.records for one in causes) == len(taken)


def known(world: World) -> tuple[PartitionHistory, PartitionContext]:
    context, timeline = world.context()
    return replace(indexed(world.made(), timeline=timeline), transactional=True), context


def root_causes(world: World) -> RootCauses:
    history, context = known(world)
    return explain_lost(history, context, ALWAYS_VALID)


def only(world: World) -> Cause:
    (cause,) = root_causes(world).causes
    return cause


GIVEN_UP, TAKEN_FOR_IT, OFFSET = 5, 7, 5
"""Of :func:`one_taken`: the sequence numbers, and where the first stands, from 1,000 s on. The
second leader is elected at 2,005 s, and acks at 3,000 s what stands nowhere."""


def one_taken() -> World:
    """Acked by the second leader, who has what was given up under the first."""
    world = World()
    world.strike("cut", 1, until=1_050)
    assert deduplicate(world, 1, elected=1) == range(TAKEN_FOR_IT, TAKEN_FOR_IT + 1)
    return world


def test_deduplicated_loss_is_described_in_one_sentence() -> None:
    world = one_taken()
    cause = only(world)
    assert cause.sentence == (
        "broker-2 took these records for earlier records that their producer had given up, "
        "and acked them at the offsets of those, as leader of epoch 1; no broker ever had "
        "them; librdkafka gives the sequence numbers of records that it purges with an "
        "aborted transaction to the records that it sends next: "
        "confluentinc/librdkafka#5423; cut#1 was active on broker-1 until 1950 s before the last "
        "of these."
    )
    assert (cause.kind, cause.epochs, cause.leaders) == (CauseKind.DEDUPLICATED, (1,), (2,))
    (row,) = root_causes(world).of_records.to_pylist()
    assert (row["epochs"], row["next_leader"], row["cut_by"]) == ([1], None, [])


def test_deduplication_cause_names_librdkafka_for_its_own_clients_only() -> None:
    history, context = known(one_taken())
    context = replace(context, sender=replace(context.sender, client="java"))
    (cause,) = explain_lost(history, context, ALWAYS_VALID).causes
    assert cause.kind == CauseKind.DEDUPLICATED
    assert "librdkafka" not in cause.sentence


def test_deduplicated_loss_names_each_leader_that_may_have_acked_it() -> None:
    """Cut off, the first one may not have heard of the second; the record stands in its epoch."""
    world = World()
    world.strike("cut", 1, until=4_000)
    deduplicate(world, 1, elected=1)
    cause = only(world)
    assert (cause.kind, cause.leaders) == (CauseKind.DEDUPLICATED, (1, 2))


def test_an_earlier_leader_that_may_have_acked_it_had_another_log() -> None:
    """Test the first example of ``checkers.root_cause.missing_records``: the acknowledging leader
    is unknown, and the record at the offset came to the second leader."""
    world = World()
    world.strike("cut", 1, until=100)
    late = world.give_up(1, 1)
    world.elect((2, 3))
    world.write(late)
    world.ack(50, OFFSET)
    world.see(99, 2, (1, 2, 3))
    assert only(world).kind != CauseKind.DEDUPLICATED


def test_a_later_leader_that_may_have_acked_it_had_another_log() -> None:
    """Test the second example: the record at the offset was truncated when the lost one was
    acknowledged."""
    world = World()
    world.strike("isolate", 1, until=30)
    world.write(world.give_up(1, 1))
    world.elect((2, 3))
    world.words[-1] = replace(world.words[-1], log_end=OFFSET)
    world.ack(1_000, OFFSET)
    world.now = 2_000
    world.elect((1,))
    assert only(world).kind != CauseKind.DEDUPLICATED


def after(world: World) -> None:
    """It was given up only when the other one had been acked."""
    world.sends = [
        replace(one, time=at(3_001)) if one.type == "info" else one for one in world.sends
    ]


def unanswered(world: World) -> None:
    world.sends = [one for one in world.sends if one.type != "info"]


def acked(world: World) -> None:
    """Two acks name one offset, and only one of the records stands there."""
    world.sends = [
        replace(one, type="ok", offset=OFFSET) if one.type == "info" else one for one in world.sends
    ]


def of_another(world: World) -> None:
    """Another producer's record of that number."""
    world.sends = [
        replace(one, producer=2) if one.sequence == GIVEN_UP else one for one in world.sends
    ]
    world.log[OFFSET] = entry(OFFSET, 2, GIVEN_UP, 0)


def above(world: World) -> None:
    """It stands an offset further on, behind a marker of a transaction's."""
    world.log = [
        replace(one, offset=one.offset + 1) if one.offset >= OFFSET else one for one in world.log
    ]
    world.end += 1


def nobody_s(world: World) -> None:
    """It stands an offset further on, and a payload of no client's where the ack says."""
    above(world)
    world.log.append(entry(OFFSET, leader_epoch=0))


def untold_epochs(world: World) -> None:
    """The brokers say nothing, nor does the log."""
    world.words.clear()
    world.log = [replace(one, leader_epoch=None) for one in world.log]


def another_epoch(world: World) -> None:
    """One came and went before the record was acked, and its leader was not observed."""
    world.epoch = 3
    world.see(2_500, 2, (1, 2, 3))


def observer_lost(world: World) -> None:
    """The observer was lost before the record was acked."""
    world.rows.append(connection(2_500, "zookeeper-lost"))


def from_disk(world: World, broker: int = 2, since: float = 2_990) -> None:
    """Let the acknowledging broker lose the record and receive the other one afterwards."""
    world.now = since
    world.strike("power-failure", broker, until=since + 50, destroys="unsynced")


def from_disk_before(world: World) -> None:
    """It may have lost the other one, and have had it again of another broker when that led."""
    from_disk(world, since=2_700)


def from_disk_after(world: World) -> None:
    """Nothing tells that the other one stood there before."""
    world.sends = [one for one in world.sends if one.sequence <= TAKEN_FOR_IT]
    world.sends = [one for one in world.sends if one.sequence != GIVEN_UP + 1]
    from_disk(world, since=3_200)


@pytest.mark.parametrize(
    "changed",
    [
        *(after, unanswered, acked, of_another, above, nobody_s, untold_epochs),
        *(another_epoch, observer_lost, from_disk, from_disk_before, from_disk_after),
    ],
)
def test_each_condition_of_deduplication_is_required(changed: Callable[[World], None]) -> None:
    world = one_taken()
    changed(world)
    assert only(world).kind != CauseKind.DEDUPLICATED


def back_in_time(world: World) -> None:
    """Let the observer miss a state that it would have seen afterwards."""
    world.rows += [connection(2_500, "zookeeper-lost"), connection(2_600, "zookeeper-back")]


def nobody_s_epoch(world: World) -> None:
    world.rows.append(state(2_500, -1, 2, (2,), version=len(world.rows)))
    world.epoch = 3
    world.see(2_600, 2, (1, 2, 3))


def from_another_s_disk(world: World) -> None:
    from_disk(world, broker=3)


def from_disk_before_both(world: World) -> None:
    from_disk(world, since=500)


def from_disk_after_both(world: World) -> None:
    from_disk(world, since=3_200)


def from_disk_of_a_follower(world: World) -> None:
    """Another one led by then, and told everybody."""
    from_disk_after(world)
    world.faults.clear()
    world.now = 3_100
    world.elect((3, 1, 2))
    from_disk(world, since=3_200)


@pytest.mark.parametrize(
    "changed",
    [
        back_in_time,
        nobody_s_epoch,
        from_another_s_disk,
        from_disk_before_both,
        from_disk_after_both,
        from_disk_of_a_follower,
    ],
)
def test_other_conditions_do_not_affect_deduplication(changed: Callable[[World], None]) -> None:
    world = one_taken()
    changed(world)
    assert only(world).kind == CauseKind.DEDUPLICATED


def test_loss_outside_transactions_is_not_explained_by_deduplication() -> None:
    history, context = known(one_taken())
    (cause,) = explain_lost(replace(history, transactional=False), context, ALWAYS_VALID).causes
    assert cause.kind != CauseKind.DEDUPLICATED


def test_uncompared_clocks_prevent_explanation_by_deduplication() -> None:
    history, context = known(one_taken())
    history = replace(history, timeline=replace(history.timeline, clock_bound_ns=None))
    (cause,) = explain_lost(history, context, ALWAYS_VALID).causes
    assert cause.kind != CauseKind.DEDUPLICATED


def test_an_epoch_that_two_led_had_two_logs() -> None:
    history, context = known(one_taken())
    for contended, is_one in (([0], True), ([1], False)):
        (cause,) = explain_lost(history, replace(context, contended=contended), ALWAYS_VALID).causes
        assert (cause.kind == CauseKind.DEDUPLICATED) == is_one


def test_record_held_by_a_replica_is_not_explained_by_deduplication() -> None:
    history, context = known(one_taken())
    lost = LostRecords(
        producer=history.producer[history.lost],
        sequence=history.sequence[history.lost],
        offset=history.acked_offset[history.lost],
        time=history.time[history.lost],
        stands=history.epoch_at(history.acked_offset[history.lost]),
    )
    for held, stories in (([], 1), ([OFFSET - 1], 1), ([OFFSET], 0)):
        assert len(list(deduplicated(history, history.lost, lost, context, held))) == stories
