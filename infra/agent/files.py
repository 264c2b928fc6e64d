"""The files of the node."""

import os
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress

from ackproof.infra.agent.wire import CHUNK


def mkdir(path: str) -> None:
    """Make a directory and those above it."""
    os.makedirs(path, exist_ok=True)


def read(path: str) -> Iterator[bytes]:
    """Yield a file's content up to the end that it has when that is reached. Raises
    FileNotFoundError."""
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(CHUNK):
            yield chunk


def tail(path: str, most: int, known: int) -> dict[str, object] | None:
    """Return the size of a growing text file and its last whole lines, at most ``most`` bytes.

    Return None if its size is ``known``. Raises FileNotFoundError.
    """
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size == known:
            return None
        start = file.seek(max(0, size - most))
        content = file.read(most)
    if start:
        content = content.partition(b"\n")[2]
    return {"size": size, "text": content.decode("utf-8", "replace")}


def write(path: str, chunks: Iterable[bytes]) -> None:
    """Write a file, which appears as a whole, and make its directories."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    aside = f"{path}.{threading.get_ident()}.part"
    try:
        with open(aside, "wb") as file:
            file.writelines(chunks)
        os.replace(aside, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(aside)
        raise


def empty(path: str) -> None:
    """Remove everything in a directory, and keep the directory: a disk may be mounted there.

    A directory that does not exist is empty. Raises the error for what cannot be removed; the rest
    may be gone then.
    """
    for directory, directories, files in os.walk(path, topdown=False):
        for name in files:
            os.unlink(os.path.join(directory, name))
        for name in directories:
            below = os.path.join(directory, name)
            (os.unlink if os.path.islink(below) else os.rmdir)(below)


def tree(path: str) -> list[dict[str, object]]:
    """Return everything below a directory, parents first; for a file, itself alone under the name
    ``""``.

    ``stamp`` changes whenever the content may have. Raises FileNotFoundError.
    """
    found = [_entry(path, "")]
    pending = [""] if found[0]["kind"] == "directory" else []
    while pending:
        directory = pending.pop()
        for child in sorted(os.listdir(os.path.join(path, directory))):
            name = os.path.join(directory, child)
            try:
                entry = _entry(os.path.join(path, name), name)
            except FileNotFoundError:  # removed meanwhile
                continue
            found.append(entry)
            if entry["kind"] == "directory":
                pending.append(name)
    return found


def sums(path: str, ending: str) -> dict[str, str]:
    """Return the SHA-256 of each file below a directory whose name has that ending, by its path
    from there.

    For a file, return its own by the name ``""``. Return nothing if neither exists.
    """
    import hashlib  # most nodes are never asked

    names = [""]
    if not os.path.isfile(path):
        names = [
            os.path.relpath(os.path.join(directory, name), path)
            for directory, _, files in os.walk(path)
            for name in files
            if name.endswith(ending)
        ]
    found = {}
    for name in names:
        with open(os.path.join(path, name) if name else path, "rb") as file:
            found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def allow_execution(path: str) -> None:
    """Make a file executable for its owner. Idempotent."""
    os.chmod(path, 0o700)


def _entry(path: str, name: str) -> dict[str, object]:
    status = os.lstat(path)
    entry: dict[str, object] = {"name": name, "kind": "other"}
    if stat.S_ISDIR(status.st_mode):
        entry["kind"] = "directory"
    elif stat.S_ISREG(status.st_mode):
        entry["kind"] = "file"
        entry["stamp"] = [status.st_ino, status.st_size, status.st_mtime_ns]
    elif stat.S_ISLNK(status.st_mode):
        entry["kind"] = "link"
        entry["target"] = os.readlink(path)
    return entry
