"""The starts of logs with retention, as a real cluster of one broker deletes segments."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from ackproof.harness.running.deadline import Deadline, SystemClock
from ackproof.harness.running.log_starts import LogStarts, hold
from ackproof.history.cell import Cell
from ackproof.infra.systems.admin import KafkaAdmin
from tests.support.clients.confluent import create_topic, produce
from tests.support.clusters.bundled import Cluster, running_cluster, until

pytestmark = pytest.mark.integration

SMALL = {"segment.bytes": "2000", "retention.bytes": "3000"}


def fill(cluster: Cluster) -> None:
    """Write some segments."""
    for _ in range(6):
        assert set(produce(cluster, "t", [bytes(500)] * 3).values()) == {None}


def test_log_start_is_recorded_until_retention_is_held_for_the_final_read(tmp_path: Path) -> None:
    checks = {"log.retention.check.interval.ms": "100", "offsets.topic.replication.factor": "1"}
    rows: list[tuple[str, int, int, int, int]] = []
    cells = [
        Cell(name="c", topic="t", settings={f"topic.{name}": SMALL[name] for name in SMALL}),
        Cell(name="d", topic="u", settings={}),
    ]
    with running_cluster(tmp_path, 1, checks) as cluster:
        create_topic(cluster, "t", replication_factor=1, config=SMALL)
        starts = LogStarts(cells, cluster.admin, lambda *row: rows.append(row))
        assert starts.topics == ["t"]

        def sees(offset: int) -> bool:
            starts.look()
            return bool(rows) and rows[-1][-1] >= offset

        until("the start of an empty log is seen", lambda: sees(0))
        fill(cluster)
        until("a later start is seen", lambda: sees(1))
        host, port = cluster.bootstrap.split(",")[0].split(":")
        broker = SimpleNamespace(
            name="broker-1", node=SimpleNamespace(address=host), port=int(port)
        )
        admin = KafkaAdmin(lambda: [broker], lambda _: {})
        assert hold(starts, admin, Deadline.after(SystemClock(), 2.0)) == {}

        def asked_again() -> bool:
            starts.look()
            return starts.asked_since(begun)

        begun = time.time_ns()
        until("the start is asked for after the order", asked_again)
        last = rows[-1][-1]
        fill(cluster)
        begun = time.time_ns()
        until("the start is asked for after more was written", asked_again)
        assert rows[-1][-1] == last
    assert all(row[2] <= row[3] for row in rows)
    assert [row[-1] for row in rows] == sorted(row[-1] for row in rows)
