"""The sweep."""

import json
from collections.abc import Mapping

from harness.campaign.cells import expand
from harness.campaign.durations import format_ms, parse_ms
from harness.campaign.model import Cells


def cells(written: Mapping[str, object]) -> Cells:
    """Cells as a campaign file has them."""
    return Cells.model_validate_json(json.dumps(written))


def test_every_combination_is_a_cell() -> None:
    found = expand(cells({"acks": [0, 1, -1], "min.insync.replicas": [1, 2]}))
    assert [cell.name for cell in found] == [
        "acks-0.minisr-1",
        "acks-0.minisr-2",
        "acks-1.minisr-1",
        "acks-1.minisr-2",
        "acks-all.minisr-1",
        "acks-all.minisr-2",
    ]
    assert [cell.topic for cell in found][:2] == ["acks-0-minisr-1", "acks-0-minisr-2"]


def test_whatever_is_swept_shows_in_the_name() -> None:
    found = expand(
        cells(
            {
                "acks": "all",
                "replication.factor": [2, 3],
                "unclean.leader.election.enable": [True, False],
                "producer": {"linger.ms": 5, "enable.idempotence": [True, False]},
            }
        )
    )
    assert len({cell.topic for cell in found}) == 8
    first = found[0]
    assert first.name == (
        "acks-all.minisr-1.rf-2.unclean-leader-election-enable-true.enable-idempotence-true"
    )
    assert first.producer_config == {"linger.ms": 5, "enable.idempotence": True}
    assert first.unclean_leader_election
    assert not found[-1].unclean_leader_election


def test_topic_properties_are_written_as_kafka_writes_them() -> None:
    (cell,) = expand(cells({"acks": 1, "topic": {"preallocate": True, "segment.bytes": 1048576}}))
    assert cell.topic_config == {"preallocate": "true", "segment.bytes": "1048576"}


def test_times_read_back_as_written() -> None:
    for text in ("300ms", "5s", "2m", "1h"):
        assert format_ms(parse_ms(text)) == text
    assert parse_ms("1.5s") == 1500
    assert format_ms(0) == "0ms"
