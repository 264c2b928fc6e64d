"""Apache Kafka's own classes, to hold ours against: fetched once from Maven Central, then cached.

What is fetched says ``tests/tools/kafka/pom.xml``; the jars lie in a directory outside the
project, named after Kafka's version and that file's content (below ``$XDG_CACHE_HOME/ackproof``,
by default ``~/.cache/ackproof``). 3.9 is the last version that knows ZooKeeper, and reads what
ours writes; 4.x has clients that have dropped old versions of the protocol. Needs ``mvn`` and a
JDK 17 or newer. Tests that use this have the marker ``kafka``; ``make test-kafka`` runs them.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

TOOLS = Path(__file__).parents[2] / "tools" / "kafka"
POM = TOOLS / "pom.xml"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
FETCH_TIMEOUT_S = 600
RUN_TIMEOUT_S = 120

# Programs that end within seconds: the first compiler is enough, and half the processor time.
JVM_OPTIONS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

KAFKA_3 = "3.9.1"
KAFKA_4 = "4.1.1"
DUMP_LOG_SEGMENTS = "kafka.tools.DumpLogSegments"


class KafkaToolFailed(Exception):
    """A program of Apache Kafka's ended with an error; the text has its output."""


class Output(NamedTuple):
    """The printed output of a program."""

    stdout: str
    stderr: str


def jars(version: str = KAFKA_3) -> Path:
    """The directory with that Apache Kafka's jars and all they need; fetched if it is not there.

    Raises:
        KafkaToolFailed: Maven cannot be run or cannot fetch them.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    contents = hashlib.sha256(POM.read_bytes()).hexdigest()[:12]
    directory = cache / "ackproof" / f"apache-kafka-{version}-{contents}"
    if not directory.exists():
        _fetch(directory, version)
    return directory


def java(main: str | Path, *arguments: str | Path, version: str = KAFKA_3) -> list[str]:
    """The command line that runs a class, or a Java source file, beside Apache Kafka's classes."""
    classpath = str(jars(version) / "*")
    return ["java", *JVM_OPTIONS, "-cp", classpath, str(main), *map(str, arguments)]


def run_class(
    main: str,
    *arguments: str | Path,
    environment: Mapping[str, str] | None = None,
    version: str = KAFKA_3,
    stdin: str | None = None,
) -> Output:
    """Runs one of Apache Kafka's command line programs, and returns what it prints.

    Raises:
        KafkaToolFailed: it ended with an exit status other than 0.
        subprocess.TimeoutExpired: it did not end.
    """
    command = java(main, *arguments, version=version)
    return _run(command, RUN_TIMEOUT_S, environment, stdin)


def run_source(source: Path, *arguments: str | Path) -> Output:
    """Like :func:`run_class`, for a Java source file of one's own that uses Kafka's classes."""
    return _run(java(source, *arguments), RUN_TIMEOUT_S)


def _fetch(directory: Path, version: str) -> None:
    """All or nothing: an interrupted download is not taken for a whole one."""
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaToolFailed("mvn is needed to fetch Apache Kafka's jars: install Maven")
    partial = directory.with_name(f"{directory.name}.{os.getpid()}")
    partial.mkdir(parents=True)
    try:
        command = [maven, "-B", "-q", "-f", str(POM), COPY, "-DincludeScope=runtime"]
        options = [f"-Dkafka.version={version}", f"-DoutputDirectory={partial}"]
        _run([*command, *options], FETCH_TIMEOUT_S)
        partial.rename(directory)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _run(
    command: list[str],
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
    stdin: str | None = None,
) -> Output:
    done = subprocess.run(
        command,
        input="" if stdin is None else stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env=None if environment is None else {**os.environ, **environment},
    )
    if done.returncode:
        shown = " ".join(command)
        raise KafkaToolFailed(f"{shown}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return Output(done.stdout, done.stderr)
