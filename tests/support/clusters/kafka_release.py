"""``python tests/support/clusters/kafka_release.py 3.9.1``: writes down what is known of a release
of Apache Kafka, ``infra/systems/kafka/<version>.json``: its jars, and its properties, which it is
asked for.

Needs ``mvn`` and a JDK 17 or newer.
"""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TOOLS = Path(__file__).parents[2] / "tools" / "kafka"
KNOWN = Path(__file__).parents[3] / "infra" / "systems" / "kafka"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
TIMEOUT_S = 1_800

TYPES = {
    "BOOLEAN": {"type": "boolean"},
    "DOUBLE": {"type": "number"},
    "LONG": {"type": "integer"},
    "INT": {"minimum": -(2**31), "maximum": 2**31 - 1, "type": "integer"},
    "SHORT": {"minimum": -(2**15), "maximum": 2**15 - 1, "type": "integer"},
}
"""Everything else is text."""
BOUND = r"(-?[0-9]+)"
WAITED_FOR = {
    *("zookeeper.session.timeout.ms", "broker.session.timeout.ms", "replica.lag.time.max.ms"),
}
"""Kafka takes any number; the harness derives from them how long it waits."""


def described(version: str) -> str:
    """The file of a release."""
    with tempfile.TemporaryDirectory() as directory:
        jars = _resolved(version, Path(directory))
        found = {
            "jars": {
                _coordinates(path.relative_to(directory)): _sha256(path) for path in sorted(jars)
            },
            **_properties(jars),
        }
    return json.dumps(found, indent=1) + "\n"


def schema(kind: str, takes: str, default: str) -> dict[str, object]:
    """Of a property's value: its type as Kafka calls it, what its validator says of itself."""
    made: dict[str, object] = dict(TYPES.get(kind, {"type": "string"}))
    if made["type"] == "integer" and (low := re.match(rf"\[{BOUND},", takes)):
        made["minimum"] = max(int(low[1]), int(str(made.get("minimum", low[1]))))
    if made["type"] == "integer" and (high := re.search(rf",{BOUND}\]$", takes)):
        made["maximum"] = int(high[1])
    if kind == "STRING" and (choices := re.fullmatch(r"\[([^\[\]]+)\]", takes)):
        made["enum"] = choices[1].split(", ")
    return made | ({"default": default} if default else {})


def _resolved(version: str, directory: Path) -> list[Path]:
    pom = TOOLS / f"release-pom-{version.partition('.')[0]}.xml"
    command = ["mvn", "-B", "-q", "-f", str(pom), COPY]
    options = ["-DincludeScope=runtime", "-Dmdep.useRepositoryLayout=true"]
    where = [f"-Dkafka.version={version}", f"-DoutputDirectory={directory}"]
    subprocess.run([*command, *options, *where], check=True, timeout=TIMEOUT_S)
    return list(directory.rglob("*.jar"))


def _coordinates(path: Path) -> str:
    """As Maven's, of where it has a jar in its repository."""
    *group, artifact, version, name = path.parts
    classifier = name.removeprefix(f"{artifact}-{version}").removesuffix(".jar")
    return ":".join([".".join(group), artifact, version, *([classifier[1:]] if classifier else [])])


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _properties(jars: list[Path]) -> dict[str, dict[str, object]]:
    command = ["java", "-cp", ":".join(map(str, jars)), str(TOOLS / "ListProperties.java")]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
    found: dict[str, dict[str, object]] = {"broker": {}, "topic": {}}
    for line in told.stdout.splitlines():
        of, name, *rest = line.split("\t")
        found[of][name] = schema(*rest) | ({"minimum": 1} if name in WAITED_FOR else {})
    return found


if __name__ == "__main__":
    for asked in sys.argv[1:]:
        (KNOWN / f"{asked}.json").write_text(described(asked), encoding="utf-8")
