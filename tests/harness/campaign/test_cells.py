"""The sweep."""

import json
import math
from collections.abc import Mapping

import pytest

from ackproof.harness.campaign.model.cells import Cells, Sweep, expand, only
from ackproof.harness.campaign.model.values import format_ms, parse_ms
from ackproof.history.cell import Cell, Scope


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


def test_excluded_combination_yields_no_cell() -> None:
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


def test_omitted_cell_settings_get_defaults() -> None:
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


def test_property_of_both_topic_and_producer_is_swept_separately() -> None:
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


BASE = {"acks": [1, "all"], "min.insync.replicas": 2, "partitions": 3}


def topics(written: Mapping[str, object]) -> dict[str, Cell]:
    return {cell.topic: cell for cell in expand(cells(written))}


@pytest.mark.parametrize(
    "swept",
    [
        {"partitions": [3, 6]},
        {"replication.factor": [2, 3]},
        {"enable.idempotence": [True, False]},
        {"client": ["java", "librdkafka"]},
        {"producer.type": ["sync", "async"]},
        {"max.in.flight.requests.per.connection": [1, 1_000_000]},
        {
            "enable.idempotence": [True, False],
            "replication.factor": [1, 2, 3],
            "partitions": [3, 9],
        },
    ],
    ids="+".join,
)
def test_cell_keeps_topic_when_another_setting_is_swept(swept: Mapping[str, object]) -> None:
    before, after = topics(BASE), topics({**BASE, **swept})
    assert len(after) == len(before) * math.prod(len(values) for values in swept.values())
    assert {topic: after[topic].settings for topic in before} == {
        topic: cell.settings for topic, cell in before.items()
    }


@pytest.mark.parametrize("scope", ["topic", "producer"])
def test_first_value_of_property_adds_nothing_to_topic(scope: str) -> None:
    name = {"topic": "segment.bytes", "producer": "linger.ms"}[scope]
    before = topics({**BASE, scope: {name: 500}})
    after = topics({**BASE, scope: {name: [500, 900]}})
    part = {"topic": "segment-bytes", "producer": "producer-linger-ms"}[scope]
    assert sorted(after) == sorted([*before, *(f"{topic}-{part}-900" for topic in before)])
    assert all(after[topic].settings[f"{scope}.{name}"] == 500 for topic in before)


def test_default_in_flight_requests_depend_on_idempotence_and_names_stay_distinct() -> None:
    swept = {"enable.idempotence": [False, True], "max.in.flight.requests.per.connection": [1, 5]}
    found = topics({"acks": "all", **swept})
    assert len(found) == 4
    assert found["acks-all-minisr-1-idempotence-true"].max_in_flight == 5


def test_cell_has_the_name_and_topic_prefix_of_the_file() -> None:
    (cell,) = expand(cells({"acks": "all", "name": "orders", "prefix": "team-a."}))
    assert (cell.name, cell.topic) == ("orders", "team-a.orders")


def test_name_holds_values_of_settings() -> None:
    written = {
        "acks": [1, "all"],
        "min.insync.replicas": 2,
        "isolation.level": "read_committed",
        "producer": {"linger.ms": [0, 5]},
        "name": "o_{acks}.{isolation.level}.{producer.linger.ms}",
    }
    found = [cell.name for cell in expand(cells(written))]
    assert found == [
        f"o_{acks}.read-committed.{linger}" for acks in ("1", "all") for linger in ("0", "5")
    ]
    assert [cell.topic for cell in expand(cells(written))] == found


def test_last_name_that_is_for_a_cell_counts_and_other_cells_keep_theirs() -> None:
    names = [
        {"where": {"acks": "all"}, "name": "safe-{min.insync.replicas}"},
        {"where": {"acks": -1, "min.insync.replicas": 2}, "name": "orders"},
    ]
    found = expand(cells({"acks": [1, "all"], "min.insync.replicas": [1, 2], "name": names}))
    assert [cell.topic for cell in found] == [
        "acks-1-minisr-1",
        "acks-1-minisr-2",
        "safe-1",
        "orders",
    ]


def test_cell_with_a_run_of_its_own_keeps_its_name() -> None:
    written = {"acks": [1, "all"], "partitions": [3, 6], "name": "{acks}-{partitions}"}
    sweep = cells(written)
    for cell in expand(sweep):
        assert expand(only(sweep, cell)) == (cell,)
