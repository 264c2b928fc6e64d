"""The inter-broker entities survive the wire, and lie on it as Kafka's schemas say."""

import dataclasses
import io
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from broker.types import BrokerId, ControllerEpoch, LeaderEpoch, ZkVersion
from broker.wire import interbroker

BY_KAFKA_TYPE = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "bool": st.booleans(),
    "string": st.text(max_size=20),
    "uuid": st.uuids().filter(lambda u: u.int != 0) | st.none(),
    "error_code": st.sampled_from(ErrorCode),
}

MESSAGES = [
    interbroker.LeaderAndIsrRequest,
    interbroker.LeaderAndIsrResponse,
    interbroker.StopReplicaRequest,
    interbroker.StopReplicaResponse,
    interbroker.UpdateMetadataRequest,
    interbroker.UpdateMetadataResponse,
    interbroker.ControlledShutdownRequest,
    interbroker.ControlledShutdownResponse,
]


def entities(entity_type):
    """Any value of an entity type, from the types its fields have on the wire."""
    parts = {}
    for spec in dataclasses.fields(entity_type):
        kafka_type = spec.metadata.get("kafka_type")
        nested = getattr(spec.type, "__args__", (None,))[0]
        element = BY_KAFKA_TYPE[kafka_type] if kafka_type else entities(nested)
        is_array = getattr(spec.type, "__origin__", None) is tuple
        parts[spec.name] = st.lists(element, max_size=3).map(tuple) if is_array else element
    return st.builds(entity_type, **parts)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: m.__name__)
def test_round_trip(message):
    @given(entities(message))
    def survives(entity):
        buffer = io.BytesIO()
        entity_writer(message)(buffer, entity)
        wire = buffer.getvalue()
        assert entity_reader(message)(wire, 0) == (entity, len(wire))

    survives()


def test_leader_and_isr_bytes_are_kafkas():
    request = interbroker.LeaderAndIsrRequest(
        controller_id=BrokerId(1),
        controller_epoch=ControllerEpoch(2),
        broker_epoch=3,
        type_=interbroker.LEADER_AND_ISR_FULL,
        topic_states=(
            interbroker.LeaderAndIsrTopicState(
                topic_name="t",
                topic_id=uuid.UUID(int=4),
                partition_states=(
                    interbroker.LeaderAndIsrPartitionState(
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
        live_leaders=(
            interbroker.LeaderAndIsrLiveLeader(broker_id=BrokerId(7), host_name="h", port=9092),
        ),
    )
    buffer = io.BytesIO()
    entity_writer(interbroker.LeaderAndIsrRequest)(buffer, request)

    def i32(*values):
        return b"".join(value.to_bytes(4, "big") for value in values)

    partition = i32(5, 6, 7, 8) + b"\x02" + i32(7) + i32(9) + b"\x03" + i32(7, 10)
    partition += b"\x01\x01" + b"\x01" + b"\x00"
    topic = b"\x02t" + bytes(15) + b"\x04" + b"\x02" + partition + b"\x00"
    leader = i32(7) + b"\x02h" + i32(9092) + b"\x00"
    expected = i32(1, 2) + (3).to_bytes(8, "big") + b"\x02" + b"\x02" + topic
    assert buffer.getvalue() == expected + b"\x02" + leader + b"\x00"
