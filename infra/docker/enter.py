"""Starting a run whose nodes are containers: the harness needs the engine and its bridge, and no
namespaces. Whoever survives whom, containers are removed: by the outer process, else by ``ackproof
clean``."""

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from ackproof.infra import attended
from ackproof.infra.docker import cleanup
from ackproof.infra.registry import Kind


def enter(
    argv: Sequence[str],
    run_id: str,
    *,
    kind: Kind = Kind.RUN,
    results: Path | None = None,
    scratch: Path | None = None,
) -> NoReturn:
    """As :func:`infra.attended.enter`."""
    attended.enter(
        argv,
        run_id,
        kind=kind,
        results=results,
        scratch=scratch,
        afterwards=lambda: cleanup.clean(attended.tell),
    )
