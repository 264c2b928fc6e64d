"""Apache Kafka's own command line programs, with clients of 3.9 and of 4.1."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ackproof.broker.server.requests.dispatch import served
from tests.support.clients.admin import read
from tests.support.clients.confluent import create_topic, produce, read_all
from tests.support.clusters.apache_kafka import KAFKA_3, KAFKA_4, KafkaToolFailed
from tests.support.clusters.bundled import Cluster, until
from tests.support.clusters.kafka_tools import KafkaTools

pytestmark = pytest.mark.kafka

LINES = [f"line {number}" for number in range(200)]


@pytest.fixture(params=[KAFKA_3, KAFKA_4])
def tools(request: pytest.FixtureRequest, cluster: Cluster) -> KafkaTools:
    return KafkaTools(request.param, cluster.bootstrap)


@pytest.fixture
def filled(cluster: Cluster, topic: str) -> str:
    """A topic of two partitions with 100 records in each."""
    create_topic(cluster, topic, partitions=2)
    for partition in range(2):
        produce(cluster, topic, [b"%d" % number for number in range(100)], partition)
    return topic


def written(path: Path, **content: object) -> Path:
    """A JSON file as the programs want it."""
    path.write_text(json.dumps({"version": 1, **content}))
    return path


def events(output: str) -> Iterator[dict[str, object]]:
    """Yield the events that kafka-verifiable-* print, one a line."""
    return (json.loads(line) for line in output.splitlines() if line.startswith("{"))


# --- records --------------------------------------------------------------------------------


def test_console(tools: KafkaTools, cluster: Cluster, topic: str) -> None:
    create_topic(cluster, topic, partitions=2)
    tools("kafka-console-producer", "--topic", topic, stdin="\n".join(LINES))
    wanted = ("--topic", topic, "--from-beginning", "--max-messages", str(len(LINES)))
    got = tools("kafka-console-consumer", *wanted, "--timeout-ms", "60000")
    assert sorted(got.splitlines()) == sorted(LINES)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed(tools: KafkaTools, cluster: Cluster, topic: str, codec: str) -> None:
    create_topic(cluster, topic)
    option = ("--compression-codec", codec)
    tools("kafka-console-producer", "--topic", topic, *option, stdin="\n".join(LINES))
    assert read_all(cluster, topic) == [line.encode() for line in LINES]


def test_verifiable(tools: KafkaTools, cluster: Cluster, topic: str) -> None:
    create_topic(cluster, topic, partitions=2)
    count = ("--topic", topic, "--max-messages", "1000")
    sent = list(events(tools("kafka-verifiable-producer", *count, "--acks", "-1")))
    assert (sent[-1]["sent"], sent[-1]["acked"]) == (1000, 1000)
    read = events(tools("kafka-verifiable-consumer", *count, "--group-id", topic))
    consumed = [event["count"] for event in read if event["name"] == "records_consumed"]
    assert sum(consumed) == 1000


def test_performance(tools: KafkaTools, cluster: Cluster, topic: str) -> None:
    create_topic(cluster, topic, partitions=2)
    load = ("--num-records", "5000", "--record-size", "100", "--throughput", "-1")
    assert "5000 records sent" in tools("kafka-producer-perf-test", "--topic", topic, *load)
    wanted = ("--topic", topic, "--messages", "5000", "--timeout", "60000")
    heading, figures = tools("kafka-consumer-perf-test", *wanted).splitlines()[-2:]
    column = heading.split(", ").index("data.consumed.in.nMsg")
    assert figures.split(", ")[column] == "5000"


def test_offsets(tools: KafkaTools, filled: str) -> None:
    def offsets(time: str) -> list[str]:
        return tools("kafka-get-offsets", "--topic", filled, "--time", time).splitlines()

    assert offsets("latest") == [f"{filled}:0:100", f"{filled}:1:100"]
    assert offsets("earliest") == [f"{filled}:0:0", f"{filled}:1:0"]
    assert offsets("earliest-local") == [f"{filled}:0:0", f"{filled}:1:0"]
    assert [line.rsplit(":", 1)[0] for line in offsets("max-timestamp")] == [
        f"{filled}:0",
        f"{filled}:1",
    ]


def test_deleted_records(tools: KafkaTools, cluster: Cluster, filled: str, tmp_path: Path) -> None:
    doomed = [{"topic": filled, "partition": 1, "offset": 40}]
    offsets = written(tmp_path / "offsets.json", partitions=doomed)
    assert "low_watermark: 40" in tools("kafka-delete-records", "--offset-json-file", offsets)
    assert read_all(cluster, filled, 1)[0] == b"40"


# --- topics ---------------------------------------------------------------------------------


def test_topics(tools: KafkaTools, cluster: Cluster, topic: str) -> None:
    shape = ("--partitions", "2", "--replication-factor", "3")
    named = ("--topic", topic)
    tools("kafka-topics", "--create", *named, *shape, "--config", "min.insync.replicas=2")
    described = tools("kafka-topics", "--describe", *named)
    assert re.search(r"PartitionCount: 2\s+ReplicationFactor: 3\s+.*insync.replicas=2", described)
    tools("kafka-topics", "--alter", *named, "--partitions", "3")
    assert "PartitionCount: 3" in tools("kafka-topics", "--describe", *named)
    assert topic in tools("kafka-topics", "--list").split()
    tools("kafka-topics", "--delete", *named)
    until(f"{topic} is gone", lambda: cluster.topic(topic) is None)
    assert topic not in tools("kafka-topics", "--list").split()


def test_a_broker_is_down(tools: KafkaTools, cluster: Cluster, topic: str) -> None:
    create_topic(cluster, topic)
    preferred = cluster.topic(topic).partitions[0].replicas[0]
    lagging = ("--describe", "--under-replicated-partitions", "--topic", topic)
    assert tools("kafka-topics", *lagging) == ""
    broker = cluster.brokers[preferred]
    broker.kill()
    try:
        until("another leads", lambda: cluster.leader(topic) not in (-1, preferred))
        until("two replicas are in sync", lambda: len(cluster.isr(topic)) == 2)
        assert f"Topic: {topic}\tPartition: 0" in tools("kafka-topics", *lagging)
    finally:
        broker.start()
    until("all are in sync again", lambda: len(cluster.isr(topic)) == 3)
    cluster.wait_until_complete()
    assert tools("kafka-topics", *lagging) == ""
    where = ("--topic", topic, "--partition", "0")
    elected = tools("kafka-leader-election", "--election-type", "preferred", *where)
    assert f"Successfully completed leader election (PREFERRED) for partitions {topic}-0" in elected
    until("the preferred replica leads", lambda: cluster.leader(topic) == preferred)


def test_reassignment(tools: KafkaTools, cluster: Cluster, topic: str, tmp_path: Path) -> None:
    create_topic(cluster, topic, replication_factor=2)
    produce(cluster, topic, [b"%d" % number for number in range(100)])
    old = cluster.topic(topic).partitions[0].replicas
    new = [*({1, 2, 3} - set(old)), old[0]]
    topics = written(tmp_path / "topics.json", topics=[{"topic": topic}])
    generate = ("--topics-to-move-json-file", topics, "--broker-list", "1,2,3", "--generate")
    generated = tools("kafka-reassign-partitions", *generate)
    assert re.search(rf'Current partition.*\n.*"replicas":\[{old[0]},{old[1]}\]', generated)
    move = {"topic": topic, "partition": 0, "replicas": new}
    plan = ("--reassignment-json-file", written(tmp_path / "plan.json", partitions=[move]))
    started = tools("kafka-reassign-partitions", "--execute", *plan)
    assert f"Successfully started partition reassignment for {topic}-0" in started
    done = f"Reassignment of partition {topic}-0 is completed."
    until("it is complete", lambda: done in tools("kafka-reassign-partitions", "--verify", *plan))
    listed = tools("kafka-reassign-partitions", "--list")
    assert "No partition reassignments found." in listed
    assert cluster.topic(topic).partitions[0].replicas == new
    assert len(read_all(cluster, topic)) == 100


# --- settings -------------------------------------------------------------------------------


@pytest.mark.parametrize("entity", ["topics", "brokers", "brokers-default"])
def test_settings(tools: KafkaTools, filled: str, entity: str) -> None:
    where = {
        "topics": ("--entity-type", "topics", "--entity-name", filled),
        "brokers": ("--entity-type", "brokers", "--entity-name", "1"),
        "brokers-default": ("--entity-type", "brokers", "--entity-default"),
    }[entity]
    name = "max.message.bytes" if entity == "topics" else "message.max.bytes"
    tools("kafka-configs", "--alter", *where, "--add-config", f"{name}=12345")
    described = ("kafka-configs", "--describe", *where)
    until("the setting is there", lambda: f"{name}=12345 sensitive=false" in tools(*described))
    tools("kafka-configs", "--alter", *where, "--delete-config", name)
    until("the setting is gone", lambda: f"{name}=12345" not in tools(*described))


def test_log_directories(tools: KafkaTools, cluster: Cluster, filled: str) -> None:
    output = tools("kafka-log-dirs", "--describe", "--topic-list", filled)
    (line,) = (line for line in output.splitlines() if line.startswith("{"))
    for found in json.loads(line)["brokers"]:
        (directory,) = found["logDirs"]
        assert directory["logDir"] == str(cluster.brokers[found["broker"]].logs)
        assert directory["error"] is None
        partitions = {partition["partition"]: partition for partition in directory["partitions"]}
        assert partitions.keys() == {f"{filled}-0", f"{filled}-1"}
        assert all(partition["size"] > 100 for partition in partitions.values())
    assert len(json.loads(line)["brokers"]) == 3


def test_cluster_id(tools: KafkaTools, cluster: Cluster) -> None:
    assert read(cluster, "/cluster/id")["id"] in tools("kafka-cluster", "cluster-id")


# --- groups ---------------------------------------------------------------------------------


def described(tools: KafkaTools, group: str, *options: str) -> list[dict[str, str]]:
    """The table that kafka-consumer-groups prints, a row each."""
    output = tools("kafka-consumer-groups", "--describe", "--group", group, *options)
    lines = [line.split() for line in output.splitlines() if len(line.split()) > 4]
    heading = next(n for n, words in enumerate(lines) if words[0] == "GROUP")
    return [dict(zip(lines[heading], words, strict=False)) for words in lines[heading + 1 :]]


def test_groups(tools: KafkaTools, filled: str, tmp_path: Path) -> None:
    group = filled
    member = tools.process(
        "kafka-console-consumer",
        *("--topic", filled, "--group", group, "--from-beginning"),
        log=tmp_path / "consumer.log",
    )
    member.start()
    try:
        until("all is read", lambda: len(member.log.read_text().splitlines()) >= 200)
        assert group in tools("kafka-consumer-groups", "--list").split()
        (row,) = described(tools, group, "--members")
        assert row["#PARTITIONS"] == "2"
        until(
            "all is committed",
            lambda: [row["LAG"] for row in described(tools, group)] == ["0", "0"],
        )
        member.signal(15)
        member.wait()
    finally:
        member.kill()
    reset = ("--reset-offsets", "--group", group, "--topic", filled, "--execute")
    tools("kafka-consumer-groups", *reset, "--to-offset", "30")
    assert [row["LAG"] for row in described(tools, group)] == ["70", "70"]
    tools("kafka-consumer-groups", *reset, "--to-earliest")
    assert [row["CURRENT-OFFSET"] for row in described(tools, group)] == ["0", "0"]
    tools("kafka-consumer-groups", "--delete-offsets", "--group", group, "--topic", f"{filled}:0")
    assert len(described(tools, group)) == 1
    # Its status does not tell.
    assert "was successful" in tools("kafka-consumer-groups", "--delete", "--group", group)
    assert group not in tools("kafka-consumer-groups", "--list").split()


# --- what is offered, and what is not -------------------------------------------------------


def test_each_broker_reports_its_served_versions(
    tools: KafkaTools, cluster: Cluster, coordination: str
) -> None:
    output = tools("kafka-broker-api-versions")
    brokers = re.split(r"^\S+ \(id: \d", output, flags=re.MULTILINE)[1:]
    assert len(brokers) == len(cluster.brokers)
    offered = re.compile(r"\w+\((\d+)\): (\d+)(?: to (\d+))? \[")
    for broker in brokers:
        found = {
            int(key): range(int(first), int(last or first) + 1)
            for key, first, last in offered.findall(broker)
        }
        assert found == served(orders=coordination == "controller")


def test_a_broker_is_unregistered_where_there_is_no_controller(
    tools: KafkaTools, cluster: Cluster, coordination: str
) -> None:
    """Elsewhere nothing is left of a broker that is not registered."""
    if coordination == "controller":
        assert "does not support" in tools("kafka-cluster", "unregister", "--id", "1")
        return
    refusals = {
        1: ("InvalidRequestException", "broker 1 is running: stop it first"),
        99: ("BrokerIdNotRegisteredException", "there is no broker 99"),
    }
    for broker, (kind, reason) in refusals.items():
        with pytest.raises(KafkaToolFailed, match=kind) as refused:
            tools("kafka-cluster", "unregister", "--id", str(broker))
        # The client of 3.9 sends one to the broker's log for the reason.
        assert tools.version == KAFKA_3 or reason in str(refused.value)
        assert any(reason in one.log.read_text() for one in cluster.brokers.values())


@pytest.mark.parametrize(
    ("words", "api"),
    [
        ("kafka-acls --list", "DESCRIBE_ACLS"),
        ("kafka-transactions list", "LIST_TRANSACTIONS"),
        ("kafka-transactions describe-producers --partition 0 --topic", "DESCRIBE_PRODUCERS"),
        ("kafka-configs --describe --entity-type users", "DESCRIBE_CLIENT_QUOTAS"),
    ],
)
def test_unsupported_request_is_reported_by_the_tool(
    tools: KafkaTools, cluster: Cluster, topic: str, words: str, api: str
) -> None:
    asked = words.split()
    if asked[-1] == "--topic":
        create_topic(cluster, topic)
        asked.append(topic)
    with pytest.raises(KafkaToolFailed, match=f"does not support {api}"):
        tools(*asked)


def test_replica_verification_wants_topic_ids(
    tools: KafkaTools, cluster: Cluster, topic: str
) -> None:
    for number in range(2):
        create_topic(cluster, f"{topic}-{number}")
    with pytest.raises(KafkaToolFailed, match=r"Duplicate key A{22}"):
        tools("kafka-replica-verification")
