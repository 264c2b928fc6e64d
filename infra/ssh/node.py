"""A node that is a host: a directory there, and the processes started in it."""

import threading
from itertools import count
from pathlib import Path, PurePosixPath

from paramiko import SFTPClient

from infra.interface import ClockReading, Command, InfraError
from infra.ssh import files
from infra.ssh.hosts import ReadyHost
from infra.ssh.preparation import put
from infra.ssh.process import SshProcess

_RELEASE_TIMEOUT_S = 60.0


class SshNode:
    """Implements ``infra.interface.Node`` on a host that is ready and held by the run."""

    def __init__(self, name: str, host: ReadyHost) -> None:
        self.name = name
        self.connection = host.connection
        self.address = host.address
        self.addresses = host.addresses
        self.prepared = host.prepared
        self.software = host.prepared.software
        self.base = host.prepared.base
        run = self.base / "run"
        self.directory = run / name
        self.log_directory = self.directory / "logs"
        self._states = run / "processes"
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._processes: list[SshProcess] = []
        self._mirrors: dict[PurePosixPath, files.Mirror] = {}
        self._closed = False
        self.connection.ask("mkdir", path=str(self.log_directory))

    def start(self, command: Command) -> SshProcess:
        """Start ``command`` on the host. A program that does not exist ends with status 127 and a
        line in the log. Raises InfraError when the node is closed."""
        if self._closed:
            raise InfraError(f"{self.name} is closed: {command.name} cannot start there")
        with self._lock:
            state = self._states / f"{command.name}-{next(self._numbers)}"
        pid = self.connection.ask(
            "start",
            timeout=30.0,
            state=str(state),
            argv=list(command.argv),
            env={"PYTHONPATH": str(self.prepared.sources), **command.env},
            directory=str(command.directory or self.directory),
            log=str(self.log_directory / f"{command.name}.log"),
        )
        process = SshProcess(command.name, pid, self.connection, state)
        self._processes.append(process)
        return process

    def write(self, path: PurePosixPath, content: bytes) -> None:
        self.connection.ask("mkdir", path=str(path.parent))
        put(self.connection, content, path)

    def read(self, path: PurePosixPath) -> bytes:
        def read(sftp: SFTPClient) -> bytes:
            with sftp.open(str(path), "rb") as file:
                file.prefetch(file.stat().st_size)
                return file.read()

        return self.connection.files(read)

    def fetch(self, source: PurePosixPath, target: Path) -> None:
        files.fetch(self.connection, source, target)

    def share(self, directory: Path) -> PurePosixPath:
        shared = self.directory / "shared" / str(directory.absolute()).strip("/").replace("/", "-")
        with self._lock:
            if shared not in self._mirrors:
                self.connection.ask("mkdir", path=str(shared))
                self._mirrors[shared] = files.Mirror(self.connection, shared, directory)
        return shared

    def clock(self) -> ClockReading:
        raise InfraError("clocks of hosts are not compared yet")

    def sync(self) -> None:
        with self._lock:
            mirrors = list(self._mirrors.values())
        for mirror in mirrors:
            mirror.update()

    def close(self) -> None:
        """End every process, and release the host. Idempotent. Raises InfraError when the host is
        not to be had."""
        if self._closed:
            return
        self._closed = True
        try:
            for process in self._processes:
                process.exit_code()  # kept: nobody will know it afterwards
            self.connection.ask("release", base=str(self.base), timeout=_RELEASE_TIMEOUT_S)
            for process in self._processes:
                process.closed()
        finally:
            self.connection.close()
