"""Copies of a node's files on this machine: a tree once, or a directory that is followed."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from ackproof.infra.api.interface import InfraError
from ackproof.infra.node.agent_client import AgentClient

_LIST_TIMEOUT_S = 60.0


class Shares(Protocol):
    """The part of this machine that a node sees; see ``infra.api.interface.Node``."""

    def share(self, directory: Path) -> PurePosixPath: ...

    def sync(self) -> None: ...


class SamePathShares:
    """Shares of a node that sees the files below ``top`` of this machine at the same path.

    With None it sees none. ``who`` is the name of the node in errors.
    """

    def __init__(self, who: str, top: Path | None) -> None:
        self._who = who
        self._top = top

    def share(self, directory: Path) -> PurePosixPath:
        """Return the same path. Raises InfraError for a directory that the node does not see."""
        if self._top is None or not directory.absolute().is_relative_to(self._top):
            raise InfraError(f"{self._who} does not see {directory}, only {self._top}")
        return PurePosixPath(directory.absolute())

    def sync(self) -> None:
        """Do nothing: the files are the same."""


class CopiedShares:
    """Shares whose files are copied. ``there`` is the directory for them on the node."""

    def __init__(self, agent: AgentClient, there: PurePosixPath) -> None:
        self._agent = agent
        self._there = there
        self._lock = threading.Lock()
        self._mirrors: dict[PurePosixPath, Mirror] = {}

    def share(self, directory: Path) -> PurePosixPath:
        shared = self._there / str(directory.absolute()).strip("/").replace("/", "-")
        with self._lock:
            if shared not in self._mirrors:
                self._agent.ask("mkdir", path=str(shared))
                self._mirrors[shared] = Mirror(self._agent, shared, directory)
        return shared

    def sync(self) -> None:
        with self._lock:
            mirrors = list(self._mirrors.values())
        for mirror in mirrors:
            mirror.update()


class Mirror:
    """A copy of a directory of a node, to which new files are added.

    Args:
        source: The directory on the node.
        target: The directory on this machine.
    """

    def __init__(self, agent: AgentClient, source: PurePosixPath, target: Path) -> None:
        self._agent = agent
        self._source = source
        self._target = target
        self._copied: dict[str, object] = {}
        self._lock = threading.Lock()

    def update(self) -> None:
        """Copy what is new or changed since the last time, then remove copies of removed files.

        The order matters, since a file may have replaced others. A file is copied under another
        name and appears as a whole.
        """
        with self._lock:
            there = {
                str(entry["name"]): entry
                for entry in _tree(self._agent, self._source)
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
            self._agent.fetch(self._source / name, aside)
        except FileNotFoundError:
            aside.unlink(missing_ok=True)
            return
        aside.replace(path)
        self._copied[name] = entry["stamp"]


def fetch(agent: AgentClient, source: PurePosixPath, target: Path) -> None:
    """Copy a file or a directory with its content. Files that vanish meanwhile are left out.

    Raises FileNotFoundError if ``source`` does not exist.
    """
    for entry in _tree(agent, source):
        _copy(agent, source, entry, target)


def _tree(agent: AgentClient, path: PurePosixPath) -> Sequence[Mapping[str, Any]]:
    """Return the entries of a tree.

    Raises InfraError for a name that leads out of the target directory: the node is not trusted
    that far.
    """
    entries: list[Mapping[str, Any]] = agent.ask("tree", path=str(path), timeout=_LIST_TIMEOUT_S)
    links = {entry["name"] for entry in entries if entry["kind"] == "link"}
    for entry in entries:
        name = PurePosixPath(entry["name"])
        # With "d", a link to /etc, and "d/passwd", the second would be written through the first.
        through_link = any(str(above) in links for above in name.parents)
        if through_link or ".." in name.parts or name.is_absolute():
            raise InfraError(f"{agent.who}: refused a file named {entry['name']!r}")
    return entries


def _copy(
    agent: AgentClient, source: PurePosixPath, entry: Mapping[str, Any], target: Path
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
            agent.fetch(source / entry["name"] if entry["name"] else source, here)
        except FileNotFoundError:
            here.unlink(missing_ok=True)
            if not entry["name"]:
                raise


def _hidden(name: str) -> bool:
    return any(part.startswith(".") for part in PurePosixPath(name).parts)
