"""Commits of groups, their retention, and the end of groups."""

import io

import pytest
from kio.schema.consumer_protocol_subscription.v0.data import ConsumerProtocolSubscription
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from ackproof.broker.groups.events import Protocol
from ackproof.broker.groups.state import GroupState
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.group_records import encode
from tests.support.worlds.group_world import SESSION_MS, TP, World


def consumer(*topics):
    with io.BytesIO() as buffer:
        buffer.write(b"\0\0")
        entity_writer(ConsumerProtocolSubscription)(
            buffer, ConsumerProtocolSubscription(topics=topics)
        )
        return (Protocol("range", buffer.getvalue()),)


# --- commits ----------------------------------------------------------------------------------


def test_a_commit_is_answered_and_seen_when_it_is_stored(world):
    (member,) = world.stable()
    world.auto = False
    request = world.commit(7, member, 1)
    assert world.answer(request) is None
    assert world.committed() is None
    world.store()
    assert world.answer(request).partitions == {TP: ErrorCode.none}
    assert world.committed() == 7


@pytest.mark.parametrize(
    ("failed", "error"),
    [
        (ErrorCode.not_enough_replicas, ErrorCode.coordinator_not_available),
        (ErrorCode.not_enough_replicas_after_append, ErrorCode.coordinator_not_available),
        (ErrorCode.request_timed_out, ErrorCode.coordinator_not_available),
        (ErrorCode.not_leader_or_follower, ErrorCode.not_coordinator),
        (ErrorCode.message_too_large, ErrorCode.invalid_commit_offset_size),
    ],
)
def test_a_commit_that_cannot_be_stored(world, failed, error):
    world.commit(1)
    world.auto = False
    request = world.commit(2)
    world.store(failed)
    assert world.answer(request).partitions == {TP: error}
    assert world.committed() == 1


def test_commits_are_accepted_by_membership_and_generation(world):
    def error(*args):
        answer = world.answer(world.commit(1, *args))
        return answer.error or answer.partitions[TP]

    assert error("unknown", 3) is ErrorCode.illegal_generation
    assert error() is ErrorCode.none  # from outside of any group
    (member,) = world.stable()
    assert error() is ErrorCode.unknown_member_id
    assert error("unknown", 1) is ErrorCode.unknown_member_id
    assert error(member, 0) is ErrorCode.illegal_generation
    assert error(member, 1) is ErrorCode.none
    _ = world.enter()
    assert error(member, 1) is ErrorCode.none  # while a rebalance is prepared
    world.join(member)
    assert error(member, 2) is ErrorCode.rebalance_in_progress


@pytest.mark.parametrize("text", ["x" * 4097, "\N{LEOPARD}" * 2048 + "x"])
def test_a_text_that_is_too_long_is_refused_alone(world, text):
    answer = world.answer(world.commit(1, metadata=text))
    assert answer.partitions == {TP: ErrorCode.offset_metadata_too_large}
    assert not world.groups.by_id


@pytest.mark.parametrize("text", ["\u00fc" * 4096, "\N{LEOPARD}" * 2048])
def test_a_text_is_as_long_as_a_java_string_of_it(world, text):
    answer = world.answer(world.commit(1, metadata=text))
    assert answer.partitions == {TP: ErrorCode.none}


def test_offsets_and_membership_survive_the_coordinator(world):
    leader, other = world.stable(2)
    world.commit(5, leader, 1)
    world.reload()
    assert world.committed() == 5
    assert world.heartbeat(other, 1) is ErrorCode.none
    sync = world.answer(world.sync(other, 1))
    assert sync.assignment == b"for " + other.encode()
    world.tick(SESSION_MS)
    assert world.group.state is GroupState.EMPTY


def test_snapshot_equals_the_log(world):
    leader, _ = world.stable(2)
    world.commit(5, leader, 1)
    world.commit(6, leader, 1)
    world.commit(1, leader, 1, TopicPartition("t", 1))
    world.delete_offsets(TopicPartition("u", 0))
    from_log = World(log=list(world.log))
    world.join(leader)  # a rebalance under way is not stored
    snapshot = World(auto=False, log=[])
    snapshot.log = [(encode(k), encode(v)) for k, v in world.groups.snapshot()]
    snapshot.reload()
    assert snapshot.groups.snapshot() == from_log.groups.snapshot()
    assert len(snapshot.log) == 3


def test_snapshot_includes_pending_commits(world):
    world.commit(5)
    world.auto = False
    world.commit(6)
    ((_, value),) = world.groups.snapshot()
    assert value.offset == 6


# --- the end ----------------------------------------------------------------------------------


def test_a_group_with_members_is_not_deleted(world):
    (member,) = world.stable()
    assert world.answer(world.delete_group()).error is ErrorCode.non_empty_group
    world.leave((member,))
    world.commit(1)
    assert world.answer(world.delete_group()).error is ErrorCode.none
    assert not world.groups.by_id
    world.reload()
    assert not world.groups.by_id
    assert world.answer(world.delete_group()).error is ErrorCode.group_id_not_found


def test_a_group_that_cannot_be_deleted_stays(world):
    world.commit(1)
    world.auto = False
    request = world.delete_group()
    world.store(ErrorCode.request_timed_out)
    assert world.answer(request).error is ErrorCode.coordinator_not_available
    assert world.committed() == 1


@pytest.mark.parametrize("comes", ["joins", "commits"])
def test_request_during_group_deletion_must_be_retried(world, comes):
    (member,) = world.stable()
    world.leave((member,))
    world.commit(1)
    world.auto = False
    deleting = world.delete_group()
    request = world.commit(2) if comes == "commits" else world.join(instance="i")
    assert world.answer(request).error is ErrorCode.coordinator_not_available
    world.store()
    assert world.answer(deleting).error is ErrorCode.none
    assert not world.groups.by_id
    world.reload()
    assert not world.groups.by_id


def test_pending_member_id_does_not_keep_a_group(world):
    world.commit(1)
    assert world.answer(world.join()).error is ErrorCode.member_id_required
    assert world.answer(world.delete_group()).error is ErrorCode.none
    world.reload()
    assert not world.groups.by_id


def test_a_commit_on_its_way_is_deleted_with_its_group(world):
    world.commit(1)
    world.auto = False
    other = TopicPartition("other", 0)
    committing, deleting = world.commit(2, tp=other), world.delete_group()
    for _ in range(2):
        world.store()
    assert world.answer(committing).partitions == {other: ErrorCode.none}
    assert world.answer(deleting).error is ErrorCode.none
    world.reload()
    assert not world.groups.by_id


def test_a_group_that_cannot_be_deleted_has_been_empty_all_the_time(world):
    (member,) = world.stable()
    world.leave((member,))
    since = world.group.since_ms
    world.auto = False
    world.now += 1_000
    world.delete_group()
    world.store(ErrorCode.not_enough_replicas)
    assert (world.group.state, world.group.since_ms) == (GroupState.EMPTY, since)


def test_offsets_of_subscribed_topics_are_not_deleted(world):
    (member,) = world.stable(protocols=consumer("t"))
    other = TopicPartition("other", 0)
    world.commit(1, member, 1)
    world.commit(2, member, 1, other)
    answer = world.answer(world.delete_offsets(TP, other))
    assert answer.partitions == {
        TP: ErrorCode.group_subscribed_to_topic,
        other: ErrorCode.none,
    }
    assert (world.committed(), world.committed(other)) == (1, None)


def test_offsets_outlive_their_group_for_the_retention(world):
    retention_ms = world.config.offsets_retention_ms
    (member,) = world.stable()
    world.commit(1, member, 1)
    world.now += retention_ms
    world.leave((member,))
    world.now += retention_ms - 1
    world.expire()
    assert world.committed() == 1
    world.now += 1
    world.expire()
    assert not world.groups.by_id
    world.reload()
    assert not world.groups.by_id


def test_offsets_without_a_group_expire_by_themselves(world):
    world.commit(1)
    world.now += world.config.offsets_retention_ms - 1
    world.expire()
    world.commit(2, tp=TopicPartition("t", 1))
    world.now += 1
    world.expire()
    assert (world.committed(), world.committed(TopicPartition("t", 1))) == (None, 2)


def test_unsubscribed_offsets_of_a_stable_group_expire(world):
    (member,) = world.stable(protocols=consumer("t"))
    other = TopicPartition("other", 0)
    world.commit(1, member, 1)
    world.commit(2, member, 1, other)
    world.now += world.config.offsets_retention_ms
    world.expire()
    assert (world.committed(), world.committed(other)) == (1, None)


def test_offsets_in_deleted_partitions_go(world):
    world.commit(1)
    world.commit(2, tp=TopicPartition("t", 1))
    world.partitions_deleted(TP, TopicPartition("u", 0))
    assert (world.committed(), world.committed(TopicPartition("t", 1))) == (None, 2)


def test_a_commit_on_its_way_goes_with_its_partition(world):
    """Stored behind the deletion, it would count for the next topic of that name."""
    world.commit(1)
    world.auto = False
    commit = world.commit(7)
    world.commit(8, tp=TopicPartition("t", 1))
    world.partitions_deleted(TP, TopicPartition("t", 1))
    while world.stores:
        world.store()
    assert world.answer(commit).partitions == {TP: ErrorCode.none}
    assert (world.committed(), world.committed(TopicPartition("t", 1))) == (None, None)
    world.reload()
    assert (world.committed(), world.committed(TopicPartition("t", 1))) == (None, None)
