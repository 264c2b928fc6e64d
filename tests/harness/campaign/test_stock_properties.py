"""Properties from stock ``server.properties`` are judged by what their values do."""

from collections.abc import Mapping

import pytest

from ackproof.harness.campaign.validation import CampaignRefused, check

KAFKA = {"cluster.system": "kafka:3.9.1"}
KRAFT = {"cluster.system": "kafka:4.1.1"}
CLOCK = {"faults": [{"fault": "step-clock", "target": "one", "hold": "3s"}]}
WEEK_MS = 604_800_000


def refusals(file) -> list[str]:
    try:
        check(file)
    except CampaignRefused as refused:
        return [f"{problem.field}: {problem.reason}" for problem in refused.problems]
    return []


@pytest.mark.parametrize(
    "properties",
    [
        {
            "log.retention.hours": 168,
            "log.cleaner.enable": False,
            "log.cleaner.threads": 2,
            "log.cleaner.dedupe.buffer.size": 134217728,
            "log.cleaner.delete.retention.ms": 86400000,
            "log.cleaner.min.compaction.lag.ms": 0,
            "log.retention.check.interval.ms": 300000,
        },
        {"log.retention.hours": "24", "log.retention.minutes": -1},
        {"log.retention.hours": 1, "log.retention.ms": -1},
        {"log.retention.ms": WEEK_MS, "log.cleanup.policy": "delete"},
        {"log.retention.bytes": -1},
        {"log.retention.bytes": 1 << 40},
        {"log.retention.hours": [168, -1]},
    ],
)
def test_property_that_deletes_nothing_within_a_run_is_accepted(campaign_file, properties) -> None:
    assert refusals(campaign_file(KAFKA | {"cluster.properties": properties})) == []


@pytest.mark.parametrize(
    "topic",
    [
        {"retention.ms": WEEK_MS},
        {"retention.bytes": 1 << 40, "cleanup.policy": "delete"},
        {"delete.retention.ms": 1, "min.compaction.lag.ms": 0, "max.compaction.lag.ms": 1},
    ],
)
def test_topic_property_that_deletes_nothing_is_accepted(campaign_file, topic) -> None:
    assert refusals(campaign_file(KAFKA | {"cells.topic": topic})) == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"cluster.properties": {"log.retention.hours": 23}}, "cluster.properties"),
        ({"cluster.properties": {"log.retention.ms": 0}}, "cluster.properties"),
        ({"cluster.properties": {"log.retention.minutes": "5"}}, "cluster.properties"),
        ({"cluster.properties": {"log.retention.hours": [168, 1]}}, "cluster.properties"),
        (
            {"cluster.properties": {"log.retention.hours": -1, "log.retention.minutes": 1}},
            "cluster.properties.log.retention.minutes",
        ),
        ({"cluster.properties": {"log.retention.bytes": 1000}}, "log.retention.bytes"),
        ({"cluster.properties": {"log.cleanup.policy": "compact,delete"}}, "log.cleanup.policy"),
        ({"cluster.compare": {"a": {"log.retention.bytes": 1}, "b": {}}}, "cluster.compare.a"),
    ],
)
def test_property_that_deletes_within_a_run_is_refused(campaign_file, changes, field: str) -> None:
    told = refusals(campaign_file(KAFKA | changes))
    assert len(told) == 1
    assert field in told[0]
    assert "deletes records, which would be reported as lost" in told[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "workload.readers: 1"),
        ({"workload.readers": 1} | CLOCK, "a fault changes clocks"),
        ({"workload": {"kind": "transactions", "rate": 10}}, "the workload produce only"),
    ],
)
@pytest.mark.parametrize("topic", [{"retention.ms": 60_000}, {"retention.bytes": 1_000_000}])
def test_retention_that_cannot_be_judged_is_refused(campaign_file, changes, words, topic) -> None:
    told = refusals(campaign_file(KAFKA | {"cells.topic": topic} | changes))
    assert [line for line in told if words in line and next(iter(topic)) in line]


def test_compaction_that_cannot_be_judged_is_refused(campaign_file) -> None:
    compacted = {"cells.topic": {"cleanup.policy": ["delete", "compact"]}}
    told = refusals(campaign_file(KAFKA | compacted))
    assert ["workload.readers: 1" in line for line in told] == [True, False]
    assert "workload.keys" in told[1]
    watched = KAFKA | compacted | {"workload.readers": 1, "workload.keys": 50}
    assert refusals(campaign_file(watched)) == []
    demanding = {"evidence": {"removed.min": 100}}
    assert refusals(campaign_file(watched | demanding)) == []
    (told,) = refusals(campaign_file(KAFKA | demanding))
    assert told.startswith("evidence.removed.min: no cell removes records")
    (told,) = refusals(campaign_file(watched | {"cluster.system": "bundled"}))
    assert "cells.topic.cleanup.policy" in told


DELETING = KAFKA | {
    "workload.readers": 1,
    "workload.keys": 50,
    "workload.tombstones": 0.1,
    "cells.topic": {"cleanup.policy": "compact", "delete.retention.ms": 60_000},
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"workload.keys": None}, "a tombstone deletes a key: give the records keys"),
        ({"cells.topic": {"delete.retention.ms": 1}}, "only compaction removes tombstones"),
        ({"cells.topic": {"cleanup.policy": "compact"}}, "the checkers judge by delete.retention"),
        ({"cluster.system": "kafka:0.10.2.2"}, "since 0.11 (KIP-82), but kafka:0.10.2.2 does not"),
        ({"workload.tombstones": 1}, "less than or equal to 0.9"),
    ],
)
def test_tombstones_that_cannot_be_judged_are_refused(campaign_file, changes, words) -> None:
    told = refusals(campaign_file(DELETING | changes))
    assert [line for line in told if line.startswith("workload.tombstones: ") and words in line]


def test_tombstones_that_can_be_judged_are_accepted(campaign_file) -> None:
    libraries = ["librdkafka", "java", "aiokafka", "franz-go", "./own"]
    groups = [
        {"name": f"g{number}", "members": 1, "client": one} for number, one in enumerate(libraries)
    ]
    everywhere = {"cells.client": libraries, "workload.groups": groups}
    told = refusals(campaign_file(DELETING | everywhere))
    assert [line for line in told if not line.startswith("workload: servers and clients")] == []


def test_topic_retention_that_consumers_watch_is_accepted(campaign_file) -> None:
    topic = {"retention.ms": [10_000, -1], "retention.bytes": 1_000_000}
    watched = KAFKA | {"workload.readers": 1, "cells.topic": topic}
    assert refusals(campaign_file(watched)) == []
    told = refusals(campaign_file(watched | {"cells.topic": {"retention.ms": 9_999}}))
    assert ["at least 10,000" in line for line in told] == [True]


@pytest.mark.parametrize("system", [KAFKA, KRAFT, {}])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("listener.security.protocol.map", "A:PLAINTEXT"), ("inter.broker.listener.name", "A")),
        *(("listeners", "A://:9092"), ("advertised.listeners", "A://b:9092")),
        *(("security.inter.broker.protocol", "SASL_SSL"), ("control.plane.listener.name", "C")),
        *(("controller.listener.names", "C"), ("process.roles", "broker"), ("node.id", 7)),
        *(("broker.id", 7), ("zookeeper.connect", "z:2181"), ("log.dirs", "/d"), ("log.dir", "/d")),
        *(("metadata.log.dir", "/d"), ("early.start.listeners", "C"), ("host.name", "h")),
        *(("advertised.host.name", "h"), ("advertised.port", 9), ("port", 9)),
        *(("controller.quorum.voters", "1@a:9"), ("controller.quorum.bootstrap.servers", "a:9")),
        *(("zookeeper.ssl.client.enable", True), ("zookeeper.metadata.migration.enable", "true")),
    ],
)
@pytest.mark.parametrize("place", ["cluster.properties", "cluster.compare"])
def test_property_that_the_harness_owns_is_refused(
    campaign_file, system: Mapping[str, object], name: str, value: object, place: str
) -> None:
    given: object = {name: value}
    given = given if place == "cluster.properties" else {"a": given, "b": {}}
    told = refusals(campaign_file(dict(system) | {place: given}))
    assert told
    assert all(name in line for line in told)


def test_property_equal_to_a_harness_setting_is_accepted(campaign_file) -> None:
    same = {"security.inter.broker.protocol": "PLAINTEXT", "zookeeper.set.acl": False}
    assert refusals(campaign_file(KAFKA | {"cluster.properties": same})) == []


ACL = "kafka.security.authorizer.AclAuthorizer"


@pytest.mark.parametrize(
    "properties",
    [
        {"authorizer.class.name": ACL, "allow.everyone.if.no.acl.found": True},
        {"authorizer.class.name": ACL, "super.users": "User:admin;User:ANONYMOUS"},
        {"authorizer.class.name": "org.example.Opa", "opa.authorizer.url": "http://opa:8181"},
        {"listener.name.plaintext.max.connections": 100},
        {
            "remote.log.storage.manager.class.name": "io.example.Rsm",
            "rsm.config.chunk.size": 4194304,
            "rlmm.config.remote.log.metadata.topic.replication.factor": 1,
        },
        {
            "remote.log.storage.manager.class.name": "io.example.Rsm",
            "remote.log.storage.manager.impl.prefix": "tiered.",
            "tiered.chunk.size": 1,
        },
        {"metric.reporters": "org.example.R", "confluent.metrics.reporter.topic.replicas": 1},
        {"kafka.metrics.reporters": "org.example.R", "example.csv": "x"},
        {"client.quota.callback.class": "org.example.Q", "client.quota.callback.static.produce": 1},
        {"config.providers": "env", "config.providers.env.class": "org.example.Env"},
        {"metrics.jmx.exclude": "kafka.x"},
    ],
)
def test_property_of_a_plug_in_is_accepted(campaign_file, properties) -> None:
    assert refusals(campaign_file(KAFKA | {"cluster.properties": properties})) == []


def test_plug_in_may_be_named_for_all_clusters_and_set_for_each(campaign_file) -> None:
    changes = {
        "cluster.properties": {"authorizer.class.name": "org.example.Opa"},
        "cluster.compare": {"a": {"opa.url": "a"}, "b": {"opa.url": "b"}},
    }
    assert refusals(campaign_file(KAFKA | changes)) == []


@pytest.mark.parametrize(
    ("system", "properties", "words"),
    [
        (KAFKA, {"opa.authorizer.url": "x"}, "unknown broker property"),
        (
            KAFKA,
            {"authorizer.class.name": ACL, "num.network.thread": 3},
            "did you mean num.network.threads?",
        ),
        (KAFKA, {"authorizer.class.name": ACL, "ackproof.generation": "0.8"}, "bundled broker"),
        ({}, {"super.users": "User:a"}, "unknown broker property"),
    ],
)
def test_property_of_no_plug_in_is_refused(campaign_file, system, properties, words: str) -> None:
    told = refusals(campaign_file(system | {"cluster.properties": properties}))
    assert len(told) == 1
    assert words in told[0]


LONG = {"faults": [{"fault": "kill", "target": "one", "hold": "48h"}]}
LONGER = {"faults": [{"fault": "kill", "target": "one", "hold": "100h"}] * 2}
GROUPS = "cluster.properties.offsets.retention.minutes"


def planned(file) -> list[str]:
    """Return what is refused of a campaign whose length is meant."""
    try:
        check(file, meant=True)
    except CampaignRefused as refused:
        return [f"{problem.field}: {problem.reason}" for problem in refused.problems]
    return []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"cluster.properties": {"log.retention.hours": 24}}, "log.retention.hours"),
        ({"cluster.properties": {"log.retention.minutes": 2000}}, "log.retention.minutes"),
        ({"cluster.properties": {"log.retention.ms": 200_000_000}}, "log.retention.ms"),
        ({"cluster.compare": {"a": {"log.retention.hours": 40}, "b": {}}}, "cluster.compare.a"),
        ({"cells.topic": {"retention.ms": [-1, 170_000_000]}}, "workload.readers"),
        ({"cluster.properties": {"offsets.retention.minutes": 1440}}, GROUPS),
        ({"cluster.properties": {"producer.id.expiration.ms": 86_400_000}}, "producer.id"),
        ({"cluster.properties": {"transactional.id.expiration.ms": 60_000}}, "transactional.id"),
        (LONGER, "cells.topic: brokers keep records for 7 days"),
        (LONGER | {"cluster.properties": {"log.retention.hours": 168}}, "log.retention.hours"),
    ],
)
def test_retention_shorter_than_the_planned_run_is_refused(
    campaign_file, changes, field: str
) -> None:
    told = planned(campaign_file(KAFKA | LONG | changes))
    assert len(told) == 1
    assert field in told[0]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"cluster.properties": {"log.retention.hours": 168}},
        {"cluster.properties": {"log.retention.ms": -1, "log.retention.hours": 24}},
        {"cluster.properties": {"offsets.retention.minutes": 10_080}},
        LONGER | {"cells.topic": {"retention.ms": -1}},
        LONGER | {"cluster.properties": {"log.retention.ms": -1}},
        {"cells.topic": {"retention.ms": 604_800_000}},
    ],
)
def test_retention_longer_than_the_planned_run_is_accepted(campaign_file, changes) -> None:
    assert planned(campaign_file(KAFKA | LONG | changes)) == []


@pytest.mark.parametrize("name", ["offsets.retention.minutes", "producer.id.expiration.ms"])
def test_brokers_that_forget_within_a_short_run_are_refused(campaign_file, name: str) -> None:
    assert len(refusals(campaign_file({"cluster.properties": {name: 1}}))) == 1
