"""What can go wrong with a history, named by where it went wrong."""

from collections.abc import Mapping
from pathlib import Path

from ackproof.history.storage import AnyPath


class HistoryError(Exception):
    """The history could not be written or read."""


class WriteFailed(HistoryError):
    """A file could not be written (disk full, I/O error). What was written before stays readable
    and the rows that were to go into it are still in the writer's memory."""

    def __init__(self, path: Path, reason: object) -> None:
        super().__init__(f"cannot write {path}: {reason}; what was written before is intact")
        self.path = path


class DamagedFiles(HistoryError):
    """Files that bear a history's name and do not hold what they should.

    Attributes:
        reasons: What is wrong, by file.
    """

    def __init__(self, reasons: Mapping[AnyPath, str]) -> None:
        super().__init__(
            "damaged history: " + "; ".join(f"{path}: {why}" for path, why in reasons.items())
        )
        self.reasons = dict(reasons)
