"""What a backend is put to: every case of every suite, by name."""

from collections.abc import Callable
from pathlib import Path

import admin_faults
import clock_cases
import clock_faults
import conformance
import disk_cases
import link_cases
import network_faults
import process_faults
import storage_faults
import zookeeper_faults

from infra.interface import Backend

Case = Callable[[Backend, Path], None]

_SUITES = (
    *(conformance, clock_cases, disk_cases, link_cases),
    *(clock_faults, network_faults, process_faults, storage_faults),
    *(zookeeper_faults, admin_faults),
)


def case_named(name: str) -> Case:
    """The case of that name, whichever suite has it. Raises AttributeError when none has."""
    found: list[Case] = [getattr(suite, name) for suite in _SUITES if hasattr(suite, name)]
    if not found:
        raise AttributeError(name)
    return found[0]
