"""Reading from followers (KIP-392): whom a leader names, and what a follower shows and refuses."""

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v10 import request as before
from kio.schema.fetch.v11 import request as since

from ackproof.broker.config import Listener
from ackproof.broker.replication.leader import RACK_AWARE, RemoteReplica, preferred_read_replica
from ackproof.broker.server.metadata_cache import BrokerMetadata
from ackproof.broker.types import TopicPartition
from tests.support.worlds.replica_hosts import elect, hosts, run, until

TP = TopicPartition("t", 0)
AWARE = {"replica_selector_class": RACK_AWARE}
LEADER, NEAR, OUT_OF_SYNC = 1, 2, 3
NO_OFFSETS = (-1, -1)


def fetch(offset, *, rack="", epoch=-1, wait_ms=0, session=(0, -1), entities=since):
    partition = entities.FetchPartition(
        partition=0, current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=10**6
    )
    return entities.FetchRequest(
        replica_id=-1,
        max_wait=timedelta(milliseconds=wait_ms),
        min_bytes=1,
        session_id=session[0],
        session_epoch=session[1],
        topics=(entities.FetchTopic(topic=TP.topic, partitions=(partition,)),),
        forgotten_topics_data=(),
        **({"rack_id": rack} if entities is since else {}),
    )


async def answer(host, offset, **options):
    response = await host.call(fetch(offset, **options))
    return response.responses[0].partitions[0]


def stand_in_racks(brokers):
    """Each broker knows that ``n`` stands in ``rack-n``."""
    for host in brokers.values():
        host.metadata._see(
            BrokerMetadata(id=n, listener=Listener("h", 1), rack=f"rack-{n}") for n in brokers
        )


async def in_sync(brokers):
    """Two records that both of the ISR have, and of which both know that they are committed."""
    await elect(brokers, TP, LEADER, 5, (LEADER, NEAR))
    await brokers[LEADER].produce(TP, b"a")
    await brokers[LEADER].produce(TP, b"b")
    await until(lambda: brokers[NEAR].partition(TP).replica.high_watermark == 2)
    stand_in_racks(brokers)


# --- whom the leader names --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rack", "offset", "named"),
    [
        ("rack-2", 0, NEAR),
        ("rack-2", 2, NEAR),
        ("rack-1", 0, -1),
        ("rack-3", 0, -1),
        ("rack-9", 0, -1),
        ("", 0, -1),
    ],
    ids=["nearby", "nearby-at-the-end", "its own", "of one that lags", "of no replica", "none"],
)
def test_a_leader_names_the_in_sync_follower_of_the_consumer_s_rack(tmp_path, rack, offset, named):
    async def story():
        async with hosts(tmp_path, LEADER, NEAR, OUT_OF_SYNC, **AWARE) as brokers:
            await in_sync(brokers)
            told = await answer(brokers[LEADER], offset, rack=rack)
            assert told.error_code is ErrorCode.none
            assert told.preferred_read_replica == named
            assert bool(told.records) == (named == -1 and offset < 2)
            assert (told.high_watermark, told.log_start_offset) == (2, 0)

    run(story())


def test_a_follower_that_has_less_than_is_asked_for_is_not_named(tmp_path):
    """Its fetch is what the leader knows of it, and it has made none in this epoch."""

    async def story():
        async with hosts(tmp_path, LEADER, NEAR, **AWARE) as brokers:
            await in_sync(brokers)
            await elect(brokers, TP, LEADER, 6, (LEADER, NEAR), to=(LEADER,))
            told = await answer(brokers[LEADER], 2, rack="rack-2")
            assert (told.error_code, told.preferred_read_replica) == (ErrorCode.none, -1)

    run(story())


def test_preferred_replica_is_returned_at_once_and_in_each_answer(tmp_path):
    """Also in a session in which nothing else has changed: the consumer must not stay and wait."""

    async def story():
        async with hosts(tmp_path, LEADER, NEAR, **AWARE) as brokers:
            await in_sync(brokers)
            leader, session = brokers[LEADER], (0, 0)
            for epoch in (1, 2):
                asked = fetch(2, rack="rack-2", wait_ms=60_000, session=session)
                told = await leader.call(asked)
                assert told.responses[0].partitions[0].preferred_read_replica == NEAR
                session = (told.session_id, epoch)

    run(story())


def test_followers_refuse_consumers_without_a_selector(tmp_path):
    """Also librdkafka, which presumes no epoch here: it hears that a leader was deposed."""

    async def story():
        async with hosts(tmp_path, LEADER, NEAR) as brokers:
            await in_sync(brokers)
            told = await answer(brokers[LEADER], 0, rack="rack-2")
            assert told.preferred_read_replica == -1
            assert told.records
            refused = await answer(brokers[NEAR], 0, rack="rack-2")
            assert refused.error_code is ErrorCode.not_leader_or_follower

    run(story())


BROKERS = st.integers(1, 5)


@given(
    rack=st.sampled_from(["", "a", "b"]),
    leader=BROKERS,
    ends=st.dictionaries(BROKERS, st.tuples(st.integers(0, 2), st.integers(0, 2))),
    racks=st.dictionaries(BROKERS, st.sampled_from(["a", "b", None])),
)
def test_preferred_replica_is_the_most_advanced_in_the_rack_of_the_consumer(
    rack, leader, ends, racks
):
    followers = {
        follower: RemoteReplica(log_end_offset=end, last_caught_up_time=time)
        for follower, (end, time) in ends.items()
        if follower != leader
    }
    named = preferred_read_replica(rack, leader, followers, racks)
    near = {follower for follower in followers if racks.get(follower) == rack}
    if not rack or racks.get(leader) == rack or not near:
        assert named is None
    else:
        assert named in near
        assert ends[named] == max(ends[follower] for follower in near)


# --- what a follower shows ----------------------------------------------------------------------


def test_follower_serves_records_up_to_its_known_high_watermark(tmp_path):
    """It holds a third record, of which its leader has not told it yet that it is committed. A
    consumer that has read it at the leader waits."""

    async def story():
        async with hosts(tmp_path, LEADER, NEAR, OUT_OF_SYNC, **AWARE) as brokers:
            await in_sync(brokers)
            follower, replica = brokers[NEAR], brokers[NEAR].partition(TP).replica
            # The third is in the ISR and fetches nothing.
            await elect(brokers, TP, LEADER, 6, (LEADER, NEAR, OUT_OF_SYNC), to=(LEADER, NEAR))
            brokers[LEADER].produce(TP, b"c")
            await until(lambda: replica.log_end_offset == 3)
            assert replica.high_watermark == 2
            told = await answer(follower, 1, rack="rack-2")
            assert (told.error_code, told.high_watermark) == (ErrorCode.none, 2)
            assert b"b" in told.records
            assert b"c" not in told.records
            for offset in (2, 3):
                waits = await answer(follower, offset, rack="rack-2")
                assert (waits.error_code, waits.records) == (ErrorCode.none, b"")

    run(story())


def test_consumer_at_a_follower_is_answered_when_its_high_watermark_moves(tmp_path):
    async def story():
        async with hosts(tmp_path, LEADER, NEAR, **AWARE) as brokers:
            await in_sync(brokers)
            asked = answer(brokers[NEAR], 2, rack="rack-2", wait_ms=60_000)
            waiting = asyncio.ensure_future(asked)
            await until(lambda: brokers[NEAR].purgatory.waiting == 1)
            await brokers[LEADER].produce(TP, b"c")
            assert b"c" in (await waiting).records

    run(story())


@pytest.mark.parametrize("offset", [-1, 3])
def test_offset_out_of_range_at_a_follower_is_refused_without_offsets(tmp_path, offset):
    """Test that librdkafka does not mistake the offsets for the leader's and start over."""

    async def story():
        async with hosts(tmp_path, LEADER, NEAR, **AWARE) as brokers:
            await in_sync(brokers)
            told = await answer(brokers[NEAR], offset, rack="rack-2")
            assert told.error_code is ErrorCode.offset_out_of_range
            assert (told.high_watermark, told.log_start_offset) == NO_OFFSETS

    run(story())


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (4, ErrorCode.fenced_leader_epoch),
        (5, ErrorCode.none),
        (6, ErrorCode.unknown_leader_epoch),
    ],
)
def test_follower_serves_consumers_of_the_same_epoch(tmp_path, epoch, error):
    async def story():
        async with hosts(tmp_path, LEADER, NEAR, **AWARE) as brokers:
            await in_sync(brokers)
            told = await answer(brokers[NEAR], 0, rack="rack-2", epoch=epoch)
            assert (told.error_code, bool(told.records)) == (error, error is ErrorCode.none)

    run(story())


def test_older_client_at_a_follower_is_referred_to_the_leader(tmp_path):
    async def story():
        async with hosts(tmp_path, LEADER, NEAR, **AWARE) as brokers:
            await in_sync(brokers)
            told = await answer(brokers[NEAR], 0, entities=before)
            assert told.error_code is ErrorCode.not_leader_or_follower

    run(story())
