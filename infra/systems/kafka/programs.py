"""The start of Apache Kafka's programs, and their logging."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.interface import Node
from ackproof.infra.systems.kafka.releases import Release

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


# --- command lines ----------------------------------------------------------------------------


MAIN = "kafka.Kafka"
_sizes = count(1)


def java(node: Node, *, heap_mb: int, logging: str, jars: Artifact) -> Sequence[str]:
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
