"""A power failure of a file system, and two witness files that show what was lost.

It is FS_IOC_SHUTDOWN with NOLOGFLUSH (the kernel's ``fs/ext4/ioctl.c``): nothing more reaches the
device afterwards. What had reached it without a flush is kept, as by a disk with a battery.

The witnesses are blocks of files that were written and synced when the disk was made. Just before
the power fails both are overwritten in place, and one of them is synced. That needs no commit of
the journal, which would make durable what the broker had not synced (a file's new name, its
length). ext4 commits for fdatasync only if more than a timestamp has changed.

The program that cuts the power overwrites the other one, right before it does. If the agent did,
the new content would wait until that program has started, a tenth of a second on a busy machine. A
sync(2) of any process in that time, for any disk, would make it durable, and the loss would not
show.
"""

import os
import sys

from ackproof.infra.agent import privilege

_WITNESSES = ("synced", "unsynced")
_BLOCK = 4096
_CUT = """\
import fcntl, os, struct, sys
SHUTDOWN, NOLOGFLUSH = 0x8004587D, struct.pack("I", 2)
block = sys.stdin.buffer.read()
file = os.open(sys.argv[1], os.O_WRONLY if block else os.O_RDONLY)
if block:
    os.pwrite(file, block, 0)
fcntl.ioctl(file, SHUTDOWN, NOLOGFLUSH)
"""


def prepare(directory: str) -> None:
    """Make empty witnesses in a new ``directory``, and make them durable."""
    os.makedirs(directory)
    for name in _WITNESSES:
        _overwrite(os.path.join(directory, name), "")
    # Not os.sync(): it would make durable what brokers on all other disks have not synced, and no
    # power failure could take that from them.
    for parent in (directory, os.path.dirname(directory)):
        file = os.open(parent, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def cut(directory: str, token: str | None = None) -> None:
    """Cut off the file system of ``directory``.

    ``token`` is written to the witnesses there just before; None leaves them alone. Raises Refused,
    and OSError if the file system refuses writes.
    """
    synced, unsynced = (os.path.join(directory, name) for name in _WITNESSES)
    if token is not None:
        _overwrite(synced, token)
    argv = [sys.executable, "-I", "-S", "-c", _CUT, unsynced]
    privilege.as_root(argv, "" if token is None else _block(token))


def witnesses(directory: str) -> dict[str, str]:
    """Return the content of the two witnesses, by name.

    ``synced`` has the last token, and ``unsynced`` an older one or none.
    """
    found = {}
    for name in _WITNESSES:
        with open(os.path.join(directory, name), "rb") as file:
            found[name] = file.read().rstrip(b"\0").decode(errors="replace")
    return found


def _overwrite(path: str, token: str) -> None:
    """Overwrite a witness in place, and sync it."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.pwrite(file, _block(token).encode(), 0)
        os.fdatasync(file)
    finally:
        os.close(file)


def _block(token: str) -> str:
    return token.ljust(_BLOCK, "\0")
