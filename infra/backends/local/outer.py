"""The outer process of a run (``python -m ackproof.infra.backends.local.outer <run id> --
<command>``).

It is the process that the user started. It starts the run's first process, forwards signals to it,
and at the end removes the run's scratch directory and its entry in the registry. Killed with
SIGKILL, it takes the run along, but leaves these two to ``ackproof clean``.

The run is in a process group of its own, so that Ctrl-C reaches it once, from here, and not also
from the terminal.
"""

import signal
import subprocess
import sys
from collections.abc import Sequence

from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.local.processes import FORWARDED, Forwarder, exit_with, outermost
from ackproof.infra.machine import own_commands
from ackproof.infra.machine.registry import Registry

_AS_FIRST_PROCESS = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount-proc", "--")


def main(run_id: str, command: Sequence[str]) -> int:
    """Run ``command`` to its end, and return its exit status."""
    registry = Registry.open()
    forwarder = Forwarder()
    # The first process unblocks the signals once it can handle them; none that is sent in between
    # is lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    entry = registry.get(run_id)
    scratch = entry.scratch
    arguments = [*([] if scratch is None else [str(scratch)]), "--", *command]
    init = subprocess.Popen(
        [
            *_AS_FIRST_PROCESS,
            sys.executable,
            "-P",
            "-m",
            "ackproof.infra.backends.local.init",
            *arguments,
        ],
        close_fds=False,  # the command inherits the caller's descriptors
        process_group=0,
    )
    forwarder.attach(init.pid)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    registry.note_init(run_id, init.pid)
    code = init.wait()
    try:
        if entry.results is not None:
            # The PID namespace has ended, so that no process can be started from here.
            own_commands.require_nothing_left(entry.results)
        registry.remove(run_id)
    except (InfraError, OSError) as error:
        _tell(f"cannot clean up after the run: {error}")
    return outermost(code)


def _tell(line: str) -> None:
    sys.stderr.write(f"ackproof: {line}\n")


if __name__ == "__main__":
    exit_with(lambda: main(sys.argv[1], sys.argv[3:]))
