"""What a controller knows of one partition, ``t-0``, by hand."""

from collections.abc import Collection

from broker.controller.cluster import (
    BrokerInfo,
    Endpoint,
    LiveBroker,
    PartitionState,
    ReplicaAssignment,
    TopicAssignment,
)
from broker.controller.context import Context
from broker.types import BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition, ZkVersion

TP = TopicPartition("t", 0)
ENDPOINT = Endpoint(listener="PLAINTEXT", host="h", port=1, security_protocol="PLAINTEXT")


def assigned(brokers: Collection[int]) -> Context:
    """To these, none of which is live; nobody leads yet."""
    made = Context(ControllerEpoch(1), waits_for_isr=True)
    replicas = ReplicaAssignment(replicas=tuple(map(BrokerId, brokers)))
    made.topics[TP.topic] = TopicAssignment(topic_id=None, partitions={TP.partition: replicas})
    return made


def comes(context: Context, broker: int, epoch: int) -> None:
    """It has registered."""
    info = BrokerInfo(broker_id=BrokerId(broker), endpoints=(ENDPOINT,))
    context.live[BrokerId(broker)] = LiveBroker(info=info, epoch=epoch)


def led(isr: Collection[int], *, live: Collection[int], stopping: Collection[int] = ()) -> Context:
    """By 1, of 1, 2 and 3."""
    made = assigned((1, 2, 3))
    for broker in live:
        comes(made, broker, epoch=1)
    made.stopping = set(map(BrokerId, stopping))
    made.states[TP] = PartitionState(
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(0),
        isr=tuple(map(BrokerId, isr)),
        controller_epoch=ControllerEpoch(1),
        zk_version=ZkVersion(0),
        mzxid=5,
    )
    return made
