"""ZooKeeper carried out what was asked, and the answer got lost: it is asked once more, and finds
its own first attempt. And what is asked in the name of an earlier version, election or session."""

import asyncio
import contextlib
import dataclasses
from contextlib import asynccontextmanager

import pytest
from kazoo.exceptions import KazooException

from ackproof.broker.config import BrokerConfig
from ackproof.broker.controller.events import StateWrite
from ackproof.broker.server.controller.control_fence import ControlFence
from ackproof.broker.server.controller.controller_coordinator import Registration
from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.controller_zk import ControllerMoved, ControllerZk
from ackproof.broker.server.zk.kafka_zk import ConfigZk, IsrWriteOutcome, KafkaZk, of_topic
from ackproof.broker.server.zk.session import SessionExpired
from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition, ZkVersion
from tests.support.worlds.controller_cluster import connected, run

pytestmark = pytest.mark.integration

TP = TopicPartition("orders", 0)


class Forgetful(KafkaZk):
    """Every request is carried out twice, and the first answer never heard, while ``lossy``."""

    lossy = False

    async def start(self):
        await super().start()
        once = self.session.request

        async def twice(submit, session=None):
            if self.lossy:
                with contextlib.suppress(KazooException):
                    await once(submit, session)
            return await once(submit, session)

        self.session.request = twice

    async def close(self):
        self.lossy = False
        await super().close()


def write(isr=(1, 2), epoch=0, expected=None, controller_epoch=1):
    return StateWrite(
        partition=TP,
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(epoch),
        isr=isr,
        controller_epoch=ControllerEpoch(controller_epoch),
        expected=None if expected is None else ZkVersion(expected),
        broker_epochs=dict.fromkeys(isr, 0),
    )


def test_write_with_a_lost_answer_has_succeeded(zookeeper):
    async def main():
        async with connected(zookeeper, Forgetful, KafkaZk) as (zk, other):
            zk.lossy = True
            orders = ControllerZk(zk)
            tenure = await orders.elect(BrokerId(1))
            assert (tenure.epoch, tenure.epoch_version) == (1, 1)
            await zk.create_topic("orders", {0: [1, 2]}, {"retention.ms": "1"})
            assert await ConfigZk(other).read(of_topic("orders")) == {"retention.ms": "1"}
            for expected, epoch in ((None, 0), (0, 1), (1, 2)):
                outcome = await orders.write_states(tenure, [write(epoch=epoch, expected=expected)])
                assert outcome.written == {TP: epoch}
                assert outcome.conflicts == {}
            zk.lossy = False
            await isr(zk, 2, (1,))
            zk.lossy = True
            assert (await isr(zk, 3, (1, 2))).zk_version == 4

    run(main())


async def isr(zk, version, members):
    return await zk.write_isr(
        TP,
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(2),
        controller_epoch=ControllerEpoch(1),
        isr=members,
        zk_version=ZkVersion(version),
    )


@asynccontextmanager
async def partition(zookeeper):
    """One partition, its controller and another client."""
    async with connected(zookeeper, KafkaZk, KafkaZk) as (zk, other):
        orders = ControllerZk(zk)
        tenure = await orders.elect(BrokerId(1))
        await zk.create_topic("orders", {0: [1, 2]}, {})
        await orders.write_states(tenure, [write(epoch=2)])
        yield zk, other, orders, tenure


def test_same_isr_at_a_later_version_is_a_foreign_write(zookeeper):
    """Ours came to nothing, and others have written since, who may know better."""

    async def main():
        async with partition(zookeeper) as (zk, _, _, _):
            for version, members in enumerate([(1,), (1, 2), (1,)]):
                assert (await isr(zk, version, members)).outcome is IsrWriteOutcome.WRITTEN
            assert (await isr(zk, 0, (1,))).outcome is IsrWriteOutcome.CONFLICT

    run(main())


def test_isr_write_in_an_expired_session_has_an_unknown_outcome(zookeeper):
    async def main():
        async with partition(zookeeper) as (zk, _, _, _):
            zk.session._fenced_number += 1  # as kazoo's thread does, before the loop hears of it
            assert (await isr(zk, 0, (1,))).outcome is IsrWriteOutcome.UNKNOWN

    run(main())


def test_a_state_that_a_leader_wrote_meanwhile_is_read_again(zookeeper):
    async def main():
        async with partition(zookeeper) as (zk, other, orders, tenure):
            await isr(other, 0, (1,))
            outcome = await orders.write_states(tenure, [write(epoch=3, expected=0)])
            assert outcome.written == {}
            assert outcome.conflicts[TP].isr == (1,)
            stored = (await zk.partition_states([TP]))[TP]
            assert (stored.leader_epoch, stored.zk_version) == (2, 1)

    run(main())


def test_a_state_is_created_once(zookeeper):
    async def main():
        async with partition(zookeeper) as (_, _, orders, tenure):
            outcome = await orders.write_states(tenure, [write(isr=(2,), epoch=0)])
            assert outcome.conflicts[TP].isr == (1, 2)

    run(main())


def test_a_deposed_controller_changes_nothing_by_any_of_its_writes(zookeeper):
    async def main():
        async with partition(zookeeper) as (zk, other, orders, tenure):
            await zk.session.request(lambda c: c.delete_async(znodes.CONTROLLER))
            assert (await ControllerZk(other).elect(BrokerId(2))).epoch == 2
            assignment = (await zk.topic_assignments(["orders"]))["orders"]
            for attempt in (
                orders.write_states(tenure, [write(epoch=3, expected=0)]),
                orders.write_assignment(tenure, "orders", assignment),
                orders.delete(tenure, znodes.topic_config("orders")),
                orders.delete_topic(tenure, "orders", None),
            ):
                with pytest.raises(ControllerMoved, match="controller epoch 1 is over"):
                    await attempt
            late = dataclasses.replace(tenure, session=zk.session.number + 1)
            with pytest.raises(SessionExpired):
                await orders.delete(late, znodes.topic("orders"))
            assert (await zk.partition_states([TP]))[TP].zk_version == 0

    run(main())


class Overtaken(ControllerZk):
    """Another is elected, and is gone again, between the look at the epoch and the election."""

    async def _epoch(self, session):
        found = await super()._epoch(session)
        await self.meanwhile()
        return found


def test_no_two_elections_give_the_same_epoch(zookeeper):
    async def main():
        async with connected(zookeeper, KafkaZk, KafkaZk) as (zk, other):

            async def elected_and_gone():
                tenure = await ControllerZk(other).elect(BrokerId(2))
                assert tenure.epoch == 1
                await other.session.request(lambda c: c.delete_async(znodes.CONTROLLER))

            orders = Overtaken(zk)
            orders.meanwhile = elected_and_gone
            assert await orders.elect(BrokerId(1)) is None
            assert (await ControllerZk(zk).elect(BrokerId(1))).epoch == 2

    run(main())


def test_election_by_another_broker_is_not_won(zookeeper):
    async def main():
        async with connected(zookeeper, KafkaZk, KafkaZk) as (zk, other):
            orders = Overtaken(zk)
            orders.meanwhile = lambda: ControllerZk(other).elect(BrokerId(2))
            assert await orders.elect(BrokerId(1)) is None

    run(main())


@pytest.mark.parametrize("others", [{}, {TopicPartition("orders", 2): (3,)}])
def test_an_order_that_grew_while_it_was_carried_out_stays(zookeeper, others):
    async def main():
        async with connected(zookeeper, KafkaZk, KafkaZk) as (zk, other):
            orders = ControllerZk(zk)
            tenure = await orders.elect(BrokerId(1))
            path = znodes.REASSIGN_PARTITIONS
            more = TopicPartition("orders", 1)
            await zk.session.request(
                lambda c: c.create_async(path, znodes.encode_reassignment({TP: (1,), **others}))
            )
            read = zk.session.get
            happened = []

            async def get(asked, watch=None):
                node = await read(asked, watch)
                if asked == path and not happened:
                    happened.append(True)
                    grown = znodes.encode_reassignment({TP: (1,), more: (2,), **others})
                    await other.session.set(path, grown, -1, other.session.number)
                return node

            zk.session.get = get
            await orders.drop_reassignments(tenure, [TP])
            data, _ = await other.session.get(path)
            assert znodes.decode_reassignment(data) == {more: (2,), **others}

    run(main())


# --- registration -------------------------------------------------------------------------------


def registration(zk, fence):
    config = BrokerConfig(broker_id=1, zookeeper_connect="x:1", listeners="PLAINTEXT://h:9092")
    return Registration(config, zk, fence)


def test_a_broker_is_registered_in_its_present_session_or_not_at_all(way, zookeeper):
    async def main():
        async with connected(way, KafkaZk, session_ms=1_500) as (zk,):
            fence = ControlFence()
            made = registration(zk, fence)
            renewing = asyncio.create_task(made.renew_forever())
            await made.register()
            first = fence.broker_epoch
            assert first == (await zk.live_brokers())[1].epoch
            await made.registered()
            expired = asyncio.Event()
            zk.on_session_expired(expired.set)
            way.freeze()
            async with connected(zookeeper, KafkaZk) as (other,):
                while await other.live_brokers():
                    await asyncio.sleep(0.05)
                way.thaw()
                await expired.wait()
                assert not made._registered.is_set(), "it must not be elected as one that is dead"
                await made.registered()
                assert fence.broker_epoch > first
                assert fence.broker_epoch == (await other.live_brokers())[1].epoch
            renewing.cancel()

    run(main())


class Slow(KafkaZk):
    """Registers, and its session ends before it hears of it, once."""

    async def register_broker(self, info):
        epoch = await super().register_broker(info)
        if not self.session.number:
            self.session.number += 1
            for callback in (*self.session.expired_callbacks, *self.session.established_callbacks):
                callback()
            self.session._fenced_number += 1
            return -epoch
        return epoch


def test_a_registration_that_ended_with_its_session_does_not_count(zookeeper):
    async def main():
        async with connected(zookeeper, Slow) as (zk,):
            fence = ControlFence()
            await registration(zk, fence).register()
            assert fence.broker_epoch > 0

    run(main())
