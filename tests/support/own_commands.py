"""A fault by commands that is a file: it is there while the fault is on."""

from pathlib import Path
from typing import Any


def by_file(mark: Path | str = "mark", **more: object) -> dict[str, Any]:
    """Return the parameters of a fault that makes the file ``mark`` and removes it again."""
    return {
        "name": "az-outage",
        "inject": ["touch", str(mark)],
        "verify": ["test", "-e", str(mark)],
        "heal": ["rm", "-f", str(mark)],
        "healed": ["test", "!", "-e", str(mark)],
        **more,
    }
