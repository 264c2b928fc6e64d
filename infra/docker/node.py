"""A node that is a container: it lives as long as its first process, the supervisor."""

import threading
from pathlib import Path, PurePosixPath

from docker.errors import NotFound
from docker.models.containers import Container

from infra.docker import files
from infra.docker.process import DockerProcess, Supervisor
from infra.identity import ProcessIdentity
from infra.interface import ClockReading, Command, InfraError, Software
from infra.local.namespace import NetworkNamespace
from infra.waiting import wait_until

_HOME = PurePosixPath("/var/lib/ackproof")
_SERVES_WITHIN_S = 30.0


class DockerNode:
    """Implements ``infra.interface.Node``. Owns the container, which runs already.

    Raises InfraError when the container ends at once, or is not to be reached from here.
    """

    directory = _HOME
    log_directory = _HOME / "logs"

    def __init__(self, name: str, container: Container, network: str, shared: Path | None) -> None:
        self.name = name
        self._container = container
        self._shared = shared
        container.reload()
        self.address: str = container.attrs["NetworkSettings"]["Networks"][network]["IPAddress"]
        init = self._init()
        self.namespace = NetworkNamespace.of_process(init.pid)
        self._supervisor = Supervisor(name, init)
        self._software: Software | None = None
        self._lock = threading.Lock()
        self._closed = False

    @property
    def software(self) -> Software:
        if self._software is None:
            self._await_supervisor()
            self._software = Software(**self._supervisor.ask({"software": None}))
        return self._software

    def start(self, command: Command) -> DockerProcess:
        """Start ``command`` in the container. A program that does not exist ends with status 127
        and a line in the log. Raises InfraError when the node is closed."""
        if self._closed:
            raise InfraError(f"{self.name} is closed: {command.name} cannot start there")
        self._await_supervisor()
        request = {
            "name": command.name,
            "argv": list(command.argv),
            "env": dict(command.env),
            "directory": str(command.directory or self.directory),
        }
        started = self._supervisor.ask({"start": request})
        return DockerProcess(command.name, self._supervisor, started["number"], started["pid"])

    def write(self, path: PurePosixPath, content: bytes) -> None:
        files.write(self._container, path, content)

    def read(self, path: PurePosixPath) -> bytes:
        return files.read(self._container, path)

    def fetch(self, source: PurePosixPath, target: Path) -> None:
        files.fetch(self._container, source, target)

    def share(self, directory: Path) -> PurePosixPath:
        """Raises InfraError for a directory that is not below the backend's shared one."""
        if self._shared is None or not directory.absolute().is_relative_to(self._shared):
            raise InfraError(f"{self.name} does not see {directory}, only {self._shared}")
        return PurePosixPath(directory.absolute())

    def clock(self) -> ClockReading:
        return ClockReading(offset_ns=0, bound_ns=0)  # this machine's own

    def sync(self) -> None:
        """Nothing to do: the files are the same."""

    def close(self) -> None:
        """Remove the container with its processes and files. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self.namespace.close()
            try:
                self._container.remove(force=True, v=True)
            except NotFound:
                return

    def _await_supervisor(self) -> None:
        try:
            wait_until(self._supervisor.listens, _SERVES_WITHIN_S, f"the container of {self.name}")
        except (TimeoutError, InfraError) as error:
            raise InfraError(f"{error}; its log: {self._last_words()}") from error

    def _init(self) -> ProcessIdentity:
        pid = self._container.attrs["State"]["Pid"]
        try:
            return ProcessIdentity.of(pid)
        except ProcessLookupError as error:
            raise InfraError(
                f"the container of {self.name} is not a process of this machine, or ended at "
                f"once; its log: {self._last_words()}"
            ) from error

    def _last_words(self) -> str:
        return self._container.logs(tail=10).decode(errors="replace").strip() or "(empty)"
