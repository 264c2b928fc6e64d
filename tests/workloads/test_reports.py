"""Each delivery report becomes the outcome of the record that it is about, with its own time."""

from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message

from history.payload import Encoder
from history.reader import read
from history.writer import PartitionedWriter
from workloads.recorder import SendRecorder
from workloads.reports import Reports
from workloads.spec import ProducerSpec

VALUES = Encoder("c", 4, 100, 300)


def report(reports: Reports, sequence: int, offset: int, error: int | None = None) -> None:
    failed = None if error is None else KafkaError(error)
    told = {} if failed is None else {"error": failed}
    reports.delivered(failed, Message(value=VALUES.encode(sequence), offset=offset, **told))


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
    reports = Reports(recorder, spec.acks != "0", count(100).__next__)
    recorder.invoke([0] * 4, [None] * 4)
    report(reports, 2, 7)
    report(reports, 0, -1001)
    assert recorder.unresolved == 4
    reports.record()
    report(reports, 3, 9, KafkaError._MSG_TIMED_OUT)
    report(reports, 2, 8)
    reports.record()
    reports.record()
    assert list(recorder.waiting) == [1]
    writer.close()
    columns = ["sequence", "type", "time", "offset", "error"]
    assert [tuple(row.values()) for row in read(tmp_path, "sends", columns).to_pylist()][4:] == [
        (2, "ok", 100, offset, None),
        (0, "ok", 101, None, None),
        (3, "info", 102, None, "_MSG_TIMED_OUT"),
    ]
