"""Runs that enter no namespaces: their nodes are elsewhere, in an engine or on other hosts.

The calling process becomes the outer one in the registry, and starts the run as its child. If it
dies, the child dies too (parent-death signal), and ``ackproof clean`` cleans up. If the child dies,
however it does, the outer process cleans up.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from ackproof.infra.agent.parents import dying_with
from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.local.processes import Forwarder, outermost
from ackproof.infra.machine import own_commands
from ackproof.infra.machine.registry import EntryKind, Registry
from ackproof.infra.systems.external import restoration


def tell(line: str) -> None:
    """Write a line for the user."""
    sys.stderr.write(f"ackproof: {line}\n")


def _nothing() -> None: ...


def enter(
    argv: Sequence[str],
    run_id: str,
    *,
    kind: EntryKind = EntryKind.RUN,
    results: Path | None = None,
    scratch: Path | None = None,
    afterwards: Callable[[], object] = _nothing,
) -> NoReturn:
    """Run ``argv`` as a run that the registry knows, and exit with its status.

    The status is 128 + n when signal n ended it, and 5 for its 1:
    ``infra.backends.local.processes``. Arguments and errors are those of
    ``infra.backends.local.enter.enter``. ``afterwards`` removes what is not below ``scratch``.
    """
    registry = Registry.open()
    forwarder = Forwarder()  # before the entry, which only the end of this process removes
    registry.add(run_id, kind, results=results, scratch=scratch)
    # The child has a process group of its own, so that Ctrl-C reaches it once, from here.
    child = subprocess.Popen([*dying_with(os.getpid()), *argv], process_group=0)
    forwarder.attach(child.pid)
    registry.note_init(run_id, child.pid)
    code = child.wait()
    try:
        if results is not None:
            own_commands.restore(results, tell)
        afterwards()
        registry.remove(run_id)
    except (InfraError, OSError) as error:
        tell(f"cannot clean up after the run: {error}")
    sys.exit(outermost(code))


# --- runs in containers -----------------------------------------------------------------------


def enter_for_docker(
    argv: Sequence[str],
    run_id: str,
    *,
    kind: EntryKind = EntryKind.RUN,
    results: Path | None = None,
    scratch: Path | None = None,
) -> NoReturn:
    """Start a run whose nodes are containers, like :func:`enter`.

    The harness needs the engine and its bridge, and no namespaces. The outer process, else
    ``ackproof clean``, removes the containers.
    """
    from ackproof.infra.backends.docker import cleanup  # slow to import

    enter(
        argv,
        run_id,
        kind=kind,
        results=results,
        scratch=scratch,
        afterwards=lambda: cleanup.clean(tell),
    )


# --- runs against an external cluster ---------------------------------------------------------


_NEEDED = "setpriv"


def external_obstacle() -> str | None:
    """Return which program is missing, or None."""
    if shutil.which(_NEEDED) is None:
        return f"{_NEEDED} is missing (Debian: apt-get install util-linux)"
    return None


def enter_for_external(
    argv: Sequence[str],
    run_id: str,
    *,
    kind: EntryKind = EntryKind.RUN,
    results: Path | None = None,
    scratch: Path | None = None,
) -> NoReturn:
    """Start a run whose nodes are on this machine as it is, like :func:`enter`.

    The run, its outer process, ``ackproof clean`` or the next run leaves the external cluster as it
    was.
    """

    def afterwards() -> None:
        if results is not None:
            restoration.restore(results, tell)

    enter(argv, run_id, kind=kind, results=results, scratch=scratch, afterwards=afterwards)
