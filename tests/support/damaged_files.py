"""A broker's disk that gives back something else than was written, or nothing."""

import os
from pathlib import Path

from hosts import Host

from ackproof.broker.types import TopicPartition

LENGTH_AT = 8
"""Where in a batch its length is."""


def log_of(host: Host, tp: TopicPartition) -> Path:
    (path,) = (Path(host.directory) / str(tp)).glob("*.log")
    return path


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def refuse_reads(path: Path) -> None:
    """Whoever has the file open has a directory open now, which nobody can read."""
    directory = os.open(path.parent, os.O_RDONLY)
    for descriptor in list(Path("/proc/self/fd").iterdir()):
        if descriptor.is_symlink() and descriptor.readlink() == path:
            os.dup2(directory, int(descriptor.name))
    os.close(directory)
