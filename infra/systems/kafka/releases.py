"""Releases of Apache Kafka: those on Maven Central, and those unpacked in a directory.

The jars of an image are a directory, too (:mod:`infra.systems.kafka.images`). The description of a
release comes from the release itself: its jars with their SHA-256, the properties of brokers and
topics, and how it encodes the records of its metadata log. Two small Java programs beside this
module link against the release's own jars and print it. So a release that came out after this
project is known as well as any other.

For the releases in :data:`VERSIONS` the description is shipped, as ``<version>.json``. For any
other the programs run when it is first used, and the answer is kept beside the cached jars.
"""

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ackproof.infra.api.interface import InfraError
from ackproof.infra.machine.software import cached, find_java


def keep(path: Path, text: str) -> None:
    """Write a text to its place at once and whole, because other processes may read it."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.parent.mkdir(parents=True, exist_ok=True)
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def put(partial: Path, place: Path) -> None:
    """Move a whole directory to its place. Another process may have been quicker."""
    try:
        partial.rename(place)
    except OSError:
        if not place.is_dir():
            raise


# --- releases ---------------------------------------------------------------------------------


VERSIONS = ("0.10.2.2", "0.11.0.3", "1.1.1", "2.0.0", "2.0.1", "3.3.2", "3.9.1", "4.1.1")
"""The releases whose descriptions are shipped."""
NEWEST_RECORDS = "4.4.0"
"""The release whose encoding of the metadata log is shipped by itself, in ``records.json``. It
includes how older releases have encoded their records."""
FIRST = (2, 4)
"""The first release that runs on today's Java with its own jars alone."""

_CORE = re.compile(r"kafka_2\.[0-9]+-([0-9][0-9.]*)(-ccs)?\.jar")
_CCS = "-ccs"
_CONFLUENT = 7, 3
"""Confluent Platform 7.0 is Apache Kafka 3.0; from there on their versions count in parallel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """An Apache Kafka that can be deployed.

    Attributes:
        directory: The directory of its jars if the user provides them, or None if they must be
            fetched.
        agent: The directory of a JVM agent that its servers load
            (:func:`infra.systems.kafka.programs.agent_of`); None for none.
    """

    version: str
    directory: Path | None = None
    agent: Path | None = None

    @property
    def links(self) -> Sequence[str]:
        """Return its jars that are symbolic links to other places."""
        found = [] if self.directory is None else sorted(self.directory.glob("*.jar"))
        return [path.name for path in found if path.is_symlink()]

    @property
    def numbers(self) -> tuple[int, ...]:
        """Return the numbers of its version."""
        return numbers_of(self.version)

    def is_before(self, numbers: tuple[int, ...]) -> bool:
        """Return whether it was released before the one with these numbers, ``(2, 4)``."""
        return self.numbers < numbers


def released(version: str) -> Release:
    """Return the release with that version. Raises ValueError for one that cannot be deployed."""
    if version not in VERSIONS:
        _check(version)
    return Release(version=version)


def unpacked(directory: Path) -> Release:
    """Return the release in ``directory``, which has the layout of Apache Kafka's archives.

    Raises ValueError if it has not.
    """
    libs = directory / "libs"
    if not libs.is_dir():
        raise ValueError(f"{directory} is not an unpacked Apache Kafka: {libs} does not exist")
    found = [found for path in libs.iterdir() if (found := _CORE.fullmatch(path.name))]
    if len(found) != 1:
        raise ValueError(f"{len(found)} jars in {libs} are Kafka's broker (kafka_2.13-....jar)")
    version = apache_version(f"{found[0][1]}{found[0][2] or ''}")
    _check(version)
    return Release(version=version, directory=libs)


def apache_version(named: str) -> str:
    """Return the version of Apache Kafka that a version names, also one of Confluent's Community
    Software (``7.6.1-ccs``)."""
    confluent = named.removesuffix(_CCS)
    if confluent == named:
        return named
    major, *rest = confluent.split(".")
    first, same = _CONFLUENT
    if int(major) < first:
        raise ValueError(f"Confluent Platform {confluent} is too old: {first}.0 or newer")
    return ".".join([str(int(major) - first + same), *rest])


def _check(version: str) -> None:
    if numbers_of(version) < FIRST:
        first = ".".join(map(str, FIRST))
        older = ", ".join(one for one in VERSIONS if numbers_of(one) < FIRST)
        raise ValueError(
            f"Apache Kafka {version} is too old: {first} or newer, or one of {older}, which are "
            "deployed with what they need of Java's former libraries"
        )


def numbers_of(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, so that versions can be compared."""
    return tuple(map(int, version.split(".")))


# --- what is known of a release -------------------------------------------------------------------


def shipped(version: str) -> Mapping[str, Any] | None:
    """Return the shipped description of a release; None if none is shipped.

    It has ``jars`` (SHA-256 by Maven's coordinates), the properties of ``broker`` and ``topic``,
    and the ``records`` of its metadata log.
    """
    if version not in VERSIONS:
        return None
    found: Mapping[str, Any] | None = _read(Path(__file__).with_name(f"{version}.json"))
    return found


def lock_of(version: str) -> Path:
    """Return the file with the jars of a release at its first fetch, beside the directory of the
    jars.

    It has their SHA-256 by Maven's coordinates, as JSON.
    """
    return cached(f"kafka-{version}.lock.json")


def listed(version: str) -> Mapping[str, str] | None:
    """Return the jars of a release; None for a release that is neither shipped nor locked.

    They are SHA-256 by Maven's coordinates (``group:artifact:version``, and a classifier if there
    is one).
    """
    if (known := shipped(version)) is not None:
        jars: Mapping[str, str] = known["jars"]
        return jars
    locked: Mapping[str, str] | None = _read(lock_of(version))
    return locked


def name_of(version: str, sums: Mapping[str, str]) -> str:
    """Return the name of a directory for these jars of a release, given their SHA-256.

    It is never the name of others.
    """
    content = json.dumps(sums, sort_keys=True).encode()
    return f"kafka-{version}-{hashlib.sha256(content).hexdigest()[:12]}"


def place_of(release: Release) -> Path | None:
    """Return the directory of a release's jars, fetched or not.

    Return None for a release that is neither shipped nor locked. A directory of the user also has a
    place for its description.
    """
    if release.directory is not None:
        return cached(name_of(release.version, _sums_of(release.directory)))
    wanted = listed(release.version)
    return None if wanted is None else cached(name_of(release.version, wanted))


def description_of(release: Release) -> Path | None:
    """Return the file of a release's own description; None in the cases of :func:`place_of`."""
    place = place_of(release)
    return None if place is None else place.with_name(f"{place.name}.json")


def described(release: Release) -> Mapping[str, Any] | None:
    """Return the description of a release; None if it was not asked yet.

    It has the properties of ``broker`` and ``topic``, and the ``records`` of its metadata log.
    """
    if (known := shipped(release.version)) is not None:
        return known
    kept = description_of(release)
    return None if kept is None else _read(kept)


def _read(path: Path) -> Any:
    """Return the JSON in a file, or None if there is no such file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


@cache
def _sums_of(directory: Path) -> Mapping[str, str]:
    return sums_of(directory, "*.jar")


def sums_of(directory: Path, pattern: str = "*") -> Mapping[str, str]:
    """Return the SHA-256 of files by their names. Raises InfraError for one that cannot be read."""
    try:
        return {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in directory.glob(pattern)
        }
    except OSError as error:
        raise InfraError(f"a jar of Apache Kafka cannot be read: {error}") from error


def newest_records() -> Mapping[str, Any]:
    """Return the ``records`` of the metadata log of the release :data:`NEWEST_RECORDS`."""
    found: Mapping[str, Any] = _read(Path(__file__).with_name("records.json"))["records"]
    return found


# --- descriptions of releases by themselves -------------------------------------------------------

_PROPERTIES, _RECORDS = (
    Path(__file__).with_name(name) for name in ("ListProperties.java", "ListRecords.java")
)
_WITHIN_S = 120
_WITH_RECORDS = (3, 3)
"""The release from which on KRaft is declared ready (KIP-833)."""

_TYPES: Mapping[str, Mapping[str, object]] = {
    "BOOLEAN": {"type": "boolean"},
    "DOUBLE": {"type": "number"},
    "LONG": {"type": "integer"},
    "INT": {"minimum": -(2**31), "maximum": 2**31 - 1, "type": "integer"},
    "SHORT": {"minimum": -(2**15), "maximum": 2**15 - 1, "type": "integer"},
}
"""The schemas of types; every other type is text."""
_BOUND = r"(-?[0-9]+)"
_WAITED_FOR = frozenset(
    {"zookeeper.session.timeout.ms", "broker.session.timeout.ms", "replica.lag.time.max.ms"}
)
"""Properties for which Kafka takes any number, and from which the harness derives waits."""


def keep_description(release: Release, tell: Callable[[str], None]) -> None:
    """Ask a release for its description, and keep the answer, unless it is known.

    A machine whose Java has no compiler cannot ask. Then properties are not checked before a run,
    and ``tell`` gets a line that says so.
    """
    if described(release) is not None:
        return
    place, kept = release.directory or place_of(release), description_of(release)
    assert place is not None
    assert kept is not None, "it was fetched before"
    try:
        found = asked(release, sorted(place.glob("*.jar")))
    except InfraError as error:
        tell(
            f"Apache Kafka {release.version} could not be asked for its properties and records, so "
            f"that properties are not checked before the run: {error}"
        )
        return
    keep(kept, description_text(found))


def asked(release: Release, jars: Iterable[Path]) -> dict[str, Any]:
    """Return the description of a release: properties of ``broker`` and ``topic``, and ``records``.

    It needs a Java with its compiler. Raises InfraError.
    """
    jars = list(jars)
    found: dict[str, Any] = {"broker": {}, "topic": {}}
    for line in _run(_PROPERTIES, jars).splitlines():
        of, name, *rest = line.split("\t")
        found[of][name] = _schema(*rest) | ({"minimum": 1} if name in _WAITED_FOR else {})
    if not release.is_before(_WITH_RECORDS):
        found["records"] = _records(_run(_RECORDS, jars))
    return found


def description_text(found: Mapping[str, Any]) -> str:
    """Return the description of a release as JSON, with a line for each record of its log."""
    records = found.get("records")
    if records is None:
        return json.dumps(found, indent=1) + "\n"
    lines = ",\n".join(f'  "{number}": {json.dumps(one)}' for number, one in records.items())
    text = json.dumps({**found, "records": {}}, indent=1)
    return text.replace('"records": {}', f'"records": {{\n{lines}\n }}') + "\n"


def _schema(kind: str, takes: str, default: str) -> dict[str, object]:
    """Return the JSON schema of a property's value.

    The arguments are its type in Kafka's terms, the text of its validator, and its default.
    """
    made: dict[str, object] = dict(_TYPES.get(kind, {"type": "string"}))
    if made["type"] == "integer" and (low := re.match(rf"\[{_BOUND},", takes)):
        made["minimum"] = max(int(low[1]), int(str(made.get("minimum", low[1]))))
    if made["type"] == "integer" and (high := re.search(rf",{_BOUND}\]$", takes)):
        made["maximum"] = int(high[1])
    if kind == "STRING" and (choices := re.fullmatch(r"\[([^\[\]]+)\]", takes)):
        made["enum"] = choices[1].split(", ")
    return made | ({"default": default} if default else {})


def _records(listing: str) -> Mapping[str, Any]:
    """Return the records by id: ``name`` and, by version, ``versions``."""
    found: dict[str, Any] = {}
    for line in listing.splitlines():
        number, name, version, fields = line.split("\t")
        record = found.setdefault(number, {"name": name, "versions": {}})
        record["versions"][version] = json.loads(fields)
    return found


def _run(program: Path, jars: Iterable[Path]) -> str:
    command = [str(find_java()), "-cp", os.pathsep.join(map(str, jars)), str(program)]
    return run_java(command, program.name)


def run_java(command: Sequence[str], name: str) -> str:
    """Run a command that needs Java with its compiler, and return its output. Raises InfraError,
    which calls it by ``name``."""
    try:
        answer = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=_WITHIN_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise InfraError(f"{name} did not end within {_WITHIN_S} s") from None
    if answer.returncode:
        words = answer.stderr.strip()
        if "jdk.compiler" in words:
            raise InfraError(
                "this Java has no compiler; install a JDK (Debian, Ubuntu: apt-get install "
                "default-jdk-headless) or point JAVA_HOME at one"
            )
        raise InfraError(f"{name} ended with status {answer.returncode}: {words[-2000:]}")
    return answer.stdout
