"""Descriptions of Apache Kafka's releases by themselves: properties, and records of the metadata
log.

Two small Java programs beside this module link against the release's own jars. They print the
properties of its brokers and topics, and the encoding of its records. They run once for each
release, when it is first used, and the answer is kept
(:func:`infra.systems.kafka.releases.described`). So a release that came out after this project is
known as well as any other.
"""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ackproof.infra.api.interface import InfraError
from ackproof.infra.machine.software import find_java
from ackproof.infra.systems.kafka.releases import Release, described, description_of, keep, place_of

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
    keep(kept, as_text(found))


def asked(release: Release, jars: Iterable[Path]) -> dict[str, Any]:
    """Return the description of a release: properties of ``broker`` and ``topic``, and ``records``.

    It needs a Java with its compiler. Raises InfraError.
    """
    jars = list(jars)
    found: dict[str, Any] = {"broker": {}, "topic": {}}
    for line in _run(_PROPERTIES, jars).splitlines():
        of, name, *rest = line.split("\t")
        found[of][name] = schema(*rest) | ({"minimum": 1} if name in _WAITED_FOR else {})
    if not release.is_before(_WITH_RECORDS):
        found["records"] = _records(_run(_RECORDS, jars))
    return found


def as_text(found: Mapping[str, Any]) -> str:
    """Return the description of a release as JSON, with a line for each record of its log."""
    records = found.get("records")
    if records is None:
        return json.dumps(found, indent=1) + "\n"
    lines = ",\n".join(f'  "{number}": {json.dumps(one)}' for number, one in records.items())
    text = json.dumps({**found, "records": {}}, indent=1)
    return text.replace('"records": {}', f'"records": {{\n{lines}\n }}') + "\n"


def schema(kind: str, takes: str, default: str) -> dict[str, object]:
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
    try:
        answer = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=_WITHIN_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise InfraError(f"{program.name} did not end within {_WITHIN_S} s") from None
    if answer.returncode:
        words = answer.stderr.strip()
        if "jdk.compiler" in words:
            raise InfraError(
                "this Java has no compiler; install a JDK (Debian, Ubuntu: apt-get install "
                "default-jdk-headless) or point JAVA_HOME at one"
            )
        raise InfraError(f"{program.name} ended with status {answer.returncode}: {words[-2000:]}")
    return answer.stdout
