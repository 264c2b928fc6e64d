"""What a backend is put to: every case of every suite, by name."""

from collections.abc import Callable
from pathlib import Path

import conformance
import link_cases
import network_faults
import process_faults

from infra.interface import Backend

Case = Callable[[Backend, Path], None]

_SUITES = (conformance, link_cases, network_faults, process_faults)


def case_named(name: str) -> Case:
    """The case of that name, whichever suite has it. Raises AttributeError when none has."""
    found: list[Case] = [getattr(suite, name) for suite in _SUITES if hasattr(suite, name)]
    if not found:
        raise AttributeError(name)
    return found[0]
