"""Disks of nodes and damage to files: the part of the interface on stored data."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Damage to a file.

    Attributes:
        file: The path relative to its log directory.
        what: ``gone``, or which bytes were changed.
        there: Whether that is so now, read again.
    """

    file: str
    what: str
    there: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeBlocks:
    """Two blocks of a disk, both written just before its power failed, one of them synced.

    Attributes:
        synced: The present content of the synced one: the token of the last power failure.
        unsynced: The present content of the other: that token only if nothing was lost.
    """

    synced: str
    unsynced: str


class Disk(Protocol):
    """A disk of a node's own, with a file system that can fail.

    Every method raises InfraError if it cannot do its work.
    """

    @property
    def data(self) -> PurePosixPath:
        """Return the directory on it that belongs to the server, empty at first."""

    def lose_power(self, token: str, tail: str) -> None:
        """Lose what was not synced, and return to service. No process may have open files there.

        ``token`` is written to the witnesses just before. ``tail`` is the state of the last segment
        of every log. ``lost`` loses it like everything else. ``torn`` cuts it in the middle of a
        batch. ``zeroed`` leaves zeros, and ``half-zeroed`` a batch in which the zeros begin.
        """

    def witnesses(self) -> ProbeBlocks: ...

    def cut_off(self) -> None:
        """Fail until :meth:`restore`: reads and writes get EIO, and what was not synced is lost."""

    def make_read_only(self) -> None:
        """Refuse writes with EROFS until :meth:`restore`, as ext4 does after an error."""

    def restore(self) -> None:
        """Serve again, with what was synced. No process may have open files there."""

    def fill(self) -> None:
        """Take all the room that is left until :meth:`empty`. Both are idempotent."""

    def empty(self) -> None: ...

    def slow(self, bytes_per_s: int) -> None:
        """Limit reads and writes until :meth:`unslow`, which is idempotent."""

    def unslow(self) -> None: ...

    def bytes_per_s(self) -> int | None:
        """Return the limit in force by the kernel; None without one."""

    def seconds_to_write(self, size: int) -> float:
        """Return the seconds that it takes to write and sync ``size`` bytes."""

    def refuses_writes(self) -> str | None:
        """Return the error with which a write fails (``ENOSPC``, ``EIO``, ...); None if it
        succeeds."""

    def remove(self) -> None:
        """Delete it. Idempotent."""


class Storage(Protocol):
    """The stored data of a node, and the faults that can be injected into it."""

    def disk(self, name: str, megabytes: int) -> Disk:
        """Make a disk, and mount it.

        Raises InfraError if the backend cannot (``Capability.LOSE_UNSYNCED_WRITES``).
        """

    def flip_bit(self, directory: PurePosixPath, kind: str, draw: float) -> None:
        """Flip one bit of a file of one partition in a log directory.

        ``kind`` is ``closed-segment``, ``active-segment``, ``index`` or ``timeindex``. ``draw`` is
        a number from 0 to 1, exclusive, which makes the choice. Raises InfraError if there is no
        such file.
        """

    def flip_bits(self, directory: PurePosixPath, kind: str, draw: float) -> None:
        """Flip one bit of every ``index`` or ``timeindex`` in a log directory.

        The entry mostly stays in its order. Raises InfraError if there is none.
        """

    def remove_files(self, directory: PurePosixPath, name: str) -> None:
        """Remove the files of that name in a log directory and its partitions.

        Raises InfraError if there is none.
        """

    def damage(self, directory: PurePosixPath) -> Sequence[Damage]:
        """Return all damage ever done to files of a log directory, with its present state."""


# --- the plan of a server's disks -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DiskPlan:
    """The disks under a server's data.

    Attributes:
        per_server: The number of disks of each server, with one log directory on each.
        megabytes: The size of each. Only written data takes room.
    """

    per_server: int
    megabytes: int
