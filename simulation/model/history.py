"""The history of a run: the requests of clients, and the answers that they got.

A client's view is not taken as true. :mod:`simulation.verdict` compares the history with the
guarantees.
"""

from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode

from ackproof.broker.types import TopicPartition
from simulation.plans.coverage import CLIENT, Coverage


@dataclass(slots=True)
class SentBatch:
    """A batch that a producer sent, once or several times."""

    tp: TopicPartition
    topic_id: object
    """The id of the topic to which it was sent."""
    acks: int
    crc: int
    count: int
    sent_at: float
    timestamp: int
    """The timestamp of its records, in ms since 1970."""
    producer: int
    """The id of its idempotent producer; -1: it is not idempotent."""
    sequence: int
    """The sequence number of its first record, or -1 if its producer is not idempotent."""
    offset: int | None = None
    """The acknowledged offset. None means that it was not acknowledged, or was sent with acks=0."""

    @property
    def idempotent(self) -> bool:
        """Return whether an idempotent producer sent it."""
        return self.producer >= 0


@dataclass(slots=True)
class SentCommit:
    """An offset that a member of a group committed."""

    group: str
    tp: TopicPartition
    topic_id: object
    offset: int
    sent_at: float
    answer: ErrorCode | None = None
    """The answer; None: there was none."""


@dataclass(slots=True)
class ClientHistory:
    """The requests of the clients of one run, and the answers that they got."""

    sent: list[SentBatch] = field(default_factory=list)
    commits: list[SentCommit] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)

    def count(self, what: str) -> None:
        """Count an event for the coverage."""
        self.coverage[CLIENT, what] += 1
