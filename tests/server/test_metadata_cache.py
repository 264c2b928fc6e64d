"""The controller's latest word, and waiting for it."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import pytest

from ackproof.broker.config import Listener
from ackproof.broker.controller.cluster import BrokerInfo, Endpoint, LiveBroker
from ackproof.broker.coordination.nodes import Assigned, IsrNode, LeaderNode, PartitionView
from ackproof.broker.server.coordination.zk_metadata import ZkMetadata
from ackproof.broker.server.metadata_cache import MetadataCache
from ackproof.broker.types import LEADER_DURING_DELETE, TopicPartition
from ackproof.broker.wire.messages.update_metadata import UpdateMetadataRequest

INFO = BrokerInfo(broker_id=1, endpoints=(Endpoint(host="a", port=9092),))


def test_partitions_are_added_to_and_brokers_replaced(metadata, updated) -> None:
    metadata.update(updated({"other": {0: 2, 1: 3}}, brokers=(2, 3), controller=2))
    assert set(metadata.topics) == {"known", "other"}
    assert metadata.topics["other"][1].leader == 3
    assert set(metadata.brokers) == {2, 3}
    assert metadata.brokers[2].listener == Listener("h", 9002)
    assert metadata.controller == 2


def test_a_topic_goes_with_its_last_partition(metadata, updated) -> None:
    metadata.update(updated({"known": {1: 1}}))
    metadata.update(updated({"known": {0: LEADER_DURING_DELETE}}))
    assert TopicPartition("known", 0) not in metadata
    assert TopicPartition("known", 1) in metadata
    metadata.update(updated({"known": {1: LEADER_DURING_DELETE}}))
    assert "known" not in metadata.topics


def test_waiting_ends_with_the_update_that_fulfils_it(metadata, updated) -> None:
    async def test() -> None:
        waiting = asyncio.ensure_future(metadata.wait_until(lambda: "new" in metadata.topics, 10))
        await asyncio.sleep(0)
        metadata.update(updated({"other": {0: 1}}))
        await asyncio.sleep(0)
        assert not waiting.done()
        metadata.update(updated({"new": {0: 1}}))
        assert await waiting

    asyncio.run(test())


def test_waiting_ends_with_its_time(metadata) -> None:
    assert not asyncio.run(metadata.wait_until(lambda: "new" in metadata.topics, 0.01))


def test_metadata_request_waits_for_the_first_update(updated) -> None:
    """A client that is shown no brokers may forget those that it knows."""
    metadata = MetadataCache()

    async def test() -> None:
        assert not metadata.is_fresh(None)
        waiting = asyncio.ensure_future(metadata.refresh(["known"]))
        await asyncio.sleep(0)
        assert not waiting.done()
        metadata.update(updated({"known": {0: 1}}))
        await waiting
        assert metadata.is_fresh(None)

    asyncio.run(test())


def test_new_registration_receives_the_full_metadata(metadata, updated) -> None:
    first = replace(updated({"known": {0: 1}, "other": {0: 1}}), broker_epoch=7)
    metadata.update(first)
    metadata.update(replace(updated({"new": {0: 1}}), broker_epoch=7))
    assert set(metadata.topics) == {"known", "other", "new"}
    metadata.update(replace(updated({"other": {0: 1}}), broker_epoch=8))
    assert set(metadata.topics) == {"other"}, "the rest was deleted between the two"


def test_first_update_of_a_new_controller_replaces_all_metadata(metadata, updated) -> None:
    """A topic was deleted by one that died before it had told everybody (simulation, seed
    91433)."""
    metadata.update(replace(updated({"known": {0: 1}, "other": {0: 1}}), controller_epoch=3))
    metadata.update(replace(updated({}), controller_epoch=3))
    assert set(metadata.topics) == {"known", "other"}
    metadata.update(replace(updated({"other": {0: 1}}), controller_epoch=4))
    assert set(metadata.topics) == {"other"}
    metadata.update(replace(updated({}), controller_epoch=5))
    assert not metadata.topics


@pytest.mark.parametrize("newer", [{"controller_epoch": 2}, {"broker_epoch": 8}])
def test_partition_missing_from_the_next_full_update_was_deleted(updated, newer) -> None:
    """Else what groups have committed of it would count for the next topic of that name."""
    metadata = MetadataCache()
    first = updated({"gone": {0: 1, 1: 1}, "again": {0: 1}, "stays": {0: 1}})
    one, another = uuid.UUID(int=1), uuid.UUID(int=2)
    assert metadata.update(with_ids(first, again=one, stays=one)) == ()
    told = with_ids(updated({"again": {0: 1}, "stays": {0: 1, 1: 2}}), again=another, stays=one)
    deleted = metadata.update(replace(told, **newer))
    assert sorted(deleted) == [
        TopicPartition("again", 0),
        TopicPartition("gone", 0),
        TopicPartition("gone", 1),
    ]
    assert metadata.update(replace(updated({}), **newer)) == ()
    assert set(metadata.topics) == {"again", "stays"}


def test_topic_deleted_and_recreated_in_one_update_is_kept(
    updated,
) -> None:
    """No controller of Kafka's says so, and such an update is no reason to fail at the next one."""
    metadata = MetadataCache()
    metadata.update(with_ids(updated({"again": {0: 1}}), again=uuid.UUID(int=1)))
    told = with_ids(updated({"again": {0: LEADER_DURING_DELETE, 1: 1}}), again=uuid.UUID(int=2))
    assert metadata.update(told) == (TopicPartition("again", 0),)
    again = with_ids(updated({"again": {1: 1}}), again=uuid.UUID(int=2))
    assert metadata.update(replace(again, broker_epoch=8)) == ()
    assert set(metadata.topics["again"]) == {1}


def with_ids(request: UpdateMetadataRequest, **ids: uuid.UUID) -> UpdateMetadataRequest:
    """Topics with these ids, and others without."""
    topics = (replace(t, topic_id=ids.get(t.topic_name)) for t in request.topic_states)
    return replace(request, topic_states=tuple(topics))


class _Registered:
    """The registrations in ZooKeeper: empty until a test fills them."""

    def __init__(self) -> None:
        self.brokers: dict[int, LiveBroker] = {}

    async def live_brokers(self, _watch) -> dict[int, LiveBroker]:
        return self.brokers

    async def topics(self, _watch=None) -> list[str]:
        return []


def test_metadata_without_a_controller_waits_for_a_registered_broker() -> None:
    """All sessions are over; the first broker that is back is asked before it is registered."""
    registered = _Registered()
    metadata = ZkMetadata(registered, registered)

    async def test() -> None:
        await metadata.read_brokers()
        waiting = asyncio.ensure_future(metadata.refresh(None))
        await asyncio.sleep(0)
        assert not waiting.done()
        assert not metadata.is_fresh(None)
        registered.brokers = {1: LiveBroker(info=INFO, epoch=1)}
        await metadata.read_brokers()
        await waiting
        assert metadata.is_fresh(None)
        registered.brokers = {}
        await metadata.read_brokers()
        assert not metadata.is_fresh(None)

    asyncio.run(test())


class _Topic(_Registered):
    """One topic, with partitions or without."""

    def __init__(self) -> None:
        super().__init__()
        self.names = ["t"]
        self.watch: Callable[[], None] | None = None
        self.numbers = [0, 1]
        self.view = PartitionView(replicas=Assigned(replicas=(1,), version=0))
        self.until: Callable[[], Awaitable[object]] = partial(asyncio.sleep, 0)
        """What a reading of a partition waits for."""

    async def topics(self, watch=None) -> list[str]:
        self.watch = watch or self.watch
        return self.names

    async def partitions(self, _topic) -> list[int]:
        return self.numbers

    async def partition(self, _tp) -> PartitionView:
        await self.until()
        return self.view


def test_without_a_controller_a_leader_is_shown_with_its_own_epoch() -> None:
    """1 of epoch 1 dies and 2 claims epoch 2 between the readings of ``leader`` and ``ISR``: 1 was
    never the leader of epoch 2. Without a leader, clients are shown the newest that there was."""
    zk = _Topic()
    zk.brokers = {1: LiveBroker(info=INFO, epoch=1)}
    zk.view = PartitionView(
        replicas=Assigned(replicas=(1, 2), version=0),
        leader=LeaderNode(broker=1, epoch=1, owner=7, version=0),
        isr=IsrNode(isr=(1, 2), epoch=2, version=3),
    )
    metadata = ZkMetadata(zk, zk)

    async def shown() -> tuple[int, int]:
        await metadata.read_brokers()
        await metadata._read_names()
        await metadata._read("t")
        partition = metadata.topics["t"][0]
        return partition.leader, partition.leader_epoch

    assert asyncio.run(shown()) == (1, 1)
    zk.view = replace(zk.view, leader=None)
    assert asyncio.run(shown()) == (-1, 2)


def test_without_a_controller_a_topic_that_is_read_while_it_is_deleted_is_deleted_all_the_same():
    """Its partitions go before its name does; with it goes what groups have committed of it
    (simulation, seed 226)."""
    zk, gone = _Topic(), []
    metadata = ZkMetadata(zk, zk)
    metadata.on_deleted = gone.extend

    async def test() -> None:
        await metadata._read_names()
        await metadata._read("t")
        zk.numbers = []
        await metadata._read("t")
        assert not gone
        zk.names = []
        await metadata._read_names()

    asyncio.run(test())
    assert gone == ["t"]


def test_unrequested_topic_is_deleted_without_a_controller() -> None:
    """Groups that were loaded just now may have committed of it, all the same."""
    zk, gone = _Topic(), []
    metadata = ZkMetadata(zk, zk)
    metadata.on_deleted = gone.extend

    async def test() -> None:
        assert await metadata.names_now() == {"t"}
        zk.names = []
        assert not await metadata.names_now()

    asyncio.run(test())
    assert gone == ["t"]


def test_without_a_controller_a_topic_that_goes_while_it_is_read_does_not_come_back() -> None:
    """Shown for good, it would be refused to who wants to make it again."""
    zk, gone = _Topic(), []
    zk.brokers = {1: LiveBroker(info=INFO, epoch=1)}
    metadata = ZkMetadata(zk, zk)
    metadata.on_deleted = gone.extend

    async def test() -> None:
        await metadata.read_brokers()
        await metadata.refresh(None)
        read = asyncio.Event()
        zk.until = read.wait
        reading = asyncio.ensure_future(metadata._read("t"))
        await asyncio.sleep(0)
        zk.names = []
        await metadata._read_names()
        assert gone == ["t"]
        read.set()
        await reading

    asyncio.run(test())
    assert not metadata.topics
    assert TopicPartition("t", 0) not in metadata


def test_without_a_controller_a_topic_that_goes_and_comes_between_two_questions_was_away() -> None:
    """Test that a group's commits do not count for the next topic."""
    zk, gone = _Topic(), []
    metadata = ZkMetadata(zk, zk)
    metadata.on_deleted = gone.extend

    async def test() -> None:
        following = asyncio.ensure_future(metadata.follow_topics())
        await asyncio.sleep(0)
        for zk.names in ([], ["t"]):
            assert zk.watch is not None
            zk.watch()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert "t" in metadata.names
        following.cancel()

    asyncio.run(test())
    assert gone == ["t"]
