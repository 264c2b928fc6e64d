"""Requests of controllers: what a former one says, and what a new one says first."""

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition, ZkVersion
from ackproof.broker.wire.messages.controlled_shutdown import ControlledShutdownRequest
from ackproof.broker.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ackproof.broker.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from ackproof.broker.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)
from simulation.machines.node import PORT, broker_name
from tests.support.worlds.wire_cluster import WireCluster, errors_in, simulated

pytestmark = pytest.mark.simulation

PLAINTEXT = 0


class Controller:
    """A client that says it is the controller, with these epochs."""

    def __init__(self, controller: int, epoch: int, broker_epoch: int) -> None:
        self._said = {
            "controller_id": BrokerId(controller),
            "controller_epoch": ControllerEpoch(epoch),
            "broker_epoch": broker_epoch,
        }

    def deposes(self, tp: TopicPartition, leader_epoch: int) -> LeaderAndIsrRequest:
        """Say that the partition has no leader."""
        replicas = (BrokerId(1), BrokerId(2), BrokerId(3))
        state = LeaderAndIsrPartitionState(
            partition_index=tp.partition,
            controller_epoch=self._said["controller_epoch"],
            leader=BrokerId(-1),
            leader_epoch=LeaderEpoch(leader_epoch),
            isr=replicas,
            zk_version=ZkVersion(0),
            replicas=replicas,
        )
        topic = LeaderAndIsrTopicState(
            topic_name=tp.topic, topic_id=None, partition_states=(state,)
        )
        return LeaderAndIsrRequest(**self._said, topic_states=(topic,), live_leaders=())

    def deletes(self, tp: TopicPartition, leader_epoch: int) -> StopReplicaRequest:
        """Say that the replica must be deleted."""
        state = StopReplicaPartitionState(
            partition_index=tp.partition,
            leader_epoch=LeaderEpoch(leader_epoch),
            delete_partition=True,
        )
        topic = StopReplicaTopicState(topic_name=tp.topic, partition_states=(state,))
        return StopReplicaRequest(**self._said, topic_states=(topic,))

    def shows(self, *brokers: UpdateMetadataBroker) -> UpdateMetadataRequest:
        """Say which brokers live, and that there is no topic."""
        return UpdateMetadataRequest(**self._said, topic_states=(), live_brokers=brokers)


@simulated
async def test_controlled_shutdown_of_a_former_life_is_refused(cluster: WireCluster) -> None:
    controller = await cluster.controller()
    for broker in cluster.brokers:
        former = cluster.broker_epoch(broker) - 1
        request = ControlledShutdownRequest(broker_id=BrokerId(broker), broker_epoch=former)
        answer = await cluster.ask(controller, request)
        assert answer.error_code is ErrorCode.stale_broker_epoch


@simulated
async def test_request_of_a_former_controller_or_to_a_former_life_is_refused(
    cluster: WireCluster, topic: str
) -> None:
    tp = await cluster.create(topic)
    part, controller = await cluster.part(tp), await cluster.controller()
    epoch, broker_epoch = cluster.controller_epoch(), cluster.broker_epoch(part.leader_id)
    for said, expected in (
        (Controller(controller, epoch - 1, broker_epoch), ErrorCode.stale_controller_epoch),
        (Controller(controller, epoch, broker_epoch - 1), ErrorCode.stale_broker_epoch),
    ):
        for request in (
            said.deposes(tp, part.leader_epoch + 1),
            said.deletes(tp, part.leader_epoch + 1),
            said.shows(),
        ):
            answer = await cluster.ask(part.leader_id, request)
            assert answer.error_code is expected, request
    assert (await cluster.append(tp)).base_offset == 0


@simulated
async def test_request_of_a_former_leader_epoch_is_refused(
    cluster: WireCluster, topic: str
) -> None:
    tp = await cluster.create(topic)
    cluster.expire(await cluster.leader(tp))

    async def leads_anew() -> bool:
        return bool((await cluster.part(tp)).leader_epoch > 0)

    await cluster.until("another one leads", leads_anew)
    await cluster.settled()
    part, controller = await cluster.part(tp), await cluster.controller()
    said = Controller(controller, cluster.controller_epoch(), cluster.broker_epoch(part.leader_id))
    for request, expected in (
        (said.deposes(tp, part.leader_epoch - 1), ErrorCode.stale_controller_epoch),
        (said.deletes(tp, part.leader_epoch - 1), ErrorCode.fenced_leader_epoch),
    ):
        assert errors_in(await cluster.ask(part.leader_id, request)) == {expected}
    assert (await cluster.append(tp)).base_offset == 0


@simulated
async def test_new_controller_that_names_no_topic_leaves_none_in_the_metadata(
    cluster: WireCluster, topic: str
) -> None:
    """The broker obeys no other controller afterwards: this test is the last of its cluster."""
    await cluster.create(topic)
    broker = 1
    endpoint = UpdateMetadataEndpoint(
        port=PORT, host=broker_name(broker), listener="PLAINTEXT", security_protocol=PLAINTEXT
    )
    alive = UpdateMetadataBroker(id=BrokerId(broker), endpoints=(endpoint,), rack=None)
    epochs = cluster.controller_epoch() + 1, cluster.broker_epoch(broker)
    said = Controller(await cluster.controller(), *epochs)
    assert (await cluster.ask(broker, said.shows(alive))).error_code is ErrorCode.none
    assert not (await cluster.metadata(broker)).topics
