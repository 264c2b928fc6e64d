"""Writes of several nodes against a real ZooKeeper: all or none, in any order."""

import asyncio
import re
from contextlib import asynccontextmanager
from functools import partial

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.config import BrokerConfig
from ackproof.broker.coordination.admin import Admin
from ackproof.broker.coordination.effects import (
    Check,
    CreateLeader,
    CreateTopic,
    Delete,
    DeletePartition,
    DeleteTopic,
    Dequeue,
    Enqueue,
    PutAssigned,
    PutIsr,
    RemoveBroker,
    Result,
    TakeTopic,
)
from ackproof.broker.coordination.nodes import (
    ABSENT,
    ANY_VERSION,
    Change,
    Kind,
    Node,
    StateChangeRequest,
)
from ackproof.broker.server.coordination import nodes
from ackproof.broker.server.coordination.elections import Elections
from ackproof.broker.server.coordination.event_loop import Commands
from ackproof.broker.server.coordination.nodes import queue
from ackproof.broker.server.coordination.zk_nodes import Reader, Writer
from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.kafka_zk import KafkaZk
from ackproof.broker.server.zk.session import SessionNumber
from ackproof.broker.types import BrokerId, LeaderEpoch, TopicPartition

pytestmark = pytest.mark.integration

DEADLINE_S = 120
TP = TopicPartition("t", 0)
REPLICAS, LEADER, ISR, REASSIGNED = (Node(kind, TP) for kind in Kind)
ONE, TWO = BrokerId(1), BrokerId(2)
EPOCH = LeaderEpoch(4)
DONE, REFUSED, UNKNOWN = Result


def run(story):
    async def bounded():
        async with asyncio.timeout(DEADLINE_S):
            await story

    asyncio.run(bounded())


@asynccontextmanager
async def connected(zookeeper, coordination="leader", variant="fenced"):
    zk = KafkaZk(zookeeper.connect, 60_000, connection_timeout_ms=20_000)
    await zk.start()
    try:
        config = BrokerConfig(
            broker_id=1,
            zookeeper_connect=zookeeper.connect,
            ackproof_coordination=coordination,
            ackproof_coordination_variant=variant,
        )
        await nodes.claim(config, zk.session)
        yield zk.session, Writer(zk.session, ONE), Reader(zk.session)
    finally:
        await zk.close()


def assigned(node, *replicas, expected=ABSENT):
    return PutAssigned(node=node, replicas=replicas, expected=expected)


def start(broker):
    request = StateChangeRequest(change=Change.START_REPLICA, partition=TP, leader=ONE, epoch=EPOCH)
    return Enqueue(broker=broker, request=request)


async def wrote(writer, *ops, session=None):
    return (await writer.write(ops, session)).result


def test_a_claim_is_all_or_nothing(zookeeper):
    async def story():
        async with connected(zookeeper) as (session, writer, reader):
            assert await wrote(writer, CreateTopic(topic="t"), assigned(REPLICAS, ONE, TWO)) is DONE
            claim = (
                Check(node=REPLICAS, expected=0),
                CreateLeader(partition=TP, epoch=EPOCH),
                PutIsr(partition=TP, isr=(ONE,), epoch=EPOCH, expected=ABSENT),
            )
            outcome = await writer.write(claim, session.number)
            assert (outcome.result, outcome.versions) == (DONE, {LEADER: 0, ISR: 0})
            view = await reader.partition(TP)
            assert view.leader.owner == session.session_id
            assert (view.leader.broker, view.leader.epoch, view.isr.isr) == (ONE, EPOCH, (ONE,))
            assert await wrote(writer, Delete(node=LEADER, expected=ANY_VERSION)) is DONE
            assert await wrote(writer, *claim) is REFUSED, "the ISR is there"
            assert (await reader.partition(TP)).leader is None
            changed = PutIsr(partition=TP, isr=(ONE, TWO), epoch=EPOCH, expected=0)
            assert (await writer.write((changed,), None)).versions == {ISR: 1}
            assert await wrote(writer, changed) is REFUSED, "at another version"

    run(story())


def test_a_write_of_a_session_that_is_over_is_not_sent(zookeeper):
    async def story():
        async with connected(zookeeper) as (session, writer, reader):
            over = SessionNumber(session.number - 1)
            assert await wrote(writer, CreateTopic(topic="t"), session=over) is UNKNOWN
            assert await reader.topics() == []

    run(story())


def test_parent_node_is_made_once_and_deleted_with_its_last_child(zookeeper):
    async def story():
        async with connected(zookeeper) as (_session, writer, reader):
            other = Node(Kind.REASSIGNED, TopicPartition("t", 1))
            assert await wrote(writer, assigned(REASSIGNED, ONE), assigned(other, TWO)) is DONE
            orders = await reader.reassignments()
            assert {tp: order.replicas for tp, order in orders.items()} == {
                TP: (ONE,),
                other.partition: (TWO,),
            }
            assert await wrote(writer, assigned(REASSIGNED, TWO)) is REFUSED
            anyhow = assigned(REASSIGNED, TWO, expected=ANY_VERSION)
            assert await wrote(writer, anyhow) is DONE
            for node in (REASSIGNED, other):
                assert await reader.reassigned_topics() == ("t",)
                assert await wrote(writer, Delete(node=node, expected=ANY_VERSION)) is DONE
            assert await reader.reassigned_topics() == ()
            assert await wrote(writer, Delete(node=other, expected=ANY_VERSION)) is REFUSED

    run(story())


def test_writer_that_loses_a_race_reads_again(zookeeper):
    """Each writer reads that the topic is not there yet, and makes it: but one."""

    async def story():
        async with connected(zookeeper) as (_session, writer, reader):
            tps = [TopicPartition("t", number) for number in range(20)]
            puts = [assigned(Node(Kind.REASSIGNED, tp), ONE) for tp in tps]
            results = await asyncio.gather(*(wrote(writer, put) for put in puts))
            assert set(results) == {DONE}
            assert sorted(await reader.reassignments()) == tps

    run(story())


def test_queues(zookeeper):
    async def story():
        async with connected(zookeeper) as (session, writer, reader):
            assert await wrote(writer, start(TWO)) is REFUSED, "there is no such queue"
            await session.ensure("/brokers/state/2")
            outcome = await writer.write((start(TWO), start(TWO)), None)
            first, second = await reader.queue(TWO)
            assert outcome.queued == (first.name, second.name)
            assert first.request == start(TWO).request
            assert (await reader.depths(), await reader.queue_size(TWO)) == ({TWO: 2}, 2)
            await session.put("/brokers/state/2/request-9999999999", b"nonsense", session.number)
            assert await reader.queue(TWO) == (first, second)
            assert await reader.queue_size(TWO) == 2, "what makes no sense is removed"
            gone = Dequeue(broker=TWO, name=first.name)
            assert await wrote(writer, gone) is DONE
            assert await wrote(writer, gone, Dequeue(broker=TWO, name=second.name)) is DONE
            assert await wrote(writer, gone, CreateTopic(topic="t")) is REFUSED
            assert await reader.queue(TWO) == ()

    run(story())


def test_topic_write_refuses_writers_with_an_older_read(zookeeper):
    async def story():
        async with connected(zookeeper) as (_session, writer, reader):
            absent = await reader.topic("t")
            assert (absent.exists, absent.version, absent.topic_id) == (False, ABSENT, None)
            assert await wrote(writer, CreateTopic(topic="t")) is DONE
            assert await wrote(writer, CreateTopic(topic="t")) is REFUSED
            made = await reader.topic("t")
            assert made.topic_id is not None
            assert made.version == 0
            take = TakeTopic(topic="t", topic_id=made.topic_id, expected=made.version)
            assert await wrote(writer, take, assigned(REASSIGNED, ONE)) is DONE
            assert await wrote(writer, take, assigned(REPLICAS, ONE)) is REFUSED
            taken = await reader.topic("t")
            assert (taken.topic_id, taken.version) == (made.topic_id, 1)
            assert taken.partitions[0].replicas is None
            recreated = CreateTopic(topic="t", expected=taken.version)
            assert await wrote(writer, recreated) is DONE
            assert await wrote(writer, recreated) is REFUSED
            other = await reader.topic("t")
            assert other.topic_id not in (None, made.topic_id)
            assert await wrote(writer, DeleteTopic(topic="t", expected=taken.version)) is REFUSED
            assert await wrote(writer, assigned(REPLICAS, ONE)) is DONE
            gone = DeleteTopic(topic="t", expected=other.version)
            assert await wrote(writer, gone) is REFUSED, "it has a partition"
            assert await wrote(writer, DeletePartition(partition=TP), gone) is DONE
            assert await reader.topics() == []
            assert await wrote(writer, gone) is REFUSED

    run(story())


def test_a_topic_goes_with_its_settings_and_no_sooner_than_its_partitions(zookeeper):
    async def story():
        async with connected(zookeeper) as (session, writer, reader):
            settings = {"t": {"retention.ms": "1"}}
            made = (CreateTopic(topic="t"), assigned(REPLICAS, ONE))
            assert (await writer.write(made, None, settings)).result is DONE
            assert b"retention.ms" in (await session.get("/config/topics/t"))[0]
            assert await wrote(writer, DeleteTopic(topic="t")) is DONE
            assert await reader.partitions("t") == [0], "it has a partition"
            assert await wrote(writer, DeletePartition(partition=TP)) is DONE
            assert await wrote(writer, DeletePartition(partition=TP)) is DONE
            assert await wrote(writer, DeleteTopic(topic="t")) is DONE
            assert await reader.topics() == []
            assert await session.get("/config/topics/t") is None

    run(story())


def test_a_tree_is_of_one_kind_also_when_both_come_first(zookeeper):
    async def story():
        async with connected(zookeeper) as (session, _writer, _reader):
            with pytest.raises(nodes.ForeignTree, match="coordination=leader"):
                async with connected(zookeeper, "controller"):
                    pass
            await session.request(lambda client: client.delete_async("/brokers/state"))
            await session.put("/controller_epoch", b"1", session.number)
            with pytest.raises(nodes.ForeignTree, match="coordination=controller"):
                async with connected(zookeeper):
                    pass
            results = await session.request(partial(nodes._found, "fenced"), session.number)
            assert isinstance(results[0], Exception), "nothing is made beside a controller's epoch"
            assert await session.get("/brokers/state") is None

    run(story())


@pytest.mark.parametrize(("theirs", "ours"), [("printed", "fenced"), ("fenced", "printed")])
def test_a_tree_is_of_one_variant(zookeeper, theirs, ours):
    async def story():
        async with connected(zookeeper, variant=theirs) as (session, _writer, _reader):
            async with connected(zookeeper, variant=theirs):
                pass
            said = f"a cluster's of ackproof.coordination.variant={theirs} (by /brokers/state)"
            with pytest.raises(nodes.ForeignTree, match=re.escape(said)):
                async with connected(zookeeper, variant=ours):
                    pass
            await session.put("/brokers/state", b"[]", session.number)
            with pytest.raises(nodes.ForeignTree, match="its kind of coordination is unknown"):
                async with connected(zookeeper, variant=ours):
                    pass

    run(story())


# --- brokers that are removed ---------------------------------------------------------------------


def orders_of(writer, reader):
    return Elections(reader, writer, Commands(reader, writer), Admin(fenced=True, queue_max=100))


def test_a_broker_that_will_not_come_back_leaves_no_queue(zookeeper):
    async def story():
        async with connected(zookeeper) as (session, writer, reader):
            orders = orders_of(writer, reader)
            outcome = await orders.remove_broker(TWO)
            assert outcome.error is ErrorCode.broker_id_not_registered
            await session.ensure(queue(ONE))
            await session.ensure(queue(TWO))
            assert await wrote(writer, start(TWO), start(TWO)) is DONE
            assert await reader.depths() == {ONE: 0, TWO: 2}
            assert (await orders.remove_broker(TWO)).error is ErrorCode.none
            assert await reader.depths() == {ONE: 0}
            assert await reader.live() == frozenset()
            assert await wrote(writer, start(TWO)) is REFUSED, "no request is added any more"

    run(story())


def test_a_broker_that_runs_is_not_removed(zookeeper):
    async def story():
        async with connected(zookeeper) as (session, writer, reader):
            await session.ensure(queue(TWO))
            await session.ensure(znodes.broker_id(TWO))
            outcome = await orders_of(writer, reader).remove_broker(TWO)
            assert outcome.error is ErrorCode.invalid_request
            assert "broker 2 is running" in outcome.text
            assert await wrote(writer, RemoveBroker(broker=TWO)) is REFUSED, "in any order"
            assert await reader.depths() == {TWO: 0}

    run(story())


@pytest.mark.parametrize(
    "held",
    [
        (assigned(REPLICAS, ONE, TWO),),
        (assigned(REPLICAS, ONE), assigned(REASSIGNED, TWO)),
        (
            assigned(REPLICAS, ONE),
            PutAssigned(node=REASSIGNED, replicas=(ONE,), removing=(TWO,), expected=ABSENT),
        ),
    ],
    ids=["a replica", "one that is coming", "one that is going"],
)
def test_a_broker_with_replicas_is_not_removed(zookeeper, held):
    """They could be neither moved away nor deleted."""

    async def story():
        async with connected(zookeeper) as (session, writer, reader):
            await session.ensure(queue(TWO))
            assert await wrote(writer, CreateTopic(topic="t"), *held) is DONE
            outcome = await orders_of(writer, reader).remove_broker(TWO)
            assert outcome.error is ErrorCode.invalid_request
            assert "broker 2 has replicas of t-0" in outcome.text
            assert await reader.depths() == {TWO: 0}

    run(story())


def test_recreated_queue_is_read_again(zookeeper):
    """The names of its entries begin at 0 again; what was read by these names is another's."""

    async def story():
        async with connected(zookeeper) as (session, writer, reader):
            await session.ensure(queue(TWO))
            assert await wrote(writer, start(TWO)) is DONE
            (before,) = await reader.queue(TWO)
            assert await wrote(writer, RemoveBroker(broker=TWO)) is DONE
            await session.ensure(queue(TWO))
            close = StateChangeRequest(
                change=Change.CLOSE_REPLICA, partition=TP, leader=ONE, epoch=EPOCH
            )
            assert await wrote(writer, Enqueue(broker=TWO, request=close)) is DONE
            (after,) = await reader.queue(TWO)
            assert after.name == before.name
            assert after.request == close

    run(story())
