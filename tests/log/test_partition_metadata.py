"""partition.metadata: the topic id of a log (KIP-516)."""

import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.disk import CorruptCheckpoint, Directory
from ackproof.broker.log.manager import LogManager
from ackproof.broker.log.partition_metadata import InconsistentTopicId, PartitionMetadataFile
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.uuids import decode_uuid, encode_uuid
from tests.support.builders.batches import NOW_MS, batch

TOPIC_ID = uuid.UUID("915cdc9d-5c03-4048-bafb-f3ce4d69c200")
ORDERS = TopicPartition("orders", 0)


def file(directory: Path) -> Path:
    return directory / "partition.metadata"


def logs(directory: Path) -> LogManager:
    return LogManager([directory], lambda _: LogConfig())


@given(st.uuids())
def test_topic_id_survives_its_text_form(value: uuid.UUID) -> None:
    text = encode_uuid(value)
    assert len(text) == 22
    assert decode_uuid(text) == value


@pytest.mark.parametrize(
    "text", ["", "AAAA", "A" * 21, "A" * 23, "A" * 24, "A" * 21 + "!", "A" * 22 + "\n", "é" * 22]
)
def test_malformed_topic_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode_uuid(text)


def test_metadata_file_has_kafkas_bytes(tmp_path: Path) -> None:
    metadata = PartitionMetadataFile(Directory(tmp_path))
    assert metadata.topic_id is None
    assert not file(tmp_path).exists()
    metadata.assign(TOPIC_ID)
    assert file(tmp_path).read_bytes() == b"version: 0\ntopic_id: kVzcnVwDQEi6-_POTWnCAA"
    assert [path.name for path in tmp_path.iterdir()] == ["partition.metadata"]
    assert metadata.topic_id == PartitionMetadataFile(Directory(tmp_path)).topic_id == TOPIC_ID


@pytest.mark.parametrize("without", [None, uuid.UUID(int=0)])
def test_topic_without_an_id_matches_any_log(tmp_path: Path, without: uuid.UUID | None) -> None:
    metadata = PartitionMetadataFile(Directory(tmp_path))
    metadata.assign(without)
    assert not file(tmp_path).exists()
    metadata.assign(TOPIC_ID)
    metadata.assign(without)
    assert metadata.topic_id == TOPIC_ID


def test_topic_id_of_a_log_never_changes(tmp_path: Path) -> None:
    metadata = PartitionMetadataFile(Directory(tmp_path))
    metadata.assign(TOPIC_ID)
    before = file(tmp_path).stat()
    metadata.assign(TOPIC_ID)
    with pytest.raises(InconsistentTopicId, match="AAAAAAAAAAAAAAAAAAAAAQ"):
        metadata.assign(uuid.UUID(int=1))
    assert file(tmp_path).stat() == before
    assert metadata.topic_id == TOPIC_ID


@pytest.mark.parametrize("content", ["version: 1\ntopic_id: {}", "version:  0\ntopic_id:\t{}\n"])
def test_metadata_file_that_kafka_accepts_is_read(tmp_path: Path, content: str) -> None:
    file(tmp_path).write_text(content.format(encode_uuid(TOPIC_ID)))
    assert PartitionMetadataFile(Directory(tmp_path)).topic_id == TOPIC_ID


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"version: 0",
        b"version: 0\n",
        b"version: 0\ntopic_id: ",
        b"version: 0\ntopic_id: kVzcnVwDQEi6-_POTWnCA",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        b"version: -1\ntopic_id: kVzcnVwDQEi6-_POTWnCAA",
        b"version: x\ntopic_id: kVzcnVwDQEi6-_POTWnCAA",
        b"topic_id: kVzcnVwDQEi6-_POTWnCAA\nversion: 0",
        b"version: 0\ntopic_id: \xffVzcnVwDQEi6-_POTWnCAA",
        bytes(44),
    ],
)
def test_damaged_metadata_file_stops_the_start_and_is_kept(tmp_path: Path, content: bytes) -> None:
    kept = logs(tmp_path)
    kept.create(ORDERS)
    kept.close()
    file(tmp_path / "orders-0").write_bytes(content)
    for _ in range(2):
        with pytest.raises(CorruptCheckpoint, match=r"orders-0/partition\.metadata: b'.*expected"):
            logs(tmp_path)
    assert file(tmp_path / "orders-0").read_bytes() == content


@pytest.mark.parametrize("clean", [True, False])
def test_topic_id_survives_any_restart(tmp_path: Path, clean: bool) -> None:
    kept = logs(tmp_path)
    log = kept.create(ORDERS)
    log.metadata.assign(TOPIC_ID)
    log.append([batch()], 0, 0, NOW_MS)
    log.truncate_fully(7)
    kept.close(clean=clean)
    file(tmp_path / "orders-0").with_suffix(".metadata.tmp").write_text("vers")
    kept = logs(tmp_path)
    assert kept.logs[ORDERS].metadata.topic_id == TOPIC_ID
    kept.close()


def test_deleted_log_loses_its_topic_id(tmp_path: Path) -> None:
    kept = logs(tmp_path)
    kept.create(ORDERS).metadata.assign(TOPIC_ID)
    kept.delete(ORDERS)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    kept.create(ORDERS).metadata.assign(uuid.UUID(int=1))
    kept.close()
    kept = logs(tmp_path)
    assert kept.logs[ORDERS].metadata.topic_id == uuid.UUID(int=1)
    kept.close()
