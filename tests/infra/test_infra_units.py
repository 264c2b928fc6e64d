"""Units that need no namespace and no ZooKeeper."""

from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path, PurePosixPath
from types import SimpleNamespace

import pytest
from jproperties import Properties

from ackproof.history.schema import CLUSTER
from ackproof.infra.api.interface import Capability, ClusterView, InfraError, PartitionView
from ackproof.infra.api.metadata import ChangeKind, ClusterChange
from ackproof.infra.backends.local.network import free_subnet
from ackproof.infra.backends.ssh.login import UnknownHostKey
from ackproof.infra.machine.software import find_java, parse_version
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.node.nodes import capabilities
from ackproof.infra.systems import make_system
from ackproof.infra.systems.deployment import server_properties
from ackproof.infra.systems.observer import changes
from ackproof.infra.systems.zookeeper import configuration, expired

PARTITION = PartitionView(
    topic="t",
    partition=0,
    leader=1,
    isr=(1, 2),
    replicas=(1, 2),
    leader_epoch=3,
    controller_epoch=1,
)
VIEW = ClusterView(
    brokers={1: 100, 2: 200}, controller=1, controller_epoch=1, partitions={("t", 0): PARTITION}
)


def test_unknown_host_key_is_reported_once_with_the_way_to_accept_it() -> None:
    text = str(UnknownHostKey("kafka-1", "SHA256:abc", Path("/known_hosts")))
    assert text.count("unknown host") == 1
    assert text.endswith("add: --accept-host-key SHA256:abc")


def test_the_first_subnet_that_is_free_is_taken() -> None:
    assert free_subnet([]) == IPv4Network("10.64.0.0/24")
    taken = [
        IPv4Network("10.64.0.0/23"),
        IPv4Network("10.64.2.7/32"),
        IPv4Network("192.168.0.0/16"),
    ]
    assert free_subnet(taken) == IPv4Network("10.64.3.0/24")


def test_no_free_subnet_is_an_error() -> None:
    with pytest.raises(InfraError, match=r"every /24 of 10\.64\.0\.0/10 is already routed"):
        free_subnet([IPv4Network("10.0.0.0/8")])


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21.0.2"', 21),
        ('IMPLEMENTOR="Debian 12"\nJAVA_VERSION="17.0.15"\nSOURCE=".:git:1"', 17),
    ],
)
def test_java_versions(answer: str, version: int) -> None:
    assert parse_version(answer) == version


def test_java_home_comes_before_the_path(
    tmp_path: Path, executable: Callable[[Path, str], None]
) -> None:
    for home, version in (("old", "11.0.2"), ("new", "21.0.2")):
        (tmp_path / home / "bin").mkdir(parents=True)
        script = f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n"
        executable(tmp_path / home / "bin" / "java", script)
    new, old = (str(tmp_path / home) for home in ("new", "old"))
    assert find_java({"JAVA_HOME": new, "PATH": f"{old}/bin"}) == Path(f"{new}/bin/java")
    assert find_java({"PATH": f"{new}/bin:{old}/bin"}) == Path(f"{new}/bin/java")
    with pytest.raises(InfraError, match=r"is Java 11: install Java 17 or newer"):
        find_java({"JAVA_HOME": old, "PATH": f"{new}/bin"})
    with pytest.raises(InfraError, match="does not run"):
        find_java({"JAVA_HOME": str(tmp_path)})
    with pytest.raises(InfraError, match="java is not in PATH"):
        find_java({"PATH": str(tmp_path)})


def _node(name: str, address: str) -> SimpleNamespace:
    return SimpleNamespace(name=name, address=address, directory=PurePosixPath("/nodes") / name)


def test_a_java_is_not_started_where_a_file_tells_its_version(
    tmp_path: Path, executable: Callable[[Path, str], None]
) -> None:
    (tmp_path / "bin").mkdir()
    executable(tmp_path / "bin" / "java", "#!/bin/sh\nexit 1\n")
    (tmp_path / "release").write_text('JAVA_VERSION="21.0.2"\n')
    assert find_java({"PATH": f"{tmp_path}/bin"}) == tmp_path / "bin" / "java"


def test_the_session_timeout_is_granted_and_exact() -> None:
    node = _node("zookeeper-1", "10.64.0.11")
    settings = dict(line.split("=") for line in configuration(node, {1: node}, 6000).splitlines())
    tick = int(settings["tickTime"])
    assert 2 * tick <= 6000 <= 20 * tick
    assert 6000 % tick == 0, "sessions expire at whole ticks"
    assert settings["clientPortAddress"] == "10.64.0.11"
    assert settings["dataDir"] == "/nodes/zookeeper-1/zookeeper/data"
    assert not any(name.startswith("server.") for name in settings), "one alone is standalone"


def test_an_ensemble_lists_its_servers() -> None:
    nodes = {n: _node(f"zookeeper-{n}", f"10.64.0.1{n}") for n in (1, 2, 3)}
    lines = configuration(nodes[2], nodes, 6000).splitlines()
    assert "server.3=10.64.0.13:2888:3888" in lines
    assert "initLimit=10" in lines


def test_a_session_timeout_that_zookeeper_cannot_keep_is_refused() -> None:
    node = _node("zookeeper-1", "10.64.0.11")
    with pytest.raises(InfraError, match=r"zookeeper.session.timeout.ms=100 is too short: 200"):
        configuration(node, {1: node}, 100)


def test_properties_are_written_as_java_reads_them() -> None:
    settings = {"broker.id": "1", "listeners": "PLAINTEXT://10.0.0.1:9092", "odd": " a=b:c\\d é "}
    read = Properties()
    read.load(server_properties(settings), "utf-8")
    assert {name: value.data for name, value in read.items()} == settings


def test_nothing_changed() -> None:
    assert list(changes(VIEW, VIEW, 5)) == []


def test_a_first_view_is_all_change() -> None:
    empty = ClusterView(brokers={}, controller=None, controller_epoch=0, partitions={})
    assert list(changes(empty, VIEW, 5)) == [
        ClusterChange(time_ns=5, kind=ChangeKind.BROKER_UP, broker=1),
        ClusterChange(time_ns=5, kind=ChangeKind.BROKER_UP, broker=2),
        ClusterChange(time_ns=5, kind=ChangeKind.CONTROLLER, broker=1, controller_epoch=1),
        ClusterChange(
            time_ns=5, kind=ChangeKind.PARTITION, topic="t", partition=0, leader=1, leader_epoch=3,
            isr=(1, 2), elr=(), controller_epoch=1,
        ),
    ]  # fmt: skip


def test_a_broker_with_a_new_session_went_down_and_came_up() -> None:
    after = replace(VIEW, brokers={1: 100, 2: 201})
    assert [(c.kind, c.broker) for c in changes(VIEW, after, 5)] == [
        (ChangeKind.BROKER_DOWN, 2),
        (ChangeKind.BROKER_UP, 2),
    ]


def test_controller_that_leaves_and_returns_is_detected_by_its_epoch() -> None:
    none = replace(VIEW, controller=None)
    again = replace(VIEW, controller_epoch=2)
    assert [(c.broker, c.controller_epoch) for c in changes(VIEW, none, 5)] == [(None, 1)]
    assert [(c.broker, c.controller_epoch) for c in changes(VIEW, again, 5)] == [(1, 2)]


@pytest.mark.parametrize(
    "difference",
    [{"leader": -1}, {"isr": (2,)}, {"leader_epoch": 4}, {"controller_epoch": 2}, {"version": 8}],
)
def test_each_part_of_a_partition_s_state_counts(difference: dict[str, object]) -> None:
    after = replace(VIEW, partitions={("t", 0): replace(PARTITION, **difference)})
    (change,) = changes(VIEW, after, 5)
    assert {name: getattr(change, name) for name in difference} == difference


def test_changes_fit_the_history() -> None:
    fields = set(ClusterChange.__dataclass_fields__)
    assert fields - {"time_ns"} == set(CLUSTER.names) - {"time"}


@pytest.mark.parametrize(
    ("name", "says"), [("kafka", "which Apache"), ("pulsar", "unknown system")]
)
def test_systems_that_are_none(name: str, says: str) -> None:
    with pytest.raises(InfraError, match=says):
        make_system(name, SimpleNamespace(), brokers=3, zookeepers=1, properties={})


@pytest.mark.parametrize(
    ("brokers", "zookeepers", "properties", "says"),
    [
        (
            3,
            1,
            {"listeners": "x", "broker.id": "1"},
            "broker.id, listeners: Ackproof sets them for each",
        ),
        (3, 1, {"zookeeper.session.timeout.ms": "6 s"}, "zookeeper.session.timeout.ms='6 s'"),
        (3, 0, {}, "0 ZooKeeper servers"),
    ],
)
def test_deployments_that_cannot_be(
    brokers: int, zookeepers: int, properties: dict[str, str], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        make_system(
            "bundled",
            SimpleNamespace(),
            brokers=brokers,
            zookeepers=zookeepers,
            properties=properties,
        )


def test_waiting_ends_with_the_condition_or_in_vain() -> None:
    answers = iter([False, False, True])
    wait_until(lambda: next(answers), 5, "three", interval=0)
    with pytest.raises(TimeoutError, match="without success for a miracle"):
        wait_until(lambda: False, 0, "a miracle")


EXPIRING = b"INFO  ZooKeeperServer - Expiring session 0x%x, timeout of 4000ms exceeded\n"
ENDING = b"INFO  ZooKeeperServer - Submitting global closeSession request for session 0x%x\n"


@pytest.mark.parametrize(
    ("logs", "gone_by_silence"),
    [
        pytest.param([EXPIRING % 0x1A], {0x1A}, id="one server, which logs no more than that"),
        pytest.param([EXPIRING % 1 + ENDING % 1, b""], {1}, id="by the leader"),
        pytest.param([b"", ENDING % 1], set(), id="its client ended it"),
        pytest.param(
            [EXPIRING % 1 + ENDING % 1, ENDING % 1], set(), id="without effect, then its client"
        ),
        pytest.param([(EXPIRING % 1 + ENDING % 1), EXPIRING % 1 + ENDING % 1], {1}, id="twice"),
        pytest.param([EXPIRING % 1 + ENDING % 1 + ENDING % 2], {1}, id="each by itself"),
    ],
)
def test_a_session_that_its_client_ended_was_not_expired(
    logs: list[bytes], gone_by_silence: set[int]
) -> None:
    """A leader without followers logged that it expires all sessions; they lived on, and
    brokers that ended theirs properly were not believed."""
    assert expired(logs) == gone_by_silence


@pytest.mark.parametrize(
    ("reasons", "can"),
    [([None], True), ([None, None], True), ([None, "/sys is read-only there"], False), ([], False)],
)
def test_untried_capability_is_absent(reasons: list[str | None], can: bool) -> None:
    found = capabilities([], tried={Capability.SLOW_DISKS: reasons})
    assert (Capability.SLOW_DISKS in found) is can
