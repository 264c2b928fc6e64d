"""Detectors: how a broker is examined. Each ends with the first fault that it finds."""

from pathlib import Path
from typing import Protocol

from tools.mutation.mutants import Mutant
from tools.mutation.results import Finding, Method, Result


class Detector(Protocol):
    """One method of examination with its settings.

    Attributes:
        jobs: How many brokers may be examined at once.
        settings: The settings in words.
    """

    @property
    def method(self) -> Method: ...

    @property
    def jobs(self) -> int: ...

    @property
    def settings(self) -> str: ...

    def is_final(self, result: Result) -> bool:
        """Return whether this detector would find no more than ``result``, which is of the same
        sources."""

    def examine(self, mutant: Mutant | None, sources: Path, place: Path) -> Finding:
        """Examine the broker in ``sources``, which has the fault of ``mutant`` (None: no fault).

        Args:
            place: A directory for everything that is kept.

        Raises:
            Interrupted: the user asked to stop.
            OSError: a file cannot be written.
        """

    def confirm(self, mutant: Mutant, finding: Finding, place: Path) -> Finding:
        """Return ``finding``, or an inconclusive one if the sound broker fails in the same place.

        Raises:
            Interrupted: the user asked to stop.
            OSError: a file cannot be written.
        """
