"""Disks that exist in memory, and the files of logs: what a fault proves of them can be true or
false."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from ackproof.infra.api.interface import InfraError
from ackproof.infra.api.storage import Damage, Witnesses


@dataclass
class MemoryDisk:
    deaf: bool = False
    """Nothing that is done to it has any effect."""
    data: PurePosixPath = field(default_factory=lambda: PurePosixPath("/none/data"))
    synced: str = ""
    unsynced: str = ""
    keeps_all: bool = False
    """What was not synced is there after a power failure all the same."""
    refusal: str | None = None
    limit: int | None = None
    damage: list[Damage] = field(default_factory=list)

    def lose_power(self, token: str, tail: str) -> None:
        if self.deaf:
            return
        self.synced = token
        if self.keeps_all:
            self.unsynced = token
        if tail != "lost":
            self.damage.append(Damage(file="orders-0/0.log", what="bytes at 7", there=True))

    def witnesses(self) -> Witnesses:
        return Witnesses(synced=self.synced, unsynced=self.unsynced)

    def cut_off(self) -> None:
        self._refuse("EIO")

    def make_read_only(self) -> None:
        self._refuse("EROFS")

    def restore(self) -> None:
        self.refusal = None

    def fill(self) -> None:
        self._refuse("ENOSPC")

    def empty(self) -> None:
        if self.refusal == "ENOSPC":
            self.refusal = None

    def slow(self, bytes_per_s: int) -> None:
        self.limit = None if self.deaf else bytes_per_s

    def unslow(self) -> None:
        self.limit = None

    def bytes_per_s(self) -> int | None:
        return self.limit

    def seconds_to_write(self, size: int) -> float:
        if self.refusal is not None:
            raise InfraError(self.refusal)
        return 0.001 if self.limit is None else size / self.limit

    def refuses_writes(self) -> str | None:
        return self.refusal

    def remove(self) -> None: ...

    def _refuse(self, why: str) -> None:
        if not self.deaf:
            self.refusal = why


@dataclass
class MemoryFiles:
    """Of the log directories of one node. ``kinds``: the files that there are; ``deaf``: what is
    done to them is not there when it is looked at."""

    deaf: bool = False
    kinds: Sequence[str] = ("closed-segment", "active-segment", "index", "timeindex")
    damage: list[Damage] = field(default_factory=list)

    def flip_bit(self, kind: str) -> None:
        if kind not in self.kinds:
            raise InfraError(f"no {kind} has anything in it")
        self._done("orders-0/0.log", "bytes at 7")

    def remove_files(self, name: str) -> None:
        self._done(name, "gone")

    def _done(self, file: str, what: str) -> None:
        self.damage.append(Damage(file=file, what=what, there=not self.deaf))
