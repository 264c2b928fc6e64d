"""Where what is fetched once is kept: the user's cache."""

import os
from pathlib import Path


def cached(*names: str) -> Path:
    """A place below ``$XDG_CACHE_HOME/ackproof``, by default ``~/.cache/ackproof``."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache.joinpath("ackproof", *names)


def put(partial: Path, place: Path) -> None:
    """Have there, at once and whole, what ``partial`` is. Somebody else may have been quicker."""
    try:
        partial.rename(place)
    except OSError:
        if not place.is_dir():
            raise
