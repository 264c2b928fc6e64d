"""The registry of runs on this machine: one small file a run, so that nothing is forgotten.

A run writes its identity down before it makes anything, and removes its own entry at its end. A
killed run leaves its entry, and ``clean`` does what the run could not do any more. Processes are
known by id and start time, never by their command line.

The files lie in a directory of the user's own, mode 0700. A user with write access there could have
directories removed and processes killed.
"""

import json
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from ackproof.infra.agent import cgroups
from ackproof.infra.api.interface import InfraError
from ackproof.infra.machine.identity import ProcessIdentity

STATE_DIRECTORY = "ACKPROOF_STATE_DIRECTORY"
"""The environment variable for the directory of the registry.

It is set for the processes inside, where the user's id, and therefore the default, is another.
"""


class EntryKind(StrEnum):
    """The kind of an entry."""

    RUN = "run"
    CLUSTER = "cluster"
    """A standing cluster, which must outlive the command that made it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryEntry:
    """One run.

    Attributes:
        outer: The process that the user started.
        init: The first process of the run's PID namespace, as this machine numbers it; None before
            it exists.
        results: The directory of its results, which is never touched.
        scratch: A directory that is removed with the entry.
        rootless: Whether it is in a user namespace.
    """

    run_id: str
    kind: EntryKind
    outer: ProcessIdentity
    init: ProcessIdentity | None = None
    results: Path | None = None
    scratch: Path | None = None
    rootless: bool = False

    @property
    def alive(self) -> bool:
        return self.outer.lives()

    @property
    def processes(self) -> tuple[ProcessIdentity, ...]:
        """Return the processes of the run, the outermost first."""
        return (self.outer,) if self.init is None else (self.outer, self.init)

    @property
    def nsenter(self) -> tuple[str, ...]:
        """Return the prefix of a command line that lets it reach the run's nodes."""
        user = ("--user", "--preserve-credentials") if self.rootless else ()
        return ("nsenter", "--target", str(self.outer.pid), *user, "--net", "--")


class Registry:
    """The entries of one user on this machine."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @classmethod
    def open(cls) -> "Registry":
        """Return the user's own registry, and make it at the first call.

        Raises InfraError if its directory is not the user's, or is open to other users.
        """
        directory = _state_directory()
        directory.mkdir(mode=0o700, exist_ok=True)
        found = directory.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise InfraError(f"{directory} was not created by Ackproof: remove it")
        if found.st_mode & 0o077:
            raise InfraError(f"{directory} is open to other users: chmod 700 {directory}")
        return cls(directory)

    def add(
        self,
        run_id: str,
        kind: EntryKind,
        *,
        results: Path | None = None,
        scratch: Path | None = None,
        rootless: bool = False,
    ) -> RegistryEntry:
        """Register the calling process as a run's outer one, and make ``scratch``.

        Raises InfraError for a run id that is taken, or a scratch directory that is not empty.
        """
        if self._path(run_id).exists():
            raise InfraError(f"the run {run_id} already exists (ackproof clean removes dead runs)")
        if scratch is not None:
            scratch = scratch.absolute()
            scratch.mkdir(parents=True, exist_ok=True)
            if any(scratch.iterdir()):
                raise InfraError(f"{scratch} would be removed with the run, but is not empty")
        entry = RegistryEntry(
            run_id=run_id,
            kind=kind,
            outer=ProcessIdentity.of(os.getpid()),
            results=results and results.absolute(),
            scratch=scratch,
            rootless=rootless,
        )
        self._write(entry)
        return entry

    def note_init(self, run_id: str, pid: int) -> None:
        """Write down the run's first process, unless it has already ended."""
        try:
            self._write(replace(self.get(run_id), init=ProcessIdentity.of(pid)))
        except ProcessLookupError:
            return

    def get(self, run_id: str) -> RegistryEntry:
        """Return the entry of a run. Raises InfraError if it does not exist or cannot be read."""
        try:
            return _decode(json.loads(self._path(run_id).read_text()))
        except FileNotFoundError as error:
            raise InfraError(f"the run {run_id} does not exist on this machine") from error
        except (ValueError, KeyError, TypeError) as error:
            raise InfraError(f"{self._path(run_id)} is damaged ({error}): remove it") from error

    def run_ids(self) -> list[str]:
        """Return the ids of all runs, sorted."""
        return sorted(path.stem for path in self.directory.glob("*.json"))

    def entries(self) -> Iterator[RegistryEntry]:
        """Yield every run, sorted by id. Raises InfraError for one that cannot be read."""
        return map(self.get, self.run_ids())

    def remove(self, run_id: str) -> None:
        """Remove the run's scratch directory and control groups, then its entry.

        Raises OSError if one cannot be removed; the entry stays then.
        """
        scratch = self.get(run_id).scratch
        if scratch is not None and scratch.exists():
            shutil.rmtree(scratch)
        cgroups.remove(run_id)
        self._path(run_id).unlink()

    def _path(self, run_id: str) -> Path:
        if not run_id or "/" in run_id or run_id.startswith("."):
            raise InfraError(f"run id {run_id!r}: must be a file name, without a dot in front")
        return self.directory / f"{run_id}.json"

    def _write(self, entry: RegistryEntry) -> None:
        path = self._path(entry.run_id)
        aside = path.with_suffix(".new")
        aside.write_text(json.dumps(asdict(entry), default=str, indent=1))
        aside.replace(path)


def _state_directory() -> Path:
    given = os.environ.get(STATE_DIRECTORY)
    if given:
        return Path(given)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK):
        return Path(runtime) / "ackproof"
    return Path(f"/tmp/ackproof-{os.geteuid()}")


def _decode(fields: dict[str, Any]) -> RegistryEntry:
    return RegistryEntry(
        run_id=fields["run_id"],
        kind=EntryKind(fields["kind"]),
        outer=ProcessIdentity(**fields["outer"]),
        init=fields["init"] and ProcessIdentity(**fields["init"]),
        results=fields["results"] and Path(fields["results"]),
        scratch=fields["scratch"] and Path(fields["scratch"]),
        rootless=fields["rootless"],
    )
