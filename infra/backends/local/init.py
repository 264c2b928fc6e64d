"""The first process of a run's PID namespace (``... infra.backends.local.init [scratch] --
<command>``).

It starts the command, hands signals down to it, reaps whatever processes are orphaned, and ends
with the command's status. With it ends the namespace: the kernel kills every process in it. One
that waits for a slow disk ends when its last bytes are written; so the limits to disks below
``scratch`` are lifted before.
"""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from ackproof.infra.agent import throttle
from ackproof.infra.agent.wire import Refused
from ackproof.infra.backends.local.processes import (
    FORWARDED,
    Forwarder,
    exit_with,
    mark,
    shell_status,
)

_BLOCK = "--block-signal="


def main(command: Sequence[str], scratch: str | None = None) -> int:
    """Run ``command``; its exit status, 128 + n when signal n ended it, 127 when it did not
    start."""
    forwarder = Forwarder()
    # Blocked by our parent: a first process never gets a signal it has no handler for, and one
    # that came while we started would be lost.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    try:
        child = os.posix_spawnp(
            command[0],
            list(command),
            mark(os.environ),
            setsigdef=[signal.SIGPIPE],
            setsigmask=_blocked_by(command),
        )
    except OSError as error:
        sys.stderr.write(f"ackproof: cannot start {command[0]}: {error.strerror}\n")
        return 127
    forwarder.attach(child)
    code = _reap_until(child)
    if scratch is not None:
        with suppress(Refused, OSError):
            throttle.lift_below(scratch)
    return code


def _blocked_by(command: Sequence[str]) -> Sequence[signal.Signals]:
    """Return the signals that a command blocks before anything else (``env --block-signal=INT``).

    They must be blocked when it starts. A SIGINT that came before it was started is handed down at
    once, and would end ``env`` before it has blocked anything."""
    options = [word.partition("=") for word in command if word.startswith(_BLOCK)]
    return [signal.Signals[name] for _, _, name in options] if command[0] == "env" else []


def _reap_until(child: int) -> int:
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return shell_status(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    separator = sys.argv.index("--")
    exit_with(lambda: main(sys.argv[separator + 1 :], *sys.argv[1:separator]))
