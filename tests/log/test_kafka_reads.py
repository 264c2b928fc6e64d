"""Logs of this broker, read by Apache Kafka after orderly and other ends."""

import uuid
from pathlib import Path

import pytest

from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.disk import Directory
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.log.partition_metadata import FILE_NAME, PartitionMetadataFile
from ackproof.broker.wire.batch import RecordBatch, parse_batches, with_append_time
from tests.support.builders.batches import NOW_MS, batch
from tests.support.clusters.apache_kafka import TOOLS, run_source
from tests.support.clusters.kafka_dump import KafkaView, kafka_reads

pytestmark = pytest.mark.kafka

SMALL = LogConfig(segment_bytes=4000, index_interval_bytes=300, retention_ms=-1)
WHOLE = 10**9


def opened(directory: Path, *, clean: bool = True, recovery_point: int = 0) -> PartitionLog:
    return PartitionLog.open(directory, SMALL, clean=clean, recovery_point=recovery_point)


def fill(log: PartitionLog, count: int) -> None:
    """Append with two producers, several epochs, and timestamps that go back and forth."""
    for _ in range(count):
        end = log.log_end_offset
        number = end // 2
        moment = NOW_MS + 125 * (number if number % 7 else max(0, number - 20))
        sent = batch(
            [b"a", b"b"],
            timestamps=[moment, moment],
            producer=(7 + number % 2, 0, 2 * (number // 2)),
        )
        log.append([sent], end, number // 40, NOW_MS)


def stored(log: PartitionLog) -> list[RecordBatch]:
    found: list[RecordBatch] = []
    offset = log.segment_base_offsets[0]
    while part := parse_batches(log.read(offset, WHOLE, WHOLE)):
        found += part
        offset = part[-1].next_offset
    return found


def agreed(directory: Path) -> KafkaView:
    """Return Kafka's view of a log, which must agree with the broker's, and have no complaint."""
    view = kafka_reads(directory)
    assert not view.complaints, view.complaints
    log = opened(directory)
    ours = [(b.base_offset, b.last_offset, b.max_timestamp, b.crc) for b in stored(log)]
    assert [(b.base_offset, b.last_offset, b.timestamp, b.crc) for b in view.batches] == ours
    assert view.epochs == log.epochs.entries
    assert view.producers == tuple(
        (producer, known.epoch, sent.base_sequence, sent.last_sequence, sent.last_offset)
        for producer, known in log.producers.state.producers.items()
        for sent in known.batches
    )
    log.close()
    return view


def test_kafka_reads_a_cleanly_closed_log(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    fill(log, 150)
    log.close()
    view = agreed(tmp_path / "t-0")
    assert view.record_offsets == tuple(range(300))
    assert len(view.producers) == 10
    assert view.index_entries > 20
    assert view.time_index_entries > 20
    assert view.epochs == ((0, 0), (1, 80), (2, 160), (3, 240))


def test_kafka_reads_log_append_time(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    for number in range(50):
        log.append([with_append_time(batch([b"a"] * 2), NOW_MS + number)], 2 * number, 0, NOW_MS)
    log.close()
    view = agreed(tmp_path / "t-0")
    assert {b.timestamp_type for b in view.batches} == {"LogAppendTime"}


@pytest.mark.parametrize("tail", [b"", bytes(200), b"\xff" * 70, bytes(40)], ids=len)
def test_kafka_reads_a_recovered_log(tmp_path: Path, tail: bytes) -> None:
    directory = tmp_path / "t-0"
    log = opened(directory)
    fill(log, 150)
    log.close(flush=False)
    last = max(directory.glob("*.log"))
    whole = last.stat().st_size
    with last.open("r+b") as file:
        file.truncate(whole - 30)
        file.seek(0, 2)
        file.write(tail)
    log = opened(directory, clean=False)
    assert log.log_end_offset == 298
    log.start_epoch(9, 298)
    fill(log, 3)
    log.close()
    assert agreed(directory).record_offsets == tuple(range(304))


def test_kafka_reads_a_truncated_and_retained_log(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    log = opened(directory)
    fill(log, 150)
    log.truncate_to(231)
    assert log.log_end_offset == 230
    fill(log, 60)
    log.advance_log_start(101)
    log.delete_old_segments(log.log_end_offset, NOW_MS)
    log.close()
    first = agreed(directory).record_offsets[0]
    assert 0 < first <= 101


def test_kafka_reads_topic_ids(tmp_path: Path) -> None:
    """Test that Kafka reads the broker's file, and writes the same file for the id."""
    topic_id = uuid.UUID("915cdc9d-5c03-4048-bafb-f3ce4d69c200")
    ours, kafkas = tmp_path / "ours" / "t-0", tmp_path / "kafkas" / "t-0"
    log = opened(ours)
    log.metadata.assign(topic_id)
    fill(log, 3)
    log.close()
    agreed(ours)
    kafkas.mkdir(parents=True)
    run_source(TOOLS / "CopyPartitionMetadata.java", ours, kafkas)
    assert (kafkas / FILE_NAME).read_bytes() == (ours / FILE_NAME).read_bytes()
    assert PartitionMetadataFile(Directory(kafkas)).topic_id == topic_id


def test_kafka_reports_a_damaged_log(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    log = opened(directory)
    fill(log, 40)
    log.close()
    index = min(directory.glob("*.index"))
    entries = bytearray(index.read_bytes())
    entries[-5] -= 1  # the lowest byte of the last entry's offset
    index.write_bytes(entries)
    with max(directory.glob("*.log")).open("ab") as file:
        file.write(bytes(10))
    complaints = " ".join(kafka_reads(directory).complaints)
    assert "Mismatches in" in complaints
    assert "invalid bytes" in complaints
