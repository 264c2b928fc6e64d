"""Effects on the disks of brokers, and on the files of their logs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ackproof.infra.api.interface import InfraError, Server
from ackproof.infra.api.storage import Disk
from ackproof.nemesis.effects import OnDisk, OnProcess, ProcessClaim, kill
from ackproof.nemesis.interface import Cluster

Tail = Literal["lost", "torn", "zeroed", "half-zeroed"]
Failure = Literal["full", "io-error", "read-only"]

REFUSALS: dict[Failure, str] = {"full": "ENOSPC", "io-error": "EIO", "read-only": "EROFS"}
"""The reason for which a disk with each failure refuses a write."""


@dataclass(frozen=True, slots=True)
class RestartAtEnd(ProcessClaim):
    """The restart of a server at the end; a server that runs is killed first.

    A server that dies of its disk takes its time. Asked whether it runs, it may say yes and be gone
    a moment later. It would then stay down though the fault is over.
    """

    def undo(self, cluster: Cluster) -> None:
        kill(cluster.server(self.server).process)
        OnProcess.undo(self, cluster)

    def __str__(self) -> str:
        return f"start {self.server} again at the end"


@dataclass(frozen=True, slots=True)
class PowerLoss(OnDisk):
    """The loss of what a killed server had not synced to its disks.

    The disks are back at once, so that it can be seen what is left. ``token`` is for their
    witnesses, and is different each time.
    """

    token: str
    tail: Tail = "lost"

    def apply(self, cluster: Cluster) -> bool:
        for disk in cluster.server(self.server).disks:
            disk.lose_power(self.token, self.tail)
        return True

    def undo(self, cluster: Cluster) -> None:
        # As a rule there is nothing to do: unless the effect failed on the way, the disks are back.
        _mend(cluster.server(self.server))

    def __str__(self) -> str:
        return f"{self.server} loses power, the tails of its logs are {self.tail}"


@dataclass(frozen=True, slots=True)
class FailDisk(OnDisk):
    """The failure of one of a server's disks (``draw``, from 0 to 1, says which), or of all (None).

    A full disk is given its room back. Any other is replaced, with what was synced on it. The
    server is killed for that, as a machine is shut down for a disk to be replaced.
    """

    how: Failure
    draw: float | None = None

    def affected_disks(self, server: Server) -> Sequence[Disk]:
        """Return the disks of the server that fail."""
        disks = server.disks
        return disks if self.draw is None else [disks[int(self.draw * len(disks))]]

    def apply(self, cluster: Cluster) -> bool:
        for disk in self.affected_disks(cluster.server(self.server)):
            if self.how == "full":
                disk.fill()
            elif self.how == "io-error":
                disk.cut_off()
            else:
                disk.make_read_only()
        return True

    def undo(self, cluster: Cluster) -> None:
        server = cluster.server(self.server)
        if self.how != "full":
            _mend(server)
            return
        for disk in self.affected_disks(server):
            disk.empty()

    def __str__(self) -> str:
        which = "the disks" if self.draw is None else "a disk"
        return f"{self.how} of {which} of {self.server}"


@dataclass(frozen=True, slots=True)
class DiskSlowdown(OnDisk):
    """A limit on the bytes a second that a server's disks read and write."""

    bytes_per_s: int

    def apply(self, cluster: Cluster) -> bool:
        for disk in cluster.server(self.server).disks:
            disk.slow(self.bytes_per_s)
        return True

    def undo(self, cluster: Cluster) -> None:
        for disk in cluster.server(self.server).disks:
            disk.unslow()

    def __str__(self) -> str:
        return f"slow the disks of {self.server} to {self.bytes_per_s} bytes/s"


@dataclass(frozen=True, slots=True)
class BitFlip(OnDisk):
    """A flipped bit of one file of a server's logs.

    ``file`` is the kind of file. ``draw``, from 0 to 1, says which file and which bit.
    """

    file: str
    draw: float

    def apply(self, cluster: Cluster) -> bool:
        """Flip the bit; raise InfraError where none of the log directories has such a file."""
        server = cluster.server(self.server)
        directories = cluster.system.log_directories(server)
        first = int(self.draw * len(directories))
        refusals = []
        for directory in (*directories[first:], *directories[:first]):
            try:
                server.node.flip_bit(directory, self.file, self.draw * len(directories) % 1)
            except InfraError as refusal:
                refusals.append(str(refusal))
            else:
                return True
        raise InfraError("; ".join(refusals))

    def __str__(self) -> str:
        return f"flip a bit of a {self.file} of {self.server}"


@dataclass(frozen=True, slots=True)
class IndexBitFlips(OnDisk):
    """A flipped bit of every index of a server.

    ``file`` is ``index`` or ``timeindex``. ``draw``, from 0 to 1, says which bits.
    """

    file: str
    draw: float

    def apply(self, cluster: Cluster) -> bool:
        """Flip the bits; raise InfraError where a log directory has no such file."""
        server = cluster.server(self.server)
        for directory in cluster.system.log_directories(server):
            server.node.flip_bits(directory, self.file, self.draw)
        return True

    def __str__(self) -> str:
        return f"flip a bit of every {self.file} of {self.server}"


@dataclass(frozen=True, slots=True)
class RemoveFiles(OnDisk):
    """The removal of the files of that name from a server's log directories.

    The server must be down, because one that runs would write them again.
    """

    name: str

    def apply(self, cluster: Cluster) -> bool:
        """Remove the files; raise InfraError where a log directory has none."""
        server = cluster.server(self.server)
        for directory in cluster.system.log_directories(server):
            server.node.remove_files(directory, self.name)
        return True

    def __str__(self) -> str:
        return f"remove {self.name} of {self.server}"


def _mend(server: Server) -> None:
    broken = [d for d in server.disks if d.refuses_writes() not in (None, REFUSALS["full"])]
    if broken:
        kill(server.process)
    for disk in broken:
        disk.restore()
