"""How history files are called.

A name is dot-separated fields, and the number of fields says what it is:

- ``<table>.<writer>.parquet``, or ``<table>.<topic>.<partition>.<writer>.parquet`` for the tables
  that are written per partition (``sends``, ``log``, ``polls``, ``committed``): a closed file;
- the same with ``.part-000001.arrows`` in place of ``.parquet``: what was flushed so far by a
  writer that has not closed, in Arrow's streaming format (``history.storage``).

Topics and writers may hold dots themselves. Kafka allows ``[a-zA-Z0-9._-]`` in a topic's name, so
a dot is written as ``~``, which no topic can contain: ``orders.eu`` becomes ``orders~eu``.
Files that begin with a dot are unfinished and no part of the history.
"""

import re
from dataclasses import dataclass

from ackproof.history.schema import TABLES

PARTITIONED = frozenset({"sends", "log", "polls", "committed"})
"""Tables with one file per topic, partition and writer."""

CLOSED_SUFFIX = ".parquet"
PART_SUFFIX = ".arrows"

_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_PART = re.compile(r"part-(\d{6,})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stem:
    """What a writer's files have in common.

    Attributes:
        table: A key of :data:`history.schema.TABLES`.
        writer: Who wrote it, unique within table (and partition) and directory.
        partition: Topic and partition number, of the partitioned tables alone.
    """

    table: str
    writer: str
    partition: tuple[str, int] | None = None

    def __post_init__(self) -> None:
        if self.table not in TABLES:
            raise ValueError(f"no table {self.table!r}; there are {', '.join(TABLES)}")
        if (self.table in PARTITIONED) != (self.partition is not None):
            wants = "a" if self.table in PARTITIONED else "no"
            raise ValueError(f"table {self.table} takes {wants} topic and partition")
        for name in (self.writer, *(self.partition or ())[:1]):
            if not _LEGAL.fullmatch(str(name)):
                raise ValueError(f"{name!r} is no legal name: 1 to 249 of [a-zA-Z0-9._-]")

    def __str__(self) -> str:
        topic_partition = map(str, self.partition or ())
        return ".".join(_encode(field) for field in (self.table, *topic_partition, self.writer))

    @property
    def closed(self) -> str:
        """Name of the file that holds everything, once the writer has closed."""
        return f"{self}{CLOSED_SUFFIX}"

    def part(self, number: int) -> str:
        """Name of the part of that number, counted from 1."""
        return f"{self}.part-{number:06d}{PART_SUFFIX}"


def parse(name: str) -> tuple[Stem, int | None]:
    """The stem and the part number (None of a closed file) of a file name.

    Raises ValueError for a name that is none of ours.
    """
    *fields, extension = name.split(".")
    expected = 4 if fields and fields[0] in PARTITIONED else 2
    number = None
    suffix = CLOSED_SUFFIX
    if len(fields) == expected + 1 and (match := _PART.fullmatch(fields[-1])):
        number = int(match.group(1))
        suffix = PART_SUFFIX
        fields.pop()
    if f".{extension}" != suffix or len(fields) != expected:
        raise ValueError(f"{name!r} is no name of a history file")
    table, *topic_partition, writer = map(_decode, fields)
    return Stem(table=table, writer=writer, partition=_partition(topic_partition)), number


def _partition(fields: list[str]) -> tuple[str, int] | None:
    return (fields[0], int(fields[1])) if fields else None


def _encode(name: str) -> str:
    return name.replace(".", "~")


def _decode(field: str) -> str:
    return field.replace("~", ".")
