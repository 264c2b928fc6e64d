"""The steps of the admin commands (*Design V2*, "Admin commands").

A command (:mod:`broker.coordination.admin`) is a generator. It yields a step, is sent the answer,
and returns its outcome. It has no clock and no ZooKeeper of its own. Any broker can run any
command, several at once, and an interrupted command can be run again.

==================  ===========================================================================
step                answer sent back
==================  ===========================================================================
``ReadTopic``       :class:`TopicNodes`
``ReadNodes``       the partition's :class:`PartitionView`
``ReadReassigned``  the topics in ``/brokers/partitions_reassigned``: ``tuple[str, ...]``
``ReadQueues``      the entries by broker: ``Mapping[BrokerId, tuple[QueuedRequest, ...]]``
``AdminWrite``      :class:`AdminWritten`
``AwaitChange``     :class:`Waited`
``Lifecycle``,      None: they must be logged
``Refused``
==================  ===========================================================================

Reads are tried again while a connection is possible. The runner of the command ends it when its
client's time is up.
"""

import enum
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ackproof.broker.coordination.events import Lifecycle, Op, Refused, Result
from ackproof.broker.coordination.nodes import ABSENT, PartitionView
from ackproof.broker.types import BrokerId, TopicPartition, ZkVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTopic:
    """Read ``/brokers/topics/T`` and ``/brokers/partitions_reassigned/T`` with all below."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNodes:
    """The answer to :class:`ReadTopic`.

    ``version`` and ``topic_id`` are those of ``/brokers/topics/T``, read before the rest; ABSENT
    and None if it does not exist. ``partitions`` has every partition that has a node below either
    path, by number.
    """

    version: ZkVersion
    topic_id: uuid.UUID | None
    partitions: Mapping[int, PartitionView]

    @property
    def exists(self) -> bool:
        """Whether ``/brokers/topics/T`` exists."""
        return self.version != ABSENT

    @property
    def live(self) -> bool:
        """Whether it has a partition."""
        return any(view.replicas is not None for view in self.partitions.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadNodes:
    """Read the nodes of one partition, because each of a thousand is waited for separately."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReassigned:
    """List ``/brokers/partitions_reassigned``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadQueues:
    """Read these brokers' queues. A queue that does not exist counts as empty."""

    brokers: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminWrite:
    """Carry out all of ``ops`` or none, in whichever session there is."""

    ops: tuple[Op, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminWritten:
    """The answer to :class:`AdminWrite`. When DONE, ``queued`` has the names of its Enqueues, in
    their order."""

    result: Result
    queued: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitChange:
    """Wait until a child of one of these brokers' queues or the partition's
    ``partitions_reassigned`` changes, or the command's time is up
    (``waitTillStateChangeRequestConsumed``).

    Changes since the command last read the queues count.
    """

    brokers: tuple[BrokerId, ...]
    partition: TopicPartition


class Waited(enum.Enum):
    """The answer to :class:`AwaitChange`."""

    CHANGED = enum.auto()
    NOTHING_SEEN = enum.auto()
    """No change was seen yet. A regular read finds what a watch has missed."""
    TIME_IS_UP = enum.auto()


Step: TypeAlias = (
    ReadTopic
    | ReadNodes
    | ReadReassigned
    | ReadQueues
    | AdminWrite
    | AwaitChange
    | Lifecycle
    | Refused
)
Answer: TypeAlias = Any
"""The answer that the table above gives for the step."""
