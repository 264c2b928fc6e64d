"""Laying hands on a broker of somebody else's cluster: commands here or over SSH, or the Docker
Engine. Nothing is done that the description does not name."""

import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import docker
from docker.errors import DockerException
from docker.models.containers import Container
from paramiko import Channel

from infra.interface import InfraError
from infra.ssh.inventory import Host
from infra.ssh.login import Trust, Unreachable, log_in
from infra.systems.external.described import Action, Argv, Handle
from infra.waiting import wait_until

_WITHIN_S = 60
"""For a command. A broker that is stopped in order hands over its leaders first."""
_SHOWN = 500
_PIECE = 1 << 16
_PROJECT, _SERVICE = "com.docker.compose.project", "com.docker.compose.service"


def lay(handle: Handle, action: Action) -> None:
    """Do it, and wait until the commands have ended, or the engine has answered. Raises InfraError
    when that failed, or when it is no command's business."""
    if action not in handle.actions:
        raise InfraError(f"nothing says how to {action} it")
    if not handle.commands:
        _by_engine(handle, action)
        return
    for argv in handle.commands[action]:
        if handle.ssh is None:
            _run_here(argv, handle.directory or None)
        else:
            _run_there(handle, argv)


def _run_here(argv: Argv, directory: str | None) -> None:
    # A file and no pipe: what the command has started keeps the pipe open for as long as it lives.
    with tempfile.TemporaryFile() as output:
        try:
            done = subprocess.run(
                argv,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Whoever is started must not hear our Ctrl-C.
                start_new_session=True,
                timeout=_WITHIN_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InfraError(f"{shlex.join(argv)}: {error}") from None
        output.seek(0)
        _require(argv, done.returncode, output.read().decode(errors="replace"))


def _run_there(handle: Handle, argv: Argv) -> None:
    assert handle.ssh is not None
    host = Host.model_validate({**handle.ssh.model_dump(by_alias=True)}, strict=False)
    try:
        client, opened = log_in(host, Trust(Path(handle.known_hosts).expanduser()))
    except Unreachable as silence:
        raise InfraError(f"{shlex.join(argv)}: {silence}") from silence
    with opened, closing(client):
        try:
            transport = client.get_transport()
            assert transport is not None
            with closing(transport.open_session(timeout=_WITHIN_S)) as channel:
                status, said = _ended(channel, shlex.join(argv))
        except Exception as error:
            raise InfraError(f"{shlex.join(argv)} on {host}: {error}") from error
        _require(argv, status, said)


def _ended(channel: Channel, command: str) -> tuple[int, str]:
    """The status and the last words of a command, as soon as it has ended itself: what it has
    started may keep its output open for as long as it lives. Raises TimeoutError."""
    said = bytearray()

    def over() -> bool:
        ended = channel.exit_status_ready()
        while channel.recv_ready():
            said.extend(channel.recv(_PIECE))
        return ended

    channel.set_combine_stderr(True)
    channel.exec_command(command)
    wait_until(over, _WITHIN_S, "its end")
    return channel.recv_exit_status(), said.decode(errors="replace")


def _require(argv: Argv, status: int, said: str) -> None:
    if status != 0:
        raise InfraError(f"{shlex.join(argv)} ended with {status}: {said.strip()[-_SHOWN:]}")


_DO: Mapping[Action, Callable[[Container], object]] = {
    Action.STOP: Container.stop,
    Action.START: Container.start,
    Action.KILL: Container.kill,
    Action.PAUSE: Container.pause,
    Action.RESUME: Container.unpause,
}


def _by_engine(handle: Handle, action: Action) -> None:
    try:
        # An empty environment it takes for ours.
        client = docker.from_env(timeout=_WITHIN_S, environment=dict(handle.engine) or None)
        with closing(client):
            _DO[action](_container(client, handle))
    except DockerException as error:
        raise InfraError(f"{handle.words(action)}: {error}") from error


def _container(client: docker.DockerClient, handle: Handle) -> Container:
    if handle.container is not None:
        return client.containers.get(handle.container)
    project, _, service = (handle.compose or "").partition("/")
    labels = [f"{_PROJECT}={project}", f"{_SERVICE}={service}"]
    found = client.containers.list(all=True, filters={"label": labels})
    if len(found) != 1:
        raise InfraError(f"{handle.compose}: {len(found)} containers, and one is meant")
    return found[0]
