"""Jars out of an archive that somebody else has made: nothing else of it is written, and nowhere
else."""

import io
import shutil
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

BYTES_MAX = 2 << 30
"""Of an archive; Apache Kafka's jars are some 120 MB."""


def unpack(chunks: Iterable[bytes], directory: Path, bytes_max: int = BYTES_MAX) -> None:
    """Put the jars that lie right in an archive's one directory into ``directory``.

    A link to another of them is left out: it is the same jar by another name. Raises ValueError
    for links and names that lead elsewhere, for an archive that is larger than ``bytes_max``, and
    for what is none.
    """
    links = {}
    with _members(chunks, bytes_max) as members:
        for archive, member in members:
            name = _jar(member.name)
            if name is None:
                continue
            place = directory / name
            if member.issym():
                links[name] = member.linkname
            elif member.islnk():
                shutil.copyfile(directory / _beside(name, member.linkname), place)
            elif (content := archive.extractfile(member)) is not None:
                with place.open("wb") as jar:
                    shutil.copyfileobj(content, jar)
    for name, target in links.items():
        if not (directory / _beside(name, target)).is_file():
            raise ValueError(f"{name} is a link to {target}, which is not there")


def directories(
    chunks: Iterable[bytes], names: Iterable[str], bytes_max: int
) -> Iterator[PurePosixPath]:
    """Those of an archive, from its root, that hold a file like each of ``names`` (patterns).
    Raises as :func:`unpack`."""
    found: dict[str, set[PurePosixPath]] = {name: set() for name in names}
    with _members(chunks, bytes_max) as members:
        for _, member in members:
            path = PurePosixPath("/", member.name)
            for name, where in found.items():
                if path.match(name):
                    where.add(path.parent)
    yield from sorted(set.intersection(*found.values()))


def _jar(name: str) -> str | None:
    """What a jar is called that lies right in the archive's directory; None for all else."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"the archive has a name that leads out of it: {name}")
    return path.name if len(path.parts) == 2 and path.suffix == ".jar" else None


def _beside(name: str, target: str) -> str:
    """The file that a link leads to. A hard link's is named from the archive's root."""
    path = PurePosixPath(target)
    if path.is_absolute() or ".." in path.parts or len(path.parts) > 2:
        raise ValueError(f"{name} is a link that leads elsewhere: to {target}")
    return path.name


@contextmanager
def _members(
    chunks: Iterable[bytes], bytes_max: int
) -> Iterator[Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]]:
    stream = io.BufferedReader(_Stream(chunks, bytes_max))
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            yield ((archive, member) for member in archive)
    except (tarfile.TarError, EOFError) as error:
        raise ValueError(f"what came is no archive: {error}") from None


class _Stream(io.RawIOBase):
    """What comes in chunks, read as a file."""

    def __init__(self, chunks: Iterable[bytes], bytes_max: int) -> None:
        self._chunks = iter(chunks)
        self._left = b""
        self._room = self._bytes_max = bytes_max

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._left:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._left = chunk
            self._room -= len(chunk)
            if self._room < 0:
                raise ValueError(f"it is larger than {self._bytes_max} bytes")
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size
