"""Every case of every suite of the backends, by name."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from ackproof.infra.api.interface import Backend

Case = Callable[[Backend, Path], None]

_SUITES = (
    "backends.link_cases",
    "backends.disk_cases",
    "backends.clock_cases",
    "backends.conformance_cases",
    "backends.capability_cases",
    "faults.clocks",
    "faults.network",
    "faults.processes",
    "faults.storage",
    "faults.zookeeper",
    "faults.admin",
    "backends.ensemble_cases",
)
"""What takes little to import comes first: a case is a process, and most need nothing of what
deploys clusters."""


def case_named(name: str) -> Case:
    """The case of that name, whichever suite has it. Raises AttributeError when none has."""
    for suite in _SUITES:
        case: Case | None = getattr(import_module(f"tests.support.{suite}"), name, None)
        if case is not None:
            return case
    raise AttributeError(name)
