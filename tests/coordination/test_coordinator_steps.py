"""The algorithms of *Design V2*, quoted from the document: the steps of one broker."""

import uuid
from dataclasses import replace
from typing import get_args

import pytest

from ackproof.broker.coordination.context import Settings
from ackproof.broker.coordination.coordinator import STEPS, Coordinator
from ackproof.broker.coordination.events import (
    AssignmentsRead,
    Assume,
    BrokersRead,
    CreateLeader,
    CreateQueue,
    Delete,
    Dequeue,
    Effect,
    Event,
    Fault,
    Lifecycle,
    PartitionChanged,
    PartitionRead,
    Progress,
    QueueChanged,
    QueueRead,
    ReadAssignments,
    ReadPartition,
    ReadQueue,
    Refused,
    RegisterBroker,
    Result,
    RoleRefused,
    SessionExpired,
    SessionStarted,
    Stage,
    StartReplica,
    StopReplica,
    Tell,
    Tick,
    Write,
    Written,
)
from ackproof.broker.coordination.nodes import (
    ABSENT,
    ANY_VERSION,
    Assigned,
    Change,
    IsrNode,
    Kind,
    LeaderNode,
    Node,
    PartitionView,
    QueuedRequest,
    StateChangeRequest,
)
from ackproof.broker.coordination.queues import superfluous
from ackproof.broker.replication.events import Resigned
from ackproof.broker.types import BrokerId
from tests.support.worlds.coordination_world import KEEP_IN_SYNC, ONE, PREFERRED_WAIT, THREE, TWO, T

ISR = Node(Kind.ISR, T)


def request(
    change: Change, epoch: int = 10, leader: int = 0, partition: int = 0
) -> StateChangeRequest:
    tp = T._replace(partition=partition)
    return StateChangeRequest(change=change, partition=tp, leader=BrokerId(leader), epoch=epoch)


def entry(number: int, change: Change, epoch: int = 10, partition: int = 0) -> QueuedRequest:
    return QueuedRequest(
        name=f"request-{number:010}", request=request(change, epoch, partition=partition)
    )


def view(
    *replicas: int,
    leader: int | None = None,
    epoch: int = 0,
    isr: tuple[int, ...] | None = None,
    moving_to: tuple[int, ...] | None = None,
) -> PartitionView:
    return PartitionView(
        replicas=Assigned(replicas=tuple(map(BrokerId, replicas)), version=0),
        leader=None
        if leader is None
        else LeaderNode(broker=BrokerId(leader), epoch=epoch, owner=900 + leader, version=0),
        isr=None if isr is None else IsrNode(isr=tuple(map(BrokerId, isr)), epoch=epoch, version=3),
        reassigned=None
        if moving_to is None
        else Assigned(replicas=tuple(map(BrokerId, moving_to)), version=0),
    )


class Alone:
    """One coordinator, with events from the test."""

    def __init__(self, broker: int = 1, variant: str = "fenced", **settings: object) -> None:
        self.coordinator = Coordinator(
            Settings(
                broker=BrokerId(broker),
                preferred_replica_wait_ms=PREFERRED_WAIT,
                keep_in_sync_ms=KEEP_IN_SYNC,
                **settings,  # type: ignore[arg-type]
            ),
            variant,
        )
        self.now = 1_000
        self.effects: tuple[Effect, ...] = ()

    def step(self, event: Event) -> tuple[Effect, ...]:
        self.effects = self.coordinator.step(event, self.now)
        return self.effects

    def reads(self, seen: PartitionView) -> tuple[Effect, ...]:
        """Answer the only pending read."""
        (read,) = [e for e in self.effects if isinstance(e, ReadPartition)]
        return self.step(PartitionRead(token=read.token, view=seen))

    def queued(self, *entries: QueuedRequest) -> tuple[Effect, ...]:
        """Answer the only pending read of a queue, or one of its own queue if none is pending."""
        if not any(isinstance(effect, ReadQueue) for effect in self.effects):
            self.step(QueueChanged())
        (read,) = [e for e in self.effects if isinstance(e, ReadQueue)]
        return self.step(QueueRead(token=read.token, entries=entries))

    def writes(self) -> list[Write]:
        return [effect for effect in self.effects if isinstance(effect, Write)]

    def started(self, seen: PartitionView | None = None) -> "Alone":
        """Finish the startup. The coordinator hosts T if ``seen`` is given."""
        self.step(SessionStarted(session=101))
        self.queued()
        self.step(AssignmentsRead(mine=frozenset({T} if seen else ())))
        if seen:
            self.reads(seen)
        return self


# --- Broker startup ---------------------------------------------------------------------------


def test_startup_drains_the_queue_and_registers_last() -> None:
    """``create /brokers/state/[broker_id]``, ``register the state change handler``, ``drain``,
    ``startReplica(r)``, ``register its broker_id``: in this order."""
    alone = Alone()
    assert alone.step(SessionStarted(session=101)) == (
        CreateQueue(),
        ReadQueue(token=0, broker=ONE),
    )
    close = entry(1, Change.CLOSE_REPLICA, partition=7)
    assert RegisterBroker() not in alone.queued(close)
    assert ReadAssignments() not in alone.effects
    drained = alone.reads(PartitionView())
    assert StopReplica(partition=close.request.partition) in drained
    assert ReadAssignments() in drained
    assert RegisterBroker() not in alone.step(AssignmentsRead(mine=frozenset({T})))
    started = alone.reads(view(2, 1, leader=2, isr=(2, 1)))
    assert started[0] == StartReplica(partition=T)
    assert started[-1] == RegisterBroker()


def test_broker_without_replicas_registers_at_once() -> None:
    alone = Alone()
    alone.started()
    assert alone.effects == (RegisterBroker(),)


# --- Leader election ----------------------------------------------------------------------------


def claims(alone: Alone) -> bool:
    return any(isinstance(op, CreateLeader) for write in alone.writes() for op in write.ops)


@pytest.mark.parametrize("variant", ["printed", "fenced"])
@pytest.mark.parametrize(
    ("seen", "leads"),
    [
        (view(1, 2, isr=(1, 2)), True),
        (view(1, 2, isr=(2,)), False),
        (view(2, 3, isr=(1,), moving_to=()), False),
        (view(1, 2), True),
    ],
    ids=["r in ISR", "r not in ISR", "r not in AR", "no ISR yet"],
)
def test_leader_election_asks_for_ar_and_isr(
    variant: str, seen: PartitionView, leads: bool
) -> None:
    """``if( (r in AR) && (ISR is empty || r in ISR) )``"""
    assert claims(Alone(variant=variant).started(seen)) == leads


@pytest.mark.parametrize(("variant", "leads"), [("printed", True), ("fenced", False)])
def test_empty_isr_permits_any_leader_in_the_printed_variant_only(
    variant: str, leads: bool
) -> None:
    assert claims(Alone(variant=variant).started(view(1, 2, isr=()))) == leads


def test_non_preferred_replica_waits_before_it_claims() -> None:
    """``wait for PreferredReplicaTime if r is not the preferred replica``"""
    alone = Alone(broker=2).started(view(1, 2, isr=(1, 2)))
    assert not claims(alone)
    assert alone.coordinator.next_tick == alone.now + PREFERRED_WAIT
    alone.now += PREFERRED_WAIT - 1
    alone.step(Tick())
    assert not claims(alone)
    alone.now += 1
    alone.step(Tick())
    assert claims(alone)


def test_fenced_claim_writes_leader_epoch_and_isr_at_once() -> None:
    alone = Alone().started(view(1, 2, isr=(1, 2), epoch=4))
    (write,) = alone.writes()
    assert [getattr(op, "epoch", None) for op in write.ops] == [None, 5, 5]
    assert [getattr(op, "expected", None) for op in write.ops] == [0, None, 3]
    assert write.session == 101


def test_fenced_claim_of_a_new_partition_creates_its_isr() -> None:
    alone = Alone().started(view(1, 2))
    (write,) = alone.writes()
    assert write.ops[-1].expected == ABSENT  # type: ignore[union-attr]
    assert write.ops[-1].isr == (ONE,)  # type: ignore[union-attr]


@pytest.mark.parametrize("result", [Result.REFUSED, Result.UNKNOWN])
def test_failed_claim_causes_another_read(result: Result) -> None:
    """``else becomeFollower(r)``"""
    alone = Alone().started(view(1, 2, isr=(1, 2)))
    (write,) = alone.writes()
    alone.step(Written(token=write.token, result=result))
    assert any(isinstance(effect, ReadPartition) for effect in alone.effects)


def test_broker_does_not_follow_its_own_former_session() -> None:
    """Test a node of the broker's own earlier session: the partition has no leader, and the broker
    makes no claim."""
    alone = Alone().started(view(1, 2, leader=1, isr=(1, 2)))
    assert alone.writes() == []
    assert alone.effects[-1] == RegisterBroker()


# --- On State change ----------------------------------------------------------------------------


def handled(seen: PartitionView, change: Change, epoch: int, variant: str = "fenced") -> Alone:
    alone = Alone(broker=3, variant=variant).started()
    alone.queued(entry(1, change, epoch))
    alone.reads(seen)
    return alone


@pytest.mark.parametrize("variant", ["printed", "fenced"])
@pytest.mark.parametrize(
    ("seen", "epoch", "starts"),
    [
        (view(1, 2, moving_to=(1, 3)), -1, True),
        (view(1, 2, leader=1, isr=(1, 2), epoch=7, moving_to=(1, 3)), 7, True),
        (view(1, 2, leader=1, isr=(1, 2), epoch=7, moving_to=(1, 3)), 6, False),
        (view(1, 2), 7, False),
    ],
    ids=["leader doesn't exist", "latest epoch", "previous leader", "not a replica"],
)
def test_start_replica_is_valid_in_its_epoch_only(
    variant: str, seen: PartitionView, epoch: int, starts: bool
) -> None:
    """``if(leader for r.partition doesn't exist) ... else if(requestEpoch ==
    latestPartitionEpoch)``"""
    alone = handled(seen, Change.START_REPLICA, epoch, variant)
    assert (StartReplica(partition=T) in alone.effects) == starts
    assert any(isinstance(effect, Refused) for effect in alone.effects) != starts
    assert Dequeue(broker=THREE, name="request-0000000001") in alone.writes()[-1].ops


@pytest.mark.parametrize(
    ("seen", "variant", "closes"),
    [
        (view(1, 2), "fenced", True),
        (view(1, 3, moving_to=()), "fenced", True),
        (PartitionView(), "fenced", True),
        (view(1, 3, leader=1, isr=(1, 3), epoch=9), "fenced", False),
        (view(1, 2, leader=1, isr=(1, 2), epoch=9, moving_to=(1, 3)), "fenced", False),
        (view(1, 3, leader=1, isr=(1, 3), epoch=9), "printed", True),
    ],
    ids=["moved", "deleted", "gone", "assigned", "to be assigned", "assigned, as printed"],
)
def test_close_replica_is_valid_in_every_epoch(
    seen: PartitionView, variant: str, closes: bool
) -> None:
    """Test ``we don't need to check epoch here``. In the fenced variant, an assigned replica is not
    closed."""
    alone = handled(seen, Change.CLOSE_REPLICA, 2, variant)
    assert (StopReplica(partition=T) in alone.effects) == closes
    stale = Refused(fault=Fault.STALE_CLOSE, request=request(Change.CLOSE_REPLICA, 2), broker=THREE)
    assert (stale in alone.effects) != closes


def test_requests_for_one_partition_are_carried_out_in_order() -> None:
    alone = Alone(broker=3).started()
    alone.queued(entry(1, Change.CLOSE_REPLICA), entry(2, Change.START_REPLICA))
    first = alone.reads(view(1, 2))
    assert StopReplica(partition=T) in first
    assert StartReplica(partition=T) in alone.reads(view(1, 2, moving_to=(1, 3)))


# --- rejected roles -----------------------------------------------------------------------------


def told_a_role(alone: Alone) -> bool:
    return any(isinstance(effect, Assume) for effect in alone.effects)


def waits_for_a_tick(alone: Alone) -> None:
    due = alone.coordinator.next_tick
    assert due is not None
    alone.now = due
    alone.step(Tick())


def test_failed_follower_role_is_retried() -> None:
    """Test a log that could not be created, on a disk that works again. Nothing in ZooKeeper will
    change."""
    led = view(1, 2, leader=1, isr=(1,))
    alone = Alone(broker=2).started(led)
    assert told_a_role(alone)
    alone.step(RoleRefused(partition=T, leader_epoch=0))
    waits_for_a_tick(alone)
    alone.reads(led)
    assert told_a_role(alone)
    assert alone.coordinator.next_tick is None


def test_failed_leader_resigns_and_retries() -> None:
    free = view(1, 2, isr=(1, 2))
    alone = Alone().started(free)
    (claim,) = alone.writes()
    alone.step(Written(token=claim.token, result=Result.DONE, versions={ISR: 4}))
    alone.step(RoleRefused(partition=T, leader_epoch=1))
    assert Tell(partition=T, event=Resigned(leader_epoch=1)) in alone.effects
    ours = LeaderNode(broker=ONE, epoch=1, owner=101, version=0)
    alone.reads(replace(free, leader=ours))
    (removal,) = alone.writes()
    assert removal.ops == (Delete(node=Node(Kind.LEADER, T), expected=ANY_VERSION),)
    alone.step(Written(token=removal.token, result=Result.DONE))
    assert not claims(alone)
    alone.reads(free)
    assert not claims(alone)
    waits_for_a_tick(alone)
    alone.reads(free)
    assert claims(alone)


def leads_after_a_wait(alone: Alone, free: PartitionView) -> None:
    """Let the coordinator claim the partition alone and serve it once its follower has caught
    up."""
    waits_for_a_tick(alone)
    (claim,) = alone.writes()
    alone.step(Written(token=claim.token, result=Result.DONE, versions={ISR: 4}))
    alone.step(BrokersRead(live=frozenset({ONE, TWO})))
    assert free.isr is not None
    epoch = free.isr.epoch + 1
    level = Progress(partition=T, leader_epoch=epoch, log_end=7, high_watermark=7, ends={ONE: 7})
    alone.step(level)


def gives_back(alone: Alone) -> list[Write]:
    return [
        write
        for write in alone.writes()
        if any(isinstance(op, Delete) and op.node.kind is Kind.LEADER for op in write.ops)
    ]


def test_unclaimed_returned_leadership_is_offered_again() -> None:
    """Test an idle partition with all replicas in sync, for which no other event comes."""
    alone = Alone(broker=2).started(view(1, 2, isr=(1, 2)))
    leads_after_a_wait(alone, view(1, 2, isr=(1, 2)))
    (given,) = gives_back(alone)
    offered_at = alone.now
    alone.step(Written(token=given.token, result=Result.DONE))
    free = view(1, 2, isr=(1, 2), epoch=1)
    alone.reads(free)
    leads_after_a_wait(alone, free)
    assert not gives_back(alone)
    waits_for_a_tick(alone)
    assert alone.now == offered_at + KEEP_IN_SYNC
    assert gives_back(alone)


def test_refused_role_is_retried_with_the_next_session() -> None:
    led = view(1, 2, leader=1, isr=(1,))
    alone = Alone(broker=2).started(led)
    alone.step(SessionExpired())
    alone.step(RoleRefused(partition=T, leader_epoch=0))
    assert alone.coordinator.next_tick is None
    alone.step(SessionStarted(session=102))
    alone.queued()
    alone.step(AssignmentsRead(mine=frozenset({T})))
    alone.reads(led)
    assert told_a_role(alone)


# --- State change communication -----------------------------------------------------------------


def test_shrink_retains_one_close_replica_for_a_partition_with_the_latest_epoch() -> None:
    """``this operation retains only one close-replica request for a partition, the one with the
    latest epoch ... You don't have to retain any start-replica requests``"""
    entries = (
        entry(1, Change.START_REPLICA, 1),
        entry(2, Change.CLOSE_REPLICA, 2),
        entry(3, Change.CLOSE_REPLICA, 3),
        entry(4, Change.CLOSE_REPLICA, 1),
        entry(5, Change.CLOSE_REPLICA, -1, partition=1),
        entry(6, Change.CLOSE_REPLICA, -1, partition=1),
        entry(7, Change.ISR_CHANGED, 9),
    )
    dropped = superfluous(entries, keeps_all_kinds=False)
    assert {e.name for e in entries} - set(dropped) == {"request-0000000003", "request-0000000006"}
    assert superfluous(reversed(entries), keeps_all_kinds=False) == dropped


def test_fenced_shrink_drops_superseded_requests_only() -> None:
    """Test a live broker, which looks for its replicas only at its next start."""
    entries = (
        entry(1, Change.START_REPLICA, 4),
        entry(2, Change.START_REPLICA, -1, partition=1),
        entry(3, Change.CLOSE_REPLICA, 4),
        entry(4, Change.START_REPLICA, -1),  # created again
        entry(5, Change.ISR_CHANGED, 9),
        entry(6, Change.ISR_CHANGED, 9),
        entry(7, Change.CLOSE_REPLICA, 5),
    )
    dropped = superfluous(entries, keeps_all_kinds=True)
    assert dropped == tuple(f"request-{number:010d}" for number in (1, 3, 5))
    assert superfluous(reversed(entries), keeps_all_kinds=True) == dropped


# --- Explicit monitoring ---


def test_lifecycle_has_the_terms_of_design_v2() -> None:
    asked = request(Change.START_REPLICA)
    assert [str(Lifecycle(stage=stage, request=asked, broker=ONE)) for stage in Stage] == [
        "leader, broker id 0, requested start-replica for topic foo partition 0, "
        "to broker id 1, at epoch 10",
        "follower, broker id 1, received start-replica for topic foo partition 0, "
        "from leader 0, at epoch 10",
        "follower, broker id 1, completed start-replica for topic foo partition 0, "
        "request from leader 0, at epoch 10",
    ]


def test_every_event_has_a_step() -> None:
    assert set(STEPS) == set(get_args(Event))


def test_recreated_topic_is_not_led_with_the_former_log() -> None:
    former, latter = uuid.UUID(int=1), uuid.UUID(int=2)
    alone = Alone().started(replace(view(1, 2), topic_id=former))
    (claim,) = alone.writes()
    alone.step(Written(token=claim.token, result=Result.DONE, versions={ISR: 0}))
    assert not told_a_role(alone)
    ours = LeaderNode(broker=ONE, epoch=0, owner=101, version=0)
    alone.reads(replace(view(1, 2, isr=(1,)), leader=ours, topic_id=latter))
    assert [e for e in alone.effects if isinstance(e, StopReplica | StartReplica)] == [
        StopReplica(partition=T),
        StartReplica(partition=T, topic_id=latter),
    ]


def test_unclean_replica_is_suspect_until_it_was_checked() -> None:
    """Test that a session which ends during startup does not make its log whole (scheduler, seed
    5020)."""
    alone = Alone(unclean_start=True)
    alone.step(SessionStarted(session=101))
    alone.queued()
    alone.step(AssignmentsRead(mine=frozenset({T})))
    alone.step(SessionExpired())
    alone.step(SessionStarted(session=102))
    alone.queued()
    alone.step(AssignmentsRead(mine=frozenset({T})))
    alone.reads(view(1, 2, isr=(1, 2)))
    assert not claims(alone)
    (write,) = alone.writes()
    assert write.ops[-1].isr == (TWO,)  # type: ignore[union-attr]


def test_watch_event_before_the_first_read_is_kept() -> None:
    """Test a former node of the broker that vanishes while startup reads it (scheduler, seed
    7574)."""
    alone = Alone()
    alone.step(SessionStarted(session=101))
    alone.queued()
    asked = alone.step(AssignmentsRead(mine=frozenset({T})))
    assert alone.step(PartitionChanged(partition=T)) == ()
    alone.effects = asked
    alone.reads(view(1, 2, leader=1, isr=(1, 2)))
    assert any(isinstance(effect, ReadPartition) for effect in alone.effects)
