"""Each delivery report becomes the outcome of the record that it is about."""

from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import KafkaError

from ackproof.history.reader import read
from ackproof.history.writer import PartitionedWriter
from ackproof.workloads.librdkafka.messages import Reports
from ackproof.workloads.producing.producer import record_reports
from ackproof.workloads.producing.recorder import SendRecorder
from ackproof.workloads.spec import ProducerSpec
from ackproof.workloads.unresolved import FEW

TIMED_OUT = KafkaError._MSG_TIMED_OUT
NOWHERE = -1001
"""``RD_KAFKA_OFFSET_INVALID``"""


def reports(*told: tuple[int, int, int], partition: int = 0) -> Reports:
    numbers, offsets, errors = zip(*told, strict=True)
    partitions = np.full(len(numbers), partition, np.int32)
    return Reports(np.array(numbers), np.array(offsets), np.array(errors, np.int32), partitions)


def recording(directory: Path, acks: str = "all") -> tuple[SendRecorder, PartitionedWriter]:
    spec = ProducerSpec(
        cell="c",
        topic="t",
        partitions=2,
        acks=acks,
        producer=4,
        rate=None,
        record_bytes=100,
        bootstrap_servers="b:1",
        history=directory,
        progress=directory / "progress",
    )
    writer = PartitionedWriter(directory, "sends", spec.client)
    return SendRecorder(spec, writer, lambda: 5), writer


@pytest.mark.parametrize(("acks", "offset"), [("all", 7), ("0", None)])
def test_reports_are_recorded_in_the_order_in_which_they_came(
    tmp_path: Path, acks: str, offset: int | None
) -> None:
    recorder, writer = recording(tmp_path, acks)
    recorder.invoke([0] * 5)
    acked = acks != "0"
    record_reports(reports((2, 7, 0), (0, NOWHERE, 0)), recorder, acked, 100)
    record_reports(reports((3, 9, TIMED_OUT), (2, 8, 0), (4, 7, 0)), recorder, acked, 102)
    record_reports(reports((3, 9, 0)), recorder, acked, 103)
    assert list(recorder.waiting) == [1, 0]
    writer.close()
    columns = ["sequence", "type", "time", "offset", "error"]
    assert [tuple(row.values()) for row in read(tmp_path, "sends", columns).to_pylist()][5:] == [
        (2, "ok", 100, offset, None),
        (0, "ok", 100, None, None),
        (3, "info", 102, None, "_MSG_TIMED_OUT"),
        (4, "ok", 102, offset, None),
    ]


@pytest.mark.parametrize("many", [FEW, FEW + 1])
def test_record_acknowledged_in_another_partition_has_no_offset_there(
    tmp_path: Path, many: int, caplog: pytest.LogCaptureFixture
) -> None:
    recorder, writer = recording(tmp_path)
    recorder.invoke([0] * many)
    record_reports(reports(*((number, number, 0) for number in range(many - 1))), recorder, True, 7)
    assert not caplog.records
    last = reports((many - 1, 40, 0), *((number, 0, 0) for number in range(many - 1)), partition=1)
    record_reports(last, recorder, True, 8)
    where = "was sent to partition 0, and acknowledged in partition 1 at offset 40"
    assert f"the first, record {many - 1}, {where}" in caplog.text
    writer.close()
    rows = read(tmp_path, "sends", ["sequence", "partition", "type", "offset"]).to_pylist()
    assert [tuple(row.values()) for row in rows if row["type"] == "ok"] == [
        *((number, 0, "ok", number) for number in range(many - 1)),
        (many - 1, 0, "ok", None),
    ]
