"""Names of systems, and the jars of a release of Apache Kafka."""

import hashlib
import json
import re
import shutil
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from ackproof.harness.cli import cli
from ackproof.infra import systems
from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.interface import InfraError
from ackproof.infra.systems import parse
from ackproof.infra.systems.kafka import jars, releases
from ackproof.infra.systems.kafka.kraft.metadata import schemas_of
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
        (
            "kafka",
            "which Apache Kafka? kafka:VERSION .*kafka:4.1.1.*kafka:/DIRECTORY",
        ),
        ("kafka:", "which Apache Kafka?"),
        ("kafka:latest", "'latest' is neither a version nor the path of a directory"),
        ("kafka:3.9.1-rc0", "'3.9.1-rc0' is neither a version"),
        ("kafka:libs", "'libs' is neither a version"),
        ("kafka:3", "'3' is neither a version"),
        ("kafka:2.0.2", "Apache Kafka 2.0.2 is too old: 2.4 or newer, or one of 0.10.2.2, .*2.0.1"),
        ("kafka:2.3.1", "Apache Kafka 2.3.1 is too old"),
        ("kafka:/nowhere/at/all", "/nowhere/at/all/libs does not exist"),
        ("kafka:4.1.1+agent:tracer", "the directory of a JVM agent is an absolute path"),
        ("kafka:4.1.1+agent:/nowhere", "/nowhere must be a directory with the jar of one JVM"),
        ("kafka:4.1.1+agent:", "an absolute path"),
        ("kafka:+agent:/nowhere", "is neither a version nor"),
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


def test_jars_must_match_the_released_checksums(tmp_path: Path) -> None:
    contents = {"g:a:1": b"first", "g:b:2:linux": b"second"}
    wanted = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    first, second = tmp_path / "a-1.jar", tmp_path / "b-2-linux.jar"
    first.write_bytes(b"first")
    with pytest.raises(InfraError, match=r"were released: 1 differ \(b-2-linux\.jar\)"):
        jars.check(tmp_path, wanted)
    second.write_bytes(b"second")
    jars.check(tmp_path, wanted)
    second.write_bytes(b"other")
    with pytest.raises(InfraError, match=r"1 differ \(b-2-linux\.jar\)"):
        jars.check(tmp_path, wanted)
    second.write_bytes(b"second")
    (tmp_path / "c-3.jar").touch()
    with pytest.raises(InfraError, match=r"1 differ \(c-3\.jar\)"):
        jars.check(tmp_path, wanted)


def test_missing_release_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(InfraError, match="was never fetched"):
        jars.jars_of(releases.released("3.9.1"))


def test_fetch_without_maven_names_the_package(
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
    for script, says in (("echo no network; exit 1", "no network"), ("exit 0", "57 differ")):
        executable(tmp_path / "mvn", f"#!/bin/sh\n{script}\n")
        with pytest.raises(InfraError, match=says):
            jars.fetch(releases.released("3.9.1"), told.append)
        assert list((tmp_path / "cache" / "ackproof").iterdir()) == []
    assert "fetching Apache Kafka 3.9.1, 57 jars" in told[0]


MAVEN = """#!/bin/sh
for option; do
  case $option in -DoutputDirectory=*) out=${{option#*=}};; *Layout*) whole=1;; esac
done
[ $whole ] && core=$out/org/apache/kafka/kafka_2.13/9.8.7 || core=$out
[ $whole ] && other=$out/g/more/other/1 || other=$out
mkdir -p $core $other
printf {content} > $core/kafka_2.13-9.8.7.jar
printf other > $other/other-1.jar
"""
"""A Maven of two jars, of which one has the content that it is given."""


def test_release_that_is_not_shipped_is_locked_when_it_is_first_fetched(
    tmp_path: Path, executable, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    executable(tmp_path / "mvn", MAVEN.format(content="first"))
    release = releases.released("9.8.7")
    jars.fetch(release, lines.append)
    sums = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("first", "other")}
    assert json.loads(releases.lock_of("9.8.7").read_text()) == {
        "g.more:other:1": sums["other"],
        "org.apache.kafka:kafka_2.13:9.8.7": sums["first"],
    }
    place = jars.jars_of(release).path
    assert {path.name for path in place.iterdir()} == {"kafka_2.13-9.8.7.jar", "other-1.jar"}
    assert "could not be asked for its properties" in lines[-1], "these are no jars"
    assert releases.described(release) is None
    # After a removal of the directory one gets the same release again, or none.
    shutil.rmtree(place)
    executable(tmp_path / "mvn", MAVEN.format(content="second"))
    with pytest.raises(InfraError, match=r"1 differ \(kafka_2.13-9.8.7.jar\)"):
        jars.fetch(release, lines.append)
    assert not place.exists()


JAVA = r"""#!/bin/sh
case "$*" in
  *version*) echo 'openjdk version "17.0.1"' >&2;;
  *ListProperties*) printf 'broker\tlog.flush.interval.messages\tLONG\t[1,...]\t9\n';;
  *ListRecords*) printf '9\tRemoveTopicRecord\t0\t{"fields": [["topic_id", "UUID"]]}\n';;
esac
"""
"""A Java that says what the two programs print of a release with one property and one record."""


def test_release_that_is_not_shipped_says_its_properties_when_it_is_first_fetched(
    tmp_path: Path, executable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A property that it does not have was not refused before, and is from then on."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (tmp_path / "bin").mkdir()
    executable(tmp_path / "mvn", MAVEN.format(content="first"))
    executable(tmp_path / "bin" / "java", JAVA)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    system = "kafka:9.8.7"
    content = yaml.safe_load(Path("campaigns/quick.yaml").read_text(encoding="utf-8"))
    content["cluster"] |= {"system": system, "properties": {"log.flush.interval.mesages": "5"}}
    file = tmp_path / "campaign.yaml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    assert CliRunner().invoke(cli, ["validate", str(file)]).exit_code == 0
    systems.prepare(system, print)
    try:
        refused = CliRunner().invoke(cli, ["validate", str(file)])
        assert refused.exit_code == 2
        assert "did you mean log.flush.interval.messages?" in refused.output
        schemas = schemas_of(releases.released("9.8.7"))
        assert (schemas.release, list(schemas.records)) == ("Apache Kafka 9.8.7", ["9"])
    finally:
        systems.known.cache_clear()


def test_release_that_does_not_exist_is_named_first(
    tmp_path: Path, executable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    words = "Could not find artifact org.apache.kafka:kafka_2.13:jar:9.8.7 in central"
    executable(tmp_path / "mvn", f"#!/bin/sh\necho '[ERROR] {words} (address)'\nexit 1\n")
    with pytest.raises(InfraError, match=r"^there is no Apache Kafka 9\.8\.7 on Maven Central"):
        jars.fetch(releases.released("9.8.7"), print)


@pytest.mark.parametrize(
    ("version", "needed"),
    [
        ("0.10.2.2", "kafka_2.11:0.10.2.2 jaxb-api:2.3.1"),
        ("2.0.1", "kafka_2.11:2.0.1 jaxb-api:2.3.1 slf4j-log4j12:1.7.25 zookeeper:3.4.12"),
        ("2.8.2", "kafka_2.13:2.8.2 slf4j-log4j12:1.7.30"),
        ("3.9.2", "kafka_2.13:3.9.2 slf4j-reload4j:1.7.36"),
        ("4.4.0", "kafka_2.13:4.4.0 log4j-slf4j-impl:2.24.3 log4j-core:2.24.3"),
    ],
)
def test_each_generation_has_the_further_jars_of_its_archives(version: str, needed: str) -> None:
    assert [one.partition(":")[2] for one in jars.needed(version)] == needed.split()


def test_jars_of_an_unpacked_release_are_taken_as_they_are(tmp_path: Path) -> None:
    release = release_of(f"kafka:{unpacked(tmp_path, 'kafka_2.13-3.9.1.jar')}")
    jars.fetch(release, pytest.fail)
    assert jars.jars_of(release).path == tmp_path / "libs"


def test_jars_are_named_by_their_content(tmp_path: Path) -> None:
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


def test_unreadable_jar_is_reported(tmp_path: Path) -> None:
    where = unpacked(tmp_path, "kafka_2.13-3.9.1.jar")
    (where / "libs" / "zstd.jar").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InfraError, match=r"cannot be read: .*zstd\.jar"):
        systems.artifacts(f"kafka:{where}")


def test_the_bundled_broker_needs_no_jars() -> None:
    assert systems.artifacts("bundled") == ()
