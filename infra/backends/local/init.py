"""The first process of a run's PID namespace (``... infra.backends.local.init [scratch] --
<command>``).

It starts the command, forwards signals to it, reaps orphaned processes, and ends with the command's
status. The namespace ends with it: the kernel kills every process in it. A process that waits for a
slow disk ends when its last bytes are written. The limits to disks below ``scratch`` are therefore
lifted first.
"""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from ackproof.infra.agent import throttle
from ackproof.infra.agent.wire import RefusedByNode
from ackproof.infra.backends.local.processes import (
    FORWARDED,
    Forwarder,
    exit_with,
    mark,
    shell_status,
)

_BLOCK = "--block-signal="


def main(command: Sequence[str], scratch: str | None = None) -> int:
    """Run ``command``, and return its exit status.

    It is 128 + n when signal n ended it, and 127 when it did not start.
    """
    forwarder = Forwarder()
    # The parent has blocked the signals. A first process never gets a signal without a handler, and
    # one that came during the start would be lost.
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
        with suppress(RefusedByNode, OSError):
            throttle.lift_below(scratch)
    return code


def _blocked_by(command: Sequence[str]) -> Sequence[signal.Signals]:
    """Return the signals that a command blocks before anything else (``env --block-signal=INT``).

    They must be blocked when it starts. A SIGINT that came before the start is forwarded at once,
    and would end ``env`` before it has blocked anything.
    """
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
