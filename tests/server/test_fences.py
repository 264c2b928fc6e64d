"""Every fence at the edge between the replicas and the wire: epochs, registrations, roles, bounds.

Each of these was found missing by taking its line out of the code: everything else went on working.
"""

import asyncio
import dataclasses
import uuid
from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v11 import request as fetch
from kio.schema.list_offsets.v5 import request as list_offsets
from kio.schema.offset_for_leader_epoch.v3 import request as leader_epoch
from kio.schema.produce.v8 import request as produce
from kio.static.primitive import i32Timedelta

from ackproof.broker.log.disk import HIGH_WATERMARKS, Directory, write_offsets
from ackproof.broker.replication.events import FollowerFetch
from ackproof.broker.replication.replica import Role
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages.update_metadata import UpdateMetadataRequest
from tests.support.builders.batches import batch
from tests.support.worlds.replica_hosts import (
    elect,
    hosts,
    leader_and_isr,
    run,
    stop_replica,
    until,
)

TP = TopicPartition("t", 0)
CONSUMER = -1
WAIT = i32Timedelta.parse(timedelta(seconds=15))
NO_WAIT = i32Timedelta.parse(timedelta(0))


def fetched_from(offset, *, replica=CONSUMER, epoch=-1, wait=NO_WAIT):
    partition = fetch.FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        log_start_offset=0,
        partition_max_bytes=10**6,
    )
    return fetch.FetchRequest(
        replica_id=replica,
        max_wait=wait,
        min_bytes=1,
        session_epoch=-1,
        topics=(fetch.FetchTopic(topic=TP.topic, partitions=(partition,)),),
        forgotten_topics_data=(),
        rack_id="",
    )


async def fetch_answer(host, offset, **options):
    response = await host.call(fetched_from(offset, **options))
    return response.responses[0].partitions[0]


async def offset_at(host, timestamp, *, replica=CONSUMER, epoch=-1):
    partition = list_offsets.ListOffsetsPartition(
        partition_index=0, current_leader_epoch=epoch, timestamp=timestamp
    )
    topic = list_offsets.ListOffsetsTopic(name=TP.topic, partitions=(partition,))
    request = list_offsets.ListOffsetsRequest(
        replica_id=replica, isolation_level=0, topics=(topic,)
    )
    return (await host.call(request)).topics[0].partitions[0]


async def epoch_end(host, epoch, *, current=-1):
    partition = leader_epoch.OffsetForLeaderPartition(
        partition=0, current_leader_epoch=current, leader_epoch=epoch
    )
    topic = leader_epoch.OffsetForLeaderTopic(topic=TP.topic, partitions=(partition,))
    request = leader_epoch.OffsetForLeaderEpochRequest(replica_id=2, topics=(topic,))
    return (await host.call(request)).topics[0].partitions[0]


def update_metadata(*, controller_epoch, broker_epoch=-1):
    return UpdateMetadataRequest(
        controller_id=9,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=(),
        live_brokers=(),
    )


# --- the controller's requests ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("stale", "error"),
    [
        ({"controller_epoch": 4}, ErrorCode.stale_controller_epoch),
        ({"controller_epoch": 5, "broker_epoch": 69}, ErrorCode.stale_broker_epoch),
    ],
)
def test_a_deposed_controller_and_words_for_a_former_life_change_nothing(tmp_path, stale, error):
    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            host.fence.broker_epoch = 70
            await host.call(leader_and_isr(TP, 1, 0, (1,), (1,), controller_epoch=5))
            await host.produce(TP, b"v")
            lead = leader_and_isr(TP, 1, 7, (1,), (1,), **stale)
            assert (await host.call(lead)).error_code is error
            assert host.partition(TP).replica.leader_epoch == 0
            stop = stop_replica(TP, -2, delete=True, controller_epoch=stale["controller_epoch"])
            stop = type(stop)(
                controller_id=stop.controller_id,
                controller_epoch=stop.controller_epoch,
                broker_epoch=stale.get("broker_epoch", -1),
                topic_states=stop.topic_states,
            )
            assert (await host.call(stop)).error_code is error
            assert host.partition(TP).log.log_end_offset == 1
            assert (await host.call(update_metadata(**stale))).error_code is error
            assert host.metadata.controller == -1

    run(story())


def test_the_newest_controller_shuts_out_those_before_it(tmp_path):
    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            for epoch, error in ((5, "none"), (4, "stale_controller_epoch")):
                word = leader_and_isr(TP, 1, epoch, (1,), (1,), controller_epoch=epoch)
                assert (await host.call(word)).error_code.name == error

    run(story())


async def told(host, *args, **options):
    """Return the error of one partition's LeaderAndIsr."""
    answer = await host.call(leader_and_isr(TP, *args, **options))
    assert answer.error_code is ErrorCode.none
    return answer.topics[0].partition_errors[0].error_code


def test_leader_steps_down_despite_unreadable_settings_of_a_new_partition(tmp_path):
    """Both are told in one request, by a broker that ZooKeeper cannot be reached from."""

    async def test():
        async with hosts(tmp_path, 1) as made:
            host = made[1]
            await host.call(leader_and_isr(TP, 1, 0, (1, 2), (1, 2)))
            follow = leader_and_isr(TP, 2, 1, (2, 1), (1, 2))
            new = leader_and_isr(TopicPartition("new", 0), 1, 0, (1,), (1,))
            both = dataclasses.replace(follow, topic_states=new.topic_states + follow.topic_states)
            host.topics.reachable.clear()
            answer = asyncio.ensure_future(host.call(both))
            await until(lambda: host.partition(TP).replica.role is Role.FOLLOWER)
            assert not answer.done()
            host.topics.reachable.set()
            topics = (await answer).topics
            assert [t.partition_errors[0].error_code for t in topics] == [ErrorCode.none] * 2

    run(test())


def test_a_word_of_an_earlier_leader_epoch_and_one_for_others_is_refused(tmp_path):
    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            assert await told(host, 2, 3, (2,), (2, 3)) is ErrorCode.unknown_topic_or_partition
            assert host.replicas.hosted(TP) is ErrorCode.unknown_topic_or_partition
            assert await told(host, 1, 3, (1,), (1,)) is ErrorCode.none
            assert await told(host, 1, 2, (1,), (1,)) is ErrorCode.stale_controller_epoch
            assert host.partition(TP).replica.leader_epoch == 3

    run(story())


def test_a_replica_is_not_stopped_by_a_word_from_before_its_epoch(tmp_path):
    """Sent when it was moved off, come late: it has been moved back since."""

    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            await told(host, 1, 3, (1,), (1,))
            await host.produce(TP, b"v")
            answer = await host.call(stop_replica(TP, 2, delete=True))
            assert answer.partition_errors[0].error_code is ErrorCode.fenced_leader_epoch
            assert host.partition(TP).log.log_end_offset == 1
            answer = await host.call(stop_replica(TP, 3, delete=True))
            assert answer.partition_errors[0].error_code is ErrorCode.none
            assert host.replicas.hosted(TP) is ErrorCode.unknown_topic_or_partition

    run(story())


def test_a_word_that_names_no_epoch_stops_a_replica(tmp_path):
    """Kafka's, before KIP-570."""

    async def story():
        async with hosts(tmp_path, 1) as brokers:
            await elect(brokers, TP, 1, 3, (1,))
            answer = await brokers[1].call(stop_replica(TP, -1, delete=True))
            assert answer.partition_errors[0].error_code is ErrorCode.none
            assert not list(brokers[1].replicas)

    run(story())


def test_a_producer_that_went_away_is_not_answered(tmp_path):
    """Its connection closed while its batch waited for the ISR; the partition goes on."""

    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            await host.call(leader_and_isr(TP, 1, 0, (1, 2), (1, 2)))
            waiting = host.produce(TP, b"v")
            waiting.cancel()
            (partition,) = host.replicas
            partition.step(FollowerFetch(replica=2, offset=1, log_start_offset=0, now=0))
            assert partition.waiting_producers == 0
            assert partition.replica.high_watermark == 1

    run(story())


def test_a_stopped_follower_fetches_no_more(tmp_path):
    """It was told to stop before its leader shrinks the ISR; fetching, it would be let in again."""

    async def story():
        async with hosts(tmp_path, 1, 2) as brokers:
            await elect(brokers, TP, 1, 0, (1, 2))
            await brokers[1].produce(TP, b"v")
            await brokers[2].call(stop_replica(TP, 0, delete=False))
            waiting = brokers[1].produce(TP, b"more", timeout_ms=300)
            await until(lambda: brokers[1].replicas.tick() or waiting.done())
            assert waiting.result().error is ErrorCode.request_timed_out
            assert brokers[2].partition(TP).log.log_end_offset == 1

    run(story())


def test_leader_stops_fetching(tmp_path):
    async def story():
        async with hosts(tmp_path, 1, 2) as brokers:
            await elect(brokers, TP, 1, 0, (1, 2))
            await brokers[1].produce(TP, b"v")
            await elect(brokers, TP, 2, 1, (1, 2))
            fetchers = brokers[2].replicas._fetchers._running
            assert not any(TP in fetcher.partitions for fetcher, _ in fetchers.values())
            assert (await brokers[2].produce(TP, b"w")).base_offset == 1

    run(story())


def test_isr_change_within_an_epoch_does_not_restart_the_fetcher(tmp_path):
    async def story():
        async with hosts(tmp_path, 1, 2) as brokers:
            await elect(brokers, TP, 1, 0, (1, 2))
            await brokers[1].produce(TP, b"v")
            fetchers = brokers[2].replicas._fetchers._running
            fetcher = fetchers[1][0]
            fetcher._delayed[TP] = 10**15
            assert await told(brokers[2], 1, 0, (1,), (1, 2), zk_version=5) is ErrorCode.none
            assert fetcher._delayed == {TP: 10**15}
            assert brokers[2].partition(TP).replica.isr == (1,)

    run(story())


def test_replica_starts_with_its_checkpointed_state(tmp_path):
    """The high watermark as checkpointed (consumers have read up to there), and the epochs (else
    it would cut by a watermark, which loses acknowledged records)."""

    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            for epoch in (0, 3):
                await told(host, 1, epoch, (1,), (1,))
                await host.produce(TP, b"v")
            await host.stop()
            write_offsets(Directory(host.directory), HIGH_WATERMARKS, {TP: 1})
            await host.start()
            await told(host, 2, 4, (2,), (1, 2))
            replica = host.partition(TP).replica
            assert replica.role is Role.FOLLOWER
            assert (replica.high_watermark, replica.epochs) == (1, ((0, 0), (3, 1)))

    run(story())


# --- leader epochs in clients' and followers' requests ------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (-1, ErrorCode.none),
        (3, ErrorCode.none),
        (2, ErrorCode.fenced_leader_epoch),
        (4, ErrorCode.unknown_leader_epoch),
    ],
)
def test_request_with_another_epoch_is_refused(tmp_path, epoch, error):
    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            await told(host, 1, 3, (1, 2), (1, 2))
            answers = [
                await fetch_answer(host, 0, replica=2, epoch=epoch),
                await offset_at(host, -2, replica=2, epoch=epoch),
                await epoch_end(host, 3, current=epoch),
            ]
            assert [answer.error_code for answer in answers] == [error] * 3

    run(story())


def test_a_fenced_follower_makes_no_progress(tmp_path):
    """Test that a fenced follower's records, which may be other ones, do not count for a commit."""

    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            await told(host, 1, 3, (1, 2), (1, 2))
            waiting = host.produce(TP, b"v")
            await fetch_answer(host, 1, replica=2, epoch=2)
            assert not waiting.done()
            answer = await fetch_answer(host, 1, replica=2, epoch=3)
            assert waiting.result().error is ErrorCode.none
            assert answer.high_watermark == 1, "told with the fetch that raised it"

    run(story())


def test_broker_without_a_replica_cannot_fetch_as_a_follower(tmp_path):
    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            await told(host, 1, 3, (1, 2), (1, 2))
            host.produce(TP, b"v")
            stranger = await fetch_answer(host, 0, replica=7)
            assert stranger.error_code is ErrorCode.not_leader_or_follower
            assert not stranger.records

    run(story())


def test_consumer_reads_committed_records_and_follower_reads_all(tmp_path):
    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            await told(host, 1, 3, (1, 2), (1, 2))
            host.produce(TP, b"v")
            assert not (await fetch_answer(host, 0)).records
            assert (await fetch_answer(host, 0, replica=2)).records
            assert (await offset_at(host, -1, replica=2)).offset == 1
            consumer = await offset_at(host, -1)
            assert (consumer.error_code, consumer.offset) == (ErrorCode.none, 0)

    run(story())


def test_a_new_leader_that_may_be_behind_tells_consumers_no_end(tmp_path):
    """Up to the start of its epoch all may be committed, and its watermark not know yet (KIP-207):
    an end from before would have a consumer begin in front of what it has read."""

    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            await told(host, 1, 3, (1, 2), (1, 2))
            host.produce(TP, b"v")
            await told(host, 1, 4, (1, 2), (1, 2))
            assert (await offset_at(host, -1)).error_code is ErrorCode.offset_not_available
            assert (await offset_at(host, -2)).error_code is ErrorCode.none
            await fetch_answer(host, 1, replica=2, epoch=4)
            assert (await offset_at(host, -1)).offset == 1

    run(story())


# --- waits --------------------------------------------------------------------------------------


def test_a_fetch_that_waits_hears_at_once_that_the_leader_is_another(tmp_path):
    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            await told(host, 1, 0, (1,), (1, 2))
            await host.call(fetched_from(0))  # the connection for what follows
            waiting = asyncio.ensure_future(fetch_answer(host, 0, wait=WAIT))
            await until(lambda: host.replicas._context.purgatory.waiting == 1)
            word = leader_and_isr(TP, 2, 1, (2,), (1, 2))
            await host.told(word)
            assert (await waiting).error_code is ErrorCode.not_leader_or_follower

    run(story())


def test_acks_all_waits_at_most_its_timeout(tmp_path):
    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            await told(host, 1, 0, (1, 2), (1, 2))
            short = host.produce(TP, b"v", timeout_ms=1)
            long = host.produce(TP, b"v", timeout_ms=60_000)
            await until(lambda: host.replicas.tick() or short.done())
            assert short.result().error is ErrorCode.request_timed_out
            assert not long.done()

    run(story())


def test_replica_with_a_failed_effect_accepts_no_more(tmp_path):
    """Its log lacks what the replica takes to be there; what comes next would leave a hole."""

    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            await told(host, 1, 0, (1,), (1,))
            partition = host.partition(TP)
            for segment in partition.log._segments:
                segment.close()  # the disk is gone
            for _ in range(2):
                with pytest.raises(Exception, match="t-0"):
                    host.produce(TP, b"v")
            assert len(host.halted) == 1
            partition.log._segments.clear()

    run(story())


def test_settings_that_change_while_a_partition_is_made_are_its_own(tmp_path):
    """They are told to the partitions that are here, and are not repeated."""

    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            made = asyncio.create_task(host.replicas.ready(TP, uuid.UUID(int=1)))
            await asyncio.sleep(0)  # it has found the settings, and has the topic's id synced
            assert host.replicas.hosted(TP) is ErrorCode.unknown_topic_or_partition
            host.topics.tell(TP.topic, {"min.insync.replicas": "2", "segment.bytes": "2000"})
            host.replicas.configure({TP.topic})
            await made
            partition = host.partition(TP)
            assert partition.config.min_insync_replicas == 2
            assert partition.log.config.segment_bytes == 2000
            await elect(brokers, TP, 1, 0, (1,))
            assert (await host.produce(TP, b"v")).error is ErrorCode.not_enough_replicas

    run(story())


def test_a_log_is_of_one_topic_also_while_it_is_led(tmp_path):
    """The topic was deleted and made again while this broker could not be told (KIP-516)."""

    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            for epoch, (topic_id, error) in enumerate(
                [
                    (uuid.UUID(int=1), ErrorCode.none),
                    (uuid.UUID(int=2), ErrorCode.inconsistent_topic_id),
                ]
            ):
                word = leader_and_isr(TP, 1, epoch, (1,), (1,))
                topic = dataclasses.replace(word.topic_states[0], topic_id=topic_id)
                answer = await host.call(dataclasses.replace(word, topic_states=(topic,)))
                assert answer.topics[0].partition_errors[0].error_code is error
            assert host.partition(TP).replica.leader_epoch == 0

    run(story())


def test_low_watermark_waiter_checks_when_a_follower_log_start_moves(tmp_path):
    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            await told(host, 1, 0, (1, 2), (1, 2))
            purgatory, looks = host.replicas._context.purgatory, []
            await fetch_answer(host, 0, replica=2)
            purgatory.wait([TP], 10, lambda woken: bool(looks.append(woken)), lambda: None)
            partition = host.partition(TP)
            for start in (0, 0, -1):
                partition.step(FollowerFetch(replica=2, offset=0, log_start_offset=start, now=0))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            assert len(looks) == 1

    run(story())


def test_a_producer_that_repeats_itself_hears_of_the_isr_first(tmp_path):
    """NOT_ENOUGH_REPLICAS is what it can wait for; that its sequence is wrong would end it."""

    async def story():
        async with hosts(tmp_path, 1, min_insync_replicas=2) as brokers:
            host = brokers[1]
            await told(host, 1, 0, (1,), (1, 2))
            odd = batch([b"v"], producer=(5, 1, 0))
            host.partition(TP).produce(odd, 1, 1_000)
            late = host.partition(TP).produce(batch([b"v"], producer=(5, 0, 7)), -1, 1_000)
            assert late.result().error is ErrorCode.not_enough_replicas

    run(story())


def test_acks_are_minus_one_zero_or_one(tmp_path):
    """Kafka 0.8 had acks=2; taken for acks=1, it would promise more than is kept."""

    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            await told(host, 1, 0, (1,), (1,))
            data = produce.PartitionProduceData(index=0, records=bytes(batch([b"v"]).raw))
            topic = produce.TopicProduceData(name=TP.topic, partition_data=(data,))
            request = produce.ProduceRequest(
                transactional_id=None, acks=2, timeout=NO_WAIT, topic_data=(topic,)
            )
            answer = (await host.call(request)).responses[0].partition_responses[0]
            assert answer.error_code is ErrorCode.invalid_required_acks
            assert host.partition(TP).log.log_end_offset == 0

    run(story())
