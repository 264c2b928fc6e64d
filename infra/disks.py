"""Disks of nodes, as the harness sees them. What they are is :mod:`infra.agent.disks`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from ackproof.infra.agent.disks import DATA
from ackproof.infra.agent_client import AgentClient
from ackproof.infra.storage import Witnesses

_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class DiskPlan:
    """What a server's data lie on.

    Attributes:
        per_server: How many disks each has, one log directory on each.
        megabytes: The size of each. Only what is written takes room.
    """

    per_server: int
    megabytes: int


class AgentDisk:
    """Implements ``infra.interface.Disk``. Made and mounted at ``path`` when it is constructed."""

    def __init__(self, agent: AgentClient, path: PurePosixPath, megabytes: int) -> None:
        self._agent = agent
        self._path = path
        self._ask("make_disk", megabytes=megabytes)

    @property
    def data(self) -> PurePosixPath:
        return self._path / DATA

    def lose_power(self, token: str, tail: str) -> None:
        self._ask("lose_power", token=token, tail=tail)

    def witnesses(self) -> Witnesses:
        found: Mapping[str, str] = self._ask("witnesses")
        return Witnesses(**found)

    def cut_off(self) -> None:
        self._ask("cut_off")

    def make_read_only(self) -> None:
        self._ask("make_read_only")

    def restore(self) -> None:
        self._ask("restore_disk")

    def fill(self) -> None:
        self._ask("fill_disk")

    def empty(self) -> None:
        self._ask("empty_disk")

    def slow(self, bytes_per_s: int) -> None:
        self._ask("slow_disk", bytes_per_s=bytes_per_s)

    def unslow(self) -> None:
        self._ask("unslow_disk")

    def bytes_per_s(self) -> int | None:
        limit: int | None = self._ask("bytes_per_s")
        return limit

    def seconds_to_write(self, size: int) -> float:
        seconds: float = self._ask("seconds_to_write", size=size)
        return seconds

    def refuses_writes(self) -> str | None:
        refusal: str | None = self._ask("refuses_writes")
        return refusal

    def remove(self) -> None:
        self._ask("remove_disk")

    def _ask(self, verb: str, **arguments: object) -> Any:
        return self._agent.ask(verb, timeout=_WITHIN_S, path=str(self._path), **arguments)
