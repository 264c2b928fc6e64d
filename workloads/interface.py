"""What a workload is: the clients of a cell, and the reading back.

A workload builds command lines with a JSON specification each; it does not know where they run.
The harness starts them on a client node, reads their progress files, and stops them with SIGTERM:
a client then stops sending, waits for what is under way (at most ``message.timeout.ms``), closes
its history and exits with 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination of topic and client configuration, with a topic of its own.

    Attributes:
        name: e.g. ``acks-all.minisr-2``; also what the payloads carry.
        topic: e.g. ``acks-all-minisr-2``.
        acks: ``0``, ``1`` or ``all``.
        topic_config: Further topic properties, Kafka's names.
        producer_config: Further librdkafka producer properties.
    """

    name: str
    topic: str
    partitions: int
    replication_factor: int
    acks: str
    min_insync_replicas: int
    unclean_leader_election: bool = False
    topic_config: Mapping[str, str] = field(default_factory=dict)
    producer_config: Mapping[str, str | int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How hard a cell's producer works. ``rate``: records a second; ``record_bytes``: size of a
    value."""

    rate: float
    record_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client process to start: ``python -m <module> <file with specification as JSON>``."""

    name: str
    module: str
    specification: Mapping[str, object]


class Workload(Protocol):
    """A kind of traffic. ``history`` is the directory, on the node where the client runs, that its
    tables go to; ``progress`` a file it rewrites once a second for the display."""

    name: str
    summary: str

    def clients(
        self, cell: Cell, load: Load, *, bootstrap_servers: str, history: str, progress: str
    ) -> Sequence[Client]: ...

    def final_read(
        self,
        cells: Sequence[Cell],
        *,
        bootstrap_servers: str,
        history: str,
        progress: str,
        deadline_s: float,
    ) -> Client: ...
