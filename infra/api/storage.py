"""Disks of nodes and damage to files: the part of the interface on what nodes keep."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What was done to a file.

    Attributes:
        file: Relative to its log directory.
        what: ``gone``, or which bytes were changed.
        there: Whether that is so now, read again.
    """

    file: str
    what: str
    there: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Witnesses:
    """Two blocks of a disk, both written just before its power failed, one of them synced.

    Attributes:
        synced: What stands in the one now: the token of the last power failure.
        unsynced: What stands in the other: that token only where nothing was lost.
    """

    synced: str
    unsynced: str


class Disk(Protocol):
    """A disk of a node's own, with a file system that can fail. Every method raises InfraError when
    it cannot be done."""

    @property
    def data(self) -> PurePosixPath:
        """The directory on it that is the server's, empty at first."""

    def lose_power(self, token: str, tail: str) -> None:
        """Lose what was not synced, and come back. Nobody may have files open there. ``token``:
        written to the witnesses just before. ``tail``: of the last segment of every log: ``lost``
        as everything else, ``torn`` in the middle of a batch, ``zeroed``, or
        ``half-zeroed``, with a batch in which the zeros begin."""

    def witnesses(self) -> Witnesses: ...

    def cut_off(self) -> None:
        """Fail: reads and writes get EIO, and what was not synced is lost. Until
        :meth:`restore`."""

    def make_read_only(self) -> None:
        """Refuse writes with EROFS, as ext4 does after an error. Until :meth:`restore`."""

    def restore(self) -> None:
        """Serve again, with what was synced. Nobody may have files open there."""

    def fill(self) -> None:
        """Take all the room that is left. Until :meth:`empty`. Both are idempotent."""

    def empty(self) -> None: ...

    def slow(self, bytes_per_s: int) -> None:
        """Read and write no faster than that. Until :meth:`unslow`, which is idempotent."""

    def unslow(self) -> None: ...

    def bytes_per_s(self) -> int | None:
        """The limit in force, as the kernel tells; None without one."""

    def seconds_to_write(self, size: int) -> float:
        """How long it takes to write and sync ``size`` bytes, tried for real."""

    def refuses_writes(self) -> str | None:
        """Why a write is refused (``ENOSPC``, ``EIO``, ...), tried for real; None when it
        succeeds."""

    def remove(self) -> None:
        """Delete it. Idempotent."""


class Storage(Protocol):
    """What a node keeps, and what can be done to it."""

    def disk(self, name: str, megabytes: int) -> Disk:
        """Make a disk, and mount it. Raises InfraError where the backend cannot
        (``Capability.LOSE_UNSYNCED_WRITES``)."""

    def flip_bit(self, directory: PurePosixPath, kind: str, draw: float) -> None:
        """Flip one bit of a file of one partition in a log directory. ``kind``: ``closed-segment``,
        ``active-segment``, ``index`` or ``timeindex``; ``draw``: from 0 to 1, exclusive, chooses.
        Raises InfraError where there is no such file."""

    def flip_bits(self, directory: PurePosixPath, kind: str, draw: float) -> None:
        """Flip one bit of every ``index`` or ``timeindex`` in a log directory, such that the entry
        mostly stays in its order. Raises InfraError where there is none."""

    def remove_files(self, directory: PurePosixPath, name: str) -> None:
        """Remove the files of that name in a log directory and its partitions. Raises InfraError
        where there is none."""

    def damage(self, directory: PurePosixPath) -> Sequence[Damage]:
        """All that was ever done so to files of a log directory, looked at now."""


# --- the plan of a server's disks -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DiskPlan:
    """What a server's data lie on.

    Attributes:
        per_server: How many disks each has, one log directory on each.
        megabytes: The size of each. Only what is written takes room.
    """

    per_server: int
    megabytes: int
