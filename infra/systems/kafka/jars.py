"""Apache Kafka's jars: fetched once from Maven Central, by Maven, and kept in the user's cache.

They lie in a directory named after the version and its list of jars (below
``$XDG_CACHE_HOME/ackproof``, by default ``~/.cache/ackproof``). The list has the SHA-256 of each
jar. It is shipped for some releases. For any other it is written when the release is first fetched
(``kafka-VERSION.lock.json``). The jars are compared with it whenever a cluster is made of them, so
that exactly that release is tested. A run has no network, so what is missing is fetched before it
(:func:`fetch`).
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from xml.sax.saxutils import escape

from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.interface import InfraError
from ackproof.infra.machine.software import cached
from ackproof.infra.systems.kafka.releases import (
    FIRST,
    Release,
    keep,
    keep_description,
    listed,
    lock_of,
    name_of,
    numbers_of,
    put,
    sums_of,
)

_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_DOWNLOADED = re.compile(r"Downloaded from .*/([^/]+\.jar) ")
_FROM = ".".join(map(str, FIRST))
_TOLD_LINES = 20
_NAMED = 3
"""The number of wrong jars that a message names."""
_NOT_THERE = re.compile(r"Could not find artifact org\.apache\.kafka:kafka_2\.[0-9]+:jar:(\S+)")
_EVERY = 10
"""The number of jars between two lines of progress."""

_JAXB = "javax.xml.bind:jaxb-api:2.3.1"
"""A library that was part of Java before 11."""
_BESIDE: Sequence[tuple[tuple[int, ...], Sequence[str]]] = (
    (
        (4,),
        (
            "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3",
            "org.apache.logging.log4j:log4j-core:2.24.3",
        ),
    ),
    ((3,), ("org.slf4j:slf4j-reload4j:1.7.36",)),
    (FIRST, ("org.slf4j:slf4j-log4j12:1.7.30",)),
    # ZooKeeper's client that 2.0 names, 3.4.13, finds no server from Java 14 on. It takes a host
    # out of an address's text, whose form has changed since (JDK-8225499).
    (
        (2,),
        (_JAXB, "org.slf4j:slf4j-log4j12:1.7.25", "org.apache.zookeeper:zookeeper:3.4.12"),
    ),
    ((1,), (_JAXB, "org.slf4j:slf4j-log4j12:1.7.25")),
    ((0,), (_JAXB,)),
)
"""Dependencies of releases from a version on that Maven does not find, the newest first."""

_DEPENDENCY = """\
<dependency>
<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>{classifier}
{exclusions}</dependency>"""
_NOTHING_ELSE = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>ackproof</groupId><artifactId>apache-kafka</artifactId><version>1</version>
<packaging>pom</packaging>
<dependencies>
{dependencies}
</dependencies>
</project>
"""


def fetch(release: Release, tell: Callable[[str], None]) -> None:
    """Bring a release's jars to this machine, and its description. Return at once if both are
    there.

    ``tell`` gets a line for each step that takes long. Raises InfraError if the jars are not
    available.
    """
    if release.directory is None:
        _fetch(release.version, tell)
    keep_description(release, tell)


def _fetch(version: str, tell: Callable[[str], None]) -> None:
    wanted = listed(version)
    if wanted is not None and cached(name_of(version, wanted)).is_dir():
        return
    maven = _maven(f"Apache Kafka {version}")
    partial = cached(f"kafka-{version}.{os.getpid()}")
    partial.mkdir(parents=True)
    try:
        if wanted is None:
            tell(f"fetching Apache Kafka {version} and what it needs, once, to {partial.parent}")
            wanted = resolve(version, partial / "repository", maven, tell)
            keep(lock_of(version), json.dumps(wanted, indent=1) + "\n")
        else:
            tell(f"fetching Apache Kafka {version}, {len(wanted)} jars, once, to {partial.parent}")
        jars = partial / "jars"
        copy(wanted, jars, f"Apache Kafka {version}", tell)
        check(jars, wanted)
        put(jars, cached(name_of(version, wanted)))
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def fetch_jar(coordinates: str, sha256: str, tell: Callable[[str], None]) -> Path:
    """Return a jar of Maven Central, which is brought to this machine unless it is there.

    ``tell`` gets a line if it must be fetched. Raises InfraError if it is not available, or has
    another SHA-256.
    """
    name, wanted = file_name(coordinates), {coordinates: sha256}
    place = cached(name.removesuffix(".jar"))
    if not place.is_dir():
        tell(f"fetching {name}, once, to {place.parent}")
        partial = place.with_name(f"{place.name}.{os.getpid()}")
        try:
            copy(wanted, partial, name, tell)
            check(partial, wanted)
            put(partial, place)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    check(place, wanted)
    return place / name


def copy(wanted: Iterable[str], directory: Path, what: str, tell: Callable[[str], None]) -> None:
    """Fetch jars, by coordinates and without their dependencies, into a new directory.

    ``what`` names them in a message. Raises InfraError.
    """
    maven = _maven(what)
    directory.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as place:
        pom = Path(place, "pom.xml")
        pom.write_text(as_pom(wanted), encoding="utf-8")
        _run([maven, "-B", "-f", str(pom), _COPY, f"-DoutputDirectory={directory}"], what, tell)


def resolve(
    version: str, repository: Path, maven: str, tell: Callable[[str], None]
) -> Mapping[str, str]:
    """Fetch a release and all that it needs into a directory with the layout of a Maven repository.

    Return its jars, SHA-256 by coordinates. Raises InfraError.
    """
    repository.mkdir(parents=True)
    pom = repository / "pom.xml"
    pom.write_text(_pom(_dependency(one, alone=False) for one in needed(version)), encoding="utf-8")
    options = ["-DincludeScope=runtime", "-Dmdep.useRepositoryLayout=true"]
    where = f"-DoutputDirectory={repository}"
    what = f"Apache Kafka {version}"
    _run([maven, "-B", "-f", str(pom), _COPY, *options, where], what, tell)
    return {
        _coordinates(path.relative_to(repository)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(repository.rglob("*.jar"))
    }


def newest(tell: Callable[[str], None]) -> str:
    """Return the version of the newest release on Maven Central. Raises InfraError."""
    maven = _maven("the newest Apache Kafka")
    with tempfile.TemporaryDirectory() as directory:
        pom = Path(directory, "pom.xml")
        pom.write_text(as_pom([f"org.apache.kafka:kafka_2.13:[{_FROM},)"]), encoding="utf-8")
        # Maven only asks for the list of versions again with the option -U.
        command = [maven, "-B", "-U", "-f", str(pom), _COPY, f"-DoutputDirectory={directory}"]
        _run(command, "the newest Apache Kafka", tell)
        (jar,) = Path(directory).glob("kafka_2.13-*.jar")
    return jar.stem.removeprefix("kafka_2.13-")


def _maven(what: str) -> str:
    maven = shutil.which("mvn")
    if maven is None:
        raise InfraError(
            f"{what} is fetched by Maven, and there is no mvn in PATH (Debian, Ubuntu: apt-get "
            "install maven); or unpack Apache Kafka yourself: kafka:/DIRECTORY"
        )
    return maven


def needed(version: str) -> Iterator[str]:
    """Yield the dependencies of a release's broker, by coordinates.

    They are the release and its logging library, which its archives have and its dependencies do
    not name.
    """
    own = numbers_of(version)
    yield f"org.apache.kafka:kafka_{'2.13' if own >= FIRST else '2.11'}:{version}"
    yield from next(needed for first, needed in _BESIDE if own >= first)


def _coordinates(path: Path) -> str:
    """Return the coordinates of a jar, given its path in a repository."""
    *group, artifact, version, name = path.parts
    classifier = name.removeprefix(f"{artifact}-{version}").removesuffix(".jar")
    return ":".join([".".join(group), artifact, version, *([classifier[1:]] if classifier else [])])


def jars_of(release: Release) -> Artifact:
    """Return the jars of a release that is on this machine.

    Raises InfraError if it is not, or if a jar differs from the release.
    """
    title = f"Apache Kafka {release.version}"
    if release.directory is not None:
        sums = sums_of(release.directory, "*.jar")
        name = name_of(release.version, sums)
        return Artifact(name=name, title=title, path=release.directory, sums=sums)
    wanted = listed(release.version)
    if wanted is None or not (directory := cached(name_of(release.version, wanted))).is_dir():
        raise InfraError(f"{title} was never fetched: there are no jars in {cached()}")
    return Artifact(name=directory.name, title=title, path=directory, sums=check(directory, wanted))


def check(directory: Path, wanted: Mapping[str, str]) -> Mapping[str, str]:
    """Check that a directory holds these jars and no others, given their SHA-256 by coordinates.

    Return the same by the names of the files. Raises InfraError with what is wrong.
    """
    expected = {file_name(coordinates): sha256 for coordinates, sha256 in wanted.items()}
    found = sums_of(directory)
    wrong = sorted({name for name, _ in expected.items() ^ found.items()})
    if wrong:
        named = ", ".join(wrong[:_NAMED]) + (", ..." if len(wrong) > _NAMED else "")
        raise InfraError(
            f"{directory} does not hold the jars that were released: {len(wrong)} differ "
            f"({named}). Remove that directory, and they are fetched again"
        )
    return found


def file_name(coordinates: str) -> str:
    """Return the name of the jar with these coordinates."""
    _, artifact, *version = coordinates.split(":")
    return f"{'-'.join([artifact, *version])}.jar"


def as_pom(wanted: Iterable[str]) -> str:
    """Return a project of these jars, by coordinates, without their dependencies."""
    return _pom(_dependency(one, alone=True) for one in wanted)


def _pom(dependencies: Iterable[str]) -> str:
    return _POM.format(dependencies="\n".join(dependencies))


def _dependency(coordinates: str, *, alone: bool) -> str:
    group, artifact, version, *classifiers = map(escape, coordinates.split(":"))
    return _DEPENDENCY.format(
        group=group,
        artifact=artifact,
        version=version,
        classifier="".join(f"<classifier>{one}</classifier>" for one in classifiers),
        exclusions=_NOTHING_ELSE if alone else "",
    )


def _run(command: list[str], what: str, tell: Callable[[str], None]) -> None:
    said: list[str] = []
    numbers = count(1)
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace",
    ) as maven:  # fmt: skip
        assert maven.stdout is not None
        for line in maven.stdout:
            said.append(line)
            if (jar := _DOWNLOADED.search(line)) and (number := next(numbers)) % _EVERY == 0:
                tell(f"  {number}: {jar[1]}")
    if maven.returncode:
        words = "".join(said[-_TOLD_LINES:]).strip()
        missing = _NOT_THERE.search(words)
        cause = (
            f"there is no {what} on Maven Central"
            if missing and what == f"Apache Kafka {missing[1]}"
            else f"the jars of {what} could not be fetched"
        )
        raise InfraError(f"{cause}. Maven said: {words}")
