"""What makes Apache Kafka's programs log to their output: by Log4j 1 (reload4j) before 4.0, by
Log4j 2 from there on. An exception stands behind the message that it belongs to, in the line that
has the time."""

from dataclasses import dataclass

from ackproof.infra.interface import Node
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
    """Configure it on ``node``; Java's option for a program of ``release`` there."""
    log4j = _FIRST if release.is_before(_LOG4J_2) else _SECOND
    where = node.directory / log4j.file
    node.write(where, log4j.content.encode())
    return f"{log4j.option}{where}"
