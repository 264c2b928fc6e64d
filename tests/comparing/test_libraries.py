"""The table of client libraries says what was counted, and how long each took to its next ack."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ackproof.checkers.verdict import CampaignResult, RunResult, Verdict
from ackproof.harness.comparing import libraries, sides
from ackproof.harness.report import verdict
from ackproof.history.names import SendType
from ackproof.history.writer import PartitionedWriter, TableWriter
from tests.support.builders.results import cell_result

S = 1_000_000_000
KILLED, PAUSED = 10, 20
FAULTS = (("kill", 1, KILLED), ("pause", 2, PAUSED))

Sends = Mapping[int, Sequence[tuple[float, float | None]]]
"""By partition: when a record was handed over, and when it was acknowledged, in seconds."""

JAVA: Sends = {
    0: [(9.9, 10.5), (10.1, 13.0), (10.2, 12.5), (20.5, 20.6)],
    1: [(9.0, 9.1), (10.4, 10.5), (21.0, 24.0)],
}
"""The record that was under way when the leader was killed tells nothing of the next one."""
AIOKAFKA: Sends = {0: [(10.1, 15.0), (20.5, None)], 1: [(10.4, 10.5), (20.6, 20.9)]}


def write(directory: Path, cells: Mapping[str, tuple[Mapping[str, object], Sends]]) -> Path:
    history = directory / "runs" / "1" / "history"
    history.mkdir(parents=True)
    for topic, (_, by_partition) in cells.items():
        keys = [(topic, number) for number in by_partition]
        writer = PartitionedWriter(history, "sends", topic, keys)
        for number, sends in by_partition.items():
            for sequence, (began, acked) in enumerate(sends):
                place = (topic, topic, number, 0, 2 * sequence + number)
                table = writer.partition(topic, number)
                table.append((*place, SendType.INVOKE, int(began * S), *[None] * 5))
                if acked is not None:
                    table.append((*place, SendType.OK, int(acked * S), sequence, *[None] * 4))
        writer.close()
    with_faults = TableWriter(history, "faults", "harness")
    for fault, number, second in FAULTS:
        for event in ("inject", "injected"):
            at = int(second * S) - (event == "inject") * S
            with_faults.write(fault=fault, fault_id=number, event=event, time=at, target="broker-1")
    with_faults.close()
    made = [
        cell_result(t, Verdict.NOT_GUARANTEED, topic=t, settings=settings)
        for t, (settings, _) in cells.items()
    ]
    told = CampaignResult(
        verdict=Verdict.NOT_GUARANTEED,
        cells=tuple(replace(one, lost=n) for n, one in enumerate(made)),
        anomalies={},
        findings=(),
        runs=(RunResult(number=1, clock_bound_ns=0, infrastructure_failed=False),),
    )
    verdict.write(directory, verdict.to_document({"name": "clients", "seed": 1}, told))
    return directory


@pytest.fixture
def results(tmp_path: Path) -> Path:
    both = {"acks": "all", "min.insync.replicas": 2}
    return write(
        tmp_path,
        {
            "a": ({**both, "client": "java", "producer.enable.idempotence": False}, JAVA),
            "b": ({**both, "client": "aiokafka", "producer.enable.idempotence": True}, AIOKAFKA),
        },
    )


def test_each_library_has_a_row(results: Path) -> None:
    java, aiokafka = libraries.libraries(sides.read(results))
    assert (java.name, aiokafka.name) == ("java", "aiokafka")
    assert list(java.settings.values()) == [False]
    assert java.next_ack_s == {"kill#1": pytest.approx(2.5), "pause#2": pytest.approx(4.0)}
    assert aiokafka.next_ack_s == {"kill#1": pytest.approx(5.0), "pause#2": None}
    assert (java.counts["acked"], java.counts["lost"], aiokafka.counts["lost"]) == (10, 0, 1)


def test_the_table(results: Path) -> None:
    lines = libraries.table(libraries.libraries(sides.read(results))).splitlines()
    assert "next ack after kill#1 | next ack after pause#2 |" in lines[0]
    assert lines[2] == "| java | no | 12 | 10 | 1 | 1 | 0 | 0 | 0 | 2.5 s | 4.0 s |"
    assert lines[3] == "| aiokafka | yes | 12 | 10 | 1 | 1 | 1 | 0 | 0 | 5.0 s | never |"
