"""The algorithms of *Design V2*, quoted from the document: the effects among several brokers."""

import pytest

from ackproof.broker.coordination.admin import Outcome
from ackproof.broker.coordination.events import (
    Delete,
    Effect,
    Fault,
    PutAssigned,
    Refused,
    Tell,
    Write,
)
from ackproof.broker.coordination.nodes import Change, PartitionView, StateChangeRequest
from ackproof.broker.replication.events import StartServing
from ackproof.broker.replication.replica import Role
from ackproof.broker.types import BrokerId
from tests.support.worlds.coordination_world import (
    KEEP_IN_SYNC,
    LAG,
    ONE,
    PREFERRED_WAIT,
    SETTLED,
    THREE,
    TWO,
    Broker,
    CommandRun,
    T,
    World,
)

FOUR = BrokerId(4)

# --- State change communication -----------------------------------------------------------------


def test_full_queue_is_shrunk_or_rejected() -> None:
    """``throw new FollowerStateChangeQueueFull``"""
    world = World(3, queue_max=2)
    world.settle(100)
    world.create((1, 2))
    world.crash(THREE)
    for number in (8, 9):
        world.zookeeper.put(("entry", THREE, f"request-{number}"), _start(number))
    world.command(world.admin.reassign(T, (ONE, TWO, THREE)))
    world.settle(SETTLED)
    refused = [line for line in world.brokers[ONE].log if isinstance(line, Refused)]
    assert {line.fault for line in refused} == {Fault.QUEUE_FULL}
    assert refused[0].broker == THREE
    world.zookeeper.put(("entry", THREE, "request-9"), _start(8))  # again
    world.settle(2 * SETTLED)
    left = world.zookeeper.queue(THREE, world.zookeeper.head)
    assert {entry.request.partition.partition for entry in left} == {8, T.partition}
    assert len(left) == 2
    world.start(THREE)
    world.settle(SETTLED)
    assert world.view().assigned == (ONE, TWO, THREE)


@pytest.mark.parametrize("room", [1, 2])
def test_all_partitions_beyond_the_queue_limit_are_started(room: int) -> None:
    world = World(3, queue_max=room)
    world.settle(100)
    tps = [T._replace(partition=number) for number in range(4)]
    run = world.command(
        world.admin.create_topic(T.topic, {tp.partition: (ONE, TWO, THREE) for tp in tps})
    )
    while run.go_on():  # before any broker reads its queue
        pass
    world.settle(5 * KEEP_IN_SYNC)
    assert run.outcome is Outcome.DONE
    assert [set(world.isr(tp)) for tp in tps] == [{ONE, TWO, THREE}] * len(tps)


def _start(partition: int) -> StateChangeRequest:
    of = T._replace(partition=partition)
    return StateChangeRequest(change=Change.START_REPLICA, partition=of, leader=ONE, epoch=1)


# --- Become leader ------------------------------------------------------------------------------


def _without_its_first_leader(variant: str) -> World:
    world = World(3, variant, load_balancing=False)
    world.settle(100)
    world.create((1, 2, 3))
    world.settle(SETTLED)
    world.expire(world.brokers[ONE].session)
    world.crash(ONE)
    return world


@pytest.mark.parametrize("variant", ["printed", "fenced"])
def test_new_leader_waits_for_live_replicas_before_it_serves(variant: str) -> None:
    """``wait until every live replica in AR catches up ... or a KeepInSyncTime has passed``"""
    world = _without_its_first_leader(variant)
    world.settle(PREFERRED_WAIT + 20, network=False)
    leader = world.leader()
    assert leader in (TWO, THREE)
    replica = world.brokers[leader].replicas[T]
    assert replica.role is Role.LEADER
    assert not replica.serves
    world.settle(KEEP_IN_SYNC - 60, network=False)
    assert not replica.serves
    world.settle(60, network=False)
    assert replica.serves
    assert world.isr() == (leader,)


@pytest.mark.parametrize("variant", ["printed", "fenced"])
def test_new_leader_serves_once_its_followers_have_caught_up(variant: str) -> None:
    world = _without_its_first_leader(variant)
    world.settle(PREFERRED_WAIT + 60)
    leader = world.leader()
    assert leader in (TWO, THREE)
    assert world.brokers[leader].replicas[T].serves
    assert set(world.isr()) == {TWO, THREE}


@pytest.mark.parametrize("variant", ["printed", "fenced"])
def test_new_partition_is_served_with_a_full_isr(variant: str) -> None:
    """Test ``r.partition.ISR = the current set of replicas in sync with r``: with an empty log,
    these are all live replicas."""
    world = World(3, variant)
    world.settle(100)
    served: list[tuple[BrokerId, ...]] = []

    def tell(process: Broker, effect: Effect) -> None:
        if isinstance(effect, Tell) and isinstance(effect.event, StartServing):
            served.append(process.replicas[T].isr)

    world.on_effect = tell
    world.create((1, 2, 3))
    (isr,) = served
    assert set(isr) == {ONE, TWO, THREE}


@pytest.mark.parametrize(("variant", "leaves"), [("fenced", True), ("printed", False)])
def test_follower_that_dies_level_with_an_idle_leader_leaves_the_isr(
    variant: str, leaves: bool
) -> None:
    """Test that in the printed variant the commit thread checks followers only when it commits a
    record."""
    world = World(3, variant, load_balancing=False)
    world.settle(100)
    world.create((1, 2, 3))
    value = world.produce(ONE)
    world.settle(100)
    assert world.is_acked(value)
    session = world.brokers[THREE].session
    world.crash(THREE)
    world.settle(10 * LAG)
    assert set(world.isr()) == {ONE, TWO, THREE}, "its session is not over"
    world.expire(session)
    world.settle(20)
    assert (set(world.isr()) == {ONE, TWO}) == leaves
    if leaves:
        value = world.produce(ONE)
        world.settle(40)
        assert world.is_acked(value), "without a wait for the dead one"
    world.start(THREE)
    world.settle(SETTLED)
    assert set(world.isr()) == {ONE, TWO, THREE}


def test_new_leader_stops_waiting_for_a_replica_that_dies() -> None:
    world = World(3, load_balancing=False)
    world.settle(100)
    world.create((1, 2, 3))
    world.expire(world.brokers[ONE].session)
    world.crash(ONE)
    world.settle(PREFERRED_WAIT + 20, network=False)
    leader = world.leader()
    (other,) = {TWO, THREE} - {leader}
    assert leader is not None
    assert not world.brokers[leader].replicas[T].serves
    world.expire(world.brokers[other].session)
    world.crash(other)
    world.settle(20, network=False)
    assert world.brokers[leader].replicas[T].serves
    assert world.isr() == (leader,)


# --- checkLoadBalancing ---------------------------------------------------------------------------


@pytest.mark.parametrize("balancing", [True, False])
@pytest.mark.parametrize("variant", ["printed", "fenced"])
def test_preferred_replica_gets_the_leadership_back(variant: str, balancing: bool) -> None:
    """``if(leader replica is not the preferred one & the preferred replica is in ISR) delete
    /brokers/topics/[topic]/[partition_id]/leader``"""
    world = World(3, variant, load_balancing=balancing)
    world.settle(100)
    world.create((1, 2, 3))
    world.expire(world.brokers[ONE].session)
    world.crash(ONE)
    world.settle(SETTLED)
    assert world.leader() != ONE
    world.start(ONE)
    world.settle(2 * SETTLED)
    assert (world.leader() == ONE) == balancing
    if not balancing:
        world.command(world.admin.elect_preferred(T))
        world.settle(SETTLED)
        assert world.leader() == ONE


# --- reassignment, creation, deletion ------------------------------------------------------------


@pytest.mark.parametrize("target", [(2, 3), (1, 3), (3,), (3, 2, 1)])
def test_partition_is_reassigned(target: tuple[int, ...]) -> None:
    """``checkReassignedReplicas``, ``completePartitionsReassignment``"""
    world = World(3)
    world.settle(100)
    world.create((1, 2))
    value = world.produce(ONE)
    world.settle(200)
    world.command(world.admin.reassign(T, tuple(map(BrokerId, target))))
    world.settle(2 * SETTLED)
    assert world.view().assigned == target
    assert world.view().reassigned is None
    assert set(world.isr()) == set(target)
    assert world.leader() == target[0]
    assert {broker for broker, _ in world.logs} == set(target)
    assert all(world.values(broker) == [value] for broker in target)


def test_added_replica_joins_after_its_queue_is_drained() -> None:
    """Test a close-replica in the queue. If it were carried out by the state read before the move,
    it would delete a log in the ISR (simulation, seed 86298)."""
    world = World(3)
    world.settle(100)
    world.create((1, 2))
    value = world.produce(ONE)
    world.settle(200)
    world.holds = lambda broker, _request: broker == TWO
    world.command(world.admin.reassign(T, (ONE,)))
    world.settle(SETTLED)
    assert world.view().assigned == (ONE,)
    world.command(world.admin.reassign(T, (ONE, TWO)))
    world.settle(2 * SETTLED)
    assert world.isr() == (ONE,)
    assert world.values(TWO) == [value], "it would be let in"
    world.holds = lambda _broker, _request: False
    world.settle(2 * SETTLED)
    assert set(world.isr()) == {ONE, TWO}
    assert world.view().assigned == (ONE, TWO)
    assert world.values(TWO) == [value]


def test_reassignment_is_cancelled() -> None:
    world = World(3)
    world.settle(100)
    world.create((1, 2))
    world.crash(THREE)
    world.command(world.admin.reassign(T, (ONE, THREE)))
    world.settle(SETTLED)
    run = world.command(world.admin.cancel_reassignment(T))
    world.start(THREE)
    world.settle(2 * SETTLED)
    assert run.outcome is Outcome.DONE
    assert world.view().assigned == (ONE, TWO)
    assert {broker for broker, _ in world.logs} == {ONE, TWO}


def _moved_to_three(brokers: int = 4) -> World:
    """Return a world in which 3 has been started and fetches nothing yet, and 4 hosts nothing."""
    world = World(brokers)
    world.settle(100)
    world.create((1, 2))
    world.settle(200)
    world.command(world.admin.reassign(T, (ONE, TWO, THREE)))
    world.settle(0)
    assert {broker for broker, _ in world.logs} == {ONE, TWO, THREE}
    assert world.isr() == (ONE, TWO)
    return world


def test_replica_of_a_replaced_reassignment_keeps_no_log() -> None:
    """Test a replica that was started for an order which another one replaced before the replica
    was in the ISR (simulation, seed 226)."""
    world = _moved_to_three(brokers=3)
    world.command(world.admin.reassign(T, (TWO, ONE)))
    world.settle(2 * SETTLED)
    assert world.view().assigned == (TWO, ONE)
    assert {broker for broker, _ in world.logs} == {ONE, TWO}


def _ends(world: World, broker: BrokerId) -> None:
    session = world.brokers[broker].session
    world.crash(broker)
    world.expire(session)


def _goes_on(run: CommandRun) -> None:
    """Run the next step of a command before any broker learns of its write."""
    while run.go_on():
        pass


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("orders", [[(TWO, ONE)], [None], [(FOUR,)], [(FOUR,), (FOUR, TWO)], [()]])
def test_replica_started_by_a_former_leader_keeps_no_log(
    orders: list[tuple[int, ...] | None], down: bool
) -> None:
    """Test a replica that its leader has started. The leader is gone when the order is replaced,
    and its successor knows of the replica only from ZooKeeper (simulation, scenario away and back,
    seed 1)."""
    world = _moved_to_three()
    _ends(world, ONE)
    if down:
        _ends(world, THREE)
    for target in orders:
        if target is None:
            run = world.command(world.admin.cancel_reassignment(T))
        elif target:
            run = world.command(world.admin.reassign(T, tuple(map(BrokerId, target))))
        else:
            run = world.command(world.admin.delete_topic(T.topic))
        _goes_on(run)
        assert run.outcome is (None if target == () else Outcome.DONE)
    assert THREE in world.view().removing
    world.start(ONE)
    if down:
        world.start(THREE)
    world.settle(2 * SETTLED)
    assert world.view().reassigned is None
    assert {broker for broker, _ in world.logs} == set(world.view().assigned)
    assert THREE not in world.view().assigned


def test_replica_named_again_is_no_longer_removing() -> None:
    world = _moved_to_three()
    for target in ((FOUR,), (TWO, THREE)):
        _goes_on(world.command(world.admin.reassign(T, target)))
    assert world.view().removing == (FOUR,)
    world.settle(2 * SETTLED)
    assert world.view().assigned == (TWO, THREE)
    assert {broker for broker, _ in world.logs} == {TWO, THREE}


def test_replica_named_again_unseen_is_started_again() -> None:
    """Test three orders of which the leader sees the first and the last, which name 3. It is
    started again, which the second one does not do."""
    world = _moved_to_three()
    _ends(world, THREE)
    world.cut_off.add(ONE)
    _goes_on(world.command(world.admin.reassign(T, (ONE, TWO, FOUR))))
    world.start(THREE)
    world.settle(100)
    assert not world.brokers[THREE].replicas
    _goes_on(world.command(world.admin.reassign(T, (ONE, TWO, THREE))))
    world.cut_off.clear()
    world.settle(2 * SETTLED)
    assert world.view().assigned == (ONE, TWO, THREE)
    assert world.isr() == (ONE, TWO, THREE)
    assert {broker for broker, _ in world.logs} == {ONE, TWO, THREE}


def test_cancellation_does_not_end_the_next_reassignment() -> None:
    """Test a cancellation whose write is pending when a move to 4 replaces the order. Both nodes
    have version 0."""
    world = _moved_to_three()
    world.holds = lambda _broker, sent: (
        isinstance(sent, Write) and any(isinstance(op, Delete) for op in sent.ops)
    )
    world.command(world.admin.cancel_reassignment(T))
    world.settle(100)
    assert world.view().moving_to == (ONE, TWO)
    instead = world.command(world.admin.reassign(T, (ONE, FOUR)))
    world.settle(100)
    assert instead.outcome is Outcome.DONE
    world.holds = lambda _broker, _request: False
    world.settle(2 * SETTLED)
    assert world.view().assigned == (ONE, FOUR)
    assert {broker for broker, _ in world.logs} == {ONE, FOUR}


def test_cancellation_succeeds_without_dead_replicas() -> None:
    """Test that a move back does not wait for 2, which must be replaced because it is down."""
    world = _moved_to_three()
    _ends(world, TWO)
    _ends(world, THREE)
    world.settle(SETTLED)
    assert world.isr() == (ONE,)
    world.command(world.admin.cancel_reassignment(T))
    world.settle(SETTLED)
    assert world.view().reassigned is None
    assert world.view().assigned == (ONE, TWO)
    assert world.leader() == ONE


def test_topic_is_deleted_when_all_replicas_are_closed() -> None:
    """Test ``wait till replica is closed by all replicas``. A broker that is down closes it
    later."""
    world = World(3)
    world.settle(100)
    world.create((1, 2, 3))
    world.crash(THREE)
    late = world.command(world.admin.delete_topic(T.topic))
    world.settle(6_000)
    assert late.outcome is Outcome.TIMED_OUT
    assert {broker for broker, _ in world.logs} == {THREE}
    assert [e.request.change for e in world.zookeeper.queue(THREE, world.zookeeper.head)] == [
        Change.CLOSE_REPLICA
    ]
    world.start(THREE)
    again = world.command(world.admin.delete_topic(T.topic))
    world.settle(SETTLED)
    assert again.outcome is Outcome.DONE
    assert world.logs == {}
    assert world.view() == PartitionView()
    assert ("topic", T.topic) not in world.zookeeper.state


def test_topic_is_created_when_all_replicas_started_and_cleaned_up_otherwise() -> None:
    """``waitTillStateChangeRequestConsumed``, ``cleanFailedTopicCreationAttempts``"""
    world = World(3)
    world.settle(100)
    world.crash(THREE)
    late = world.command(world.admin.create_topic(T.topic, {0: (ONE, TWO, THREE)}))
    world.settle(6_000)
    assert late.outcome is Outcome.TIMED_OUT
    assert world.leader() is None
    assert world.view().replicas is None
    again = world.command(world.admin.create_topic(T.topic, {0: (ONE, TWO)}))
    world.settle(SETTLED)
    assert again.outcome is Outcome.DONE
    assert world.leader() == ONE
    once_more = world.command(world.admin.create_topic(T.topic, {0: (ONE, TWO)}))
    world.settle(100)
    assert once_more.outcome is Outcome.EXISTS
    world.start(THREE)
    world.settle(SETTLED)
    assert {broker for broker, _ in world.logs} == {ONE, TWO}


def test_replaced_reassignment_is_not_completed() -> None:
    """Test the leader's last write for the move to 3, which is pending when a move to 2 replaces
    it. Both nodes have version 0 (scheduler, seed 4272)."""
    world = World(3)
    world.settle(100)
    world.create((1, 2))
    world.holds = lambda _broker, sent: (
        isinstance(sent, Write) and any(isinstance(op, PutAssigned) for op in sent.ops)
    )
    world.command(world.admin.reassign(T, (ONE, THREE)))
    world.settle(SETTLED)
    assert world.view().assigned == (ONE, TWO)
    instead = world.command(world.admin.reassign(T, (TWO, ONE)))
    world.settle(100)
    assert instead.outcome is Outcome.DONE
    world.holds = lambda _broker, _request: False
    world.settle(2 * SETTLED)
    assert world.view().assigned == (TWO, ONE)
