"""Copies between this machine and a node: a tree once, a directory that is followed, artifacts."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from ackproof.infra.api.artifacts import Artifact, machine_of
from ackproof.infra.api.interface import InfraError
from ackproof.infra.node.agent_client import AgentClient

_LIST_TIMEOUT_S = 60.0
_SUMMED_WITHIN_S = 60.0
_EVERY_S = 2.0

log = logging.getLogger(__name__)


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


# --- shared files, followed -------------------------------------------------------------------


class Keeper:
    """A thread that renews the claim to a node and copies its shared files until :meth:`close`.

    A node that does not answer is logged and tried again.

    Args:
        who: The name of the node in the log.
        keep: Does both once. Raises InfraError or OSError.
    """

    def __init__(self, who: str, keep: Callable[[], object]) -> None:
        self._who = who
        self._act = keep
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"keep-{who}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread. Idempotent."""
        self._ended.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._ended.wait(_EVERY_S):
            try:
                self._act()
            except (InfraError, OSError) as error:
                if not self._ended.is_set():
                    log.warning("%s: %s", self._who, error)


# --- artifacts --------------------------------------------------------------------------------


def bring_artifact(
    agent: AgentClient,
    artifact: Artifact,
    there: PurePosixPath,
    machine: str,
    report: Callable[[str], None],
) -> None:
    """Copy each file of an artifact that is missing on the node, or differs there.

    ``machine`` is the node's, in the terms of ``uname -m``. Raises InfraError for a program of
    another machine. Raises it also for a file that is only on the node, since Java would load that,
    too.
    """
    if artifact.is_program and (made_for := machine_of(artifact.path)) not in (None, machine):
        raise InfraError(
            f"{agent.who}: {artifact.title} was compiled for {made_for}, and this is {machine}"
        )
    present = agent.ask("sums", timeout=_SUMMED_WITHIN_S, path=str(there), ending=".jar")
    if strangers := sorted(present.keys() - artifact.sums.keys()):
        raise InfraError(
            f"{agent.who}: {', '.join(strangers)} in {there} does not belong to "
            f"{artifact.title}: remove it, or remove everything with ackproof clean "
            "--inventory FILE"
        )
    missing = [name for name, known in artifact.sums.items() if present.get(name) != known]
    if missing:
        size_mb = sum((artifact.path / name).stat().st_size for name in missing) / 1e6
        report(f"{agent.who}: bringing {artifact.title} ({size_mb:.0f} MB)")
    for name in missing:
        agent.write(there / name, (artifact.path / name).read_bytes())
    if artifact.is_program:
        # It is done in each case: the connection may have been lost between the two steps.
        agent.ask("allow_execution", path=str(there))
