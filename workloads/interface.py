"""What a workload is: the clients of a cell, and the reading back.

A workload builds command lines with a JSON specification each; it does not know where they run.
The harness starts them on a client node, reads their progress files, and stops them with SIGTERM:
a client then stops sending, waits for what is under way (at most ``message.timeout.ms``), closes
its history and exits with 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from history.cell import Cell
from history.manifest import PlannedWriter


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

    def writers(self, cells: Sequence[Cell], node: str) -> Sequence[PlannedWriter]:
        """Every file that its clients and the final read will write, all on ``node``."""

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
