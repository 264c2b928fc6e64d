"""Apache Kafka's jars: fetched once from Maven Central, by Maven, and kept in the user's cache.

They lie in a directory named after the version and its list of jars (below
``$XDG_CACHE_HOME/ackproof``, by default ``~/.cache/ackproof``). Each is held against the SHA-256 in
that list whenever a cluster is made of them, so that what is put to the test is that release and
nothing else. Where a run is, there is no network: what is missing is fetched before it
(:func:`fetch`).
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from xml.sax.saxutils import escape

from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.interface import InfraError
from ackproof.infra.systems.kafka.releases import Release, cached, described, put

_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_DOWNLOADED = re.compile(r"Downloaded from .*/([^/]+\.jar) ")
_TOLD_LINES = 20
_EVERY = 10
"""How many jars come between two lines of progress."""

_DEPENDENCY = """\
<dependency>
<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>{classifier}
<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
</dependency>"""
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
    """Have a release's jars here; at once where they are. ``tell`` is told of what takes long.
    Raises InfraError where they cannot be had."""
    if release.directory is not None or _place(release.version).is_dir():
        return
    wanted = listed(release.version)
    maven = shutil.which("mvn")
    if maven is None:
        raise InfraError(
            f"the jars of Apache Kafka {release.version} are fetched by Maven, and there is no mvn "
            "in PATH (Debian, Ubuntu: apt-get install maven); or unpack Apache Kafka yourself: "
            "kafka:/DIRECTORY"
        )
    place = _place(release.version)
    partial = place.with_name(f"{place.name}.{os.getpid()}")
    partial.mkdir(parents=True)
    try:
        tell(f"fetching Apache Kafka {release.version}, {len(wanted)} jars, once, to {place}")
        pom = partial / "pom.xml"
        pom.write_text(as_pom(wanted), encoding="utf-8")
        _run([maven, "-B", "-f", str(pom), _COPY, f"-DoutputDirectory={partial}"], tell)
        pom.unlink()
        check(partial, wanted)
        put(partial, place)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def jars_of(release: Release) -> Artifact:
    """Those of a release that is here. Raises InfraError where it is not, or is not what was
    released."""
    title = f"Apache Kafka {release.version}"
    if release.directory is not None:
        return _unpacked(release, release.directory, title)
    directory = _place(release.version)
    if not directory.is_dir():
        raise InfraError(f"{title} was never fetched: no {directory}")
    sums = check(directory, listed(release.version))
    return Artifact(name=directory.name, title=title, path=directory, sums=sums)


def check(directory: Path, wanted: Mapping[str, str]) -> Mapping[str, str]:
    """That a directory holds these jars and no others; ``wanted``: their SHA-256 by coordinates.
    The same by the names of the files. Raises InfraError naming what is wrong."""
    expected = {file_name(coordinates): sha256 for coordinates, sha256 in wanted.items()}
    found = _sums(directory)
    wrong = {name for name, _ in expected.items() ^ found.items()}
    if wrong:
        raise InfraError(
            f"{', '.join(sorted(wrong))} in {directory}: not as released; remove that directory, "
            "and it is fetched anew"
        )
    return found


def listed(version: str) -> Mapping[str, str]:
    """The jars of a release, SHA-256 by Maven's coordinates (``group:artifact:version``, and a
    classifier where there is one). Raises InfraError for a release of which nothing is known."""
    known = described(version)
    if known is None:
        raise InfraError(f"the jars of Apache Kafka {version} are not known")
    jars: Mapping[str, str] = known["jars"]
    return jars


def file_name(coordinates: str) -> str:
    """Of the jar with these coordinates."""
    _, artifact, *version = coordinates.split(":")
    return f"{'-'.join([artifact, *version])}.jar"


def as_pom(wanted: Mapping[str, str]) -> str:
    """What Maven is told to fetch: these jars, and nothing that it would find that they need."""
    return _POM.format(dependencies="\n".join(map(_dependency, wanted)))


def _dependency(coordinates: str) -> str:
    group, artifact, version, *classifiers = map(escape, coordinates.split(":"))
    classifier = "".join(f"<classifier>{one}</classifier>" for one in classifiers)
    return _DEPENDENCY.format(
        group=group, artifact=artifact, version=version, classifier=classifier
    )


def _place(version: str) -> Path:
    return cached(_named(version, listed(version)))


def _unpacked(release: Release, directory: Path, title: str) -> Artifact:
    sums = _sums(directory, "*.jar")
    name = _named(release.version, sums)
    return Artifact(name=name, title=title, path=directory, sums=sums)


def _named(version: str, sums: Mapping[str, str]) -> str:
    content = json.dumps(sums, sort_keys=True).encode()
    return f"kafka-{version}-{hashlib.sha256(content).hexdigest()[:12]}"


def _sums(directory: Path, pattern: str = "*") -> dict[str, str]:
    """SHA-256 of files, by their names. Raises InfraError for one that cannot be read."""
    try:
        return {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in directory.glob(pattern)
        }
    except OSError as error:
        raise InfraError(f"what Apache Kafka needs cannot be read: {error}") from error


def _run(command: list[str], tell: Callable[[str], None]) -> None:
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
        raise InfraError(f"Apache Kafka's jars could not be fetched: {words}")
