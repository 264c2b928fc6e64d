"""Files from a host: a tree once, or a directory that is followed."""

import shutil
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from paramiko import SFTPClient

from infra.interface import InfraError
from infra.ssh.connection import Connection

_FETCH_LIST_TIMEOUT_S = 60.0


def fetch(connection: Connection, source: PurePosixPath, target: Path) -> None:
    """Copy a file or a directory with all that is in it. What vanishes meanwhile is left out.
    Raises FileNotFoundError when there is no ``source``."""
    entries = _tree(connection, source)
    for entry in entries:
        _copy(connection, source, entry, target)


class Mirror:
    """A directory of a host, followed: what appears there, appears here.

    Args:
        source: On the host; made there when it is first looked for.
        target: Here.
    """

    def __init__(self, connection: Connection, source: PurePosixPath, target: Path) -> None:
        self._connection = connection
        self._source = source
        self._target = target
        self._copied: dict[str, object] = {}
        self._lock = threading.Lock()

    def update(self) -> None:
        """Copy what is new or changed since the last time, then remove what we copied once and
        is no longer there: in this order, since a file may have replaced others. A file is copied
        aside and appears as a whole."""
        with self._lock:
            there = {
                str(entry["name"]): entry
                for entry in _tree(self._connection, self._source)
                if entry["kind"] == "file" and not _hidden(str(entry["name"]))
            }
            for name, entry in there.items():
                if self._copied.get(name) != entry["stamp"]:
                    self._renew(name, entry)
            for name in self._copied.keys() - there.keys():
                (self._target / name).unlink(missing_ok=True)
                del self._copied[name]

    def _renew(self, name: str, entry: Mapping[str, Any]) -> None:
        path = self._target / name
        aside = path.with_name(f".{path.name}.part")
        aside.parent.mkdir(parents=True, exist_ok=True)
        try:
            _get(self._connection, self._source / name, aside)
        except FileNotFoundError:
            aside.unlink(missing_ok=True)
            return
        aside.replace(path)
        self._copied[name] = entry["stamp"]


def _tree(connection: Connection, path: PurePosixPath) -> Sequence[Mapping[str, Any]]:
    """What is there. Raises InfraError for a name that would lead out of where it is put: the host
    is not trusted that far."""
    entries: list[Mapping[str, Any]] = connection.ask(
        "tree", path=str(path), timeout=_FETCH_LIST_TIMEOUT_S
    )
    for entry in entries:
        parts = PurePosixPath(entry["name"]).parts
        if ".." in parts or "/" in parts:
            raise InfraError(f"{connection.host}: refused a file named {entry['name']!r}")
    return entries


def _copy(
    connection: Connection, source: PurePosixPath, entry: Mapping[str, Any], target: Path
) -> None:
    here = target / entry["name"] if entry["name"] else target
    if entry["kind"] == "directory":
        here.mkdir(parents=True, exist_ok=True)
    elif entry["kind"] == "link":
        here.unlink(missing_ok=True)
        here.symlink_to(entry["target"])
    elif entry["kind"] == "file":
        here.parent.mkdir(parents=True, exist_ok=True)
        try:
            _get(connection, source / entry["name"] if entry["name"] else source, here)
        except FileNotFoundError:
            if not entry["name"]:
                raise


def _get(connection: Connection, source: PurePosixPath, target: Path) -> None:
    def copy(sftp: SFTPClient) -> None:
        with sftp.open(str(source), "rb") as there, target.open("wb") as here:
            there.prefetch(there.stat().st_size)
            shutil.copyfileobj(there, here, 1 << 20)

    connection.files(copy)


def _hidden(name: str) -> bool:
    return any(part.startswith(".") for part in PurePosixPath(name).parts)
