"""The start of Apache Kafka's programs, their logging, and JVM agents in them."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from pathlib import Path

from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.interface import Node
from ackproof.infra.systems.kafka.releases import Release, sums_of

_LOG4J_2 = (4, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Log4j:
    file: str
    option: str
    content: str


_FIRST = _Log4j(
    file="log4j.properties",
    option="-Dlog4j.configuration=file:",
    content="""\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.EnhancedPatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m %throwable{short}%n%throwable
""",
)
_SECOND = _Log4j(
    file="log4j2.properties",
    option="-Dlog4j2.configurationFile=",
    content="""\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %c{1}: %m %throwable{short.message}%n%throwable
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
""",
)


def logging(release: Release, node: Node) -> str:
    """Configure logging on ``node``, and return Java's option for a program of ``release``
    there."""
    log4j = _FIRST if release.is_before(_LOG4J_2) else _SECOND
    where = node.directory / log4j.file
    node.write(where, log4j.content.encode())
    return f"{log4j.option}{where}"


# --- JVM agents -------------------------------------------------------------------------------


AGENT_OPTIONS = "options"
"""The file beside an agent's jar with its options, one line (``-javaagent:JAR=OPTIONS``).
:data:`AGENT_DIRECTORY` in it stands for the agent's directory on the node."""

AGENT_DIRECTORY = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaAgent:
    """A program that the JVM of each server loads before Kafka (``java.lang.instrument``)."""

    artifact: Artifact
    jar: str
    options: str

    def option(self, node: Node) -> str:
        """Return Java's option that loads it on ``node``."""
        where = str(node.where(self.artifact))
        options = self.options.replace(AGENT_DIRECTORY, where)
        return f"-javaagent:{where}/{self.jar}{'=' if options else ''}{options}"


def agent_of(release: Release) -> JavaAgent | None:
    """Return the agent that a release is run with; None for none.

    Raises InfraError if its files cannot be read, and ValueError for a directory that holds no
    agent.
    """
    if release.agent is None:
        return None
    return agent_in(release.agent)


def agent_in(directory: Path) -> JavaAgent:
    """Return the agent in a directory. Raises the errors of :func:`agent_of`."""
    jars = sorted(path.name for path in directory.glob("*.jar"))
    if len(jars) != 1 or "=" in str(directory):
        raise ValueError(
            f"{directory} must be a directory with the jar of one JVM agent and a path without "
            f"'=', and it has {len(jars)} jars; a file named {AGENT_OPTIONS} beside the jar may "
            f"hold the options, in which {AGENT_DIRECTORY} stands for the directory"
        )
    sums = sums_of(directory)
    digest = sha256(repr(sorted(sums.items())).encode()).hexdigest()
    artifact = Artifact(
        name=f"agent-{digest[:16]}",
        title=f"the JVM agent {directory.name}",
        path=directory,
        sums=sums,
    )
    options = directory / AGENT_OPTIONS
    text = options.read_text(encoding="utf-8").strip() if options.is_file() else ""
    return JavaAgent(artifact=artifact, jar=jars[0], options=text)


# --- command lines ----------------------------------------------------------------------------


MAIN = "kafka.Kafka"
_sizes = count(1)


def java(
    node: Node, *, heap_mb: int, logging: str, jars: Artifact, agent: JavaAgent | None = None
) -> Sequence[str]:
    """Return the beginning of a command line, which ends with the main class and its arguments.

    ``logging`` is the Java option that names the logging configuration.
    """
    return [
        node.software.java,
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",  # quick to start; no server runs long enough to gain by C2
        "-Djava.awt.headless=true",
        logging,
        *([] if agent is None else [agent.option(node)]),
        "-cp",
        f"{node.where(jars)}/*",
    ]


def knock() -> tuple[bytes, str]:
    """Return an invalid request, and the line that the server logs about it.

    The line is about an exception with the size that the request claims (NetworkReceive, Selector).
    No other request has claimed that size, and no client does.
    """
    size = -next(_sizes)
    return struct.pack(">i", size), f"Invalid receive (size = {size})"
