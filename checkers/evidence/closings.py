"""The closings of a run's writers, and whether each closed file is still as its writer left it.

A file that a writer closed has as many bytes, and the same, when it is checked. A bit that flipped
meanwhile may decode to another offset, and an acknowledged record would seem lost. So every closing
has a digest of its file, and a file with another digest is not read. A history from before
there were digests is held against the numbers of rows alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ackproof.checkers.cluster.faults import Partition
from ackproof.history import reader, storage
from ackproof.history.errors import DamagedFiles
from ackproof.history.names import CLOSED_SUFFIX, Stem
from ackproof.history.reader import Listed
from ackproof.history.storage import AnyPath, StoredPath, each

File = tuple[str, str, Partition | None]
"""Table, writer and, of a partitioned table, topic and partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """The number of rows in a file and its digest (None in older histories), by its writer."""

    rows: int
    digest: str | None


class Closings:
    """All closings of a run, from the rows of its table ``closings``."""

    def __init__(self, rows: Sequence[Mapping[str, Any]] = ()) -> None:
        self._of: dict[File, set[Closing]] = {}
        for row in rows:
            closing = Closing(rows=row["rows"], digest=row["digest"])
            self._of.setdefault(_named(row), set()).add(closing)

    @property
    def files(self) -> frozenset[File]:
        """The files that have a closing."""
        return frozenset(self._of)

    def of(self, file: File) -> Closing | None:
        """Return a file's closing, any where they contradict each other; None without one."""
        return next(iter(self._of.get(file, ())), None)

    def contradict(self, file: File) -> bool:
        """Return whether a file has closings that say different things."""
        return len(self._of.get(file, ())) > 1

    def held_against(self, listed: Mapping[str, Listed]) -> Mapping[str, Listed]:
        """Return the listing of a history's files in which each file that is not as its writer
        closed it is among those with which something is wrong."""
        looks = list(self._looks(listed))
        stored = any(isinstance(path, StoredPath) for path, _ in looks)
        found = zip(looks, each(_altered, looks, stored=stored), strict=True)
        altered = {path: words for (path, _), words in found if words is not None}
        return {table: _parted(altered, *files) for table, files in listed.items()}

    def _looks(self, listed: Mapping[str, Listed]) -> Iterator[tuple[AnyPath, Closing | str]]:
        """Yield the closed files of a history that has digests, each with its closing, or with why
        none can be believed."""
        if not any(one.digest for several in self._of.values() for one in several):
            return
        for table, (sound, _) in listed.items():
            for stem, paths in sound.items() if table != "closings" else ():
                closing = self._believed(file_of(stem))
                yield from ((path, closing) for path in paths if path.suffix == CLOSED_SUFFIX)

    def _believed(self, file: File) -> Closing | str:
        if self.contradict(file):
            return "its writer's closings contradict each other"
        return (
            self.of(file) or "is closed, and no closing tells whether it is as its writer left it"
        )


def read(listed: Listed) -> tuple[Closings, Mapping[AnyPath, str]]:
    """Return the closings that a history has, and what is wrong with the files that cannot be read.
    One damaged file must not cost the digests of all others."""
    sound, wrong = listed
    files = [path for paths in sound.values() for path in paths]
    stored = any(isinstance(path, StoredPath) for path in files)
    rows: list[Mapping[str, Any]] = []
    damaged = dict(wrong)
    for path, found in zip(files, each(_rows, files, stored=stored), strict=True):
        if isinstance(found, str):
            damaged[path] = found
        else:
            rows += found
    return Closings(rows), damaged


def _rows(path: AnyPath) -> Sequence[Mapping[str, Any]] | str:
    try:
        rows: Sequence[Mapping[str, Any]] = reader.read_files("closings", [path]).to_pylist()
    except (DamagedFiles, ValueError, pa.ArrowException) as error:
        return str(error)
    return rows


def file_of(stem: Stem) -> File:
    """Return what a stem names."""
    return stem.table, stem.writer, stem.partition


def other_length(rows: int, paths: Sequence[AnyPath]) -> str | None:
    """Return how many rows files hold where they are not so many. Raises DamagedFiles."""
    held = reader.count_rows(paths)
    return None if held == rows else f"holds {held} rows, its writer closed it with {rows}"


def _altered(look: tuple[AnyPath, Closing | str]) -> str | None:
    path, closing = look
    if isinstance(closing, str):
        return closing
    if closing.digest is None:
        return None
    try:
        if storage.digest(path) == closing.digest:
            return None
        length = other_length(closing.rows, [path])
    except DamagedFiles as error:
        return error.reasons[path]
    except OSError as error:
        return str(error)
    return length or "is not the file that its writer closed: its digest is another"


def _parted(
    altered: Mapping[AnyPath, str],
    sound: Mapping[Stem, tuple[AnyPath, ...]],
    wrong: Mapping[AnyPath, str],
) -> Listed:
    kept = {stem: paths for stem, paths in sound.items() if altered.keys().isdisjoint(paths)}
    mine = {path for paths in sound.values() for path in paths}
    return kept, {**wrong, **{path: why for path, why in altered.items() if path in mine}}


def _named(row: Mapping[str, Any]) -> File:
    partition = None if row["topic"] is None else (row["topic"], row["partition"])
    return row["table"], row["writer"], partition
