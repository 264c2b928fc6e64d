"""Faults, their times, and what is expected of them: each way to write them wrong is refused, with
file, field and reason, before anything is started."""

from collections.abc import Mapping

import pytest

from ackproof.harness.campaign.validation import CampaignRefused, check

REFUSALS = [
    (
        {
            "cells.alone": True,
            "faults": [{"fault": "kill", "target": "leader(acks-all-minisr-1, any)"}],
        },
        "faults[0].target",
        "acks-all-minisr-1 exists in one run only; use any",
    ),
    ({"schedule": {"warmup": "999999999h"}}, "schedule.warmup", "too long: at most 168h"),
    ({"schedule": {"warmup": "9" * 400 + "h"}}, "schedule.warmup", "too long: at most 168h"),
    ({"schedule": {"warmup": "20h", "tail": "20h"}}, "schedule", "40.0 h in total, above 24.0 h"),
    ({"schedule": {"rounds": 10**9}}, "schedule.rounds", "2,000,000,000 in total, at most 5,000"),
    (
        {
            "cluster.system": "kafka:4.1.1",
            "failover": {"partitions": 10, "target": "controller"},
        },
        "failover.target",
        "the servers that keep the metadata are not brokers",
    ),
    ({"faults.0.fault": "meteor"}, "faults[0].fault", "unknown fault 'meteor'; known: kill, "),
    (
        {"faults.1.target": "everyone"},
        "faults[1].target",
        "'everyone' is not a target; known: leader(topic, partition)",
    ),
    ({"faults.0.target": "leader"}, "faults[0].target", "leader needs a partition"),
    ({"faults.0.target": "leader(orders, 0)"}, "faults[0].target", "no cell has the topic"),
    (
        {"faults.0.target": "leader(acks-1-minsr-1, 0)"},
        "faults[0].target",
        "no cell has the topic 'acks-1-minsr-1'; did you mean acks-1-minisr-1? There are acks-",
    ),
    (
        {"faults.0.target": "leader(acks-1-minisr-1, 3)"},
        "faults[0].target",
        "has the partitions 0 to 2",
    ),
    (
        {"faults.0.target": "one(all + zookeper)"},
        "faults[0].target",
        "'zookeper' is not a target; did you mean zookeeper?",
    ),
    (
        {"faults.0.target": "broker-4"},
        "faults[0].target",
        "there is no broker-4; there are broker-1, ",
    ),
    (
        {"faults.0.fault": "partition"},
        "faults[0].fault",
        "may mean isolate: cut nodes off from all",
    ),
    ({"faults.0.fault": "Net_Split"}, "faults[0].fault", "unknown fault 'Net_Split'"),
    (
        {"faults.0.fault": "network_partition"},
        "faults[0].fault",
        "; or halves: split nodes into a majority",
    ),
    ({"faults.0.fault": "crash"}, "faults[0].fault", "may mean kill: kill -9"),
    ({"faults.0.target": "all => zookeeper"}, "faults[0].target", "links are written A -> B"),
    *(
        (
            {"faults": [{"fault": fault, "target": target, **own}]},
            "faults[0].target",
            "there is no other broker for",
        )
        for fault, target, own in (
            ("reassign", "topic(acks-all-minisr-2)", {}),
            ("reassign", "partition(acks-all-minisr-2, any)", {"parameters": {"replicas": "one"}}),
            ("remove-broker", "broker-3", {}),
            ("remove-broker", "leader(acks-all-minisr-2, any)", {}),
        )
    ),
    (
        {
            "faults.0": {
                "fault": "add-broker",
                "target": "partition(acks-all-minisr-2, any)",
                "parameters": {"brokers": 4},
            }
        },
        "faults[0].target",
        "too few for each of 4 new brokers",
    ),
    (
        {
            "faults.0": {
                "fault": "add-broker",
                "target": "topic(acks-all-minisr-2)",
                "parameters": {"brokers": 0},
            }
        },
        "faults[0].parameters.brokers",
        "1",
    ),
    (
        {"faults.0": {"fault": "add-broker", "target": "broker-1"}},
        "faults[0].target",
        "partition",
    ),
    ({"faults.0.target": "clients"}, "faults[0].target", "targets servers, and clients is not one"),
    ({"faults.0.target": "all -> zookeeper"}, "faults[0].target", "targets servers, not links"),
    (
        {"faults.0": {"fault": "cut", "target": "all"}},
        "faults[0].target",
        "targets links, like",
    ),
    (
        {"faults.0": {"fault": "bridge", "target": "broker-1 + broker-2"}},
        "faults[0].target",
        "bridge needs 3 nodes or more; the target names broker-1, broker-2",
    ),
    (
        {"faults.0.target": "all - (broker-1 + broker-2 + broker-3)"},
        "faults[0].target",
        "can never match a server",
    ),
    ({"faults.0.parameters": {"speed": 3}}, "faults[0].parameters.speed", "unknown key"),
    (
        {"faults.0": {"fault": "isolate", "target": "all", "parameters": {"direction": "up"}}},
        "faults[0].parameters.direction",
        "'both', 'in' or 'out', not 'up'",
    ),
    ({"failover": {"partitions": [10, 10]}}, "failover.partitions", "larger than the one before"),
    ({"failover": {"partitions": []}}, "failover.partitions", "at least one value, not []"),
    (
        {"failover": {"partitions": 10, "replication.factor": 4}},
        "failover.replication.factor",
        "4 replicas need as many brokers, but there are 3",
    ),
    ({"failover": {"partitions": 10, "target": "nobody"}}, "failover.target", "is not a target"),
    (
        {"failover": {"partitions": 10, "target": "one(zookeeper)"}},
        "failover.target",
        "the servers that keep the metadata are not brokers",
    ),
    ({"faults.0.at": 5}, "faults[0].at", "needs a number and a unit"),
    ({"faults.0.hold": 5}, "faults[0].hold", "needs a number and a unit"),
    ({"faults.0.hold": ["5s", "4s"]}, "faults[0].hold", "the shortest time comes first"),
    ({"schedule": {"order": "random"}}, "schedule.order", "'shuffled', 'listed' or 'drawn'"),
    ({"schedule": {"gap": ["1s", "2s", "3s"]}}, "schedule.gap", "[shortest, longest]"),
    ({"expect": "win"}, "expect", "'not-guaranteed' or 'inconclusive', not 'win'"),
    (
        {"expect": [{"verdict": ["fail", "win"]}]},
        "expect[0].verdict[1]",
        "'not-guaranteed' or 'inconclusive', not 'win'",
    ),
    ({"expect": [{"verdict": []}]}, "expect[0].verdict", "at least one value"),
    (
        {"expect": [{"where": {"acks": 2}, "verdict": "fail"}]},
        "expect[0].where",
        "no cell has acks: 2",
    ),
    (
        {
            "expect": [
                {"where": {"acks": 1}, "verdict": "pass"},
                {"where": {"min.isr": 1}, "verdict": "fail"},
            ]
        },
        "expect[1].where.min.isr",
        "unknown setting 'min.isr'; known: acks, ",
    ),
    (
        {"expect": [{"where": {"replication.factr": 3}, "verdict": "fail"}]},
        "expect[0].where.replication.factr",
        "unknown setting 'replication.factr'; did you mean replication.factor?",
    ),
    ({"faults.0.target": "leader(any, 7)"}, "faults[0].target", "has the partitions 0 to"),
    ({"failover": {"partitions": 10, "target": "leader(any, 0)"}}, "failover.target", "'any'"),
    (
        {"faults": [{"fault": "advance-log-start", "target": "topic(acks-0-minisr-1)"}]},
        "faults[0].target",
        "acks-0-minisr-1: with acks=0 clients receive no offsets",
    ),
    (
        {"faults": [{"fault": "advance-log-start", "target": "partition(any, any)"}]},
        "faults[0].target",
        "acks-0-minisr-2: with acks=0 clients receive no offsets",
    ),
    (
        {
            "workload.readers": 1,
            "faults": [{"fault": "advance-log-start", "target": "topic(acks-all-minisr-2)"}],
        },
        "faults[0].target",
        "it has consumers, and skipped records could not be distinguished",
    ),
    (
        {
            "workload.groups": [{"name": "audit", "members": 1}],
            "faults": [{"fault": "add-partitions", "target": "topic(acks-all-minisr-2)"}],
        },
        "faults[0].target",
        "it has consumer groups, whose members would receive partitions",
    ),
    (
        {
            "faults": [
                {
                    "fault": "alter-min-isr",
                    "target": "topic(any)",
                    "parameters": {"min_insync_replicas": 2},
                }
            ]
        },
        "faults[0].parameters.min_insync_replicas",
        "is 2 already, so nothing would change",
    ),
    (
        {"faults": [{"fault": "alter-min-isr", "target": "topic(acks-all-minisr-1)"}]},
        "faults[0].parameters.min_insync_replicas",
        "acks-all-minisr-1 is 1 already",
    ),
    (
        {"faults": [{"fault": "delete-topic", "target": "topic(acks-all-minisr-2)"}]},
        "faults[0].target",
        "a topic that receives records is never deleted: created again",
    ),
]


@pytest.mark.parametrize(("changes", "field", "reason"), REFUSALS)
def test_refused(refuses, changes: Mapping[str, object], field: str, reason: str) -> None:
    refuses(changes, field, reason)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"fault": "pause", "target": "zookeeper"}, "with KRaft there is no ZooKeeper; quorum"),
        ({"fault": "pause", "target": "zookeeper-1"}, "there is no zookeeper-1"),
        ({"fault": "expire-session", "target": "broker-1"}, "which KRaft does not have"),
        ({"fault": "conflicted-node", "target": "one"}, "which KRaft does not have"),
        (
            {"fault": "replace", "target": "controller"},
            "targets brokers, and controller is not one",
        ),
        (
            {
                "fault": "isolate",
                "target": "broker-1",
                "parameters": {"service": "zookeeper"},
            },
            "with KRaft there is no ZooKeeper; cut the links completely",
        ),
    ],
)
def test_with_kraft_a_fault_on_zookeeper_is_refused(
    campaign_file, fault: dict[str, object], reason: str
) -> None:
    file = campaign_file({"faults": [{**fault, "hold": "5s"}]})
    assert check(file).campaign.cluster.system == "bundled"
    with pytest.raises(CampaignRefused) as refused:
        check(file, system="kafka:4.1.1")
    (problem,) = refused.value.problems
    assert reason in problem.reason
