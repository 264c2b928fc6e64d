"""server.properties: Kafka's names and defaults in, or one clear line about what is wrong."""

import logging
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ackproof.broker.config import ConfigError, Listener, TopicConfig, load
from ackproof.broker.replication.config import Truncation

MINIMAL = "broker.id=1\nzookeeper.connect=127.0.0.1:2181\n"


@pytest.fixture
def properties(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "server.properties"
        path.write_text(MINIMAL + text)
        return path

    return write


def test_defaults_are_kafkas(properties) -> None:
    config = load(properties(""))
    assert config.zookeeper_session_timeout_ms == 18_000
    assert config.replica_lag_time_max_ms == 30_000
    assert config.auto_create_topics_enable
    assert not config.unclean_leader_election_enable
    assert config.listeners == Listener("", 9092)
    assert config.retention_ms == 168 * 3_600_000
    assert config.truncation is Truncation.LEADER_EPOCH


def test_properties_are_read_as_kafka_reads_them(properties) -> None:
    config = load(
        properties(
            "# a comment\n"
            "listeners=PLAINTEXT://127.0.0.1:19092\n"
            "log.dirs=/a, /b\n"
            "min.insync.replicas = 2\n"
            "auto.create.topics.enable=FALSE\n"
            "log.retention.minutes=5\n"
            "inter.broker.protocol.version=0.10.2-IV0\n"
        )
    )
    assert config.advertised == Listener("127.0.0.1", 19092)
    assert config.log_dirs == (Path("/a"), Path("/b"))
    assert config.topic_defaults().min_insync_replicas == 2
    assert not config.auto_create_topics_enable
    assert config.topic_defaults().retention_ms == 300_000
    assert config.truncation is Truncation.HIGH_WATERMARK


def test_connection_limits_have_kafkas_names_and_defaults(properties) -> None:
    assert load(properties("")).connections_max_idle_ms == 600_000
    assert load(properties("")).max_connections == load(properties("")).max_connections_per_ip
    overrides = "max.connections.per.ip.overrides=10.0.0.1:5, ::1:7\n"
    config = load(properties(overrides))
    assert config.max_connections_per_ip_overrides == (("10.0.0.1", 5), ("::1", 7))
    with pytest.raises(ConfigError, match=r"10.0.0.1:100,10.0.0.2:200"):
        load(properties("max.connections.per.ip.overrides=10.0.0.1\n"))


def test_an_unknown_property_is_a_warning(properties, caplog) -> None:
    with caplog.at_level(logging.WARNING):
        load(properties("num.network.threads=3\n"))
    assert "num.network.threads is not a known configuration" in caplog.text


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("num.partitions=many", "num.partitions=many: Input should be a valid integer"),
        ("num.partitions=0", "num.partitions=0: Input should be greater than or equal to 1"),
        ("auto.create.topics.enable=1", "auto.create.topics.enable=1: Input should be true or"),
        ("listeners=SSL://h:1", "listeners=SSL://h:1: Input should be one listener such as"),
        ("listeners=PLAINTEXT://h:1,PLAINTEXT://h:2", "Input should be one listener such as"),
        ("log.dirs=,", "log.dirs=,: Input should be one or more directories"),
        ("inter.broker.protocol.version=new", "should be a version such as 3.4"),
        ("replica.fetch.wait.max.ms=99999", "should not be above replica.lag.time.max.ms"),
        ("advertised.listeners=PLAINTEXT://0.0.0.0:1", "that clients can reach"),
    ],
)
def test_a_wrong_value_is_one_clear_line(properties, line: str, complaint: str) -> None:
    path = properties(line + "\n")
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_property_is_named(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("broker.id=1\n")
    with pytest.raises(ConfigError, match=r"zookeeper\.connect is missing"):
        load(path)


def program(properties: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "ackproof.broker", "--config", str(properties)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_program_exits_with_2_and_no_traceback(properties) -> None:
    path = properties("num.partitions=many\n")
    run = program(path)
    assert run.returncode == 2
    assert run.stderr.count("\n") == 1
    assert "num.partitions=many" in run.stderr


def test_a_cluster_without_zookeeper_is_one_clear_line(properties, tmp_path: Path) -> None:
    with socket.socket() as unanswered:
        unanswered.bind(("127.0.0.1", 0))
        path = properties(
            f"zookeeper.connect=127.0.0.1:{unanswered.getsockname()[1]}\n"
            f"zookeeper.connection.timeout.ms=200\nlog.dirs={tmp_path}\n"
        )
        run = program(path)
    assert run.returncode == 1
    assert "cannot start: no connection to ZooKeeper" in run.stderr
    assert "Traceback" not in run.stderr


def test_topic_settings_override_the_brokers(properties) -> None:
    defaults = load(properties("min.insync.replicas=2\n")).topic_defaults()
    own = defaults.overridden({"retention.ms": "1000"})
    assert own.retention_ms == 1000
    assert own.min_insync_replicas == 2


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        ({"cleanup.policy": "compact"}, "cleanup.policy: unknown setting"),
        ({"min.insync.replicas": "0"}, "min.insync.replicas=0: Input should be greater"),
    ],
)
def test_topic_settings_are_checked(overrides: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint.replace(".", r"\.")):
        TopicConfig().overridden(overrides)


def test_coordination_setting_selects_its_defaults(properties) -> None:
    config = load(properties(""))
    assert not config.led_by_leaders
    assert config.keep_in_sync_ms == config.replica_lag_time_max_ms

    led = "ackproof.coordination=leader\nackproof.keep.in.sync.ms=7000\n"
    config = load(properties(led))
    assert config.led_by_leaders
    assert config.keep_in_sync_ms == 7_000
    assert config.truncation is Truncation.LEADER_EPOCH
    printed = load(properties(led + "ackproof.coordination.variant=printed\n"))
    assert printed.truncation is Truncation.HIGH_WATERMARK, '"truncate the log to r.hw"'
    for wrong in ("ackproof.coordination=nobody", "ackproof.state.change.queue.max=0"):
        with pytest.raises(ConfigError, match=wrong.split("=")[0]):
            load(properties(wrong + "\n"))
