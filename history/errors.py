"""The errors of writing and reading a history, each with the place where it occurred."""

from collections.abc import Mapping
from pathlib import Path

from ackproof.history.storage import AnyPath


class HistoryError(Exception):
    """An error of writing or reading the history."""


class WriteFailed(HistoryError):
    """An error of writing a file (disk full, I/O error). Everything that was written before stays
    readable, and the unwritten rows are still in the writer's memory."""

    def __init__(self, path: Path, reason: object) -> None:
        super().__init__(f"cannot write {path}: {reason}; what was written before is intact")
        self.path = path


class DamagedFiles(HistoryError):
    """Files of a history whose contents are damaged.

    Attributes:
        reasons: The problem of each file.
    """

    def __init__(self, reasons: Mapping[AnyPath, str]) -> None:
        super().__init__(
            "damaged history: " + "; ".join(f"{path}: {why}" for path, why in reasons.items())
        )
        self.reasons = dict(reasons)
