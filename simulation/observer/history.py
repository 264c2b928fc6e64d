"""What clients asked for and what they were told: all that is judged of them.

Nothing of what a client believes is taken for true; :mod:`simulation.verdict` holds this against
what was promised.
"""

from collections import Counter
from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode

from ackproof.broker.types import TopicPartition
from simulation.observer.coverage import CLIENT, Coverage
from simulation.plans.actions import Order


@dataclass(slots=True)
class Sent:
    """A batch that a producer sent, once or several times."""

    tp: TopicPartition
    topic_id: object
    """Of the topic that was meant."""
    acks: int
    crc: int
    count: int
    sent_at: float
    timestamp: int
    """Of its records, in ms since 1970."""
    producer: int
    """Its producer's id, if that is idempotent; else -1."""
    sequence: int
    """Of its first record; -1 likewise."""
    offset: int | None = None
    """Where it was acked; None: it was not, or without a word of where (acks=0)."""
    asked: int = -1
    """Which broker it was sent to last."""
    asked_epoch: int | None = None
    """In which epoch that one led; None: it did not, or had not heard of it."""

    @property
    def idempotent(self) -> bool:
        return self.producer >= 0


@dataclass(slots=True)
class Commit:
    """An offset that a member of a group committed."""

    group: str
    tp: TopicPartition
    topic_id: object
    offset: int
    sent_at: float
    answer: ErrorCode | None = None
    """None: nobody answered."""


@dataclass(slots=True)
class History:
    """What clients did and heard."""

    sent: list[Sent] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    done: list[Order] = field(default_factory=list)
    """Orders of which an administrator was told that they are carried out."""
    extended: Counter[str] = field(default_factory=Counter)
    """How many partitions topics were to have, as an administrator was told they do."""
    coverage: Coverage = field(default_factory=Coverage)

    def count(self, what: str) -> None:
        self.coverage[CLIENT, what] += 1
