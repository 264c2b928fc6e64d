"""The sweep."""

import json
from collections.abc import Mapping

from ackproof.harness.campaign.model.cells import Cells, Sweep, expand
from ackproof.harness.campaign.model.values.durations import format_ms, parse_ms
from ackproof.history.cell import Scope


def cells(written: Mapping[str, object]) -> Sweep:
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
                "enable.idempotence": [True, False],
                "producer": {"linger.ms": 5},
            }
        )
    )
    assert len({cell.topic for cell in found}) == 8
    first = found[0]
    assert first.name == "acks-all.minisr-1.rf-2.unclean-true.idempotence-true"
    assert first.unclean_leader_election
    assert not found[-1].unclean_leader_election
    assert first.settings["producer.linger.ms"] == 5
    assert (first.max_in_flight, found[1].max_in_flight) == (5, 1_000_000)


def test_what_is_excluded_is_no_cell() -> None:
    sweep = cells(
        {
            "acks": [0, 1, "all"],
            "enable.idempotence": [False, True],
            "exclude": [
                {"acks": 0, "enable.idempotence": True},
                {"acks": "1", "enable.idempotence": True, "partitions": 1},
                {"acks": "all", "partitions": 2},
            ],
        }
    )
    assert [(cell.acks, cell.enable_idempotence) for cell in expand(sweep)] == [
        ("0", False),
        ("1", False),
        ("all", False),
        ("all", True),
    ]


def test_what_the_file_leaves_out_is_filled_in() -> None:
    (cell,) = expand(cells({"acks": -1, "topic": {"preallocate": True}}))
    assert cell.settings == {
        "acks": "all",
        "min.insync.replicas": 1,
        "replication.factor": 3,
        "partitions": 1,
        "unclean.leader.election.enable": False,
        "enable.idempotence": False,
        "max.in.flight.requests.per.connection": 1_000_000,
        "client": "librdkafka",
        "isolation.level": "read_uncommitted",
        "producer.type": "async",
        "topic.preallocate": True,
    }


def test_one_property_of_topic_and_producer_is_two() -> None:
    both = {"compression.type": ["lz4", "zstd"]}
    found = expand(cells({"acks": 1, "topic": both, "producer": both}))
    assert len({cell.topic for cell in found}) == 4
    assert dict(found[1].of(Scope.TOPIC))["compression.type"] == "lz4"
    assert dict(found[1].of(Scope.PRODUCER))["compression.type"] == "zstd"


def test_times_read_back_as_written() -> None:
    for text in ("300ms", "5s", "2m", "1h"):
        assert format_ms(parse_ms(text)) == text
    assert parse_ms("1.5s") == 1500
    assert format_ms(0) == "0ms"
