"""The conformance cases on the local backend, run inside by test_conformance.py."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import conformance

from infra.local.backend import LocalBackend


def __getattr__(name: str) -> Callable[[Path], None]:
    case = getattr(conformance, name)

    def run(scratch: Path) -> None:
        with closing(LocalBackend(scratch / "nodes")) as backend:
            case(backend, scratch)

    return run
