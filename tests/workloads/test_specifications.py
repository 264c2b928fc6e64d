"""Specifications are checked, and what is secret in them is not repeated."""

import json
from pathlib import Path

import pytest

from history.cell import Cell
from workloads import WORKLOADS
from workloads.configuration import connection_properties, producer_properties
from workloads.interface import Load
from workloads.spec import (
    FINAL_READ,
    FinalReadSpec,
    ProducerSpec,
    SpecificationError,
    load,
    writer_of,
)
from workloads.topics import topic_properties

CELL = Cell(
    name="acks-all.minisr-2",
    topic="acks-all-minisr-2",
    settings={
        "acks": "all",
        "min.insync.replicas": 2,
        "partitions": 3,
        "unclean.leader.election.enable": False,
        "topic.segment.bytes": 1048576,
        "producer.sasl.password": "hunter2",
        "producer.linger.ms": 0,
    },
)
PRODUCE = WORKLOADS["produce"]


def producer_spec(**changed: object) -> dict[str, object]:
    (client,) = PRODUCE.clients(
        CELL,
        Load(rate=100, record_bytes=200),
        bootstrap_servers="10.0.0.1:9092",
        history="/h",
        progress="/p",
    )
    assert client.module == "workloads.producer"
    return {**client.specification, **changed}


def written(path: Path, specification: object) -> Path:
    path.write_text(json.dumps(specification))
    return path


def test_what_the_workload_builds_is_what_the_producer_reads(tmp_path: Path) -> None:
    spec = load(ProducerSpec, written(tmp_path / "spec.json", producer_spec()))
    assert (spec.cell, spec.topic, spec.acks, spec.rate) == (CELL.name, CELL.topic, "all", 100)
    properties = producer_properties(spec)
    assert properties["acks"] == "all"
    assert properties["linger.ms"] == 0
    assert properties["enable.idempotence"] is False
    assert "topic.metadata.refresh.interval.ms" not in properties


def test_what_the_workload_builds_is_what_the_final_read_reads(tmp_path: Path) -> None:
    client = PRODUCE.final_read(
        [CELL], bootstrap_servers="10.0.0.1:9092", history="/h", progress="/p", deadline_s=60
    )
    spec = load(FinalReadSpec, written(tmp_path / "spec.json", client.specification))
    assert [(topic.topic, topic.partitions) for topic in spec.topics] == [(CELL.topic, 3)]
    assert spec.client_config == {"sasl.password": "hunter2"}


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"acks": "2"}, "acks: "),
        ({"rate": 0}, "rate: "),
        ({"partitions": 0}, "partitions: "),
        ({"speed": 3}, "speed: "),
        ({"producer_config": {"sasl.password": ["hunter2"]}}, "producer_config"),
    ],
)
def test_a_wrong_specification_names_what_is_wrong_and_no_secret(
    tmp_path: Path, changed: dict, problem: str
) -> None:
    path = written(tmp_path / "spec.json", producer_spec(**changed))
    with pytest.raises(SpecificationError, match=problem) as caught:
        load(ProducerSpec, path)
    assert "hunter2" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_files_that_are_missing_or_no_json_are_told(tmp_path: Path) -> None:
    with pytest.raises(SpecificationError, match="No such file"):
        load(ProducerSpec, tmp_path / "none.json")
    (tmp_path / "half.json").write_text('{"cell": ')
    with pytest.raises(SpecificationError, match="Invalid JSON"):
        load(ProducerSpec, tmp_path / "half.json")


@pytest.mark.parametrize(
    "name",
    ["acks", "request.required.acks", "bootstrap.servers", "delivery.report.only.error"],
)
def test_properties_that_would_falsify_the_history_are_refused(name: str) -> None:
    spec = ProducerSpec.model_validate(producer_spec(producer_config={name: "1"}))
    with pytest.raises(SpecificationError, match="may not set"):
        producer_properties(spec)


@pytest.mark.parametrize("value", [0, -1, "x"])
@pytest.mark.parametrize("name", ["delivery.timeout.ms", "queue.buffering.max.messages"])
def test_limits_must_be_limits(name: str, value: object) -> None:
    spec = ProducerSpec.model_validate(producer_spec(producer_config={name: value}))
    with pytest.raises(SpecificationError, match="must be a number above 0"):
        producer_properties(spec)


def test_only_what_connecting_takes_goes_to_other_clients() -> None:
    given = {"sasl.username": "u", "ssl.ca.location": "c", "linger.ms": 3, "acks": 1}
    assert connection_properties(given) == {"sasl.username": "u", "ssl.ca.location": "c"}


def test_a_topic_is_made_of_what_the_cell_says_of_it() -> None:
    assert topic_properties(CELL) == {
        "segment.bytes": "1048576",
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
    }


def test_every_file_that_clients_will_write_is_planned() -> None:
    sends, log, reads = PRODUCE.writers([CELL], "client-1")
    partitions = tuple((CELL.topic, number) for number in range(3))
    spec = ProducerSpec.model_validate(producer_spec())
    assert (sends.table, sends.writer, sends.cell, sends.partitions) == (
        "sends",
        writer_of(spec.cell, spec.producer),
        CELL.name,
        partitions,
    )
    assert (log.table, log.writer, log.cell, log.partitions) == (
        "log",
        FINAL_READ,
        None,
        partitions,
    )
    assert (reads.table, reads.writer, reads.partitions) == ("reads", FINAL_READ, ())
    assert {writer.node for writer in (sends, log, reads)} == {"client-1"}
