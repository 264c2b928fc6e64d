"""Starting a run whose nodes are on this machine as it is, for a cluster that was there before.
Whoever survives whom, that cluster is left as it was: by the run, by the outer process, else by
``ackproof clean`` or the next run."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from ackproof.infra import attended
from ackproof.infra.registry import Kind
from ackproof.infra.systems.external import restoring

_NEEDED = "setpriv"


def can_enter() -> str | None:
    """What is missing; None where nothing is."""
    if shutil.which(_NEEDED) is None:
        return f"{_NEEDED} is not there (Debian: apt-get install util-linux)"
    return None


def enter(
    argv: Sequence[str],
    run_id: str,
    *,
    kind: Kind = Kind.RUN,
    results: Path | None = None,
    scratch: Path | None = None,
) -> NoReturn:
    """As :func:`infra.attended.enter`."""

    def afterwards() -> None:
        if results is not None:
            restoring.restore(results, attended.tell)

    attended.enter(argv, run_id, kind=kind, results=results, scratch=scratch, afterwards=afterwards)
