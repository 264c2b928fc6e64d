"""Which process was meant: an id alone comes to mean another process some day."""

import os
import select
import signal
from dataclasses import dataclass
from pathlib import Path

from ackproof.infra.agent.stat import stat


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """A process of this machine, for good.

    Attributes:
        pid: Its id.
        start: When it started, in clock ticks since boot (``/proc/<pid>/stat``, field 22).
        boot: The boot that this was in (``/proc/sys/kernel/random/boot_id``).
    """

    pid: int
    start: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> "ProcessIdentity":
        """The process that has this id now. Raises ProcessLookupError when none has."""
        return cls(pid=pid, start=_start(pid), boot=_boot())

    def lives(self) -> bool:
        """Whether it is still there. A zombie is not."""
        try:
            return self.boot == _boot() and self.start == _start(self.pid)
        except ProcessLookupError:
            return False

    def end(self, signal_number: int, timeout: float) -> bool:
        """Send a signal and wait, at most ``timeout`` seconds; whether it is gone then.

        Raises PermissionError when it is not ours.
        """
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            # Looked at after it was opened: whatever has the id later, it is not what we signal.
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
