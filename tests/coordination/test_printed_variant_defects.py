"""The defects of *Design V2* as it is printed, each in a scenario of its own.

In the printed variant acknowledged records are lost, an epoch has two leaders, or an assigned
replica is deleted. In the fenced variant nothing of that happens in the same scenario. The quoted
lines are those of *Design V2*.
"""

from collections.abc import Callable

import pytest

from ackproof.broker.coordination.events import Effect, Enqueue, PutIsr, Write
from ackproof.broker.coordination.variants import Fenced, Variant
from ackproof.broker.replication.config import Truncation
from ackproof.broker.types import BrokerId
from tests.support.worlds.coordination_world import (
    ONE,
    PREFERRED_WAIT,
    SETTLED,
    THREE,
    TWO,
    T,
    Violation,
    World,
)

Story = Callable[[World], None]


def world_of(
    size: int, variant: Callable[[], Variant] | str, truncation: Truncation | None = None
) -> World:
    """Return a world with a topic on all brokers, led by 1, the preferred replica."""
    world = World(size, variant, truncation=truncation, load_balancing=False)
    world.settle(100)
    world.create(tuple(range(1, size + 1)))
    world.settle(SETTLED)
    assert world.leader() == ONE
    assert set(world.isr()) == set(world.ids)
    return world


def die(world: World, broker: BrokerId) -> None:
    """Kill the process, and expire its session."""
    session = world.brokers[broker].session
    world.crash(broker)
    world.expire(session)


def fetch_once(world: World, broker: BrokerId) -> None:
    world.ask(broker)
    while world.messages:
        world.deliver(world.messages[0])


# --- r.hw = r.leo ---


class HighWatermarkIsLogEnd(Fenced):
    """The fenced variant, except for this line."""

    as_printed = True


def a_leader_dies_while_it_waits(world: World) -> None:
    """Let 2 lead with a record that no other broker has, and die while it waits for the others.

    Then 3 leads and acknowledges another record at that offset. When 2 returns, its watermark says
    that nothing must be truncated.
    """
    world.produce(ONE)
    world.settle(SETTLED)
    world.produce(ONE)
    fetch_once(world, TWO)
    die(world, ONE)
    world.settle(PREFERRED_WAIT + 50, network=False)
    assert world.leader() == TWO
    world.checkpoint(TWO)
    die(world, TWO)
    world.settle(SETTLED)
    assert world.leader() == THREE
    acked = world.produce(THREE)
    world.settle(SETTLED)
    assert world.is_acked(acked)
    world.start(TWO)
    world.settle(SETTLED)
    assert set(world.isr()) == {TWO, THREE}
    die(world, THREE)
    world.settle(SETTLED)


@pytest.mark.parametrize("variant", ["printed", HighWatermarkIsLogEnd])
def test_high_watermark_at_the_log_end_keeps_uncommitted_records(
    variant: Callable[[], Variant] | str,
) -> None:
    """``r.hw = r.leo // TODO: check if this should actually be r.hw = last checkpointed HW``"""
    world = world_of(3, variant, Truncation.HIGH_WATERMARK)
    with pytest.raises(Violation, match="acked record 3 at offset 1 is lost on 2"):
        a_leader_dies_while_it_waits(world)


@pytest.mark.parametrize("truncation", Truncation)
def test_unraised_high_watermark_loses_nothing(truncation: Truncation) -> None:
    a_leader_dies_while_it_waits(world_of(3, "fenced", truncation))


# --- register session expiration listener ---


def a_leader_is_cut_off_from_zookeeper(world: World) -> int:
    """Let 2 lead without the knowledge of 1, which gets a record from a producer."""
    world.cut_off = {ONE}
    world.expire(world.brokers[ONE].session)
    world.settle(SETTLED)
    assert world.leader() == TWO
    value = world.produce(ONE, timeout=100_000)
    world.settle(SETTLED)
    return value


def test_zombie_leader_acknowledges_records_that_its_successor_lacks() -> None:
    """Test ``register session expiration listener``, and in the commit thread ``p.ISR.delete(r);
    write p.ISR to ZK``. The leader removes the replicas that no longer follow it, and continues
    alone."""
    world = world_of(3, "printed")
    assert world.is_acked(a_leader_is_cut_off_from_zookeeper(world))
    with pytest.raises(Violation, match="acked record 1 at offset 0 is lost on 2"):
        world.check_log(TWO, T)


def test_fenced_leader_shrinks_no_isr_without_zookeeper() -> None:
    world = world_of(3, "fenced")
    value = a_leader_is_cut_off_from_zookeeper(world)
    assert not world.is_acked(value)
    world.cut_off = set()
    world.settle(SETTLED)
    assert not world.is_acked(value)
    assert world.values(1) == []
    world.check_log(TWO, T)


def the_zombie_s_isr_arrives(world: World) -> None:
    """Let 1 return in a new session, and then 2 die."""
    a_leader_is_cut_off_from_zookeeper(world)
    world.acked.clear()
    world.cut_off = set()
    world.settle(network=False)
    die(world, TWO)
    world.settle(SETTLED)


def test_unconditional_epoch_write_gives_an_epoch_twice() -> None:
    """Test ``epoch = getNewEpoch()``: the zombie's ISR with its epoch overwrites its
    successor's."""
    with pytest.raises(Violation, match="two leaders of epoch 1: 2 and"):
        the_zombie_s_isr_arrives(world_of(3, "printed"))


def test_fenced_epoch_is_given_once() -> None:
    world = world_of(3, "fenced")
    the_zombie_s_isr_arrives(world)
    leader = world.view().leader
    assert leader is not None
    assert leader.epoch == 2


# --- ISR is empty ---


def writes_of_an_isr_are_lost(times: int) -> Callable[[Write], bool]:
    left = iter(range(times))

    def loses(write: Write) -> bool:
        names_somebody = any(isinstance(op, PutIsr) and op.isr for op in write.ops)
        return names_somebody and next(left, None) is not None

    return loses


def a_new_partition_s_isr_is_lost(world: World) -> None:
    """Let 1 lead a new partition, acknowledge alone, and die."""
    world.watch_isr = False
    world.settle(100)
    world.loses = writes_of_an_isr_are_lost(3)
    world.command(world.admin.create_topic(T.topic, {0: (ONE, TWO)}))
    world.settle(SETTLED, network=False)
    assert world.leader() == ONE
    value = world.produce(ONE)
    world.settle(100, network=False)
    assert world.is_acked(value)
    die(world, ONE)
    world.settle(SETTLED)


def test_empty_isr_permits_any_leader() -> None:
    """Test ``(r in AR) && (ISR is empty || r in ISR)``.

    The ISR of a new partition is written as it was read, empty, and later writes are not observed.
    """
    with pytest.raises(Violation, match="acked record 1 at offset 0 is lost on 2"):
        a_new_partition_s_isr_is_lost(World(2, "printed"))


def test_fenced_leader_is_in_its_isr_before_it_serves() -> None:
    world = World(2, "fenced")
    a_new_partition_s_isr_is_lost(world)
    assert world.isr() == (ONE,)
    assert world.leader() is None
    world.start(ONE)
    world.settle(SETTLED)
    assert world.leader() == ONE
    world.check_log(ONE, T)


# --- we don't need to check epoch here ---


def closes(broker: BrokerId, request: Effect) -> bool:
    return (
        broker == ONE
        and isinstance(request, Write)
        and any(isinstance(op, Enqueue) for op in request.ops)
    )


def a_close_is_late(world: World) -> None:
    """Let 1 lead, become the only replica, and close 2. The request is delayed, the session of 1
    ends, 2 leads, and the move is cancelled."""
    world.holds = closes
    world.command(world.admin.reassign(T, (ONE,)))
    world.settle(SETTLED)
    world.expire(world.brokers[ONE].session)
    world.settle(SETTLED)
    assert world.leader() == TWO
    world.command(world.admin.cancel_reassignment(T))
    world.settle(100)
    value = world.produce(TWO)
    world.settle(SETTLED)
    assert world.is_acked(value)
    world.holds = lambda _broker, _request: False
    world.settle(SETTLED)
    world.check_log(TWO, T)


def test_close_without_epoch_deletes_an_assigned_replica() -> None:
    """``we don't need to check epoch here to be able to handle delete topic``"""
    with pytest.raises(Violation, match="2 deletes foo-0, which is assigned to it"):
        a_close_is_late(world_of(2, "printed"))


def test_fenced_close_is_valid_only_from_the_leader() -> None:
    a_close_is_late(world_of(2, "fenced"))


# --- for each r in AR: startReplica(r) ---


def the_leader_loses_power(world: World) -> None:
    """Let 1 lead, lose power, and return before its session is over."""
    value = world.produce(ONE)
    world.settle(SETTLED)
    assert world.is_acked(value)
    session = world.brokers[ONE].session
    world.crash(ONE, lost=1)
    world.start(ONE)
    world.settle(100)
    world.expire(session)
    world.settle(SETTLED)


def test_damaged_replica_leads_by_the_isr() -> None:
    """Test ``for each r in AR { ... startReplica(r) }``: the former members stay in the ISR."""
    with pytest.raises(Violation, match="acked record 1 at offset 0 is lost on 1"):
        the_leader_loses_power(world_of(3, "printed"))


def test_fenced_replica_leaves_the_isr_after_an_unclean_start() -> None:
    world = world_of(3, "fenced")
    the_leader_loses_power(world)
    assert world.leader() in (TWO, THREE)
    assert set(world.isr()) == {ONE, TWO, THREE}
    assert world.values(1) == [1]


# --- completePartitionsReassignment ---


@pytest.mark.parametrize("variant", ["printed", "fenced"])
def test_printed_reassignment_with_the_same_leader_never_ends(variant: str) -> None:
    """Test that ``delete /brokers/partitions_reassigned/...`` is inside ``if(stopCommitThread ||
    (broker_id is not preferred replica))``."""
    world = World(3, variant, load_balancing=False)
    world.settle(100)
    world.create((1, 2))
    world.command(world.admin.reassign(T, (ONE, THREE)))
    world.settle(SETTLED)
    world.produce(ONE)  # the printed variant checks it at each commit
    world.settle(SETTLED)
    assert world.view().assigned == (ONE, THREE)
    assert (world.view().reassigned is None) == (variant == "fenced")
