"""A topic that was deleted and made again: fetches of the former one are none of the new one's.

Both begin in leader epoch 0; only their ids tell them apart (KIP-516).
"""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v11 import request as by_name
from kio.schema.fetch.v13 import request as by_id

from ackproof.broker.server.network.broker_connection import BrokerConnection
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages.fetch import FetchResponse
from tests.support.clients.kio_peer import ours
from tests.support.fakes.scripted_leader import ScriptedLeader
from tests.support.worlds.replica_hosts import (
    DEADLINE_S,
    hosts,
    leader_and_isr,
    run,
    stop_replica,
    until,
)

TP = TopicPartition("t", 0)
FORMER, NEW = UUID(int=7), UUID(int=8)


def fetch(topic_id, offset, *, session=(0, -1), wait_ms=0):
    """Return a fetch of follower 2, in the session (id, epoch); without an id, by name."""
    entities, topic = (by_name, "t") if topic_id is None else (by_id, topic_id)
    named = {"topic" if topic_id is None else "topic_id": topic}
    partition = entities.FetchPartition(
        partition=0, current_leader_epoch=0, fetch_offset=offset, partition_max_bytes=1000
    )
    return entities.FetchRequest(
        replica_id=2,
        max_wait=timedelta(milliseconds=wait_ms),
        min_bytes=1,
        session_id=session[0],
        session_epoch=session[1],
        topics=(entities.FetchTopic(**named, partitions=(partition,)),),
        forgotten_topics_data=(),
    )


async def answer_to(host, request):
    response = await host.call(request)
    return response.responses[0].partitions[0]


async def lead(host, topic_id):
    await host.call(leader_and_isr(TP, 1, 0, (1, 2), (1, 2), topic_id=topic_id))


async def make_again(host):
    await host.call(stop_replica(TP, 0, delete=True))
    await lead(host, NEW)


def test_a_late_fetch_of_the_former_topic_does_not_count_in_the_new_one(tmp_path):
    """Follower 2 has two records of the former topic, and nothing of the new one."""

    async def story():
        async with hosts(tmp_path, 1) as brokers:
            leader = brokers[1]
            await lead(leader, FORMER)
            await make_again(leader)
            acked = leader.produce(TP, b"one", b"two")
            late = await answer_to(leader, fetch(FORMER, 2))
            assert late.error_code is ErrorCode.unknown_topic_id
            assert not acked.done()
            assert leader.partition(TP).replica.high_watermark == 0
            assert (await answer_to(leader, fetch(NEW, 0))).records
            await answer_to(leader, fetch(NEW, 2))
            assert (await acked).error is ErrorCode.none

    run(story())


def test_waiting_fetch_is_not_answered_from_the_new_topic(tmp_path):
    async def story():
        async with hosts(tmp_path, 1) as brokers:
            leader = brokers[1]
            await lead(leader, FORMER)
            follower = BrokerConnection("127.0.0.1", leader.port, "broker-2")
            try:
                request = fetch(FORMER, 0, wait_ms=60_000)
                waiting = asyncio.ensure_future(follower.call(ours(request), DEADLINE_S))
                await until(lambda: leader.purgatory.waiting == 1)
                await make_again(leader)
                leader.produce(TP, b"one")
                answer = (await waiting).responses[0].partitions[0]
                assert (answer.error_code, answer.records) == (ErrorCode.unknown_topic_id, b"")
            finally:
                await follower.close()

    run(story())


def test_session_of_the_former_topic_gets_an_error(tmp_path):
    async def story():
        async with hosts(tmp_path, 1) as brokers:
            leader = brokers[1]
            await lead(leader, FORMER)
            session = (await leader.call(fetch(FORMER, 0, session=(0, 0)))).session_id
            await make_again(leader)
            leader.produce(TP, b"one")
            nothing_changed = by_id.FetchRequest(
                replica_id=2,
                max_wait=timedelta(0),
                min_bytes=1,
                session_id=session,
                session_epoch=1,
                topics=(),
                forgotten_topics_data=(),
            )
            answer = await answer_to(leader, nothing_changed)
            assert (answer.error_code, answer.records) == (ErrorCode.unknown_topic_id, b"")
            in_names = await leader.call(fetch(None, 0, session=(session, 2)))
            assert in_names.error_code is ErrorCode.fetch_session_topic_id_error

    run(story())


def test_fetch_by_name_is_served_from_the_new_topic(tmp_path):
    async def story():
        async with hosts(tmp_path, 1) as brokers:
            await lead(brokers[1], FORMER)
            await make_again(brokers[1])
            brokers[1].produce(TP, b"one")
            answer = await answer_to(brokers[1], fetch(None, 0))
            assert (answer.error_code, bool(answer.records)) == (ErrorCode.none, True)

    run(story())


@pytest.mark.parametrize("topic_id", [FORMER, None])
def test_a_follower_names_the_topic_by_its_id_if_it_has_one(tmp_path, topic_id):
    async def story():
        leader = ScriptedLeader()
        await leader.start()
        try:
            async with hosts(tmp_path, 2) as brokers:
                brokers[2].peers = {1: leader}
                await lead(brokers[2], topic_id)
                request, _ = await leader.next("FetchRequest")
                topic = request.topics[0]
                assert topic.topic == "t" if topic_id is None else topic.topic_id == topic_id
        finally:
            await leader.close()

    run(story())


def test_a_follower_says_in_its_session_that_the_topic_is_another(tmp_path):
    """From the same offset in the same epoch: nothing else has changed."""

    async def story():
        leader = ScriptedLeader()
        await leader.start()
        try:
            async with hosts(tmp_path, 2) as brokers:
                brokers[2].peers = {1: leader}
                await lead(brokers[2], FORMER)
                keeps_the_connection = TopicPartition("other", 0)
                other = leader_and_isr(
                    keeps_the_connection, 1, 0, (1, 2), (1, 2), topic_id=UUID(int=9)
                )
                await brokers[2].call(other)
                request, answer = await leader.next("FetchRequest")
                await make_again(brokers[2])
                answer.set_result(nothing_new())
                request, _ = await leader.next("FetchRequest")
                assert (request.session_id, request.session_epoch) == (7, 1)
                assert NEW in [topic.topic_id for topic in request.topics]
                assert FORMER in [topic.topic_id for topic in request.forgotten_topics_data]
        finally:
            await leader.close()

    run(story())


def nothing_new():
    return FetchResponse(
        error_code=ErrorCode.none,
        session_id=7,
        responses=(),
    )


def test_records_come_by_id(tmp_path):
    """Two real brokers: what the leader appends the follower has, and it is committed."""

    async def story():
        async with hosts(tmp_path, 1, 2) as brokers:
            for host in brokers.values():
                await lead(host, FORMER)
            assert (await brokers[1].produce(TP, b"one")).error is ErrorCode.none
            await until(lambda: brokers[2].values(TP) == brokers[1].values(TP))

    run(story())
