"""Readings of a metadata log that begins with a snapshot, as that of an old cluster does."""

import io
import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v13 import response as fetch
from kio.schema.fetch.v13.request import FetchRequest
from kio.schema.fetch_snapshot.v0 import response as snapshot
from kio.schema.fetch_snapshot.v0.request import FetchSnapshotRequest
from kio.schema.types import BrokerId, TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32, i32Timedelta, i64

from ackproof.broker.wire.batch import KeyValue, new_batch, stamped
from ackproof.infra.api.interface import ViewUnavailable
from ackproof.infra.api.metadata import ChangeKind, ClusterChange
from ackproof.infra.systems.kafka.kraft.log import MetadataLog, log_observer
from ackproof.infra.systems.kafka.kraft.metadata import schemas_of
from ackproof.infra.systems.kafka.kraft.records import (
    Partition,
    PartitionChange,
    Record,
    RegisterBroker,
    Topic,
)
from ackproof.infra.systems.kafka.releases import Release
from tests.infra.test_kraft_metadata import ORDERS
from tests.support.builders.metadata_records import encoded
from tests.support.processes.process import until

SCHEMAS = schemas_of(Release(version="4.1.1"))
NO_WAIT = i32Timedelta.parse(timedelta())
LEADER, EPOCH = 7, 3
PIECE = 64
"""The bytes of a snapshot that one answer has."""


def written(offset: int, *records: Record) -> bytes:
    values = [KeyValue(b"", encoded(SCHEMAS, one, "0")) for one in records]
    return bytes(stamped(new_batch(values, 0), offset, EPOCH).raw)


def topic(name: str) -> tuple[Topic, Partition]:
    return Topic(name=name, topic_id=ORDERS), Partition(
        partition_id=0, topic_id=ORDERS, replicas=(1, 2), isr=(1, 2), leader=1, leader_epoch=4,
        partition_epoch=9,
    )  # fmt: skip


class Controller:
    """The active controller of a quorum. Its log begins at 100, with a snapshot up to there."""

    def __init__(self, content: bytes, *batches: bytes, error: ErrorCode = ErrorCode.none) -> None:
        self._content, self._batches, self._error = content, batches, error

    def connect(self, _address: object, _deadline: float) -> socket.socket:
        """Open a connection to it, which a thread serves to its end."""
        client, server = socket.socketpair()
        threading.Thread(target=self._serve, args=(server,), daemon=True).start()
        return client

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            while size := connection.recv(4, socket.MSG_WAITALL):
                asked = connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
                with io.BytesIO() as buffer:
                    self._answer(asked, buffer)
                    told = buffer.getvalue()
                connection.sendall(len(told).to_bytes(4, "big") + told)

    def _answer(self, asked: bytes, buffer: io.BytesIO) -> None:
        of_log = int.from_bytes(asked[:2], "big") == FetchRequest.__api_key__
        kind: Any = FetchRequest if of_log else FetchSnapshotRequest
        header, start = entity_reader(kind.__header_schema__)(asked, 0)
        request, _ = entity_reader(kind)(asked, start)
        (wanted,) = request.topics[0].partitions
        answer: Any = (
            self._fetched(int(wanted.fetch_offset)) if of_log else self._piece(int(wanted.position))
        )
        schema = answer.__header_schema__
        entity_writer(schema)(buffer, schema(correlation_id=header.correlation_id))
        entity_writer(type(answer))(buffer, answer)

    def _piece(self, position: int) -> snapshot.FetchSnapshotResponse:
        piece = snapshot.PartitionSnapshot(
            index=i32(0),
            error_code=self._error,
            snapshot_id=snapshot.SnapshotId(end_offset=i64(100), epoch=i32(EPOCH)),
            current_leader=snapshot.LeaderIdAndEpoch(
                leader_id=BrokerId(LEADER), leader_epoch=i32(EPOCH)
            ),
            size=i64(len(self._content)),
            position=i64(position),
            unaligned_records=self._content[position : position + PIECE],
        )
        found = snapshot.TopicSnapshot(name=TopicName("__cluster_metadata"), partitions=(piece,))
        return snapshot.FetchSnapshotResponse(
            throttle_time=NO_WAIT, error_code=ErrorCode.none, topics=(found,)
        )

    def _fetched(self, offset: int) -> fetch.FetchResponse:
        begins = {"snapshot_id": fetch.SnapshotId(end_offset=i64(100), epoch=i32(EPOCH))}
        found = fetch.PartitionData(
            partition_index=i32(0),
            error_code=ErrorCode.none,
            high_watermark=i64(100 + len(self._batches)),
            current_leader=fetch.LeaderIdAndEpoch(
                leader_id=BrokerId(LEADER), leader_epoch=i32(EPOCH)
            ),
            aborted_transactions=None,
            records=b"" if offset < 100 else b"".join(self._batches[offset - 100 :]),
            **(begins if offset < 100 else {}),
        )
        answered = fetch.FetchableTopicResponse(topic_id=None, partitions=(found,))
        return fetch.FetchResponse(
            throttle_time=NO_WAIT,
            error_code=ErrorCode.none,
            session_id=i32(0),
            responses=(answered,),
        )


@pytest.fixture
def reading() -> Iterator[Any]:
    """Return a function that opens the log of a controller, and keeps the topic ``ours``."""
    logs: list[MetadataLog] = []

    def opened(controller: Controller, node_id: int = LEADER) -> MetadataLog:
        logs.append(
            MetadataLog(
                {node_id: ("controller", 9093)},
                SCHEMAS,
                controller.connect,
                lambda name: name == "ours",
            )
        )
        return logs[-1]

    yield opened
    for one in logs:
        one.close()


REGISTERED = RegisterBroker(broker_id=1, broker_epoch=35, fenced=False)
SNAPSHOT = written(0, REGISTERED)
ELECTED = PartitionChange(partition_id=0, topic_id=ORDERS, leader=2, isr=(2,))


def test_log_continues_behind_its_snapshot(reading: Any) -> None:
    content = written(0, REGISTERED, *topic("ours"))
    assert len(content) > PIECE, "it comes in several pieces"
    image, origin = reading(Controller(content, written(100, ELECTED))).read(5)
    view = image.view(origin.controller, origin.epoch)
    assert (view.controller, view.controller_epoch, dict(view.brokers)) == (LEADER, EPOCH, {1: 35})
    (found,) = view.partitions.values()
    assert (found.leader, found.leader_epoch, found.isr, found.version) == (2, 5, (2,), 10)


def test_topics_of_others_are_dropped(reading: Any) -> None:
    content = written(0, REGISTERED, *topic("theirs"))
    image, _ = reading(Controller(content, written(100, ELECTED))).read(5)
    assert image.view(LEADER, EPOCH).partitions == {}


@pytest.mark.parametrize(
    ("controller", "node_id", "reason"),
    [
        (Controller(SNAPSHOT, error=ErrorCode.snapshot_not_found), LEADER, "snapshot_not_found"),
        (Controller(SNAPSHOT[:-1]), LEADER, "snapshot up to offset 100 is incomplete"),
        (Controller(b""), LEADER, "snapshot up to offset 100 is incomplete"),
        (Controller(SNAPSHOT), 8, "8: its node.id is 7"),
    ],
)
def test_unusable_answer_is_refused_with_its_reason(
    reading: Any, controller: Controller, node_id: int, reason: str
) -> None:
    with pytest.raises(ViewUnavailable, match=reason):
        reading(controller, node_id).read(5)


def test_observer_from_now_reports_the_former_states_as_one(reading: Any) -> None:
    content = written(0, REGISTERED, *topic("ours"))
    seen: list[ClusterChange] = []
    opened = reading(Controller(content, written(100, ELECTED), written(101, ELECTED)))
    observer = log_observer(opened, seen.append, from_now=True)
    observer.start()
    until("the log was read", lambda: len(seen) >= 3, 60)
    observer.close()
    (partition,) = (one for one in seen if one.kind is ChangeKind.PARTITION)
    assert (partition.leader_epoch, partition.version) == (6, 11)
