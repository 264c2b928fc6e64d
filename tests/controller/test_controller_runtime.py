"""ControllerRuntime against a real ZooKeeper and brokers that listen."""

import asyncio
import json
import logging

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.controller.cluster import BrokerInfo, Endpoint, ReplicaAssignment
from ackproof.broker.controller.events import StateWrite
from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.controller_zk import ControllerMoved, ControllerZk
from ackproof.broker.server.zk.kafka_zk import ConfigZk, of_topic
from ackproof.broker.server.zk.session import SessionExpired
from ackproof.broker.types import NO_LEADER, TopicPartition, ZkVersion
from ackproof.broker.wire.messages.controlled_shutdown import ControlledShutdownRequest
from ackproof.broker.wire.messages.leader_and_isr import LeaderAndIsrRequest
from tests.support.processes.process import free_port
from tests.support.worlds.controller_cluster import SHORT_SESSION_MS, cluster, run, until

pytestmark = pytest.mark.integration

TP = TopicPartition("orders", 0)


def test_election_and_reelection(zookeeper, admin):
    async def main():
        async with cluster(zookeeper, 1, 2) as made:
            assert made.active() == [1]
            data, _ = await asyncio.to_thread(admin.get, "/controller")
            node = json.loads(data)
            assert (node["brokerid"], node["version"]) == (1, 1)
            assert (await asyncio.to_thread(admin.get, "/controller_epoch"))[0] == b"1"
            await made.remove(1)
            await until(lambda: made.active() == [2])
            assert (await asyncio.to_thread(admin.get, "/controller_epoch"))[0] == b"2"
            await made.brokers[2].zk.create_topic("orders", {0: [2]}, {})
            state = await made.state(TP, lambda s: s.leader == 2)
            assert state.controller_epoch == 2

    run(main())


def test_topic_is_created_and_survives_its_leader(zookeeper, admin, caplog):
    caplog.set_level(logging.INFO, logger="state.change.logger")

    def life():
        """Return the controller's log of partition 0, as far as it concerns broker 1."""
        lines = [json.loads(r.message) for r in caplog.records if r.name == "state.change.logger"]
        return [
            (line["event"], line.get("leader"), line.get("leader_epoch"))
            for line in lines
            if line.get("partition") == "orders-0" and line.get("to") in (None, 1)
        ]

    async def main():
        async with cluster(zookeeper, 1, 2, 3) as made:
            await made.brokers[1].zk.create_topic("orders", {0: [2, 3, 1]}, {})
            await until(lambda: all(TP in b.roles for b in made.brokers.values()))
            data, stat = await asyncio.to_thread(
                admin.get, "/brokers/topics/orders/partitions/0/state"
            )
            assert json.loads(data) == {
                "controller_epoch": 1,
                "leader": 2,
                "version": 1,
                "leader_epoch": 0,
                "isr": [2, 3, 1],
                "isr_broker_epochs": [made.brokers[b].epoch for b in (2, 3, 1)],
            }
            assert stat.version == 0
            await made.remove(2)
            state = await made.state(TP, lambda s: s.leader == 3)
            assert (state.isr, state.leader_epoch) == ((3, 1), 1)
            await until(lambda: made.brokers[1].roles[TP].leader == 3)
            first = next(r for r in made.brokers[1].requests if isinstance(r, LeaderAndIsrRequest))
            assert first.broker_epoch == made.brokers[1].epoch
            await until(lambda: ("acknowledged", 3, 1) in life())

    run(main())
    assert life() == [
        ("written", 2, 0),
        ("sent", 2, 0),
        ("acknowledged", 2, 0),
        ("written", 3, 1),
        ("sent", 3, 1),
        ("acknowledged", 3, 1),
    ]


def test_returning_broker_gets_its_partition_back(zookeeper, caplog):
    """The controller logs its failure and its startup as *Failover* prints it."""
    caplog.set_level(logging.INFO, logger="ackproof.broker.server.controller.term")

    async def main():
        async with cluster(zookeeper, 1, 2) as made:
            await made.brokers[1].zk.create_topic("orders", {0: [2]}, {})
            await made.state(TP, lambda s: s.leader == 2)
            await made.remove(2)
            assert (await made.state(TP, lambda s: s.leader == NO_LEADER)).isr == (2,)
            await made.add(2)
            assert (await made.state(TP, lambda s: s.leader == 2)).leader_epoch == 2
            logged = [r.message for r in caplog.records if r.message.startswith("[")]
            listener = "[BrokerChangeListener on Controller 1]: Newly added brokers: "
            assert logged[-4:] == [
                f"{listener}, deleted brokers: 2, all live brokers: 1",
                "[Controller 1]: Broker failure callback for 2",
                f"{listener}2, deleted brokers: , all live brokers: 1,2",
                "[Controller 1]: New broker startup callback for 2",
            ]
            await until(lambda: made.brokers[2].roles.get(TP, None) is not None)

    run(main())


def test_expired_controller_resigns_and_writes_nothing_more(zookeeper, way, caplog):
    caplog.set_level(logging.INFO, logger="ackproof.broker.server.controller.runtime")

    async def main():
        async with cluster(zookeeper) as made:
            await made.add(1, way.connect, SHORT_SESSION_MS)
            await until(lambda: made.active() == [1])
            await made.add(2)
            await made.brokers[2].zk.create_topic("orders", {0: [2, 1]}, {})
            await made.state(TP, lambda s: s.leader == 2)
            old = made.controllers[1]._term.tenure
            way.freeze()
            await until(lambda: 2 in made.active())
            state = await made.state(TP, lambda s: s.isr == (2,), seen_by=2)
            assert state.controller_epoch == 2
            late = StateWrite(
                partition=TP,
                leader=1,
                leader_epoch=9,
                isr=(1,),
                controller_epoch=1,
                expected=state.zk_version,
                broker_epochs={1: 0},
            )
            writing = asyncio.create_task(
                ControllerZk(made.brokers[1].zk).write_states(old, [late])
            )
            way.thaw()
            await until(lambda: made.active() == [2])
            with pytest.raises(SessionExpired):
                await writing
            expired = "[SessionExpirationListener on 1], ZK expired; shut down all controller"
            assert any(expired in record.message for record in caplog.records)
            forged = type(old)(old.epoch, old.epoch_version, made.brokers[2].zk.session.number)
            with pytest.raises(ControllerMoved, match="controller epoch 1 is over"):
                await ControllerZk(made.brokers[2].zk).write_states(forged, [late])
            assert (await made.state(TP, lambda _: True, seen_by=2)).leader == 2
            await made.brokers[1].register()
            await made.remove(2)
            await until(lambda: made.active() == [1])

    run(main())


def test_isr_notification_is_taken_in_and_removed(zookeeper, admin):
    async def main():
        async with cluster(zookeeper, 1, 2) as made:
            zk = made.brokers[1].zk
            await zk.create_topic("orders", {0: [1, 2]}, {})
            state = await made.state(TP, lambda s: s.leader == 1)
            await zk.write_isr(
                TP,
                leader=1,
                leader_epoch=0,
                controller_epoch=1,
                isr=[1],
                zk_version=state.zk_version,
            )
            await zk.notify_isr_change([TP])
            await until(lambda: metadata_isr(made.brokers[2]) == (1,))
            path = "/isr_change_notification"
            while await asyncio.to_thread(admin.get_children, path):
                await asyncio.sleep(0.02)

    run(main())


def metadata_isr(broker):
    """The ISR of the first partition of the latest UpdateMetadata that names one."""
    named = [r for r in broker.requests if getattr(r, "live_brokers", ()) and r.topic_states]
    return named[-1].topic_states[0].partition_states[0].isr if named else ()


def test_controlled_shutdown(zookeeper):
    async def main():
        async with cluster(zookeeper, 1, 2) as made:
            await made.brokers[1].zk.create_topic("orders", {0: [2, 1]}, {})
            await made.state(TP, lambda s: s.leader == 2)
            ask = ControlledShutdownRequest(broker_id=2, broker_epoch=made.brokers[2].epoch)
            refused = await made.controllers[2].controlled_shutdown(ask)
            assert refused.error_code is ErrorCode.not_controller
            answer = await made.controllers[1].controlled_shutdown(ask)
            assert (answer.error_code, answer.remaining_partitions) == (ErrorCode.none, ())
            assert (await made.state(TP, lambda _: True)).leader == 1

    run(main())


def test_orders_of_an_administrator(zookeeper, admin):
    async def order(path, text):
        await asyncio.to_thread(admin.create, path, text)
        while await asyncio.to_thread(admin.exists, path):
            await asyncio.sleep(0.02)

    async def main():
        async with cluster(zookeeper, 1, 2, 3) as made:
            zk = made.brokers[1].zk
            await zk.create_topic("orders", {0: [2, 1]}, {})
            await made.state(TP, lambda s: s.leader == 2)

            await order("/admin/reassign_partitions", b"nonsense")
            move = {
                "version": 1,
                "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2]}],
            }
            await order("/admin/reassign_partitions", json.dumps(move).encode())
            assigned = (await zk.topic_assignments(["orders"]))["orders"].partitions[0]
            assert assigned == ReplicaAssignment(replicas=(1, 2))

            elect = {"version": 1, "partitions": [{"topic": "orders", "partition": 0}]}
            await order("/admin/preferred_replica_election", json.dumps(elect).encode())
            assert (await made.state(TP, lambda _: True)).leader == 1

            await zk.delete_topic("orders")
            while await asyncio.to_thread(admin.exists, "/brokers/topics/orders"):
                await asyncio.sleep(0.02)
            await order("/admin/delete_topics/no-such", b"")
            assert await ConfigZk(zk).read(of_topic("orders")) == {}
            assert made.brokers[1].stopped[TP].delete_partition
            await zk.create_topic("orders", {0: [3]}, {})
            state = await made.state(TP, lambda s: s.leader == 3)
            assert state.zk_version == ZkVersion(0)

    run(main())


def test_unreachable_broker_gets_its_requests_later(zookeeper):
    async def main():
        async with cluster(zookeeper, 1, 2) as made:
            broker = made.brokers[2]
            broker.hang_up()
            await made.brokers[1].zk.create_topic("orders", {0: [1, 2]}, {})
            await until(lambda: TP in made.brokers[1].roles)
            assert TP not in broker.roles
            await broker.listen()
            await until(lambda: TP in broker.roles)

    run(main())


async def bounced(broker):
    """The broker's registration goes and another comes, at another port, between two looks."""
    broker.hang_up()
    broker.port = free_port()
    await broker.listen()
    path = znodes.broker_id(broker.id)
    endpoint = Endpoint(host="127.0.0.1", port=broker.port)
    info = BrokerInfo(broker_id=broker.id, endpoints=(endpoint,))

    def submit(client):
        transaction = client.transaction()
        transaction.delete(path)
        transaction.create(path, znodes.encode_broker(info, 0), ephemeral=True)
        return transaction.commit_async()

    await broker.zk.session.request(submit, broker.zk.session.number)
    return (await broker.zk.live_brokers())[broker.id].epoch


def test_a_bounced_broker_counts_as_failed_and_is_found_at_its_new_address(zookeeper):
    async def main():
        async with cluster(zookeeper, 1, 2) as made:
            stays, moves = made.brokers[1], made.brokers[2]
            await stays.zk.create_topic("orders", {0: [2, 1]}, {})
            await until(lambda: stays.told_of(TP) and moves.told_of(TP))
            moves.requests.clear()
            epoch = await bounced(moves)
            state = await made.state(TP, lambda s: s.leader == 1)
            assert (state.isr, state.leader_epoch) == ((1,), 1)
            await until(lambda: moves.roles[TP].leader == 1)
            assert {request.broker_epoch for request in moves.requests} == {epoch}

            def ports():
                told = [r.live_brokers for r in stays.requests if hasattr(r, "live_brokers")]
                return {b.id: b.endpoints[0].port for b in told[-1]}

            await until(lambda: ports() == {1: stays.port, 2: moves.port})

    run(main())
