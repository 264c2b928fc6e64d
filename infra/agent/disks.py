"""Disks of a node's own: ext4 in a file, by a loop device, so that a disk can fail.

A power failure cuts the file system off (:mod:`infra.agent.power`). After it is unmounted and
mounted again, it holds what was synced and what the kernel had written back on its own, and nothing
else.

A loop device that ``mount`` made ends with its last mount. A mount ends with its mount namespace,
whichever process is killed.
"""

import errno
import os
import stat
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from ackproof.infra.agent import damage, power, privilege, throttle
from ackproof.infra.agent.wire import RefusedByNode

DATA = "data"
"""The directory on a disk that belongs to the server."""

OURS = "ackproof"
"""The directory on a disk that belongs to the harness.

It exists only while the disk is mounted. An action on a path below it can therefore never affect
the file system that the mount lies on.
"""

_IMAGE = ".img"
_FILLER = f"{OURS}/filler"
_PROBE = f"{OURS}/probe"
_PROBE_BYTES = 1 << 16
_PIECE_MIN = 4096
_TRIAL_MB = 16
_LOOP_DEVICES = 64


def obstacle() -> str | None:
    """Return why no disks that lose unsynced data can be made here, or None if they can.

    A disk is made, loses its power and is removed again to find out.
    """
    import tempfile  # it imports much, and most nodes never need it

    with tempfile.TemporaryDirectory(prefix="ackproof-disk-") as directory:
        disk = os.path.join(directory, "trial")
        try:
            make(disk, _TRIAL_MB)
            try:
                lose_power(disk, "tried")
                seen = witnesses(disk)
            finally:
                remove(disk)
        except (RefusedByNode, OSError) as refusal:
            return str(refusal)
    if seen != {"synced": "tried", "unsynced": ""}:
        return f"the file system does not lose unsynced data, or loses more: {seen}"
    return None


def make(path: str, megabytes: int) -> None:
    """Make a disk and mount it at ``path``, with its image beside it.

    Files on it belong to the agent's user, root or not. Raises Refused, and leaves nothing behind
    then.
    """
    os.makedirs(path)
    image = path + _IMAGE
    try:
        with open(image, "wb") as file:
            file.truncate(megabytes << 20)
        owner = f"root_owner={os.getuid()}:{os.getgid()}"
        options = f"{owner},lazy_itable_init=1,lazy_journal_init=1,nodiscard"
        # No blocks are kept for root: a full disk is full for every user.
        privilege.as_root(["mkfs.ext4", "-q", "-F", "-m", "0", "-E", options, image])
        _mount(path)
        try:
            os.makedirs(os.path.join(path, DATA))
            power.prepare(os.path.join(path, OURS))
        except BaseException:
            _unmount(path)
            raise
    except BaseException:
        _forget(path)
        raise


def remove(path: str) -> None:
    """Unmount and delete a disk. Idempotent. Raises Refused while a process uses it."""
    if os.path.ismount(path):
        _unmount(path)
    _forget(path)


def lose_power(path: str, token: str, tail: str = "lost") -> None:
    """Let the power fail and return: what was not synced is gone. No process may have open files
    there.

    Args:
        token: The text that is written to the witnesses, see :func:`witnesses`.
        tail: The state of the last segments: ``lost`` like everything else, or ``torn``, ``zeroed``
            or ``half-zeroed``, see :func:`infra.agent.damage.tear`.

    Raises Refused.
    """
    data = os.path.join(path, DATA)
    before = {} if tail == "lost" else damage.tails(data)
    power.cut(os.path.join(path, OURS), token)
    restore(path)
    damage.tear(data, before, tail)


def witnesses(path: str) -> dict[str, str]:
    """Return the witnesses of a disk, see :func:`infra.agent.power.witnesses`."""
    return power.witnesses(os.path.join(path, OURS))


def cut_off(path: str) -> None:
    """Take the disk away from its file system.

    A read of uncached data and every write then get EIO, and what was not synced is lost.
    :func:`restore` undoes it.
    """
    power.cut(os.path.join(path, OURS))


def make_read_only(path: str) -> None:
    """Make the disk read-only, as ext4 does after an error (``errors=remount-ro``).

    Writes then get EROFS, those to open files too. :func:`restore` undoes it.
    """
    privilege.as_root(["mount", "-o", "remount,abort", path])


def restore(path: str) -> None:
    """Unmount, repair and mount a disk again; a limit to its speed stays.

    Raises Refused while a process has open files there.
    """
    limit = None
    if os.path.ismount(path):
        limit = throttle.bytes_per_s(path)
        _unmount(path)
    _repair(path + _IMAGE)
    _mount(path)
    if limit is not None:
        throttle.slow(path, limit)


def fill(path: str) -> None:
    """Take all the room that is left. Idempotent; :func:`empty` undoes it."""
    take_room(os.path.join(path, _FILLER))


def take_room(path: str) -> None:
    """Let the file ``path`` take all the room that is left on its disk. Idempotent."""
    filler = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        size = os.fstat(filler).st_size
        room = os.fstatvfs(filler)
        piece = room.f_bavail * room.f_bsize
        while piece >= _PIECE_MIN:
            try:
                os.posix_fallocate(filler, size, piece)
                size += piece
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                # The blocks that describe the file take room, too.
                piece //= 2
        os.fsync(filler)
    finally:
        os.close(filler)


def empty(path: str) -> None:
    """Give back the room that :func:`fill` has taken. Idempotent."""
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(path, _FILLER))


def refuses_writes(path: str) -> str | None:
    """Return the error with which a synced write fails there (``ENOSPC``, ``EIO``, ``EROFS``, ...).

    Return None if the write succeeds.
    """
    return refusal(os.path.join(path, _PROBE))


def refusal(probe: str) -> str | None:
    """Return the error with which a synced write to files that begin with ``probe`` fails, or None
    if it succeeds."""
    try:
        _probe(probe, _PROBE_BYTES)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return None


def seconds_to_write(path: str, size: int) -> float:
    """Return the seconds that it takes to write and sync ``size`` bytes. Raises OSError if that
    fails."""
    begun = time.monotonic()
    _probe(os.path.join(path, _PROBE), size)
    return time.monotonic() - begun


def below(directory: str) -> Sequence[str]:
    """Return the disks that are mounted below a directory, the last one made first."""
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        places = [line.split()[1].encode().decode("unicode_escape") for line in mounts]
    within = os.path.realpath(directory) + os.sep
    return [place for place in reversed(places) if place.startswith(within)]


def _probe(beginning: str, size: int) -> None:
    # The name is the thread's own, since several threads may probe at once.
    probe = f"{beginning}-{threading.get_ident()}"
    try:
        file = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(file, b"\xff" * size)
            os.fsync(file)
        finally:
            os.close(file)
    finally:
        with suppress(OSError):
            os.unlink(probe)


def _mount(path: str) -> None:
    _make_nodes()
    privilege.as_root(["mount", "-t", "ext4", "-o", "loop", path + _IMAGE, path])


def _unmount(path: str) -> None:
    # The limit belongs to the device, which another disk may get a moment later.
    limit = throttle.bytes_per_s(path)
    throttle.unslow(path)
    try:
        privilege.as_root(["umount", path])
    except RefusedByNode:
        if limit is not None:
            throttle.slow(path, limit)
        raise


def _make_nodes() -> None:
    """Make the nodes of loop devices: the ``/dev`` of a container has none, whatever it may use."""
    if os.path.exists("/dev/loop-control") or os.geteuid() != 0:
        return
    os.mknod("/dev/loop-control", 0o600 | stat.S_IFCHR, os.makedev(10, 237))
    for number in range(_LOOP_DEVICES):
        with suppress(FileExistsError):
            os.mknod(f"/dev/loop{number}", 0o600 | stat.S_IFBLK, os.makedev(7, number))


def _repair(image: str) -> None:
    # An aborted file system must be checked. The status is not zero after a repair, too. If
    # something could not be repaired, mount will fail.
    with suppress(RefusedByNode):
        privilege.as_root(["e2fsck", "-y", image])


def _forget(path: str) -> None:
    for forget, what in ((os.unlink, path + _IMAGE), (os.rmdir, path)):
        with suppress(FileNotFoundError):
            forget(what)
