"""Bounds of logs, asked of leaders that die, by the real client of a real cluster."""

import time
from pathlib import Path

import pytest

from ackproof.workloads.reading_back.final_read import Bounds
from tests.support.clients.confluent import create_topic, produce
from tests.support.clusters.bundled import running_cluster, until

pytestmark = pytest.mark.integration


def test_bounds_are_reported_after_the_death_of_the_leader(tmp_path: Path) -> None:
    """Metadata name it until its session ends; librdkafka then goes on asking it, and tells of an
    offset that is none."""
    with running_cluster(tmp_path) as cluster:
        create_topic(cluster, "t")
        assert set(produce(cluster, "t", [b"%d" % n for n in range(10)]).values()) == {None}
        cluster.brokers[cluster.leader("t")].kill()
        bounds = Bounds(cluster.admin, [("t", 0)])
        told: list[object] = []

        def answered() -> bool:
            told.extend(bounds.answers(time.monotonic()))
            return bool(told)

        until("the next leader tells", answered)
        assert told == [(("t", 0), 0, 10)]
        assert not bounds.refusals
