"""How Apache Kafka's programs are started: as its own scripts do, in a small JVM."""

import struct
from collections.abc import Sequence
from itertools import count

from ackproof.infra.artifacts import Artifact
from ackproof.infra.interface import Node

MAIN = "kafka.Kafka"
_sizes = count(1)


def java(node: Node, *, heap_mb: int, logging: str, jars: Artifact) -> Sequence[str]:
    """The beginning of a command line, which ends with the main class and its arguments.
    ``logging``: the Java option that names the logging configuration."""
    return [
        node.software.java,
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",  # quick to start; nothing runs long enough to gain by C2
        "-Djava.awt.headless=true",
        logging,
        "-cp",
        f"{node.where(jars)}/*",
    ]


def knock() -> tuple[bytes, str]:
    """A request that cannot be. The server logs it as an exception that has the size that it claims
    to have (NetworkReceive, Selector): one that no other has claimed, and no client does."""
    size = -next(_sizes)
    return struct.pack(">i", size), f"Invalid receive (size = {size})"
