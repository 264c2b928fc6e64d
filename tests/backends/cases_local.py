"""Cases on the local backend, run inside by the tests of this directory."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from ackproof.infra.backends.local.backend import LocalBackend
from tests.support.backends.all_cases import case_named


def __getattr__(name: str) -> Callable[[Path], None]:
    case = case_named(name)

    def run(scratch: Path) -> None:
        with closing(LocalBackend(scratch / "nodes", clocks=True)) as backend:
            case(backend, scratch)

    return run
