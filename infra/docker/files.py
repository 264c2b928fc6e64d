"""Files of a container, by way of the engine's archive interface: tar streams, either way."""

import io
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from docker.errors import NotFound
from docker.models.containers import Container

_CHUNK_BYTES = 1 << 20
_OWNER_WRITES = 0o644


def write(container: Container, path: PurePosixPath, content: bytes) -> None:
    """Write a file; the engine makes its directories."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo(str(path).lstrip("/"))
        member.size, member.mode = len(content), _OWNER_WRITES
        archive.addfile(member, io.BytesIO(content))
    container.put_archive("/", buffer.getbuffer())


def read(container: Container, path: PurePosixPath) -> bytes:
    """A file's content. Raises FileNotFoundError, IsADirectoryError."""
    with _archive(container, path) as archive:
        member = archive.next()
        content = archive.extractfile(member) if member is not None else None
        if content is None:
            raise IsADirectoryError(f"{path} is not a file")
        return content.read()


def fetch(container: Container, source: PurePosixPath, target: Path) -> None:
    """Copy a file or a whole directory to ``target`` on this machine; other kinds of files (links,
    sockets) stay behind. Raises FileNotFoundError, and OSError for a tree that changes too fast to
    be copied."""
    with _archive(container, source) as archive:
        for member in archive:
            place = target.joinpath(*_below(member.name))
            if member.isdir():
                place.mkdir(parents=True, exist_ok=True)
            elif (content := archive.extractfile(member)) is not None:
                place.parent.mkdir(parents=True, exist_ok=True)
                with place.open("wb") as file:
                    shutil.copyfileobj(content, file, _CHUNK_BYTES)


@contextmanager
def _archive(container: Container, path: PurePosixPath) -> Iterator[tarfile.TarFile]:
    try:
        chunks, _ = container.get_archive(str(path), chunk_size=_CHUNK_BYTES)
    except NotFound as error:
        raise FileNotFoundError(f"no {path} in {container.name}") from error
    try:
        with tarfile.open(mode="r|", fileobj=cast(BinaryIO, _Stream(chunks))) as archive:
            yield archive
    except tarfile.TarError as error:
        raise OSError(f"{path} of {container.name} changed while it was read: {error}") from error


def _below(name: str) -> tuple[str, ...]:
    """The parts of a member's name below the directory that was asked for."""
    parts = PurePosixPath(name).parts
    if PurePosixPath(name).is_absolute() or ".." in parts:
        raise OSError(f"the engine sent a file called {name!r}")
    return parts[1:]


class _Stream:
    """Chunks as a file to read from."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def read(self, size: int) -> bytes:
        parts, missing = [], size
        while missing:
            if not self._rest:
                self._rest = next(self._chunks, b"")
                if not self._rest:
                    break
            parts.append(self._rest[:missing])
            self._rest = self._rest[missing:]
            missing -= len(parts[-1])
        return b"".join(parts)
