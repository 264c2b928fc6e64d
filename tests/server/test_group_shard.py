"""Groups over a real log: stored, loaded again, written once more, let go of."""

import asyncio

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.config import TopicConfig
from ackproof.broker.groups.config import GroupConfig
from ackproof.broker.groups.events import (
    Commit,
    Join,
    JoinAnswer,
    Moment,
    OffsetAndMetadata,
    OffsetsAnswer,
    Protocol,
)
from ackproof.broker.groups.groups import Groups
from ackproof.broker.groups.loading import Loading
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.replication.config import ReplicaConfig
from ackproof.broker.replication.events import FollowerFetch, LeaderAndIsr
from ackproof.broker.replication.replica import LogState, Replica
from ackproof.broker.server.admin import java_hash
from ackproof.broker.server.groups.group_coordinator import (
    GroupShard,
    Rewriting,
    StoreConfig,
    load,
    moment,
)
from ackproof.broker.server.groups.offsets_topic import partition_for
from ackproof.broker.server.replication.partition import Partition, PartitionContext
from ackproof.broker.server.replication.purgatory import Purgatory
from ackproof.broker.server.schedule import Clock
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Millis,
    Offset,
    TopicPartition,
    ZkVersion,
)
from ackproof.broker.wire.batch import KeyValue, new_batch, parse_batches

TP = TopicPartition("t", 0)
CONFIG = TopicConfig(segment_bytes=2_000, retention_ms=-1, max_message_bytes=10_000)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("a", 97),
        ("group", 98629247),
        ("\U0001f600", 1772899),
        ("polygenelubricants", -(2**31)),
    ],
)
def test_hashes_are_java_s(text, code):
    assert java_hash(text) == code


def test_a_group_has_its_place():
    assert partition_for("group", 50) == 98629247 % 50
    assert partition_for("polygenelubricants", 50) == 0  # abs() of it is negative in Java


def leader(directory) -> Partition:
    """The only replica, leading."""
    log = PartitionLog.open(directory / f"{OFFSETS_TOPIC}-0", CONFIG.log_config(), clean=True)
    state = LogState(
        log_start_offset=Offset(log.log_start_offset),
        log_end_offset=Offset(log.log_end_offset),
        high_watermark=Offset(log.log_start_offset),
        epochs=log.epochs.entries,
    )

    def fail(*args: object) -> None:
        raise AssertionError(args)

    partition = Partition(
        TopicPartition(OFFSETS_TOPIC, 0),
        Replica(BrokerId(1), ReplicaConfig(), state),
        log,
        CONFIG,
        PartitionContext(Clock(), Purgatory(), fail, fail),
    )
    lead(partition, 0)
    return partition


def lead(partition: Partition, epoch: int, broker: int = 1, replicas: tuple[int, ...] = ()) -> None:
    """Alone in the ISR, unless there are ``replicas``, all of which are in it."""
    partition.step(
        LeaderAndIsr(
            controller_epoch=ControllerEpoch(1),
            leader=BrokerId(broker),
            leader_epoch=LeaderEpoch(epoch),
            isr=tuple(map(BrokerId, replicas or (broker,))),
            replicas=tuple(map(BrokerId, replicas or {1, broker})),
            zk_version=ZkVersion(epoch),
            now=Millis(0),
        )
    )


def follow(partition: Partition, offset: int) -> None:
    """Broker 2 has all below ``offset``."""
    partition.step(
        FollowerFetch(
            replica=BrokerId(2), offset=Offset(offset), log_start_offset=Offset(0), now=Millis(0)
        )
    )


async def shard_of(partition: Partition, acks: int = -1) -> GroupShard:
    groups = Groups(GroupConfig(), await load(partition.log), moment(Clock()))
    return GroupShard(groups, partition, StoreConfig(acks=acks, timeout_ms=1000), Clock())


async def commit(shard: GroupShard, offset: int, group: str = "g", metadata: str = "") -> ErrorCode:
    offsets = {TP: OffsetAndMetadata(offset=offset, metadata=metadata)}
    answer = await shard.ask(Commit, group=group, member_id="", generation=-1, offsets=offsets)
    assert isinstance(answer, OffsetsAnswer)
    return answer.partitions.get(TP, answer.error)


def committed(shard: GroupShard) -> dict[str, int]:
    return {
        name: group.offsets.committed[TP].value.offset for name, group in shard.groups.by_id.items()
    }


def test_committed_offsets_are_loaded(tmp_path):
    async def story():
        partition = leader(tmp_path)
        shard = await shard_of(partition)
        for offset in range(100):  # over several segments
            assert await commit(shard, offset, group=f"g{offset % 3}") is ErrorCode.none
        again = await shard_of(partition)
        assert committed(again) == committed(shard) == {"g0": 99, "g1": 97, "g2": 98}

    asyncio.run(story())


def test_foreign_records_do_not_keep_the_others_from_being_loaded(tmp_path):
    async def story():
        partition = leader(tmp_path)
        shard = await shard_of(partition)
        await commit(shard, 1)
        await partition.produce(new_batch([KeyValue(b"\0\x09", b"nonsense")], 0), -1, 1000)
        await commit(shard, 2)
        assert committed(await shard_of(partition)) == {"g": 2}

    asyncio.run(story())


def test_a_log_that_is_written_once_more_is_short_and_says_the_same(tmp_path):
    async def story():
        partition = leader(tmp_path)
        shard = await shard_of(partition)
        rewriting = Rewriting(shard, slack_bytes=5_000)
        for offset in range(100):
            await commit(shard, offset, group=f"g{offset % 3}")
        assert rewriting.is_due
        before = partition.log.size
        await rewriting.rewrite()
        assert not rewriting.is_due
        assert partition.log.log_start_offset == 100
        assert partition.replica.log_start_offset == 100
        assert partition.log.size < before / 2
        assert committed(await shard_of(partition)) == committed(shard)
        await commit(shard, 1_000)
        assert committed(await shard_of(partition))["g"] == 1_000

    asyncio.run(story())


@pytest.mark.parametrize("acks", [0, 1])
def test_a_log_begins_where_the_followers_are_whatever_commits_wait_for(tmp_path, acks):
    """Else each is out of range and throws its log away, and with the leader all is lost."""

    async def story():
        partition = leader(tmp_path)
        lead(partition, 1, replicas=(1, 2))
        shard = await shard_of(partition, acks)
        await commit(shard, 1)
        rewriting = asyncio.create_task(Rewriting(shard).rewrite())
        for has in (0, 1):
            follow(partition, has)
            for _ in range(5):  # a task that does not wait for it is done by then
                await asyncio.sleep(0)
            assert (partition.log.log_start_offset, partition.log.log_end_offset) == (0, 2)
            assert partition.replica.high_watermark == has
        follow(partition, 2)
        await rewriting
        assert partition.log.log_start_offset == partition.replica.log_start_offset == 1

    asyncio.run(story())


def test_a_log_that_cannot_be_written_stays_as_it_is(tmp_path):
    async def story():
        partition = leader(tmp_path)
        shard = await shard_of(partition)
        rewriting = Rewriting(shard, slack_bytes=0)
        await commit(shard, 1)
        lead(partition, 1, broker=2)
        size = partition.log.size
        await rewriting.rewrite()
        assert (partition.log.log_start_offset, partition.log.size) == (0, size)

    asyncio.run(story())


def test_a_commit_that_is_too_large_is_refused(tmp_path):
    async def story():
        shard = await shard_of(leader(tmp_path))
        offsets = {TopicPartition("t" * 200, n): OffsetAndMetadata(offset=1) for n in range(100)}
        answer = await shard.ask(Commit, group="g", member_id="", generation=-1, offsets=offsets)
        assert set(answer.partitions.values()) == {ErrorCode.invalid_commit_offset_size}
        assert not shard.groups.by_id

    asyncio.run(story())


def test_waiting_member_gets_an_error_when_the_leadership_ends(tmp_path):
    async def story():
        partition = leader(tmp_path)
        shard = await shard_of(partition)
        waiting = shard.ask(
            Join,
            group="g",
            member_id="",
            instance_id="i",
            client_id="c",
            client_host="/h",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=(Protocol("range", b""),),
            new_member_id="m",
        )
        assert shard.serves(partition)
        lead(partition, 1)
        assert not shard.serves(partition)  # a new epoch: others may have led in between
        shard.close()
        answer = await waiting
        assert isinstance(answer, JoinAnswer)
        assert answer.error is ErrorCode.not_coordinator

    asyncio.run(story())


def test_nothing_is_loaded_from_an_empty_log():
    assert not Groups(GroupConfig(), Loading(), Moment(Millis(0), 0)).by_id


def test_rewritten_records_are_split_by_bytes(tmp_path):
    """500 offsets with 4 KB of metadata each are more than any batch may hold."""

    async def story():
        partition = leader(tmp_path)
        shard = await shard_of(partition)
        rewriting = Rewriting(shard, slack_bytes=100)
        for number in range(30):
            await commit(shard, number, group=f"g{number}", metadata="m" * 4_000)
        await rewriting.rewrite()
        assert partition.log.log_start_offset == 30
        assert not rewriting.is_due
        assert committed(await shard_of(partition)) == committed(shard)
        log = partition.log
        batches = parse_batches(log.read(30, 10**6, log.log_end_offset))
        assert max(batch.size for batch in batches) <= CONFIG.max_message_bytes

    asyncio.run(story())


def test_rewritten_batch_is_at_most_a_segment(tmp_path):
    async def story():
        partition = leader(tmp_path)
        shard = await shard_of(partition)
        for number in range(50):
            await commit(shard, number, group=f"g{number}", metadata="m" * 100)
        await Rewriting(shard).rewrite()
        log = partition.log
        assert log.log_start_offset == 50
        again = [
            batch
            for base in log.segment_base_offsets
            for batch in parse_batches(log.read(max(base, 50), 10**6, log.log_end_offset))
        ]
        assert len(again) > 1
        assert max(batch.size for batch in again) <= CONFIG.segment_bytes
        assert committed(await shard_of(partition)) == committed(shard)

    asyncio.run(story())


def test_a_record_that_was_let_in_once_is_rewritten_whatever_the_limit_is_now(tmp_path):
    async def story():
        partition = leader(tmp_path)
        shard = await shard_of(partition)
        await commit(shard, 1, metadata="m" * 4_000)
        partition.config = CONFIG.overridden({"max.message.bytes": "1000"})
        rewriting = Rewriting(shard, slack_bytes=100)
        await rewriting.rewrite()
        assert partition.log.log_start_offset == 1
        assert committed(await shard_of(partition)) == {"g": 1}

    asyncio.run(story())


def test_failed_rewrite_is_retried_after_as_many_new_records(tmp_path):
    """Else it would be each tick, and the log grow with every try that is not committed in time."""

    async def story():
        partition = leader(tmp_path)
        shard = await shard_of(partition)
        rewriting = Rewriting(shard, slack_bytes=1_000)
        for number in range(20):
            await commit(shard, number)
        partition.configure(CONFIG, ReplicaConfig(min_insync_replicas=2))
        await rewriting.rewrite()
        assert partition.log.log_start_offset == 0
        assert not rewriting.is_due
        partition.configure(CONFIG, ReplicaConfig())
        for number in range(20):
            await commit(shard, number)
        assert rewriting.is_due

    asyncio.run(story())
