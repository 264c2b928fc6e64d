"""A host that is reached over SSH: a server on loopback, which lets one key in, and runs commands
as OpenSSH's does. The status of a command comes when it ends; the channel is closed when no process
has its output open any more, neither it nor what it has started."""

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import paramiko

from tests.support.ssh.keys import make_key

_SUCCEEDED = paramiko.common.AUTH_SUCCESSFUL
_FAILED = paramiko.common.AUTH_FAILED
_OPEN = paramiko.common.OPEN_SUCCEEDED
_PIECE = 4096


class SshHost:
    """Host of the user ``admin``, whose ``key`` is made for it. ``known_hosts``: has its own key;
    ``heard``: the commands that were given."""

    user = "admin"

    def __init__(self, directory: Path, environ: Mapping[str, str]) -> None:
        self.heard: list[str] = []
        self.key = directory / "admin.key"
        self._admitted = make_key(self.key).split()[1]
        make_key(directory / "host.key")
        self._host_key = paramiko.Ed25519Key.from_private_key_file(str(directory / "host.key"))
        self._environ = dict(environ)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.known_hosts = directory / "known_hosts"
        line = f"[localhost]:{self.port} {self._host_key.get_name()} {self._host_key.get_base64()}"
        self.known_hosts.write_text(f"{line}\n")

    def login(self) -> Mapping[str, object]:
        """The section ``ssh`` of a campaign file."""
        return {
            "address": "localhost",
            "user": self.user,
            "port": self.port,
            "key": str(self.key),
            "known.hosts": str(self.known_hosts),
        }

    def serve(self) -> None:
        """Until :meth:`close`."""
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                transport = paramiko.Transport(connection)
                transport.add_server_key(self._host_key)
                transport.start_server(server=_Session(self))

    def close(self) -> None:
        # What waits in accept() is told so by the shutdown alone.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def admits(self, user: str, key: paramiko.PKey) -> bool:
        return user == self.user and key.get_base64() == self._admitted

    def run(self, command: str, channel: paramiko.Channel) -> None:
        self.heard.append(command)
        running = subprocess.Popen(
            ["/bin/sh", "-c", command],
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert running.stdout is not None
        told = threading.Thread(target=_tell, args=(running.stdout.fileno(), channel))
        told.start()
        status = running.wait()
        with contextlib.suppress(OSError):
            channel.send_exit_status(status)
        told.join()
        running.stdout.close()
        channel.close()


class _Session(paramiko.ServerInterface):
    def __init__(self, host: SshHost) -> None:
        self._host = host

    def get_allowed_auths(self, username: str) -> str:  # noqa: ARG002
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return _SUCCEEDED if self._host.admits(username, key) else _FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:  # noqa: ARG002
        return _OPEN

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        args = (command.decode(), channel)
        threading.Thread(target=self._host.run, args=args).start()
        return True


def _tell(output: int, channel: paramiko.Channel) -> None:
    while piece := os.read(output, _PIECE):
        with contextlib.suppress(OSError):  # no client listens any more
            channel.sendall(piece)


@contextlib.contextmanager
def ssh_host(directory: Path, environ: Mapping[str, str]) -> Iterator[SshHost]:
    """One that serves. ``environ``: of what it runs."""
    host = SshHost(directory, environ)
    thread = threading.Thread(target=host.serve)
    thread.start()
    try:
        yield host
    finally:
        host.close()
        thread.join()
