"""Files that appear as a whole: written aside, then renamed. A reader never sees half of one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from ackproof.history.storage import AnyPath


@contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """A dot-file beside ``path`` to write into. At the end it takes the place of ``path``; when
    something was raised it goes, and what was there stays. Raises OSError."""
    aside = path.with_name(f".{path.name}")
    aside.unlink(missing_ok=True)  # a link would lead us elsewhere
    try:
        yield aside
        aside.rename(path)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def whole(path: AnyPath) -> Iterator[pa.NativeFile]:
    """A file to write into, open, here or in a store. At the end it takes the place of ``path``;
    when something was raised it goes. Raises OSError."""
    if isinstance(path, Path):
        with written_aside(path) as aside, pa.OSFile(str(aside), "wb") as file:
            yield file
    else:
        with path.created() as file:
            yield file


def write_text(path: AnyPath, text: str) -> None:
    """Write ``text``, as :func:`whole`. Raises OSError."""
    with whole(path) as file:
        file.write(text.encode())
