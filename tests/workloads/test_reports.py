"""Each delivery report becomes the outcome of the record that it is about."""

from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import KafkaError

from history.reader import read
from history.writer import PartitionedWriter
from workloads.librdkafka.messages import Reports
from workloads.producing.recorder import SendRecorder
from workloads.producing.reports import record
from workloads.spec import ProducerSpec

TIMED_OUT = KafkaError._MSG_TIMED_OUT
NOWHERE = -1001
"""``RD_KAFKA_OFFSET_INVALID``"""


def reports(*told: tuple[int, int, int]) -> Reports:
    numbers, offsets, errors = zip(*told, strict=True)
    return Reports(np.array(numbers), np.array(offsets), np.array(errors, np.int32))


@pytest.mark.parametrize(("acks", "offset"), [("all", 7), ("0", None)])
def test_reports_are_recorded_in_the_order_in_which_they_came(
    tmp_path: Path, acks: str, offset: int | None
) -> None:
    spec = ProducerSpec(
        cell="c",
        topic="t",
        partitions=1,
        acks=acks,
        producer=4,
        rate=None,
        record_bytes=100,
        bootstrap_servers="b:1",
        history=tmp_path,
        progress=tmp_path / "progress",
    )
    writer = PartitionedWriter(tmp_path, "sends", spec.client)
    recorder = SendRecorder(spec, writer, lambda: 5)
    recorder.invoke([0] * 5)
    acked = acks != "0"
    record(reports((2, 7, 0), (0, NOWHERE, 0)), recorder, acked, 100)
    record(reports((3, 9, TIMED_OUT), (2, 8, 0), (4, 7, 0)), recorder, acked, 102)
    record(reports((3, 9, 0)), recorder, acked, 103)
    assert list(recorder.waiting) == [1]
    writer.close()
    columns = ["sequence", "type", "time", "offset", "error"]
    assert [tuple(row.values()) for row in read(tmp_path, "sends", columns).to_pylist()][5:] == [
        (2, "ok", 100, offset, None),
        (0, "ok", 100, None, None),
        (3, "info", 102, None, "_MSG_TIMED_OUT"),
        (4, "ok", 102, offset, None),
    ]
