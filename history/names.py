"""The names of tables, of outcomes and of history files.

A name consists of fields with dots between them. The number of fields shows the kind of file:

- ``<table>.<writer>.parquet`` is a closed file. For the partitioned tables (``sends``, ``log``,
  ``polls``, ``deliveries``, ``committed``) it is ``<table>.<topic>.<partition>.<writer>.parquet``.
- The same name with ``.part-000001.arrows`` instead of ``.parquet`` is a part: the rows that a
  writer has flushed and not closed, in Arrow's streaming format (``history.stream``).

Topics and writers may contain dots. Kafka allows ``[a-zA-Z0-9._-]`` in the name of a topic, so a
dot is written as ``~``, which no topic can contain: ``orders.eu`` becomes ``orders~eu``. Files
whose name begins with a dot are unfinished and not part of the history.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

PARTITIONED = frozenset({"sends", "log", "polls", "deliveries", "committed"})
"""The tables with one file for each topic, partition and writer."""

UNPARTITIONED = frozenset(
    {
        *("assignments", "clients", "clocks", "closings", "cluster", "collected", "commits"),
        *("committed_reads", "failovers", "faults", "inputs", "log_starts", "phases", "reads"),
        *("recovery", "scheduling", "servers", "transactions", "transaction_offsets", "zookeeper"),
    }
)
"""The tables with one file for each writer. All tables are those of :data:`history.schema.TABLES`,
which this module does not import, because commands that only check names must not import Arrow."""

CONSUMPTION = frozenset({"polls", "assignments", "commits", "deliveries"})
"""The tables of consumers' reads, commits and acknowledgements."""

MEASURES = frozenset({"zookeeper", "failovers"})
"""The tables of the costs of a cluster. No verdict depends on them."""


class SendType(StrEnum):
    """Jepsen's four words for the state of an operation."""

    INVOKE = "invoke"
    """The record was passed to the client library."""
    OK = "ok"
    """The record was acknowledged. With acks=0 this is only the client's claim."""
    FAIL = "fail"
    """The record is certainly not in the log and will never be."""
    INFO = "info"
    """It is unknown whether the record is in the log."""


CLOSED_SUFFIX = ".parquet"
PART_SUFFIX = ".arrows"

_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_PART = re.compile(r"part-(\d{6,})")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStem:
    """The common part of the names of a writer's files.

    Attributes:
        table: A key of :data:`history.schema.TABLES`.
        writer: The name of the writer, unique within table (and partition) and directory.
        partition: The topic and partition number, for partitioned tables only.
    """

    table: str
    writer: str
    partition: tuple[str, int] | None = None

    def __post_init__(self) -> None:
        if self.table not in (tables := PARTITIONED | UNPARTITIONED):
            raise ValueError(f"no table {self.table!r}; there are {', '.join(sorted(tables))}")
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
        """The name of the file that holds all rows after the writer has closed."""
        return f"{self}{CLOSED_SUFFIX}"

    def part(self, number: int) -> str:
        """Return the name of the part with that number, counted from 1."""
        return f"{self}.part-{number:06d}{PART_SUFFIX}"


def parse(name: str) -> tuple[FileStem, int | None]:
    """Return the stem and the part number of a file name; the part number of a closed file is None.

    Raises ValueError for a name that is not one of a history file.
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
    return FileStem(table=table, writer=writer, partition=_partition(topic_partition)), number


def _partition(fields: list[str]) -> tuple[str, int] | None:
    return (fields[0], int(fields[1])) if fields else None


def _encode(name: str) -> str:
    return name.replace(".", "~")


def _decode(field: str) -> str:
    return field.replace("~", ".")
