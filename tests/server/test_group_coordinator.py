"""Groups that are loaded while leaderships change, or from a log that is damaged: the state
of an earlier epoch is not served, and a part is not served as the whole."""

import asyncio
import errno

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import Commit, OffsetAndMetadata, OffsetsAnswer
from ackproof.broker.server.groups.group_coordinator import GroupCoordinator
from ackproof.broker.server.groups.offsets_topic import OffsetsTopic
from ackproof.broker.server.replication.roles import StopReplica
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import LEADER_DURING_DELETE, TopicPartition
from tests.support.worlds.replica_hosts import (
    LENGTH_AT,
    OF_NOBODY,
    hosts,
    leader_and_isr,
    log_of,
    overwrite,
    refuse_reads,
    run,
    until,
)

TP, OTHER = TopicPartition(OFFSETS_TOPIC, 0), TopicPartition(OFFSETS_TOPIC, 1)


async def coordinator_of(host, partitions, value=b"v"):
    """One that has yet to load these, which have three batches each."""
    for tp in partitions:
        await host.call(leader_and_isr(tp, 1, 0, (1,), (1,)))
        for _ in range(3):
            await host.produce(tp, value)
    topic = OffsetsTopic(host.config, host.metadata, None, len(partitions))
    return GroupCoordinator(
        host.config, host.clock, host.replicas, topic, host.metadata, host.spawn
    )


async def loading(host):
    """A coordinator that has begun to load the one partition there is, and not finished."""
    made = await coordinator_of(host, (TP,))
    made.tick()
    await asyncio.sleep(0)  # it has read the log, and let others have their turn
    assert made.is_loading
    return made


async def loaded(coordinator):
    await until(lambda: not coordinator.is_loading)
    await asyncio.sleep(0)


def test_groups_of_an_earlier_epoch_are_loaded_again(tmp_path):
    """Another broker may have led in between, and stored commits."""

    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            coordinator = await loading(host)
            word = leader_and_isr(TP, 1, 1, (1,), (1,))
            await host.told(word)
            assert coordinator.is_loading
            await loaded(coordinator)
            assert not list(coordinator.shards())
            assert coordinator.shard("g") is ErrorCode.coordinator_load_in_progress
            await loaded(coordinator)
            assert len(list(coordinator.shards())) == 1
            assert not host.halted

    run(story())


def test_partition_deleted_during_loading_is_not_served(tmp_path):
    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            coordinator = await loading(host)
            await host.replicas.stop_replicas([StopReplica(partition=TP, delete=True)], OF_NOBODY)
            await loaded(coordinator)
            assert not coordinator._shards
            assert coordinator.shard("g") is ErrorCode.not_coordinator

    run(story())


OF_T, OF_U = TopicPartition("t", 0), TopicPartition("u", 0)


async def committing(host):
    """Return a coordinator that has stored a group's commits of two topics."""
    earlier = await coordinator_of(host, (TP,))
    earlier.tick()
    await loaded(earlier)
    offsets = {tp: OffsetAndMetadata(offset=7) for tp in (OF_T, OF_U)}
    answer = await earlier.ask(
        Commit, OffsetsAnswer, "g", member_id="", instance_id=None, generation=-1, offsets=offsets
    )
    assert set(answer.partitions.values()) == {ErrorCode.none}
    return GroupCoordinator(
        host.config, host.clock, host.replicas, earlier.topic, host.metadata, host.spawn
    )


def committed_by(coordinator):
    (shard,) = coordinator.shards()
    return set(shard.groups["g"].offsets) if "g" in shard.groups.by_id else set()


def test_offsets_of_topics_deleted_during_loading_are_dropped(tmp_path):
    """Test that the dropped offsets do not count for the next topic of that name."""

    async def story():
        async with hosts(tmp_path, 1) as brokers:
            later = await committing(brokers[1])
            later.tick()
            await asyncio.sleep(0)
            assert later.is_loading
            later.partitions_deleted([OF_T])
            await loaded(later)
            await until(lambda: committed_by(later) == {OF_U})
            later.tick()
            later.topics_deleted(["u"])
            await until(lambda: not committed_by(later))

    run(story())


def test_offsets_of_topics_deleted_before_loading_are_dropped(tmp_path, updated):
    """Test a former coordinator that died before it had stored the deletion."""

    async def story():
        async with hosts(tmp_path, 1) as brokers:
            later = await committing(brokers[1])
            later.tick()
            await loaded(later)
            assert committed_by(later) == {OF_T, OF_U}, "it is unknown whether they exist"
            brokers[1].metadata.update(updated({"u": {0: 1}}))
            await until(lambda: committed_by(later) == {OF_U})
            brokers[1].metadata.update(updated({"u": {0: LEADER_DURING_DELETE}}))
            assert committed_by(later) == {OF_U}, "as if its deletion could not be stored"
            later.expire()
            await until(lambda: not committed_by(later))

    run(story())


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (LENGTH_AT, b"\xff\xff\xff\xf0"),
        (LENGTH_AT, b"\x7f\xff\xff\xff"),
        (LENGTH_AT + 8, b"\x01"),
        (-1, b"\x01"),
        (0, bytes(8)),
        (0, bytes(7) + b"\x03"),
        (0, b"\x40" + bytes(6) + b"\x01"),
    ],
    ids=[
        "length below that of a header",
        "torn",
        "magic",
        "one bit of a record",
        "offset of another",
        "offset of the next",
        "offset of none",
    ],
)
def test_damaged_partition_is_not_served_and_affects_only_its_groups(tmp_path, at, value):
    """Test that consumers do not see missing commits: they would start over or skip records."""

    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            coordinator = await coordinator_of(host, (TP, OTHER))
            size = log_of(host, TP).stat().st_size // 3
            overwrite(log_of(host, TP), size + at, value)
            coordinator.tick()
            await loaded(coordinator)
            assert [shard.partition.tp for shard in coordinator.shards()] == [OTHER]
            groups = {coordinator.topic.of(name): name for name in map(str, range(20))}
            coordinator.tick()
            assert not coordinator.is_loading, "each tick it would be read, and complained of"
            assert coordinator.shard(groups[TP]) is ErrorCode.not_coordinator
            await host.told(leader_and_isr(TP, 1, 1, (1,), (1,)))
            coordinator.tick()
            assert coordinator.is_loading
            await loaded(coordinator)
            assert not host.halted

    run(story())


def test_groups_that_cannot_be_read_halt_the_broker(tmp_path):
    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            coordinator = await coordinator_of(host, (TP,))
            refuse_reads(log_of(host, TP))
            coordinator.tick()
            await loaded(coordinator)
            assert [error.errno for error in host.halted] == [errno.EISDIR]

    run(story())


def test_deletion_of_a_log_during_its_read_does_not_halt_the_broker(tmp_path):
    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            coordinator = await coordinator_of(host, (TP,), value=bytes(2**15))
            coordinator.tick()
            await asyncio.sleep(0)
            await host.replicas.stop_replicas([StopReplica(partition=TP, delete=True)], OF_NOBODY)
            await loaded(coordinator)
            assert not host.halted
            assert not list(coordinator.shards())

    run(story())
