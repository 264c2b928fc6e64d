"""Every way to write a campaign wrong is refused, with file, field and reason, before anything
is started."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ackproof.harness.campaign import clients
from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.problems.places import elsewhere, lacking_capabilities
from ackproof.harness.campaign.validation import CampaignRefused, check, load
from ackproof.harness.cli import cli
from ackproof.infra.api.interface import Capability

REFUSALS = [
    ({"runz": 2}, "runz", "unknown key"),
    ({"cluster.broker": 3}, "cluster.broker", "unknown key"),
    ({"name": "Not Nice"}, "name", "small letters"),
    ({"runs": "two"}, "runs", "whole number, not 'two'"),
    ({"runs": True}, "runs", "whole number, not true"),
    ({"runs": 0}, "runs", "greater than or equal to 1"),
    ({"cluster.brokers": 2}, "cells.replication.factor", "3 replicas need as many brokers"),
    (
        {"cells.min~insync~replicas": 4},
        "cells.min.insync.replicas",
        "4 is above the replication factor 3",
    ),
    ({"cells.acks": [2]}, "cells.acks", "0, 1 or all"),
    ({"cells.acks": True}, "cells.acks", "0, 1 or all"),
    ({"cells.acks": []}, "cells.acks", "at least one value, not []"),
    ({"cells.partitions": "many"}, "cells.partitions", "a whole number from 1, not 'many'"),
    ({"cells.replication~factor": [3, 0]}, "cells.replication.factor", "from 1, not 0"),
    (
        {"cells.unclean~leader~election~enable": "no"},
        "cells.unclean.leader.election.enable",
        "true or false, not 'no'",
    ),
    ({"cells.enable~idempotence": []}, "cells.enable.idempotence", "at least one value, not []"),
    ({"cells.ack": 1}, "cells.ack", "unknown key"),
    ({"cells": {"partitions": 1}}, "cells.acks", "is missing"),
    (
        {"cells.topic": {"min.insync.replicas": 1}},
        "cells.topic.min.insync.replicas",
        "belongs to cells.min.insync.replicas",
    ),
    (
        {"cells.producer": {"max.in.flight": 1}},
        "cells.producer.max.in.flight",
        "belongs to cells.max.in.flight.requests.per.connection",
    ),
    ({"cells.topic": {"acks": 1}}, "cells.topic.acks", "belongs to cells.acks"),
    ({"cells.partitions": list(range(1, 50))}, "cells", "294 in total, at most 200"),
    (
        {"cells.producer": {"client.rack": ["x", "a.b", "a_b"]}},
        "cells",
        "2 cells would share the topic",
    ),
    (
        {"cells.producer": {"client.rack": ["y", "x" * 200]}},
        "cells",
        "has more than 200 characters",
    ),
    ({"cells.name": "orders"}, "cells", "6 cells would share the topic orders"),
    ({"cells.name": "orders"}, "cells", "or a cells.name in which they do, as by {acks}"),
    ({"cells.name": "-{acks}-{min.insync.replicas}"}, "cells.name", "begin and end with a letter"),
    ({"cells.name": "a b"}, "cells.name", "letters, digits, dots, _ and -, and settings in braces"),
    ({"cells.name": "{acks"}, "cells.name", "letters, digits, dots, _ and -, and settings in brac"),
    ({"cells.name": ""}, "cells.name", "letters, digits, dots, _ and -"),
    ({"cells.name": "x" * 201}, "cells.name", "at most 200"),
    (
        {"cells.name": {"acks": None}},
        "cells.name",
        "text in quotes, or an entry with the key name, not",
    ),
    (
        {"cells.name": "{acks}-{min.insync.replica}"},
        "cells.name",
        "unknown setting 'min.insync.replica'; did you mean min.insync.replicas?",
    ),
    (
        {"cells.name": [{"where": {"acks": 5}, "name": "orders"}]},
        "cells.name[0].where",
        "no cell has acks: 5",
    ),
    (
        {"cells.name": "any", "cells.acks": "all", "cells.min~insync~replicas": 1},
        "cells.name",
        "'any' means any topic in a target",
    ),
    (
        {"cells.name": "__orders", "cells.acks": "all", "cells.min~insync~replicas": 1},
        "cells.name",
        "begins like Kafka's internal topics",
    ),
    (
        {
            "cells.name": [
                {"where": {"acks": 0, "min.insync.replicas": 1}, "name": "a.b"},
                {"where": {"acks": 0, "min.insync.replicas": 2}, "name": "a_b"},
            ]
        },
        "cells.name",
        "Kafka treats the topics a.b and a_b as the same",
    ),
    (
        {
            "cells.name": [
                {"where": {"acks": 0, "min.insync.replicas": 1}, "name": "acks-1.minisr-1"}
            ]
        },
        "cells.name",
        "2 cells would be called acks-1.minisr-1",
    ),
    ({"cluster.brokers": [3, 0]}, "cluster.brokers[1]", "greater than or equal to 1"),
    ({"cluster.racks": ["a", "b", "a"]}, "cluster.racks", "names a rack twice"),
    ({"cluster.racks": list("abcd")}, "cluster.racks", "d has no brokers"),
    ({"cluster.racks": ["a b"]}, "cluster.racks[0]", "letters, digits"),
    (
        {"cluster.racks": ["a"], "cluster.properties": {"broker.rack": "b"}},
        "cluster.racks",
        "puts all brokers into one rack",
    ),
    ({"cluster.brokers": [3, 2]}, "cells.replication.factor", "there are 2"),
    ({"cluster.brokers": [3, 4, 5], "runs": 200}, "runs", "600 in total, at most 500"),
    (
        {"cluster.properties": {"replica.lag.time.max.ms": [2000, "x"]}},
        "cluster.properties.replica.lag.time.max.ms[1]",
        "a whole number from 1, not 'x'",
    ),
    ({"cells.producer": {"linger.mss": 1}}, "cells.producer.linger.mss", "No such"),
    (
        {"cells.producer": {"plugin.library.paths": "/tmp/any.so"}},
        "cells.producer.plugin.library.paths",
        "must not make a reader load a program",
    ),
    ({"cells.producer": {"acks": 1}}, "cells.producer.acks", "belongs to cells.acks"),
    ({"cells.client": "jav"}, "cells.client", "java, aiokafka, franz-go, or the path of a program"),
    (
        {"cells.client": ["librdkafka", "java"], "cells.producer": {"client.rack": "x"}},
        "cells.producer.client.rack",
        "of java's, these may be set: batch.size",
    ),
    (
        {"cells.client": ["aiokafka", "java"], "cells.producer": {"retries": 3}},
        "cells.producer.retries",
        "aiokafka has no such property",
    ),
    (
        {"cells.client": "java", "cells.enable~idempotence": True},
        "cells",
        "enable.idempotence needs acks=all (in acks-0",
    ),
    (
        {"cells.client": "franz-go", "cells.producer": {"batch.size": 600}},
        "workload.record.bytes",
        "has room for 88",
    ),
    (
        {"cells.producer": {"request.required.acks": 1}},
        "cells.producer.request.required.acks",
        "belongs to cells.acks",
    ),
    (
        {"cells.producer": {"bootstrap.servers": "x"}},
        "cells.producer.bootstrap.servers",
        "must not be set: the harness knows",
    ),
    ({"cells.enable~idempotence": True}, "cells", "acks-0.minisr-1"),
    ({"workload.kind": "consume"}, "workload.kind", "unknown workload 'consume'; known: produce"),
    ({"workload.rate": 0}, "workload.rate", "greater than 0"),
    ({"workload.record~bytes": 10}, "workload.record.bytes", "10 bytes is not possible"),
    ({"workload.record~bytes": 10**12}, "workload.record.bytes", "has room for 999488"),
    ({"workload.rate": 10**9}, "workload.rate", "less than or equal to 1000000"),
    ({"workload.rate": "flat"}, "workload.rate", "not 'flat'"),
    (
        {"workload.rate": "flat-out"},
        "workload.records",
        "is missing: a producer that sends as fast",
    ),
    (
        {"workload.rate": "flat-out", "workload.records": 10**8},
        "workload.rate",
        "records of a run: 600,000,000 in total, above 100,000,000. To run it anyway: --yes",
    ),
    (
        {"workload.rate": "flat-out", "workload.records": 10**7, "workload.record~bytes": 1000},
        "workload.record.bytes",
        "bytes of a run, of all replicas and consumers: 180,000,000,000 in total, above",
    ),
    ({"workload.records": 1, "workload.producers": 2}, "workload.records", "too few for 2 prod"),
    ({"workload.record~bytes": [200, 100]}, "workload.record.bytes", "smallest size comes first"),
    ({"workload.record~bytes": [10, 100]}, "workload.record.bytes", "10 bytes is not possible"),
    ({"workload.record~bytes": [100, 200, 300]}, "workload.record.bytes", "or [smallest, largest]"),
    ({"workload.keys": 2}, "workload.keys", "2 keys are too few for 3 partitions"),
    ({"workload.keys": 10**9}, "workload.keys", "less than or equal to 100000"),
    (
        {
            "workload.keys": 9,
            "cells.client": ["java", "librdkafka"],
            "cells.producer": {"partitioner": "consistent"},
        },
        "cells.producer.partitioner",
        "murmur2 or murmur2_random, the default partitioner of java, not 'consistent'",
    ),
    (
        {"cells.producer": {"sticky.partitioning.linger.ms": 5}},
        "cells.producer.sticky.partitioning.linger.ms",
        "must not be set: no record is sent without a key and a partition",
    ),
    (
        {"cells.producer": {"partitioner": "murmur2"}},
        "cells.producer.partitioner",
        "the partitioner murmur2 needs workload.keys",
    ),
    (
        {"cells.producer": {"partitioner": ["fnv1a", "random"]}, "workload.keys": 99},
        "cells.producer.partitioner",
        "the partitioner random does not go by the key, and the history states",
    ),
    (
        {"cells.producer": {"partitioner": "consistent"}, "workload.keys": 3},
        "cells.producer.partitioner",
        "consistent sends none of 3 keys to partition 1: give more keys, or fewer partitions",
    ),
    ({"workload.rate": 10**5}, "workload.rate", "600,000 in total, above 50,000. To run it anyway"),
    ({"cells.partitions": 10**6}, "cells.partitions", "18,000,000 in total, at most 50,000"),
    ({"runs": 10**9}, "runs", "less than or equal to 500"),
    ({"runs": 100}, "runs", "100 in total, above 60. To run it anyway: --yes"),
    (
        {"cluster.brokers": 99, "cells.acks": list("01"), "cells.partitions": [*range(1, 11)]},
        "cluster.brokers",
        "140 in total, above 120",
    ),
    ({"workload.producers": 20}, "workload", "124 in total, above 120. To run it anyway: --yes"),
    (
        {"workload.readers": 10**9},
        "workload",
        "clients of a cell: 1,000,000,001 in total, at most 1",
    ),
    (
        {"cluster.brokers": 51, "cluster.disks": {"per.broker": 4}},
        "cluster.disks",
        "disks of servers: 204 in total, at most 200",
    ),
    (
        {"cluster.disks": {"per.broker": 8, "megabytes": 1 << 20}},
        "cluster.disks",
        "megabytes of the brokers' disks: 25,165,824 in total, at most 16,777,216",
    ),
    (
        {"workload.readers": 1, "workload.readers~where": {"acks": 2}},
        "workload.readers.where",
        "no cell has acks: 2",
    ),
    (
        {"workload.readers~where": {"acks": "all"}},
        "workload.readers.where",
        "there are no tail readers: add workload.readers",
    ),
    (
        {"limits": {"recover": "160h", "collect": "160h"}},
        "limits",
        "time that steps and proofs may take: 320.1 h in total, above 168.0 h",
    ),
    (
        {"limits": {"fault": "160h"}, "schedule": {"rounds": 2}},
        "limits",
        "in total, at most 720.0 h",
    ),
    (
        {"workload.groups": [{"name": "a", "members": 1, "consumer": {"session.timeout.ms": "x"}}]},
        "workload.groups[0].consumer.session.timeout.ms",
        "Invalid value",
    ),
    (
        {"workload.groups": [{"name": "a", "members": 1, "consumer": {"session.timeout.ms": 500}}]},
        "workload.groups[0].consumer",
        "session.timeout.ms is 500, but brokers accept 6000 to 1800000",
    ),
    (
        {
            "cluster.system": "kafka:3.9.1",
            "workload.groups": [
                {"name": "a", "members": 1, "consumer": {"group.protocol": "consumer"}}
            ],
        },
        "workload.groups[0].consumer",
        "group.protocol: consumer needs Apache Kafka 4.0 or newer (KIP-848)",
    ),
    (
        {
            "workload.groups": [
                {"name": "a", "members": 1, "replacement": {"group.protocol": "consumer"}}
            ],
        },
        "workload.groups[0].replacement",
        "needs Apache Kafka 4.0 or newer (KIP-848), but the system is bundled",
    ),
    (
        {"workload.groups": [{"name": "a", "members": 1, "replacement": {}}]},
        "workload.groups[0].replacement",
        "no member is ever replaced",
    ),
    (
        {
            "cluster.system": "kafka:4.1.1",
            "workload.groups": [
                {
                    "name": "a",
                    "members": 1,
                    "consumer": {"group.protocol": "consumer", "session.timeout.ms": 6000},
                }
            ],
        },
        "workload.groups[0].consumer",
        "`session.timeout.ms` is not supported for `group.protocol=consumer`",
    ),
    (
        {"workload.share~groups": [{"name": "a", "members": 1}]},
        "workload.share.groups[0]",
        "share groups need Apache Kafka 4.2 or newer (KIP-932), but the system is bundled",
    ),
    (
        {
            "cluster.system": "kafka:4.1.1",
            "workload.share~groups": [{"name": "a", "members": 1}],
        },
        "workload.share.groups[0]",
        "but the system is kafka:4.1.1",
    ),
    (
        {
            "workload.groups": [{"name": "a", "members": 1}],
            "workload.share~groups": [{"name": "a", "members": 1}],
        },
        "workload.share.groups[0].name",
        "workload.groups[0] also has the name 'a'",
    ),
    (
        {"workload.share~groups": [{"name": "a", "members": 1, "releases": 0.7, "rejects": 0.3}]},
        "workload.share.groups[0]",
        "releases and rejects: together they must be less than 1",
    ),
    (
        {
            "workload.share~groups": [
                {"name": "a", "members": 1, "consumer": {"session.timeout.ms": "x"}}
            ]
        },
        "workload.share.groups[0]",
        'Invalid value for configuration property "session.timeout.ms"',
    ),
    (
        {
            "workload.share~groups": [
                {"name": "a", "members": 1, "consumer": {"share.acknowledgement.mode": "implicit"}}
            ]
        },
        "workload.share.groups[0]",
        "may not set share.acknowledgement.mode: each record is acknowledged by itself",
    ),
    (
        {"cells.producer": {"client.rack": ["y", "x" * 120]}},
        "cells",
        "would have more than 255 characters: sweep fewer settings",
    ),
    (
        {
            "cells.producer": {"client.rack": ["x", "y"]},
            "workload.groups": [
                {"name": "producer-client-rack-y-c", "members": 1},
                {"name": "c", "members": 1},
            ],
        },
        "workload.groups",
        "clients would have the name",
    ),
    (
        {"cluster.backend": "moon"},
        "cluster.backend",
        "unknown backend 'moon'; known: local, docker, ssh, kubernetes, here",
    ),
    ({"cluster.system": "pulsar"}, "cluster.system", "unknown system 'pulsar'"),
    (
        {"cluster.system": "kafka"},
        "cluster.system",
        "kafka:VERSION (2.4.0 or newer",
    ),
    (
        {"cluster.system": "kafka:/nowhere"},
        "cluster.system",
        "/nowhere is not an unpacked Apache Kafka: /nowhere/libs does not exist",
    ),
    ({"cluster.system": 3}, "cluster.system", "Input should be text, not 3"),
    (
        {"cluster.system": "kafka:3.9.1", "cluster.properties": {"ackproof.generation": "0.10"}},
        "cluster.properties.ackproof.generation",
        "is a property of the bundled broker, not of kafka:3.9.1",
    ),
    (
        {"cluster.system": "kafka:3.9.1", "cluster.properties": {"node.id": 7}},
        "cluster.properties.node.id",
        "by the harness",
    ),
    (
        {"cluster.system": "kafka:3.9.1", "cluster.properties": {"process.roles": "broker"}},
        "cluster.properties.process.roles",
        "by the harness",
    ),
    (
        {"cluster.system": "kafka:3.9.1", "cells.topic": {"segment.bites": 1}},
        "cells.topic.segment.bites",
        "did you mean segment.bytes?",
    ),
    (
        {"cluster.properties": {"num.network.threads": 8}},
        "cluster.properties.num.network.threads",
        "unknown broker property",
    ),
    ({"cluster.properties": {"broker.id": 7}}, "cluster.properties.broker.id", "by the harness"),
    (
        {
            "cluster.system": "kafka:4.1.1",
            "cluster.properties": {"zookeeper.connection.timeout.ms": 6000},
        },
        "cluster.properties.zookeeper.connection.timeout.ms",
        "is a property of brokers on ZooKeeper, not of kafka:4.1.1",
    ),
    (
        {
            "cluster.system": "kafka:4.1.1",
            "cluster.properties": {"zookeeper.session.timeout.ms": "soon"},
        },
        "cluster.properties.zookeeper.session.timeout.ms",
        "a whole number",
    ),
    (
        {
            "cluster.system": "kafka:4.1.1",
            "cluster.properties": {"controller.quorum.voters": "1@broker-1:9093"},
        },
        "cluster.properties.controller.quorum.voters",
        "by the harness",
    ),
    (
        {"cluster.properties": {"zookeeper.session.timeout.ms": "soon"}},
        "cluster.properties.zookeeper.session.timeout.ms",
        "a whole number from 1, not 'soon'",
    ),
    ({"cluster.compare": {"A b": {}}}, "cluster.compare.A b", "small letters"),
    ({"cluster.compare": {"a": {"b": [1, 2]}}}, "cluster.compare.a.b", "true or false, not [1, 2]"),
    (
        {"cluster.compare": {"a": {"zookeeper.session.timeout.ms": 3000}}},
        "cluster.compare.a.zookeeper.session.timeout.ms",
        "is also set in cluster.properties",
    ),
    (
        {"cluster.compare": {"a": {"replica.lag.time.max.ms": "x"}}},
        "cluster.compare.a.replica.lag.time.max.ms",
        "a whole number from 1, not 'x'",
    ),
    (
        {"cluster.compare": {"a": {"replica.lag.time.max.ms": 400}, "b": {}}},
        "cluster.compare.a.replica.lag.time.max.ms",
        "replica.fetch.wait.max.ms (500) is above replica.lag.time.max.ms (400)",
    ),
    (
        {
            "cluster.properties": {"ackproof.coordination": "leader"},
            "cells.unclean~leader~election~enable": [False, True],
        },
        "cells.unclean.leader.election.enable",
        "has no effect with ackproof.coordination=leader",
    ),
    (
        {
            "cluster.compare": {"a": {"ackproof.coordination": "leader"}, "b": {}},
            "cells.unclean~leader~election~enable": True,
        },
        "cells.unclean.leader.election.enable",
        "has no effect with ackproof.coordination=leader",
    ),
    (
        {
            "cluster.properties": {
                "ackproof.coordination": "leader",
                "unclean.leader.election.enable": True,
            }
        },
        "cluster.properties.unclean.leader.election.enable",
        "has no effect with ackproof.coordination=leader",
    ),
    (
        {
            "cluster.compare": {
                "a": {"ackproof.coordination": "leader", "ackproof.generation": "0.8"},
                "b": {},
            }
        },
        "cluster.compare.a.ackproof.generation",
        "unclean.leader.election.enable=true, which this sets, has no effect",
    ),
    (
        {
            "cluster.properties": {
                "ackproof.generation": "0.10",
                "replica.fetch.wait.max.ms": 20_000,
            }
        },
        "cluster.properties.replica.fetch.wait.max.ms",
        "replica.fetch.wait.max.ms (20000) is above replica.lag.time.max.ms (10000)",
    ),
    (
        {"cluster.properties": {"ackproof.generation": 0.8}},
        "cluster.properties.ackproof.generation",
        "must be text in quotes",
    ),
    (
        {"cluster.properties": {"ackproof.generation": "0.9"}},
        "cluster.properties.ackproof.generation",
        "one of 0.8, 0.10, 0.11, not '0.9'",
    ),
    (
        {"cluster.properties": {"advertised.listeners": "PLAINTEXT://x:1"}},
        "cluster.properties.advertised.listeners",
        "by the harness",
    ),
    (
        {"cells.topic": {"cleanup.policy": "delete"}},
        "cells.topic.cleanup.policy",
        "unknown topic property; those that there are: docs/broker-properties.md",
    ),
    (
        {"cells.topic": {"unclean.leader.election.enabled": True}},
        "cells.topic.unclean.leader.election.enabled",
        "did you mean unclean.leader.election.enable?",
    ),
    ({"cluster.compare": {"a": {"broker.id": 7}}}, "cluster.compare.a.broker.id", "by the harness"),
    (
        {"cluster.compare": {"a": {"log.retention.hours": 1}}},
        "cluster.compare.a.log.retention.hours",
        "reported as lost",
    ),
    ({"cells.exclude": [{"acks": 5}]}, "cells.exclude[0]", "no cell has acks: 5"),
    (
        {"cells.exclude": [{"partitions": 1}, {"ack": "all"}]},
        "cells.exclude[1].ack",
        "did you mean acks?",
    ),
    ({"cells.exclude": [{"replication.factor": 3}]}, "cells.exclude", "no cell is left"),
    (
        {"cluster.properties": {"log.cleanup.policy": "compact"}},
        "cluster.properties.log.cleanup.policy",
        "reported as lost",
    ),
    (
        {"cluster.properties": {"log.retention.hours": 1}},
        "cluster.properties.log.retention.hours",
        "reported as lost",
    ),
    (
        {"cluster.properties": {"log.cleaner.enable": True}},
        "cluster.properties.log.cleaner.enable",
        "unknown broker property",
    ),
    ({"evidence": {"acked.min": -1}}, "evidence.acked.min", "greater than or equal to 1"),
]


@pytest.mark.parametrize(("changes", "field", "reason"), REFUSALS)
def test_refused(refuses, changes: Mapping[str, object], field: str, reason: str) -> None:
    refuses(changes, field, reason)


def run(arguments: list[str], directory: Path) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--out", str(directory / "out")])


def test_all_problems_are_reported_at_once(campaign_file, tmp_path: Path) -> None:
    wrong = {"cluster.brokers": 2, "workload.kind": "x", "faults.0.fault": "y"}
    stderr = run(["run", str(campaign_file(wrong))], tmp_path).stderr
    assert len(re.findall(r"campaign\.yaml:\d+:\d+: (cells|workload|faults)", stderr)) == 3
    assert stderr.endswith("campaign.yaml: 3 problems\n")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("name: [", ":1:8: file: not YAML: while parsing a flow node, expected the node content"),
        ("name: a\nname: b\n", ":2:1: name: is given twice; the first is in line 1"),
        ("- 1\n", ":1:1: file: Input should be a mapping of keys to values, not [1]"),
        ("", ": file: is empty; `ackproof init FILE` writes one to start from"),
        ("# nothing\n", ": file: is empty"),
        ("name: a\n", ":1:1: cells: is missing"),
        ("name: a\n", "faults: is missing; a campaign without faults, a baseline, must say so"),
        ("[" * 100_000, ":1:42: file: not YAML: nested too deeply"),
        ("name: &a [*a, *a]", ":1:7: file: not YAML: aliases make it unreasonably large"),
        ("name: \x01", ":1:7: file: not YAML: the character '\\x01' must not stand in YAML"),
        ("# " + "x" * 2**20, ": file: is larger than 1,048,576 bytes"),
    ],
)
def test_file_without_a_campaign_is_refused(tmp_path: Path, content: str, reason: str) -> None:
    file = tmp_path / "campaign.yaml"
    file.write_text(content)
    result = run(["run", str(file)], tmp_path)
    assert result.exit_code == 2
    assert reason in result.stderr


def test_missing_campaign_file_is_refused(tmp_path: Path) -> None:
    result = run(["run", str(tmp_path / "none.yaml")], tmp_path)
    assert result.exit_code == 2
    assert "cannot be read" in result.stderr


def test_a_results_directory_in_use(campaign_file, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    result = run(["run", str(campaign_file({}))], tmp_path)
    assert result.exit_code == 2
    assert "not an empty directory" in result.stderr


def test_a_fault_beyond_the_backends_powers_is_named(campaign: Campaign) -> None:
    first, second = lacking_capabilities(campaign, frozenset({Capability.CUT_LINKS}))
    assert str(first).startswith("faults[0].fault: kill needs signals, but the backend local")
    assert str(second).startswith("faults[1].fault: pause needs signals")


def test_the_backend_ssh_needs_hosts(campaign_file, tmp_path: Path) -> None:
    file = campaign_file({"cluster.backend": "ssh"})
    assert check(file), "the command line may name them"
    stderr = run(["run", str(file)], tmp_path).stderr
    assert re.search(r"campaign\.yaml:2:1: cluster\.inventory: the backend ssh needs", stderr)


@pytest.mark.parametrize("system", ["kafka:3.9.1", "bundled"])
def test_overridden_system_is_validated_by_its_own_properties(campaign_file, system: str) -> None:
    """Whatever the file says, and the copy that is run has its name."""
    other = {"kafka:3.9.1": "bundled", "bundled": "kafka:3.9.1"}[system]
    own = {"kafka:3.9.1": "num.network.threads", "bundled": "log.message.timestamp.type"}[system]
    value = {"num.network.threads": 8, "log.message.timestamp.type": "CreateTime"}[own]
    file = campaign_file({"cluster.system": other, "cluster.properties": {own: value}})
    found = check(file, system=system).campaign
    assert found.cluster.system == system
    assert f"system: {system}" in found.resolved(seed=1).to_yaml()
    wrong = {"kafka:3.9.1": "ackproof.generation", "bundled": "num.network.threads"}[system]
    value = {"ackproof.generation": "0.10", "num.network.threads": 8}[wrong]
    file = campaign_file({"cluster.system": other, "cluster.properties": {wrong: value}})
    assert check(file).campaign.cluster.system == other
    with pytest.raises(CampaignRefused, match=wrong) as refused:
        check(file, system=system)
    (problem,) = refused.value.problems
    assert problem.position is not None


def test_where_a_system_is_not_deployed(campaign_file) -> None:
    campaign = load(campaign_file({"cluster.system": "kafka:3.9.1"})).resolved(seed=1)
    for backend in ("local", "docker", "ssh"):
        assert list(elsewhere(campaign.resolved(seed=1, backend=backend))) == []
    (problem,) = elsewhere(campaign.resolved(seed=1, backend="here"))
    assert problem.field == "cluster.backend"
    assert problem.reason == "nothing is deployed on the backend here: it is for external"


@pytest.mark.parametrize("name", clients.PRODUCER_PROPERTIES)
def test_suggested_producer_properties_exist(name: str) -> None:
    assert "No such" not in (clients.producer_refusal(name, "?") or "")


@pytest.mark.parametrize("name", clients.CONSUMER_PROPERTIES)
def test_suggested_consumer_properties_exist(name: str) -> None:
    assert "No such" not in (clients.consumer_refusal(name, "?") or "")
