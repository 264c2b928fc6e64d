"""The JSON specifications that client processes are started with.

The harness writes them (readable by their owner alone, because the clients' properties may hold
passwords) and the client reads them. A wrong specification is refused with every problem named, and
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
    """Return the name of a producer: as a client, and as the writer of its sends.

    The names of all clients of a topic end with their number. Otherwise the only producer of
    ``t-1``, called ``producer-t-1``, would also be one of ``t``.
    """
    return f"producer-{topic}-{number}"


def reader_of(topic: str, number: int) -> str:
    """Return the name of a tail reader, as :func:`producer_of`."""
    return f"reader-{topic}-{number}"


def member_of(group_id: str, number: int) -> str:
    """Return the name of a member of a group, as :func:`producer_of`.

    ``group_id`` is Kafka's, which begins with the topic.
    """
    return f"member-{group_id}-{number}"


class SpecificationError(Exception):
    """The error of a specification file that cannot be read or does not say what it should."""


class _Specification(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", defer_build=True, hide_input_in_errors=True
    )


class FurtherTopic(_Specification):
    """A further cell whose topic a producer sends to; as in :class:`history.cell.Cell`."""

    cell: str = Field(min_length=1)
    topic: str = Field(min_length=1)
    partitions: int = Field(ge=1)


class ProducerSpec(_Specification):
    """The specification of one producer: of one cell, or of several that share it.

    Attributes:
        cell, topic, partitions, acks: As in :class:`history.cell.Cell`.
        producer: The number of the producer within the cell.
        rate: The records a second; None for as many as the client takes.
        records: How many it sends at most; None for no limit.
        sync: Whether it sends a record only when the one before has an outcome.
        record_bytes: The size of a value; the smallest where they differ.
        record_bytes_max: The largest size, where they differ.
        keys: How many keys its records have, at least one a partition, which take turns; None for
            records without.
        tombstones: The share of its records that are tombstones. It needs ``keys``.
        seed: What decides which of them are.
        producer_config: Further librdkafka properties, over the defaults.
        further: The other cells that share it. It sends as much to each of them.
        history: The directory of the tables.
        progress: The file that is rewritten once a second.
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
    tombstones: float = Field(default=0.0, ge=0, lt=1)
    seed: int = Field(default=0, ge=0)
    bootstrap_servers: str = Field(min_length=1)
    producer_config: Config = Field(default_factory=dict)
    further: tuple[FurtherTopic, ...] = ()
    history: Path
    progress: Path

    @property
    def of_each_topic(self) -> Sequence["ProducerSpec"]:
        """The specification of a producer of each of its cells alone."""
        alone = self.model_copy(update={"further": ()})
        return [alone, *(alone.model_copy(update=dict(one)) for one in self.further)]

    @property
    def client(self) -> str:
        """The name of the producer, and of the writer of its sends."""
        return producer_of(self.topic, self.producer)

    @property
    def record_bytes_most(self) -> int:
        """The size of its largest value."""
        return self.record_bytes_max or self.record_bytes


class ForeignProducerSpec(ProducerSpec):
    """The specification of one producer of one cell whose client is a program under test.

    Attributes:
        library: The library whose errors it reports, as in :data:`history.cell.LIBRARIES`, or its
            path.
        program: The command line of the program.
        producer_config: Further properties, by Kafka's names, over the defaults.
    """

    library: str = Field(min_length=1)
    program: tuple[str, ...] = Field(min_length=1)


class ConsumerSpec(_Specification):
    """The specification of a tail reader of one cell, with what any consumer of a cell needs.

    Attributes:
        client: The name of the consumer, and of the writer of its tables.
        topic, partitions: As in :class:`history.cell.Cell`.
        consumer_config: Further librdkafka properties, over the defaults.
        isolation: The isolation level, which decides what it is shown of transactions.
        history: The directory of the tables.
        progress: The file that is rewritten once a second.
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
    """The specification of a member of a group.

    Attributes:
        group: Kafka's ``group.id``.
        delivery: The rule for when it commits.
        instance: The ``group.instance.id``; None for a member that is not static.
    """

    group: str = Field(min_length=1)
    delivery: Delivery
    instance: str | None = Field(default=None, min_length=1)


class ForeignMemberSpec(GroupMemberSpec):
    """The specification of a member of a group whose client is a program under test.

    Attributes:
        library: The library, as in :data:`history.cell.LIBRARIES`, or the program's path.
        program: The command line of the program.
        tombstones: Whether there are tombstones among the records.
        consumer_config: Further properties, by Kafka's names, over the defaults.
    """

    library: str = Field(min_length=1)
    program: tuple[str, ...] = Field(min_length=1)
    tombstones: bool = False


class ShareMemberSpec(ConsumerSpec):
    """The specification of a member of a share group.

    Attributes:
        group: Kafka's ``group.id``.
        releases: The share of deliveries that it releases for another delivery.
        rejects: The share of deliveries that it rejects.
        seed: The seed of what it draws.
    """

    group: str = Field(min_length=1)
    releases: float = Field(ge=0, le=1)
    rejects: float = Field(ge=0, le=1)
    seed: int


class TopicSpec(_Specification):
    """A topic to read back; ``only`` names one of its partitions, None all."""

    topic: str = Field(min_length=1)
    partitions: int = Field(ge=1)
    only: int | None = Field(default=None, ge=0)

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of the partitions to read."""
        return range(self.partitions) if self.only is None else (self.only,)


class FinalReadSpec(_Specification):
    """The specification of the final read of every partition of every topic.

    Attributes:
        deadline_s: The time limit for the whole of it, in seconds.
        apart: Whether a process of its own reads each topic, because librdkafka has ended the one
            that read them all.
        client_config: The librdkafka properties that connecting takes (security).
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
        """The topic and number of all partitions to read."""
        return [(topic.topic, number) for topic in self.topics for number in topic.numbers]


_S = TypeVar("_S", bound=_Specification)


def load(kind: type[_S], path: Path) -> _S:
    """Read a specification; raise SpecificationError if it is wrong."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except OSError as error:
        raise SpecificationError(f"cannot read specification {path}: {error.strerror}") from error
    except ValidationError as error:
        raise SpecificationError(f"specification {path}: {in_words(error)}") from None
