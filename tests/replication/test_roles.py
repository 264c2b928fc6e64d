"""The state table: each role with each kind of event, and each change of role."""

from typing import get_args

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.replication.events import (
    DeleteRecords,
    EpochEndOffset,
    Event,
    Fetched,
    FetchOutOfRange,
    FollowerFetch,
    IsrRefused,
    IsrWriteFailed,
    IsrWritten,
    LogEndMoved,
    LogStartMoved,
    Produce,
    ReplicasChanged,
    Resigned,
    Respond,
    StartEpoch,
    StartServing,
    Stopped,
    Tick,
)
from ackproof.broker.replication.replica import STEPS, Replica, Role, StaleEpoch
from ackproof.broker.types import NO_LEADER, LeaderEpoch
from tests.support.fakes.memory_log import MemoryBatch
from tests.support.worlds.replica_lab import A, B, C, Lab

LEADERS = {Role.LEADER: A, Role.FOLLOWER: B, Role.OFFLINE: NO_LEADER}


def lab_with(role: Role) -> Lab:
    """Return a lab in which A has ``role`` in epoch 1, and holds one record."""
    lab = Lab(3)
    lab.elect(A, (A, B, C), to=(A,))
    lab.produce(A)
    lab.elect(LEADERS[role], (A, B, C), to=(A,))
    return lab


def state(replica: Replica) -> tuple[object, ...]:
    return (
        replica.role,
        replica.leader,
        replica.leader_epoch,
        replica.isr,
        replica.zk_version,
        replica.log_start_offset,
        replica.log_end_offset,
        replica.high_watermark,
        replica.low_watermark,
        replica.epochs,
        replica.fetching(),
    )


EVENTS: dict[type[Event], Event] = {
    type(event): event
    for event in (
        Produce(request=7, batches=(MemoryBatch.to_send(7, 1),), acks=1, deadline=100, now=1),
        FollowerFetch(replica=B, offset=1, log_start_offset=0, now=1),
        Fetched(leader_epoch=1, fetch_offset=1, batches=(), high_watermark=1, log_start_offset=0),
        EpochEndOffset(current_leader_epoch=1, leader_epoch=0, end_offset=0),
        FetchOutOfRange(leader_epoch=1, log_start_offset=5, log_end_offset=9),
        LogStartMoved(offset=1),
        LogEndMoved(offset=1),
        Stopped(),
        StartServing(leader_epoch=1, now=1),
        ReplicasChanged(leader_epoch=1, replicas=(A, B)),
        Resigned(leader_epoch=1),
        DeleteRecords(offset=1),
        IsrWritten(leader_epoch=1, isr=(A, B), zk_version=2),
        IsrWriteFailed(leader_epoch=1, conflict=False),
        IsrRefused(leader_epoch=1),
        Tick(now=1),
        lab_with(Role.LEADER).word(),
    )
}
"""One event of each kind, of the current epoch, and as harmful as possible to the wrong role."""

IGNORED = {
    Role.LEADER: {Fetched, EpochEndOffset, FetchOutOfRange},
    Role.FOLLOWER: {
        *(FollowerFetch, DeleteRecords, IsrWritten, IsrWriteFailed, IsrRefused, Tick),
        *(StartServing, Resigned),
    },
    Role.OFFLINE: {
        *(Fetched, EpochEndOffset, FetchOutOfRange),
        *(FollowerFetch, DeleteRecords, IsrWritten, IsrWriteFailed, IsrRefused, Tick),
        *(StartServing, Resigned),
    },
}


def test_step_table_has_every_pair_of_role_and_event() -> None:
    assert set(STEPS) == set(Role)
    for steps in STEPS.values():
        assert set(steps) == set(get_args(Event)) == set(EVENTS)


@pytest.mark.parametrize(
    ("role", "kind"),
    [(role, kind) for role, kinds in IGNORED.items() for kind in EVENTS if kind in kinds],
)
def test_event_for_another_role_changes_nothing(role: Role, kind: type[Event]) -> None:
    lab = lab_with(role)
    before = state(lab[A])
    assert lab.step(A, EVENTS[kind]) == ()
    assert state(lab[A]) == before


@pytest.mark.parametrize("role", [Role.FOLLOWER, Role.OFFLINE])
def test_only_a_leader_accepts_records(role: Role) -> None:
    lab = lab_with(role)
    before = state(lab[A])
    refused = Respond(request=7, error=ErrorCode.not_leader_or_follower, base_offset=-1)
    assert lab[A].step(EVENTS[Produce]) == (refused,)
    assert state(lab[A]) == before


@pytest.mark.parametrize("old", Role)
@pytest.mark.parametrize("new", Role)
def test_every_role_can_follow_every_role(old: Role, new: Role) -> None:
    lab = lab_with(old)
    lab.elect(LEADERS[new], (A, B), to=(A,))
    replica = lab[A]
    assert (replica.role, replica.leader_epoch, replica.isr) == (new, 2, (A, B))
    assert (StartEpoch(leader_epoch=2, offset=1) in lab.effects) == (new is Role.LEADER)


@pytest.mark.parametrize("role", Role)
def test_request_of_an_older_epoch_is_rejected(role: Role) -> None:
    lab = lab_with(role)
    old = lab.word()
    lab.elect(LEADERS[role], (A, B), to=(A,))
    before = state(lab[A])
    with pytest.raises(StaleEpoch, match="leader epoch 1, but the current one is 2"):
        lab[A].step(old)
    assert state(lab[A]) == before


@pytest.mark.parametrize("role", Role)
def test_repeated_request_changes_nothing(role: Role) -> None:
    lab = lab_with(role)
    before = state(lab[A])
    lab.tell(A)
    assert (lab.effects, state(lab[A])) == ((), before)


@pytest.mark.parametrize("role", Role)
def test_newer_version_within_the_epoch_updates_the_isr(role: Role) -> None:
    lab = lab_with(role)
    lab.version += 1
    lab.isr = (A,)
    lab.tell(A)
    assert (lab[A].isr, lab[A].zk_version, lab[A].role) == ((A,), lab.version, role)


def test_two_leaders_within_an_epoch_are_an_error() -> None:
    lab = lab_with(Role.LEADER)
    before = state(lab[A])
    lab.leader = B
    lab.version += 1
    with pytest.raises(ValueError, match="leader epoch 1 has leader 0, now named 1"):
        lab.tell(A)
    assert state(lab[A]) == before


@pytest.mark.parametrize(
    ("role", "epoch", "error"),
    [
        (Role.LEADER, None, ErrorCode.none),
        (Role.LEADER, -1, ErrorCode.none),
        (Role.LEADER, 1, ErrorCode.none),
        (Role.LEADER, 0, ErrorCode.fenced_leader_epoch),
        (Role.LEADER, 2, ErrorCode.unknown_leader_epoch),
        (Role.FOLLOWER, 1, ErrorCode.not_leader_or_follower),
        (Role.FOLLOWER, 0, ErrorCode.fenced_leader_epoch),
        (Role.OFFLINE, None, ErrorCode.not_leader_or_follower),
    ],
)
def test_requests_are_fenced_by_epoch(role: Role, epoch: int | None, error: ErrorCode) -> None:
    presumed = None if epoch is None else LeaderEpoch(epoch)
    assert lab_with(role)[A].check_leader(presumed) is error


def test_replica_has_no_role_before_its_first_request() -> None:
    replica = Lab(1)[A]
    assert (replica.role, replica.leader, replica.leader_epoch) == (Role.OFFLINE, NO_LEADER, -1)
    assert (replica.isr, replica.replicas, replica.zk_version) == ((), (), -1)
    assert replica.fetching() is None


@pytest.mark.parametrize("role", Role)
def test_stopped_replica_has_no_role(role: Role) -> None:
    lab = lab_with(role)
    waiting = lab.produce(A, acks=-1)
    lab.step(A, Stopped())
    assert lab[A].role is Role.OFFLINE
    assert lab.error(waiting) is ErrorCode.not_leader_or_follower
    assert lab[A].fetching() is None
