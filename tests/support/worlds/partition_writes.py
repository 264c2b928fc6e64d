"""Short forms of the writes of leaders and controllers about one partition."""

from ackproof.broker.controller.events import StateWrite
from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition, ZkVersion

TP = TopicPartition("orders", 0)


def write(epoch=0, expected=None):
    return StateWrite(
        partition=TP,
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(epoch),
        isr=(BrokerId(1), BrokerId(2)),
        controller_epoch=ControllerEpoch(1),
        expected=None if expected is None else ZkVersion(expected),
        broker_epochs={BrokerId(1): 1, BrokerId(2): 2},
    )


async def isr(zk, version, isr=(1,)):
    return await zk.write_isr(
        TP,
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(0),
        controller_epoch=ControllerEpoch(1),
        isr=[BrokerId(member) for member in isr],
        zk_version=ZkVersion(version),
    )
