"""The incarnation of each ISR member that a leader writes into ZooKeeper."""

import json
from contextlib import asynccontextmanager

import pytest

from ackproof.broker.controller.cluster import BrokerInfo, Endpoint
from ackproof.broker.controller.events import StateWrite
from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.controller_zk import ControllerZk
from ackproof.broker.server.zk.kafka_zk import IsrWriteOutcome
from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition, ZkVersion
from tests.support.fakes.instant_zookeeper import InstantZookeeper
from tests.support.worlds.controller_cluster import run, until

TP = TopicPartition("orders", 0)
PATH = znodes.partition_state(TP)
WRITTEN, CONFLICT, UNKNOWN = IsrWriteOutcome


async def register(zk, broker):
    endpoint = Endpoint(host="h", port=9000 + broker)
    return await zk.register_broker(BrokerInfo(broker_id=BrokerId(broker), endpoints=(endpoint,)))


async def bounced(zk, broker):
    former = zk.session.number
    zk.expire()
    zk.renew()
    await until(lambda: zk.session.number > former)
    return await register(zk, broker)


@asynccontextmanager
async def partition():
    """ZooKeeper, the clients of brokers 1, 2 and 3 by id, and their first broker epochs. The
    partition is led by 1 in epoch 2, with 1 and 2 in sync, and its state is at version 0."""
    zookeeper = InstantZookeeper()
    zks = {broker: zookeeper.client(broker) for broker in (1, 2, 3)}
    for zk in zks.values():
        await zk.start()
    epochs = {broker: await register(zk, broker) for broker, zk in zks.items()}
    orders = ControllerZk(zks[1])
    tenure = await orders.elect(BrokerId(1))
    await zks[1].create_topic("orders", {0: [1, 2, 3]}, {})
    state = StateWrite(
        partition=TP,
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(2),
        isr=(1, 2),
        controller_epoch=ControllerEpoch(1),
        expected=None,
        broker_epochs={1: epochs[1], 2: epochs[2]},
    )
    assert TP in (await orders.write_states(tenure, [state])).written
    try:
        yield zookeeper, zks, epochs
    finally:
        for zk in zks.values():
            await zk.close()


async def isr(zk, version, members, *, again=False, leader_epoch=2):
    result = await zk.write_isr(
        TP,
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(leader_epoch),
        controller_epoch=ControllerEpoch(1),
        isr=members,
        zk_version=ZkVersion(version),
        again=again,
    )
    return result.outcome


async def trusted(zk):
    state = (await zk.partition_states([TP]))[TP]
    return {member: state.trusted_up_to(member) for member in state.isr}


def test_member_that_stays_in_the_isr_keeps_its_trusted_life():
    async def main():
        async with partition() as (_, zks, epochs):
            assert await isr(zks[1], 0, (1, 2, 3)) is WRITTEN
            assert await bounced(zks[2], 2) > epochs[3]
            assert await isr(zks[1], 1, (1, 2)) is WRITTEN
            assert await trusted(zks[1]) == {1: epochs[1], 2: epochs[2]}

    run(main())


def test_broker_that_joins_the_isr_is_trusted_in_its_present_life():
    async def main():
        async with partition() as (_, zks, epochs):
            assert await isr(zks[1], 0, (1,)) is WRITTEN
            now = await bounced(zks[2], 2)
            assert await isr(zks[1], 1, (1, 2, 3)) is WRITTEN
            assert await trusted(zks[1]) == {1: epochs[1], 2: now, 3: epochs[3]}

    run(main())


def test_unregistered_broker_that_joins_is_trusted_in_no_life():
    async def main():
        async with partition() as (_, zks, epochs):
            zks[3].expire()
            assert await isr(zks[1], 0, (1, 2, 3)) is WRITTEN
            assert await trusted(zks[1]) == {1: epochs[1], 2: epochs[2], 3: 0}

    run(main())


def test_broker_that_joins_at_a_second_attempt_is_trusted_in_no_life():
    """Test a join that another incarnation than the registered one may have caused by its
    fetches."""

    async def main():
        async with partition() as (_, zks, epochs):
            assert await isr(zks[1], 0, (1, 2, 3), again=True) is WRITTEN
            assert await trusted(zks[1]) == {1: epochs[1], 2: epochs[2], 3: 0}

    run(main())


def test_second_attempt_of_a_successful_write_changes_nothing():
    async def main():
        async with partition() as (_, zks, epochs):
            assert await isr(zks[1], 0, (1, 2, 3)) is WRITTEN
            assert await isr(zks[1], 0, (1, 2, 3), again=True) is WRITTEN
            assert await trusted(zks[1]) == epochs

    run(main())


@pytest.mark.parametrize(
    ("version", "words"),
    [(0, {"leader_epoch": 1}), (0, {"members": (2, 1)}), (0, {}), (7, {})],
)
def test_the_words_of_another_write_are_a_conflict(version, words):
    async def main():
        async with partition() as (_, zks, _):
            assert await isr(zks[1], 0, (1,)) is WRITTEN
            assert await isr(zks[1], 1, (1, 2)) is WRITTEN
            asked = {"members": (1, 2), "leader_epoch": 2} | words
            assert await isr(zks[1], version, **asked) is CONFLICT

    run(main())


def test_concurrent_write_is_not_overwritten():
    async def main():
        async with partition() as (zookeeper, zks, _):
            theirs = zookeeper.node(PATH).data
            look = zks[1].client.get_async

            def overtaken(path, watch=None):
                found = look(path, watch)
                if path == PATH and zookeeper.node(PATH).version == 0:
                    zookeeper.set(PATH, theirs)
                return found

            zks[1].client.get_async = overtaken
            assert await isr(zks[1], 0, (1,)) is CONFLICT
            assert zookeeper.node(PATH).data == theirs

    run(main())


def test_a_session_that_ended_leaves_the_outcome_unknown():
    async def main():
        async with partition() as (_, zks, _):
            zks[1].expire()
            assert await isr(zks[1], 0, (1,)) is UNKNOWN

    run(main())


@pytest.mark.parametrize("gone", [True, False])
def test_a_state_that_is_gone_or_nonsense_is_a_conflict(gone):
    async def main():
        async with partition() as (zookeeper, zks, _):
            if gone:
                zookeeper.delete(PATH)
            else:
                zookeeper.set(PATH, b"nonsense")
            assert await isr(zks[1], 1, (1,)) is CONFLICT

    run(main())


@pytest.mark.parametrize("epochs", [[1], [1, 2, 3], [1, "2"], [1, -1], [1, 2**63], [1, True]])
def test_broker_epochs_are_one_for_each_member(epochs):
    state = {"leader": 1, "leader_epoch": 2, "isr": [1, 2], "controller_epoch": 3}

    def decoded(found):
        data = json.dumps({**state, "isr_broker_epochs": found}).encode()
        return znodes.decode_state(TP, data, 0, mzxid=9).broker_epochs

    assert decoded([2**63 - 1, 0]) == {1: 2**63 - 1, 2: 0}
    assert decoded([]) == {}
    with pytest.raises(znodes.MalformedNode):
        decoded(epochs)
