"""The JSON specifications that client processes are started with.

The harness writes them (readable by their owner alone: ``producer_config`` may hold passwords) and
the client reads them. A specification that is wrong is refused with every problem named, and
without the values, which may be secret.
"""

from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

Config = dict[str, str | bool | int | float]
"""librdkafka properties."""

FINAL_READ = "final-read"
"""The client that reads back, and the writer of what it read."""


def writer_of(cell: str, producer: int) -> str:
    """The writer of a producer's sends: its name in those of the history's files."""
    return f"{cell}-{producer}"


class SpecificationError(Exception):
    """A specification file cannot be read or does not say what it should."""


class _Specification(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class ProducerSpec(_Specification):
    """One producer of one cell.

    Attributes:
        cell, topic, partitions, acks: As in :class:`history.cell.Cell`.
        producer: Number of the producer within the cell.
        rate: Records a second.
        record_bytes: Size of a value.
        producer_config: Further librdkafka properties, over the defaults.
        history: Directory of the tables.
        progress: File rewritten once a second.
    """

    cell: str = Field(min_length=1)
    topic: str = Field(min_length=1)
    partitions: int = Field(ge=1)
    acks: Literal["0", "1", "all"]
    producer: int = Field(ge=0)
    rate: float = Field(gt=0, allow_inf_nan=False)
    record_bytes: int = Field(ge=1)
    bootstrap_servers: str = Field(min_length=1)
    producer_config: Config = Field(default_factory=dict)
    history: Path
    progress: Path


class TopicSpec(_Specification):
    """A topic to read back."""

    topic: str = Field(min_length=1)
    partitions: int = Field(ge=1)


class FinalReadSpec(_Specification):
    """The final read of every partition of every topic.

    Attributes:
        deadline_s: Seconds for the whole of it.
        client_config: librdkafka properties that connecting takes (security).
    """

    topics: tuple[TopicSpec, ...]
    bootstrap_servers: str = Field(min_length=1)
    client_config: Config = Field(default_factory=dict)
    history: Path
    progress: Path
    deadline_s: float = Field(gt=0, allow_inf_nan=False)


_S = TypeVar("_S", bound=_Specification)


def load(kind: type[_S], path: Path) -> _S:
    """Read a specification. Raises SpecificationError."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except OSError as error:
        raise SpecificationError(f"cannot read specification {path}: {error.strerror}") from error
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc'])) or 'the whole'}: {problem['msg']}"
            for problem in error.errors(include_input=False, include_url=False)
        )
        raise SpecificationError(f"specification {path}: {problems}") from None
