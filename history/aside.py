"""Files that appear as a whole: written aside, then renamed. A reader never sees half of one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """A dot-file beside ``path`` to write into. At the end it takes the place of ``path``; when
    something was raised it goes, and what was there stays. Raises OSError."""
    aside = path.with_name(f".{path.name}")
    try:
        yield aside
        aside.rename(path)
    finally:
        aside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write ``text``, as :func:`written_aside`. Raises OSError."""
    with written_aside(path) as aside:
        aside.write_text(text, encoding="utf-8")
