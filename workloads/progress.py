"""The progress file: how far a client has got, for whoever watches.

Replaced as a whole, so that a reader never sees half of it. It is a display, not a record: the
history alone counts.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from ackproof.history.aside import write_text

SECONDS = 1.0


class Progress:
    """Rewrites one file, at most once a second."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._written_at: float | None = None

    def due(self, now: float) -> bool:
        """Whether a second has passed since the last rewriting, and if so counts it as done.
        ``now`` in seconds of a clock that only goes forward."""
        if self._written_at is not None and now - self._written_at < SECONDS:
            return False
        self._written_at = now
        return True

    def write(self, figures: Mapping[str, int | str]) -> None:
        """Rewrite the file now."""
        write_text(self._path, json.dumps(figures))
