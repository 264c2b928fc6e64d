"""The ledger of open faults: what is about to be broken is written down before it is broken.

Healing is driven by it, not by the schedule, so that a fault whose injection failed half-way, or
whose end never came, is healed all the same. One JSON line an entry, synced to disk before the
injection begins.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.interface import Server
from nemesis.interface import Fault, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFault:
    """A fault that was about to be injected and is not known to be healed."""

    fault_id: int
    fault: Fault
    target: Target


class Ledger:
    """Append-only file of intents and ends.

    Args:
        path: The file; made when absent, its directory must exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: dict[int, OpenFault] = {}

    def open(self, fault_id: int, fault: Fault, target: Target) -> None:
        """Write down the intent. On disk when this returns."""
        if fault_id in self._open:
            raise ValueError(f"fault {fault_id} is open already")
        self._write(
            {
                "open": fault_id,
                "fault": fault.name,
                "target": target.expression,
                "servers": [server.name for server in target.servers],
                "facts": dict(target.facts),
            }
        )
        self._open[fault_id] = OpenFault(fault_id=fault_id, fault=fault, target=target)

    def close(self, fault_id: int) -> None:
        """Write down that the fault was healed, and proven to be."""
        del self._open[fault_id]
        self._write({"close": fault_id})

    def still_open(self) -> tuple[OpenFault, ...]:
        """What is not known to be healed, newest first: the order in which to heal."""
        return tuple(self._open[fault_id] for fault_id in reversed(self._open))

    def holding(self, server: Server) -> int | None:
        """The fault that is on ``server``, the newest of several; None when there is none. To be
        called from any thread."""
        return next(
            (
                entry.fault_id
                for entry in reversed(tuple(self._open.values()))
                if any(one.name == server.name for one in entry.target.servers)
            ),
            None,
        )

    def _write(self, entry: Mapping[str, object]) -> None:
        with self._path.open("a", encoding="utf-8") as ledger:
            ledger.write(json.dumps(entry) + "\n")
            ledger.flush()
            os.fsync(ledger.fileno())
