"""What every way of looking for a bug is to the selftest."""

from pathlib import Path
from typing import Protocol

from ackproof.harness.selftest.attempt import Attempt, Finding, Way


class Looking(Protocol):
    """One way, with its settings.

    Attributes:
        jobs: How many brokers may be looked at at once.
        settings: All that is set, in words.
    """

    @property
    def way(self) -> Way: ...

    @property
    def jobs(self) -> int: ...

    @property
    def settings(self) -> str: ...

    def has_done(self, attempt: Attempt) -> bool:
        """Whether nothing more is to be expected than what this attempt of the same sources has
        come to."""

    def look(self, sources: Path, place: Path) -> Finding:
        """Look at the broker in ``sources``. ``place`` is a directory for whatever is kept.

        Raises Interrupted, OSError.
        """

    def confirmed(self, finding: Finding, place: Path) -> Finding:
        """What is left of a find when the sound broker has been in the same place. Raises
        Interrupted, OSError."""
