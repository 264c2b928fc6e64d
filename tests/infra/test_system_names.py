"""What a system may be called, and which jars a release of Apache Kafka has."""

import hashlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.infra import systems
from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.interface import InfraError
from ackproof.infra.systems import parse
from ackproof.infra.systems.kafka import jars, releases
from ackproof.infra.systems.kafka.product import KafkaBuild
from ackproof.infra.systems.kafka.releases import Release

WORDS = st.text("abcdefghijklmnopqrstuvwxyz0123456789.-_", min_size=1, max_size=12)


def unpacked(directory: Path, *names: str) -> Path:
    """A directory as Apache Kafka's archives are."""
    (directory / "libs").mkdir()
    for name in names:
        (directory / "libs" / name).touch()
    return directory


def release_of(name: str) -> Release:
    """Return which Apache Kafka a name is."""
    build = parse(name)
    assert isinstance(build, KafkaBuild)
    return build.release


def test_names_that_are_right(tmp_path: Path) -> None:
    assert parse("bundled").text == "bundled"
    assert release_of("kafka:3.9.1") == Release(version="3.9.1")
    assert release_of("kafka:4.1.1") == Release(version="4.1.1")
    where = unpacked(tmp_path, "kafka_2.12-2.8.2.jar", "kafka-clients-2.8.2.jar")
    found = parse(f"kafka:{where}")
    assert found.text == f"kafka:{where}"
    assert release_of(found.text) == Release(version="2.8.2", directory=where / "libs")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "pulsar",
            "unknown system 'pulsar'; known: bundled, external, kafka:0.10.2.2, .*kafka:4.1.1",
        ),
        ("bundle", "did you mean bundled?"),
        ("kafak:3.9.1", "did you mean kafka:3.9.1?"),
        ("kafka", "which Apache Kafka? .*kafka:3.9.1, kafka:4.1.1, or kafka:/DIRECTORY"),
        ("kafka:", "which Apache Kafka?"),
        ("kafka:latest", "'latest' is neither a version nor the path of a directory"),
        ("kafka:3.9.1-rc0", "'3.9.1-rc0' is neither a version"),
        ("kafka:libs", "'libs' is neither a version"),
        ("kafka:3", "'3' is neither a version"),
        ("kafka:3.8.0", "of Apache Kafka 3.8.0 the jars are not known, but of .*3.9.1"),
        ("kafka:4.0.0", "of Apache Kafka 4.0.0 the jars are not known, but of .*4.1.1"),
        ("kafka:2.0.2", "of Apache Kafka 2.0.2 the jars are not known, but of .*2.0.1"),
        ("kafka:/nowhere/at/all", "there is no /nowhere/at/all/libs"),
    ],
)
def test_names_that_are_none(name: str, says: str) -> None:
    with pytest.raises(ValueError, match=says.replace("?", r"\?")):
        parse(name)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ((), "0 jars in .*libs are Kafka's broker"),
        (("kafka_2.13-3.9.1-test.jar",), "0 jars"),
        (("kafka_2.12-3.9.1.jar", "kafka_2.13-3.9.1.jar"), "2 jars"),
        (("kafka_2.11-2.0.1.jar",), "too old"),
    ],
)
def test_directories_that_are_none(tmp_path: Path, names: tuple[str, ...], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse(f"kafka:{unpacked(tmp_path, *names)}")


@pytest.mark.parametrize("backend", ["local", "docker", "ssh"])
@pytest.mark.parametrize("name", ["bundled", *(f"kafka:{one}" for one in releases.VERSIONS)])
def test_everything_is_deployed_everywhere(name: str, backend: str) -> None:
    assert parse(name).obstacle(backend) is None
    assert "it is for external" in (parse(name).obstacle("here") or "")


def test_containers_do_not_see_where_links_lead(tmp_path: Path) -> None:
    """Kafka would start without that jar, and end with a class that is not found."""
    where = unpacked(tmp_path, "kafka_2.13-3.9.1.jar")
    (where / "libs" / "zstd.jar").symlink_to(tmp_path / "somewhere" / "zstd.jar")
    found = parse(f"kafka:{where}")
    says = r"has jars that are links \(zstd.jar\): containers see the directory"
    assert re.search(says, found.obstacle("docker") or "")
    assert {found.obstacle(backend) for backend in ("local", "ssh")} == {None}


@pytest.mark.parametrize("version", releases.VERSIONS)
def test_every_jar_of_a_release_has_its_sum(version: str) -> None:
    listed = jars.listed(version)
    core = "kafka_2.11" if version < "3" else "kafka_2.13"
    assert {f"org.apache.kafka:{name}:{version}" for name in (core, "kafka-clients")} <= (
        listed.keys()
    )
    assert all(len(bytes.fromhex(sha256)) == 32 for sha256 in listed.values())
    assert len({jars.file_name(one) for one in listed}) == len(listed), "one directory has them all"


@given(
    jar=st.tuples(WORDS, WORDS, WORDS) | st.tuples(WORDS, WORDS, WORDS, WORDS), beside=st.booleans()
)
def test_a_pom_has_the_jars_and_nothing_that_they_need(jar: tuple[str, ...], beside: bool) -> None:
    wanted = {":".join(jar): "", **({"g:other:1": ""} if beside else {})}
    pom = jars.as_pom(wanted)
    tags = ("groupId", "artifactId", "version", "classifier")
    assert "".join(f"<{tag}>{one}</{tag}>" for tag, one in zip(tags, jar, strict=False)) in pom
    assert pom.count("<dependency>") == len(wanted) == pom.count("<groupId>*</groupId>")


def test_what_lies_there_is_what_was_released(tmp_path: Path) -> None:
    contents = {"g:a:1": b"first", "g:b:2:linux": b"second"}
    wanted = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    first, second = tmp_path / "a-1.jar", tmp_path / "b-2-linux.jar"
    first.write_bytes(b"first")
    with pytest.raises(InfraError, match=r"^b-2-linux\.jar in .* not as released"):
        jars.check(tmp_path, wanted)
    second.write_bytes(b"second")
    jars.check(tmp_path, wanted)
    second.write_bytes(b"other")
    with pytest.raises(InfraError, match=r"^b-2-linux\.jar in"):
        jars.check(tmp_path, wanted)
    second.write_bytes(b"second")
    (tmp_path / "c-3.jar").touch()
    with pytest.raises(InfraError, match=r"^c-3\.jar in"):
        jars.check(tmp_path, wanted)


def test_what_was_never_fetched_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(InfraError, match="was never fetched"):
        jars.jars_of(releases.released("3.9.1"))


def test_without_maven_it_is_said_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfraError, match=r"no mvn in PATH .*apt-get install maven.*kafka:/DIR"):
        jars.fetch(releases.released("3.9.1"), print)


def test_a_fetch_that_fails_leaves_nothing(
    tmp_path: Path, executable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that brings nothing, and one that brings something else."""
    told: list[str] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for script, says in (("echo no network; exit 1", "no network"), ("exit 0", "not as released")):
        executable(tmp_path / "mvn", f"#!/bin/sh\n{script}\n")
        with pytest.raises(InfraError, match=says):
            jars.fetch(releases.released("3.9.1"), told.append)
        assert list((tmp_path / "cache" / "ackproof").iterdir()) == []
    assert "fetching Apache Kafka 3.9.1, 57 jars" in told[0]


def test_jars_of_an_unpacked_release_are_taken_as_they_are(tmp_path: Path) -> None:
    release = release_of(f"kafka:{unpacked(tmp_path, 'kafka_2.13-3.9.1.jar')}")
    jars.fetch(release, pytest.fail)
    assert jars.jars_of(release).path == tmp_path / "libs"


def test_jars_are_named_after_what_they_hold(tmp_path: Path) -> None:
    def named(directory: Path, content: bytes, *beside: str) -> Artifact:
        directory.mkdir()
        libs = unpacked(directory, "kafka_2.13-3.9.1.jar", *beside) / "libs"
        (libs / "zstd.jar").write_bytes(content)
        (one,) = systems.artifacts(f"kafka:{directory}")
        return one

    first = named(tmp_path / "a", b"x", "zstd.jar.asc", "README")
    assert first.name.startswith("kafka-3.9.1-")
    assert first.title == "Apache Kafka 3.9.1"
    assert first.path == tmp_path / "a" / "libs"
    empty, x = (hashlib.sha256(content).hexdigest() for content in (b"", b"x"))
    assert first.sums == {"kafka_2.13-3.9.1.jar": empty, "zstd.jar": x}
    assert named(tmp_path / "b", b"x").name == first.name
    assert named(tmp_path / "c", b"y").name != first.name
    assert named(tmp_path / "d", b"x", "more.jar").name != first.name


def test_a_jar_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    where = unpacked(tmp_path, "kafka_2.13-3.9.1.jar")
    (where / "libs" / "zstd.jar").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InfraError, match=r"cannot be read: .*zstd\.jar"):
        systems.artifacts(f"kafka:{where}")


def test_the_bundled_broker_needs_no_jars() -> None:
    assert systems.artifacts("bundled") == ()
