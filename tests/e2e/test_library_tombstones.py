"""Deleted keys of a compacted topic on Apache Kafka, with the producer and the group of another
client library than librdkafka."""

import json
import sys
from collections.abc import Mapping

import pytest

from ackproof.history.reader import read
from ackproof.infra.systems import prepare
from ackproof.workloads.librdkafka.keys import Keys

pytestmark = [pytest.mark.libraries, pytest.mark.e2e]

SYSTEM, PARTITIONS, KEYS = "kafka:4.4.0", 2, 2_000
PROPERTIES: Mapping[str, object] = {
    "broker.session.timeout.ms": 3000,
    "replica.lag.time.max.ms": 4000,
    "offsets.topic.num.partitions": 1,
    "log.cleaner.backoff.ms": 500,
}
TOPIC: Mapping[str, object] = {
    "cleanup.policy": "compact",
    "delete.retention.ms": 10_000,
    "segment.ms": 2000,
    "min.cleanable.dirty.ratio": 0.01,
    "min.compaction.lag.ms": 3000,
}


@pytest.mark.parametrize("library", ["java", "aiokafka", "franz-go"])
def test_library_deletes_keys_for_good_and_reads_their_tombstones(ackproof, library: str) -> None:
    """A leader is killed. Meanwhile keys are chosen a partition by the library, and tombstones
    expire."""
    prepare(SYSTEM, sys.stdout.write)
    cells = {
        "acks": "all",
        "enable.idempotence": True,
        "min.insync.replicas": 2,
        "partitions": PARTITIONS,
        "client": library,
        "producer": {"partitioner": "murmur2"},
        "topic": TOPIC,
    }
    groups = [{"name": "g", "members": 1, "client": library}]
    ackproof.vary(
        {
            "cluster": {"system": SYSTEM, "properties": PROPERTIES},
            "cells": cells,
            "workload": {
                "rate": 100,
                "keys": KEYS,
                "tombstones": 0.3,
                "readers": 1,
                "groups": groups,
            },
            "evidence": {"acked.min": 1000},
            "schedule": {"warmup": "15s", "settle": "60s", "tail": "20s"},
            "faults": [{"fault": "kill", "target": "leader(any, any)", "hold": "6s"}],
        }
    )
    result = ackproof("run", "small.yaml", "--seed", "1", "--out", "results")
    directory = ackproof.directory / "results"
    assert result.returncode == 0, result.stdout + result.stderr
    document = json.loads((directory / "verdict.json").read_text())
    (cell,) = document["cells"]
    assert (cell["verdict"], cell["lost"]) == ("pass", 0), cell["reasons"]
    held = {one["name"]: one["held"] for one in cell["guarantees"]}
    judged = ("tombstones-kept", "deleted-keys-stay-deleted", "deletions-read")
    assert [held[name] for name in judged] == [True] * 3

    history = directory / "runs/1/history"
    sent = [row for row in read(history, "sends").to_pylist() if row["type"] == "invoke"]
    keys = Keys(KEYS, PARTITIONS, "murmur2").partitions
    assert [row["partition"] for row in sent] == keys[[row["key"] for row in sent]].tolist()
    deleted = {row["sequence"] for row in sent if row["tombstone"]}
    polls = read(history, "polls").to_pylist()
    for writer in {row["client"] for row in polls}:
        assert {row["sequence"] for row in polls if row["client"] == writer} & deleted
    left = {row["sequence"] for row in read(history, "log").to_pylist()}
    assert 0 < len(deleted & left) < len(deleted), "some are gone, and some not yet"
