"""A run that enters no namespaces: its nodes are elsewhere, in an engine or on other hosts.

The calling process becomes the outer one that the registry knows and starts the run as its child.
It dies: so does the child (parent-death signal), and ``ackproof clean`` does what is left to do.
The child dies, however it does: the outer process cleans up.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from ackproof.infra import own_commands
from ackproof.infra.agent.parents import dying_with
from ackproof.infra.interface import InfraError
from ackproof.infra.local.signals import Forwarder
from ackproof.infra.local.status import outermost
from ackproof.infra.registry import Kind, Registry


def tell(line: str) -> None:
    """Say something to the user."""
    sys.stderr.write(f"ackproof: {line}\n")


def _nothing() -> None: ...


def enter(
    argv: Sequence[str],
    run_id: str,
    *,
    kind: Kind = Kind.RUN,
    results: Path | None = None,
    scratch: Path | None = None,
    afterwards: Callable[[], object] = _nothing,
) -> NoReturn:
    """Run ``argv`` as a run that the registry knows, and exit with its status (128 + n when signal
    n ended it, 3 for its 1: ``infra.local.status``). Arguments and errors as of
    ``infra.local.enter.enter``; ``afterwards`` removes what is not below ``scratch``."""
    registry = Registry.open()
    forwarder = Forwarder()  # before there is an entry, which only the end of this process removes
    registry.add(run_id, kind, results=results, scratch=scratch)
    # In a process group of its own, so that Ctrl-C reaches it once, from here.
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
