"""The JSON specifications that client processes are started with.

The harness writes them (readable by their owner alone: the clients' properties may hold passwords)
and the client reads them. A specification that is wrong is refused with every problem named, and
without the values, which may be secret.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ackproof.history.messages import in_words
from ackproof.workloads.interface import Delivery

Config = dict[str, str | bool | int | float]
"""librdkafka properties."""

FINAL_READ = "final-read"
"""The client that reads back, and the writer of what it read."""


def producer_of(topic: str, number: int) -> str:
    """What a producer is called: as a client, and as the writer of its sends.

    All clients of a topic bear their number, and as the last thing: were the only one of ``t-1``
    called ``producer-t-1``, it would be one of ``t``, too.
    """
    return f"producer-{topic}-{number}"


def reader_of(topic: str, number: int) -> str:
    """What a tail reader is called; as :func:`producer_of`."""
    return f"reader-{topic}-{number}"


def member_of(group_id: str, number: int) -> str:
    """What a member of a group is called; as :func:`producer_of`. ``group_id``: Kafka's, which
    begins with the topic."""
    return f"member-{group_id}-{number}"


class SpecificationError(Exception):
    """A specification file cannot be read or does not say what it should."""


class _Specification(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class ProducerSpec(_Specification):
    """One producer of one cell.

    Attributes:
        cell, topic, partitions, acks: As in :class:`history.cell.Cell`.
        producer: Number of the producer within the cell.
        rate: Records a second; None for as many as the client takes.
        records: How many it sends at the most; None for no limit.
        sync: Whether it sends a record only when the one before has an outcome.
        record_bytes: Size of a value; the least where they differ.
        record_bytes_max: The largest, where they do.
        keys: How many keys its records have, at least one a partition, which take turns; None for
            records without.
        producer_config: Further librdkafka properties, over the defaults.
        history: Directory of the tables.
        progress: File rewritten once a second.
    """

    cell: str = Field(min_length=1)
    topic: str = Field(min_length=1)
    partitions: int = Field(ge=1)
    acks: Literal["0", "1", "all"]
    producer: int = Field(ge=0)
    rate: float | None = Field(gt=0, allow_inf_nan=False)
    records: int | None = Field(default=None, ge=1)
    sync: bool = False
    record_bytes: int = Field(ge=1)
    record_bytes_max: int | None = Field(default=None, ge=1)
    keys: int | None = Field(default=None, ge=1)
    bootstrap_servers: str = Field(min_length=1)
    producer_config: Config = Field(default_factory=dict)
    history: Path
    progress: Path

    @property
    def client(self) -> str:
        """Its name, and that of the writer of its sends."""
        return producer_of(self.topic, self.producer)

    @property
    def record_bytes_most(self) -> int:
        """Size of its largest value."""
        return self.record_bytes_max or self.record_bytes


class ForeignProducerSpec(ProducerSpec):
    """One producer of one cell, whose client is a program under test.

    Attributes:
        library: Whose errors it tells, as in :data:`history.cell.LIBRARIES`, or its path.
        program: Its command line.
        producer_config: Further properties, by Kafka's names, over the defaults.
    """

    library: str = Field(min_length=1)
    program: tuple[str, ...] = Field(min_length=1)


class ConsumerSpec(_Specification):
    """A tail reader of one cell; what any consumer of a cell is told.

    Attributes:
        client: Its name, and that of the writer of its tables.
        topic, partitions: As in :class:`history.cell.Cell`.
        consumer_config: Further librdkafka properties, over the defaults.
        isolation: What it is shown of transactions.
        history: Directory of the tables.
        progress: File rewritten once a second.
    """

    client: str = Field(min_length=1)
    topic: str = Field(min_length=1)
    partitions: int = Field(ge=1)
    bootstrap_servers: str = Field(min_length=1)
    consumer_config: Config = Field(default_factory=dict)
    isolation: Literal["read_committed", "read_uncommitted"] = "read_uncommitted"
    history: Path
    progress: Path


class GroupMemberSpec(ConsumerSpec):
    """A member of a group.

    Attributes:
        group: Kafka's ``group.id``.
        delivery: When it commits.
        instance: Its ``group.instance.id``; None for a member that is not static.
    """

    group: str = Field(min_length=1)
    delivery: Delivery
    instance: str | None = Field(default=None, min_length=1)


class TopicSpec(_Specification):
    """A topic to read back; ``only``: that one of its partitions, None for all."""

    topic: str = Field(min_length=1)
    partitions: int = Field(ge=1)
    only: int | None = Field(default=None, ge=0)

    @property
    def numbers(self) -> Sequence[int]:
        """Of the partitions to be read."""
        return range(self.partitions) if self.only is None else (self.only,)


class FinalReadSpec(_Specification):
    """The final read of every partition of every topic.

    Attributes:
        deadline_s: Seconds for the whole of it.
        apart: Whether each topic is read by a process of its own: librdkafka has ended the one that
            read them all.
        client_config: librdkafka properties that connecting takes (security).
    """

    topics: tuple[TopicSpec, ...]
    bootstrap_servers: str = Field(min_length=1)
    client_config: Config = Field(default_factory=dict)
    history: Path
    progress: Path
    deadline_s: float = Field(gt=0, allow_inf_nan=False)
    apart: bool = False

    @property
    def asked(self) -> Sequence[tuple[str, int]]:
        """Topic and number of all partitions to be read."""
        return [(topic.topic, number) for topic in self.topics for number in topic.numbers]


_S = TypeVar("_S", bound=_Specification)


def load(kind: type[_S], path: Path) -> _S:
    """Read a specification. Raises SpecificationError."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except OSError as error:
        raise SpecificationError(f"cannot read specification {path}: {error.strerror}") from error
    except ValidationError as error:
        raise SpecificationError(f"specification {path}: {in_words(error)}") from None
