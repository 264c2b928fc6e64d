"""What a coordinator would load that it must not is found, and offsets that would stay behind their
topic are, whenever word of its deletion comes."""

from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hosts import hosts, leader_and_isr, run, until

from ackproof.broker.config import Listener
from ackproof.broker.groups.events import Commit, OffsetAndMetadata, OffsetsAnswer
from ackproof.broker.server.coordination.zk_metadata import ZkMetadata
from ackproof.broker.server.groups import log_loading
from ackproof.broker.server.groups.group_coordinator import GroupCoordinator
from ackproof.broker.server.groups.offsets_topic import OffsetsTopic
from ackproof.broker.server.groups.shard import GroupShard
from ackproof.broker.server.metadata_cache import BrokerMetadata, MetadataCache, PartitionMetadata
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import BrokerId, LeaderEpoch, TopicPartition
from ackproof.broker.wire.batch import CorruptBatch, parse_batch
from simulation.mutations.swap import Mutation, Swap
from simulation.observer.loading import deleted
from simulation.observer.loading.asked import Asked
from simulation.observer.loading.names import Names
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

HOME, READ = TopicPartition(OFFSETS_TOPIC, 0), TopicPartition("t", 0)
BROKER = BrokerMetadata(id=BrokerId(1), listener=Listener("h", 9001), rack=None)
LED = PartitionMetadata(
    leader=BrokerId(1),
    leader_epoch=LeaderEpoch(0),
    replicas=(BrokerId(1),),
    isr=(BrokerId(1),),
    offline_replicas=(),
)
NOBODY: Any = None


def told() -> MetadataCache:
    """By a controller, of two partitions."""
    metadata = MetadataCache()
    metadata._topics, metadata._ids = {"t": {0: LED, 1: LED}}, {"t": None}
    metadata._brokers = {BrokerId(1): BROKER}
    return metadata


def read() -> ZkMetadata:
    """By itself, of these and of another topic, of which it has read the name alone."""
    metadata = ZkMetadata(NOBODY, NOBODY)
    metadata._names, metadata._topics = {"t", "u"}, {"t": {0: LED, 1: LED}}
    metadata._brokers = {BrokerId(1): BROKER}
    return metadata


def tells_who_serves(self: GroupCoordinator, are_gone: Any) -> None:
    for shard in self.shards():
        shard.partitions_deleted(are_gone)


async def compares_nothing(_self: GroupCoordinator, _shards: Any) -> None:
    return


def forgets_what_it_has_read(self: ZkMetadata, topic: str) -> None:
    if self._topics.pop(topic, None) and self.on_deleted is not None:
        self.on_deleted([topic])


def tells_nobody(_self: MetadataCache, _request: Any) -> tuple[TopicPartition, ...]:
    return ()


WRONG = (
    (told, Swap(MetadataCache, "update", tells_nobody), "while they are served"),
    (read, Swap(ZkMetadata, "_forget", forgets_what_it_has_read), "while they are served"),
    (told, Swap(GroupCoordinator, "_deleted", tells_who_serves), "while they are loaded"),
    (read, Swap(GroupCoordinator, "_deleted", tells_who_serves), "while they are loaded"),
    (told, Swap(GroupCoordinator, "_compare", compares_nothing), "before they are loaded"),
    (read, Swap(GroupCoordinator, "_compare", compares_nothing), "before they are loaded"),
    (told, Swap(GroupCoordinator, "expire", lambda _: None), "and that could not be stored"),
    (read, Swap(GroupCoordinator, "expire", lambda _: None), "and that could not be stored"),
)


async def coordinator_of(host: Any, metadata: MetadataCache) -> tuple[GroupCoordinator, GroupShard]:
    """One that has stored what a group has committed, twice."""
    await host.call(leader_and_isr(HOME, 1, 0, (1,), (1,)))
    topic = OffsetsTopic(host.config, metadata, NOBODY, 1)
    made = GroupCoordinator(host.config, host.clock, host.replicas, topic, metadata, host.spawn)
    metadata.names_now = told().names_now  # type: ignore[method-assign]
    made.tick()
    await until(lambda: list(made.shards()))
    for offset in (6, 7):
        what = {READ: OffsetAndMetadata(offset=offset)}
        await made.ask(
            Commit, OffsetsAnswer, "g", member_id="", instance_id=None, generation=-1, offsets=what
        )
    del metadata.names_now  # type: ignore[method-assign]
    (shard,) = made.shards()
    return made, shard


@pytest.mark.parametrize("metadata", [told, read])
def test_offsets_that_would_go_with_their_topic_do(tmp_path, metadata) -> None:
    async def story() -> None:
        async with hosts(tmp_path, 1) as brokers:
            known = metadata()
            coordinator, shard = await coordinator_of(brokers[1], known)
            size = shard.partition.log.size
            Asked().ticked(coordinator)
            deleted.check(coordinator, shard.partition, {"t"})
            assert shard.groups["g"].offsets.settled() == {READ}, "a twin's are gone"
            assert shard.partition.log.size == size
            assert "t" in known.names
            assert READ in known

    run(story())


@pytest.mark.parametrize(("metadata", "wrong", "when"), WRONG)
def test_offsets_that_would_stay_are_found(tmp_path, metadata, wrong, when) -> None:
    async def story() -> None:
        async with hosts(tmp_path, 1) as brokers:
            coordinator, _ = await coordinator_of(brokers[1], metadata())
            with (
                Mutation(wrong).active(),
                pytest.raises(Violation, match=f"OffsetsGoWithTopics: .*, deleted {when}"),
            ):
                Asked().ticked(coordinator)

    run(story())


def takes_any_bytes() -> Swap:
    parse = log_loading.parse_batches
    return Swap(log_loading, "parse_batches", partial(parse, verify_crc=False))


def serves_what_comes_before() -> Swap:
    load = log_loading.parse_batches

    def parse(data: Any, **_where: int) -> Any:
        *batches, last = load(data, verify_crc=False)
        with suppress(CorruptBatch):
            return (*batches, parse_batch(last.raw))
        return batches

    return Swap(log_loading, "parse_batches", parse)


def takes_batches_from_anywhere() -> Swap:
    load = log_loading.parse_batches

    def parse(data: Any, **_where: int) -> Any:
        return load(data)

    return Swap(log_loading, "parse_batches", parse)


@pytest.mark.parametrize(
    "wrong", [takes_any_bytes(), serves_what_comes_before(), takes_batches_from_anywhere()]
)
def test_groups_that_would_be_loaded_from_a_damaged_log_are_found(tmp_path, wrong) -> None:
    async def story() -> None:
        async with hosts(tmp_path, 1) as brokers:
            coordinator, _ = await coordinator_of(brokers[1], told())
            with (
                Mutation(wrong).active(),
                pytest.raises(Violation, match=r"DamagedAreRefused: .* one bit of the batch at"),
            ):
                Asked().ticked(coordinator)

    run(story())


def test_names_of_which_nobody_would_hear_are_found() -> None:
    async def story() -> None:
        Names().read(read())
        with (
            Mutation(Swap(ZkMetadata, "_forget", forgets_what_it_has_read)).active(),
            pytest.raises(Violation, match=r"DroppedAreDeleted: were .* gone, no group would hear"),
        ):
            Names().read(read())

    run(story())
