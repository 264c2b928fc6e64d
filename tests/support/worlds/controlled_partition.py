"""A controller's state of one partition, ``t-0``, built by hand."""

import uuid
from collections.abc import Collection

from ackproof.broker.controller import events
from ackproof.broker.controller.cluster import (
    BrokerInfo,
    Endpoint,
    LiveBroker,
    PartitionState,
    ReplicaAssignment,
    TopicAssignment,
)
from ackproof.broker.controller.context import Context
from ackproof.broker.controller.controller import Controller
from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition, ZkVersion

TP = TopicPartition("t", 0)
ENDPOINT = Endpoint(listener="PLAINTEXT", host="h", port=1, security_protocol="PLAINTEXT")


def assigned(brokers: Collection[int]) -> Context:
    """To these, none of which is live; there is no leader yet."""
    made = Context(ControllerEpoch(1), waits_for_isr=True)
    replicas = ReplicaAssignment(replicas=tuple(map(BrokerId, brokers)))
    made.topics[TP.topic] = TopicAssignment(topic_id=None, partitions={TP.partition: replicas})
    return made


def comes(context: Context, broker: int, epoch: int) -> None:
    """It has registered."""
    info = BrokerInfo(broker_id=BrokerId(broker), endpoints=(ENDPOINT,))
    context.live[BrokerId(broker)] = LiveBroker(info=info, epoch=epoch)


def led(isr: Collection[int], *, live: Collection[int], stopping: Collection[int] = ()) -> Context:
    """Return the context with the partition led by 1, with the replicas 1, 2 and 3."""
    made = assigned((1, 2, 3))
    for broker in live:
        comes(made, broker, epoch=1)
    made.stopping = set(map(BrokerId, stopping))
    made.states[TP] = led_by_1(isr)
    return made


def led_by_1(isr: Collection[int]) -> PartitionState:
    """Return the state as the first controller wrote it."""
    return PartitionState(
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(0),
        isr=tuple(map(BrokerId, isr)),
        controller_epoch=ControllerEpoch(1),
        zk_version=ZkVersion(0),
        mzxid=5,
    )


def in_office(
    controller: int,
    replicas: Collection[int],
    *,
    live: Collection[int],
    isr: Collection[int],
    partitions: int = 1,
) -> Controller:
    """One that was just elected: of t, all of whose partitions are led by 1."""
    state = led_by_1(isr)
    each = ReplicaAssignment(replicas=tuple(map(BrokerId, replicas)))
    numbers = range(partitions)
    topic = TopicAssignment(topic_id=uuid.UUID(int=1), partitions=dict.fromkeys(numbers, each))
    infos = [BrokerInfo(broker_id=BrokerId(broker), endpoints=(ENDPOINT,)) for broker in live]
    made = Controller(BrokerId(controller))
    made.step(
        events.Elected(
            epoch=ControllerEpoch(2),
            live={info.broker_id: LiveBroker(info=info, epoch=1) for info in infos},
            topics={TP.topic: topic},
            states={TopicPartition(TP.topic, number): state for number in numbers},
            unclean=frozenset(),
            waits_for_isr=True,
        )
    )
    return made
