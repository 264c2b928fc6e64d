"""The expectation that a test breaks an invariant of the simulation."""

from typing import Any

import pytest

from simulation.violation import Violation


def violates(pattern: str) -> Any:
    """Return a context in which an invariant must be broken with a matching message."""
    return pytest.raises(Violation, match=pattern)
