"""The controller's calls lie on the wire as Kafka's schemas say: kio has none to compare with."""

import uuid

from ackproof.broker.controller.requests import LEADER_AND_ISR_FULL
from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, ZkVersion
from ackproof.broker.wire.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ackproof.broker.wire.writer import FlexibleWriter


def test_leader_and_isr_bytes_are_kafkas():
    request = LeaderAndIsrRequest(
        controller_id=BrokerId(1),
        controller_epoch=ControllerEpoch(2),
        broker_epoch=3,
        type_=LEADER_AND_ISR_FULL,
        topic_states=(
            LeaderAndIsrTopicState(
                topic_name="t",
                topic_id=uuid.UUID(int=4),
                partition_states=(
                    LeaderAndIsrPartitionState(
                        partition_index=5,
                        controller_epoch=ControllerEpoch(6),
                        leader=BrokerId(7),
                        leader_epoch=LeaderEpoch(8),
                        isr=(BrokerId(7),),
                        zk_version=ZkVersion(9),
                        replicas=(BrokerId(7), BrokerId(10)),
                        is_new=True,
                    ),
                ),
            ),
        ),
        live_leaders=(LeaderAndIsrLiveLeader(broker_id=BrokerId(7), host_name="h", port=9092),),
    )
    writer = FlexibleWriter()
    request.write(writer, request.version)
    payload = writer.payload()

    def i32(*values):
        return b"".join(value.to_bytes(4, "big") for value in values)

    partition = i32(5, 6, 7, 8) + b"\x02" + i32(7) + i32(9) + b"\x03" + i32(7, 10)
    partition += b"\x01\x01" + b"\x01" + b"\x00"
    topic = b"\x02t" + bytes(15) + b"\x04" + b"\x02" + partition + b"\x00"
    leader = i32(7) + b"\x02h" + i32(9092) + b"\x00"
    expected = i32(1, 2) + (3).to_bytes(8, "big") + b"\x02" + b"\x02" + topic
    assert payload == expected + b"\x02" + leader + b"\x00"
