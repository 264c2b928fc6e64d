"""Faults by commands that need nothing of the cluster: they make files."""

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


def by_addresses(file: str = "struck") -> dict[str, Any]:
    """Return the parameters of a fault that appends the addresses of its brokers to a file, and
    another line when it is healed."""
    return {
        "name": "addresses",
        "inject": ["sh", "-c", f'echo "$ACKPROOF_BROKERS" >> {file}'],
        "verify": ["grep", "-q", "=", file],
        "heal": ["sh", "-c", f"echo healed >> {file}"],
    }


def addresses_struck(file: Path) -> list[str]:
    """Return the addresses of the brokers that such a fault was aimed at, once it was healed."""
    struck, healed = file.read_text(encoding="utf-8").splitlines()
    assert healed == "healed"
    return [one.partition("=")[2] for one in struck.split()]
