"""Jars of what is put to the test, for nodes that do not see those of this machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Jars:
    """Every jar of one directory, as long as it is not changed.

    Attributes:
        name: After what they hold: the same name, the same jars. Of a file, too.
        title: In words, ``Apache Kafka 3.9.1``.
        directory: On this machine.
        sums: SHA-256 in hex by the name of each.
    """

    name: str
    title: str
    directory: Path
    sums: Mapping[str, str] = field(compare=False)
