"""A leader that waits for its followers before it serves (seed 001, ``becomeLeader``), and what
else leader coordination tells a replica."""

from dataclasses import replace

import pytest
from kio.schema.errors import ErrorCode
from memory_log import MemoryBatch

from ackproof.broker.replication.config import ReplicaConfig
from ackproof.broker.replication.events import (
    FollowerFetch,
    HighWatermark,
    LeaderAndIsr,
    Produce,
    ReplicasChanged,
    Resigned,
    Respond,
    StartServing,
    Tick,
    WriteIsr,
)
from ackproof.broker.replication.local import LogState
from ackproof.broker.replication.replica import Replica, Role, StaleEpoch

A, B, C = 1, 2, 3
LAG = 100

WAITS = LeaderAndIsr(
    controller_epoch=-1,
    leader=A,
    leader_epoch=5,
    isr=(A, B),
    replicas=(A, B, C),
    zk_version=7,
    now=0,
    serves=False,
)


def replica(high_watermark: int = 1, end: int = 3) -> Replica:
    log = LogState(
        log_start_offset=0, log_end_offset=end, high_watermark=high_watermark, epochs=((4, 0),)
    )
    return Replica(A, ReplicaConfig(replica_lag_time_max_ms=LAG), log)


def fetch(broker: int, offset: int, now: int = 1) -> FollowerFetch:
    return FollowerFetch(replica=broker, offset=offset, log_start_offset=0, now=now)


def produce(acks: int = -1) -> Produce:
    batches = (MemoryBatch.to_send(9, 1),)
    return Produce(request=9, batches=batches, acks=acks, deadline=1_000, now=2)


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_who_waits_serves_followers_and_no_clients(acks: int) -> None:
    leader = replica()
    leader.step(WAITS)
    assert (leader.role, leader.serves) == (Role.LEADER, False)
    assert leader.check_leader(5) is ErrorCode.not_leader_or_follower
    assert leader.check_leader(5, follower=B) is ErrorCode.none
    refused = Respond(request=9, error=ErrorCode.not_leader_or_follower, base_offset=-1)
    assert leader.step(produce(acks)) == (refused,)
    leader.step(StartServing(leader_epoch=5, now=2))
    assert leader.check_leader(5) is ErrorCode.none
    assert leader.log_end_offset == 3
    leader.step(produce(acks))
    assert leader.log_end_offset == 4


def test_who_waits_leaves_the_isr_alone() -> None:
    """Its coordinator is about to write it; two writers would be refused in turn."""
    leader = replica()
    leader.step(WAITS)
    assert not any(isinstance(e, WriteIsr) for e in leader.step(fetch(C, 3)))
    assert leader.step(Tick(now=10 * LAG)) == ()
    leader.step(StartServing(leader_epoch=5, now=10 * LAG))
    assert leader.step(Tick(now=10 * LAG)) == ()
    (write,) = leader.step(Tick(now=11 * LAG))
    assert write == WriteIsr(leader_epoch=5, isr=(A,), zk_version=7)


def test_serving_is_started_in_its_epoch() -> None:
    leader = replica()
    leader.step(WAITS)
    leader.step(StartServing(leader_epoch=4, now=1))
    assert not leader.serves


def test_the_watermark_rises_with_the_isr_while_it_waits() -> None:
    leader = replica()
    leader.step(WAITS)
    assert HighWatermark(offset=3) in leader.step(fetch(B, 3))


@pytest.mark.parametrize("serves", [True, False])
def test_who_is_taken_out_of_the_isr_holds_the_watermark_no_more(serves: bool) -> None:
    """B of the former ISR is dead, and has not fetched; A and C are the ISR. What they both have is
    committed at once, and not when B would lag."""
    leader = replica()
    leader.step(replace(WAITS, isr=(A, B, C), serves=serves))
    leader.step(fetch(C, 3))
    assert leader.high_watermark == 1
    told = leader.step(replace(WAITS, isr=(A, C), zk_version=8, now=2, serves=serves))
    assert HighWatermark(offset=3) in told
    leader.step(StartServing(leader_epoch=5, now=2))
    leader.step(produce())
    answer = Respond(request=9, error=ErrorCode.none, base_offset=3)
    assert answer in leader.step(fetch(C, 4, now=3))


def test_as_printed_the_watermark_is_the_log_s_end() -> None:
    """``r.hw = r.leo``, whoever else has it."""
    leader = replica()
    assert HighWatermark(offset=3) in leader.step(replace(WAITS, as_printed=True))


def test_as_printed_any_epoch_is_believed() -> None:
    follower = replica()
    follower.step(replace(WAITS, leader=B))
    with pytest.raises(StaleEpoch):
        follower.step(replace(WAITS, leader=C, leader_epoch=4))
    with pytest.raises(ValueError, match="has leader 2, now told 3"):
        follower.step(replace(WAITS, leader=C))
    for epoch in (5, 4):
        follower.step(replace(WAITS, leader=C, leader_epoch=epoch, as_printed=True))
        assert (follower.leader, follower.leader_epoch) == (C, epoch)


def test_who_resigned_answers_those_who_wait_and_leads_no_more() -> None:
    leader = replica()
    leader.step(replace(WAITS, serves=True))
    leader.step(produce())
    (answer,) = leader.step(Resigned(leader_epoch=5))
    assert answer == Respond(request=9, error=ErrorCode.not_leader_or_follower, base_offset=-1)
    assert (leader.role, leader.leader, leader.leader_epoch) == (Role.OFFLINE, -1, 5)
    with pytest.raises(StaleEpoch):
        leader.step(replace(WAITS, leader=B, leader_epoch=4))
    leader.step(replace(WAITS, leader=B, leader_epoch=6))
    assert leader.role is Role.FOLLOWER


def test_a_resignation_of_an_earlier_epoch_is_none() -> None:
    leader = replica()
    leader.step(WAITS)
    assert leader.step(Resigned(leader_epoch=4)) == ()
    assert leader.role is Role.LEADER


def test_a_new_replica_counts_from_when_it_is_assigned() -> None:
    leader = replica()
    leader.step(replace(WAITS, replicas=(A, B), serves=True))
    assert leader.step(fetch(C, 3)) == ()
    leader.step(ReplicasChanged(leader_epoch=5, replicas=(A, B, C)))
    assert leader.replicas == (A, B, C)
    assert leader.step(fetch(C, 3)) == (WriteIsr(leader_epoch=5, isr=(A, B, C), zk_version=7),)


def test_who_is_in_the_isr_counts_assigned_or_not() -> None:
    """B is not assigned any more, and may still be elected: what it lacks is not committed."""
    leader = replica()
    leader.step(replace(WAITS, replicas=(A, B), serves=True))
    leader.step(ReplicasChanged(leader_epoch=5, replicas=(A, C)))
    leader.step(fetch(C, 3))
    assert leader.high_watermark == 1
