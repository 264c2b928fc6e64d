"""The identity of a process: an id alone may come to mean another process."""

import os
import select
import signal
from dataclasses import dataclass
from pathlib import Path

from ackproof.infra.agent.stat import stat


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """A process of this machine, identified for good.

    Attributes:
        pid: The process id.
        start: The start, in clock ticks since boot (``/proc/<pid>/stat``, field 22).
        boot: The id of that boot (``/proc/sys/kernel/random/boot_id``).
    """

    pid: int
    start: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> "ProcessIdentity":
        """Return the process that has this id now. Raises ProcessLookupError if none has."""
        return cls(pid=pid, start=_start(pid), boot=_boot())

    def lives(self) -> bool:
        """Return whether the process exists. A zombie does not count."""
        try:
            return self.boot == _boot() and self.start == _start(self.pid)
        except ProcessLookupError:
            return False

    def end(self, signal_number: int, timeout: float) -> bool:
        """Send a signal and wait at most ``timeout`` seconds. Return whether the process is gone
        then.

        Raises PermissionError if it belongs to another user.
        """
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            # The check comes after the descriptor was opened: a later process with the same id is
            # not signalled.
            if not self.lives():
                return True
            signal.pidfd_send_signal(descriptor, signal_number)
            return bool(select.select([descriptor], [], [], timeout)[0])
        except ProcessLookupError:
            return True
        finally:
            os.close(descriptor)


def _start(pid: int) -> int:
    found = stat(pid)
    if found.letter in "ZX":
        raise ProcessLookupError(f"process {pid} has ended")
    return found.start


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
