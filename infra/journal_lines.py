"""A file of JSON lines that survives a kill -9: a line is on disk when it is written."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def append(path: Path, entry: Mapping[str, object]) -> None:
    """Append one line and sync it to disk. The file is made when it is absent."""
    with path.open("ab+") as file:
        # A line that was being written when the harness was killed must not swallow this one.
        file.seek(max(file.tell() - 1, 0))
        torn = file.read() not in (b"", b"\n")
        file.write((b"\n" if torn else b"") + json.dumps(entry).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def entries(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines that were written to their end. What a torn line announces was not done."""
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue
