"""The judgement at the end of a run."""

from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.broker.config import TopicConfig
from ackproof.broker.replication.config import ReplicaConfig
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import TopicPartition
from simulation import verdict
from simulation.violation import Violation

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("topic", ["t", OFFSETS_TOPIC])
def test_producer_that_waits_for_replicated_records_is_a_violation(topic: str) -> None:
    tp = TopicPartition(topic, 0)
    observer: Any = SimpleNamespace(partitions=lambda: [(tp, SimpleNamespace(isr=(1, 2)))])
    left: dict[int, Any] = {1: SimpleNamespace(waiting_producers=0), 2: None}
    verdict.check_no_producer_waits(observer, lambda broker, _tp: left[broker])
    left[2] = SimpleNamespace(waiting_producers=2)
    if topic == OFFSETS_TOPIC:  # coordinators still write to it
        verdict.check_no_producer_waits(observer, lambda broker, _tp: left[broker])
        return
    with pytest.raises(
        Violation, match="Produce/request-left-waiting: t-0: 2 produce requests wait at broker 2"
    ):
        verdict.check_no_producer_waits(observer, lambda broker, _tp: left[broker])


def test_settings_are_known_to_the_log_and_to_the_replica() -> None:
    config = TopicConfig(min_insync_replicas=2)
    hosted: Any = SimpleNamespace(
        config=config,
        replica=SimpleNamespace(config=ReplicaConfig(min_insync_replicas=2)),
        log=SimpleNamespace(config=config.log_config()),
    )
    assert verdict._is_applied(hosted)
    hosted.replica.config = ReplicaConfig()
    assert not verdict._is_applied(hosted)
    hosted.replica.config = ReplicaConfig(min_insync_replicas=2)
    hosted.log.config = TopicConfig(retention_ms=7).log_config()
    assert not verdict._is_applied(hosted)


@pytest.mark.parametrize(
    ("bases", "start", "kept"),
    [((0,), 9, False), ((0, 5), 4, False), ((0, 5), 5, True), ((5, 9), 7, False)],
)
def test_segment_of_deleted_records_is_detected(
    bases: tuple[int, ...], start: int, kept: bool
) -> None:
    replica: Any = SimpleNamespace(
        log=SimpleNamespace(segment_base_offsets=bases, log_start_offset=start)
    )
    assert verdict._keeps_deleted_segments(replica) == kept
