"""What a backend is put to: every case of every suite, by name."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from ackproof.infra.api.interface import Backend

Case = Callable[[Backend, Path], None]

_SUITES = (
    *("link_cases", "disk_cases", "clock_cases", "conformance", "catalogue_cases"),
    *("clock_faults", "network_faults", "process_faults", "storage_faults"),
    *("zookeeper_faults", "admin_faults", "ensemble"),
)
"""What takes little to import comes first: a case is a process, and most need nothing of what
deploys clusters."""


def case_named(name: str) -> Case:
    """The case of that name, whichever suite has it. Raises AttributeError when none has."""
    for suite in _SUITES:
        case: Case | None = getattr(import_module(suite), name, None)
        if case is not None:
            return case
    raise AttributeError(name)
