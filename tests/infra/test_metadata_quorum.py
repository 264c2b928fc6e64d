"""Supported and unsupported metadata quorums of each system."""

from pathlib import Path

import pytest

from ackproof.infra.systems import known, quorum_of
from ackproof.infra.systems.kafka import releases
from ackproof.infra.systems.product import MetadataQuorum

ZOOKEEPER, ISOLATED, COMBINED, DYNAMIC, MIGRATION = MetadataQuorum
_REFUSED = r"keeps its metadata|supports only|does not migrate from ZooKeeper to KRaft"
WITH_BOTH = ("kafka:3.3.2", "kafka:3.9.1")


def unpacked(directory: Path, version: str) -> str:
    (directory / "libs").mkdir()
    (directory / "libs" / f"kafka_2.13-{version}.jar").touch()
    return f"kafka:{directory}"


@pytest.mark.parametrize(
    ("system", "by_default", "others"),
    [
        ("bundled", ZOOKEEPER, ()),
        ("kafka:0.10.2.2", ZOOKEEPER, ()),
        ("kafka:2.0.1", ZOOKEEPER, ()),
        ("kafka:3.3.2", ZOOKEEPER, (ISOLATED, COMBINED)),
        ("kafka:3.9.1", ZOOKEEPER, (ISOLATED, COMBINED, DYNAMIC, MIGRATION)),
        ("kafka:4.1.1", ISOLATED, (COMBINED, DYNAMIC)),
    ],
)
def test_by_default_and_asked_for(
    system: str, by_default: MetadataQuorum, others: tuple[MetadataQuorum, ...]
) -> None:
    assert quorum_of(system) is by_default
    for quorum in MetadataQuorum:
        if quorum in (by_default, *others):
            assert quorum_of(system, quorum.value) is quorum
        else:
            with pytest.raises(ValueError, match=f"{system} ({_REFUSED})"):
                quorum_of(system, quorum.value)


@pytest.mark.parametrize(
    ("version", "quorums"),
    [
        ("3.2.3", [ZOOKEEPER]),
        ("3.3.0", [ZOOKEEPER, ISOLATED, COMBINED]),
        ("3.5.2", [ZOOKEEPER, ISOLATED, COMBINED]),
        ("3.6.0", [ZOOKEEPER, ISOLATED, COMBINED, MIGRATION]),
        ("3.10.0", [ZOOKEEPER, ISOLATED, COMBINED, DYNAMIC, MIGRATION]),
        ("4.0.0", [ISOLATED, COMBINED, DYNAMIC]),
    ],
)
def test_of_an_unpacked_release(
    tmp_path: Path, version: str, quorums: list[MetadataQuorum]
) -> None:
    system = unpacked(tmp_path, version)
    assert quorum_of(system) is quorums[0]
    for quorum in set(MetadataQuorum) - set(quorums):
        with pytest.raises(ValueError, match=_REFUSED):
            quorum_of(system, quorum)


@pytest.mark.parametrize(
    ("system", "asked", "says"),
    [
        ("bundled", "combined-kraft", "in ZooKeeper; Apache Kafka supports KRaft from 3.3 on"),
        ("bundled", "zookeeper-to-kraft", "one release of Apache Kafka from 3.6 to 3.9 does"),
        ("kafka:3.9.1..kafka:4.1.1", "zookeeper-to-kraft", "does not migrate from ZooKeeper"),
        ("kafka:4.1.1", "zookeeper", "with KRaft; Apache Kafka supports ZooKeeper before 4.0"),
        ("kafka:3.9.1", "kraft", "'kraft' is not one of zookeeper, isolated-kraft, combined-kraft"),
        ("external", "zookeeper", "is for systems that Ackproof deploys"),
        ("pulsar", None, "unknown system 'pulsar'"),
    ],
)
def test_unsupported_quorum_is_refused(system: str, asked: str | None, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        quorum_of(system, asked)


def test_quorum_of_an_external_cluster_is_unknown() -> None:
    assert quorum_of("external") is None


@pytest.mark.parametrize(
    ("quorum", "names"),
    [
        (ZOOKEEPER, ("zookeeper-1", "zookeeper-2")),
        (ISOLATED, ("controller-1", "controller-2")),
        (COMBINED, ("broker-1", "broker-2")),
        (MIGRATION, ("zookeeper-1", "zookeeper-2", "controller-1", "controller-2")),
    ],
)
def test_names_of_the_servers_of_a_quorum(quorum: MetadataQuorum, names: tuple[str, ...]) -> None:
    assert quorum.keepers(2) == names


@pytest.mark.parametrize("version", [one for one in releases.VERSIONS if one >= "3.3"])
def test_with_kraft_brokers_have_no_properties_of_zookeeper_s(version: str) -> None:
    """But for the session timeout, which is taken for KRaft's."""
    kraft = known(f"kafka:{version}", COMBINED.value)
    assert kraft is not None
    assert [name for name in kraft.broker if name.startswith("zookeeper.")] == [
        "zookeeper.session.timeout.ms"
    ]
    assert "is a property of brokers on ZooKeeper, not of" in (
        kraft.unknown("broker", "zookeeper.connection.timeout.ms") or ""
    )
    assert kraft.wrong("broker", "zookeeper.session.timeout.ms", 0) is not None


@pytest.mark.parametrize("system", WITH_BOTH)
def test_on_zookeeper_they_have_them(system: str) -> None:
    on_zookeeper = known(system, ZOOKEEPER.value)
    assert on_zookeeper == known(system)
    assert on_zookeeper is not None
    assert on_zookeeper.unknown("broker", "zookeeper.connection.timeout.ms") is None


def test_of_a_pair_that_cannot_be_nothing_is_known() -> None:
    assert known("kafka:4.1.1", ZOOKEEPER.value) is None
