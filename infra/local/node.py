"""A local node: a directory, a network namespace, and the processes started in it."""

import os
import shutil
import subprocess
import threading
from pathlib import Path, PurePosixPath

from infra.interface import ClockReading, Command, InfraError, Software
from infra.local.namespace import NetworkNamespace
from infra.local.process import LocalProcess
from infra.software import of_this_machine

_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME", "PYTHONPATH")
"""All that a node's processes see of our environment: it may hold secrets."""


class LocalNode:
    """Implements ``infra.interface.Node``. Owns the namespace and the processes."""

    def __init__(
        self, name: str, address: str, directory: Path, namespace: NetworkNamespace
    ) -> None:
        self.name = name
        self.address = address
        self.namespace = namespace
        self._path = directory
        self._logs = directory / "logs"
        self._logs.mkdir(parents=True)
        self._lock = threading.Lock()
        self._processes: list[LocalProcess] = []
        self._closed = False

    @property
    def directory(self) -> PurePosixPath:
        return PurePosixPath(self._path)

    @property
    def log_directory(self) -> PurePosixPath:
        return PurePosixPath(self._logs)

    @property
    def software(self) -> Software:
        return of_this_machine()

    def start(self, command: Command) -> LocalProcess:
        """Start ``command`` in the node. A program that does not exist ends with status 127 and
        a line in the log. Raises InfraError when the node is closed."""
        with self._lock:
            if self._closed:
                raise InfraError(f"{self.name} is closed: {command.name} cannot start there")
            process = LocalProcess(command.name, self._spawn(command))
            self._processes.append(process)
        return process

    def write(self, path: PurePosixPath, content: bytes) -> None:
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)

    def read(self, path: PurePosixPath) -> bytes:
        return Path(path).read_bytes()

    def fetch(self, source: PurePosixPath, target: Path) -> None:
        if Path(source).is_dir():
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)

    def share(self, directory: Path) -> PurePosixPath:
        return PurePosixPath(directory)

    def clock(self) -> ClockReading:
        return ClockReading(offset_ns=0, bound_ns=0)  # this machine's own

    def sync(self) -> None:
        """Nothing to do: the files are the same."""

    def close(self) -> None:
        """Kill every process and let go of the namespace; files stay. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for process in self._processes:
                process.kill()
            self.namespace.close()

    def _spawn(self, command: Command) -> subprocess.Popen[bytes]:
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        # nsenter becomes the program itself, so the id we hold is the program's.
        with (self._logs / f"{command.name}.log").open("ab") as log:
            return subprocess.Popen(
                ["nsenter", f"--net={self.namespace.path}", "--", *command.argv],
                pass_fds=(self.namespace.descriptor,),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=command.directory or self._path,
                env={**inherited, **command.env},
                start_new_session=True,
            )
