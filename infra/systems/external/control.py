"""Control of the brokers of an external cluster: commands here or over SSH, the Docker Engine, or
the API of Kubernetes.

Only actions that the description names are done. The libraries of SSH and Docker take long to
import, and few campaigns have such brokers. Each is imported where it is used.
"""

import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.kubernetes import broker_pods
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.systems.external.description import Action, Argv, BrokerControl

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container
    from paramiko import Channel

_WITHIN_S = 60
"""The time limit of a command in seconds. A broker that is stopped properly hands over its leaders
first."""
_SHOWN = 500
_PIECE = 1 << 16
_PROJECT, _SERVICE = "com.docker.compose.project", "com.docker.compose.service"
_METHODS: Mapping[Action, str] = {
    Action.STOP: "stop",
    Action.START: "start",
    Action.KILL: "kill",
    Action.PAUSE: "pause",
    Action.RESUME: "unpause",
}
"""The methods of a container."""


def carry_out(handle: BrokerControl, action: Action) -> None:
    """Do an action, and wait until the commands have ended, or the engine has answered.

    Raises InfraError if that fails, or if the description does not name the action.
    """
    if action not in handle.actions:
        raise InfraError(f"no command is configured to {action} it")
    if handle.pod is not None:
        if action is Action.START:
            broker_pods.bring_back(handle.pod)
        else:
            broker_pods.end(handle.pod, at_once=action is Action.KILL)
        return
    if not handle.commands:
        _in_docker(handle, action)
        return
    for argv in handle.commands[action]:
        if handle.ssh is None:
            _run_here(argv, handle.directory or None)
        else:
            _run_over_ssh(handle, argv)


def _run_here(argv: Argv, directory: str | None) -> None:
    # The output goes to a file and not to a pipe: children of the command would keep a pipe open
    # for as long as they live.
    with tempfile.TemporaryFile() as output:
        try:
            done = subprocess.run(
                argv,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # The child must not get this terminal's Ctrl-C.
                start_new_session=True,
                timeout=_WITHIN_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InfraError(f"{shlex.join(argv)}: {error}") from None
        output.seek(0)
        _require(argv, done.returncode, output.read().decode(errors="replace"))


def _require(argv: Argv, status: int, said: str) -> None:
    if status != 0:
        raise InfraError(f"{shlex.join(argv)} ended with {status}: {said.strip()[-_SHOWN:]}")


# --- over SSH ---------------------------------------------------------------------------------


def _run_over_ssh(handle: BrokerControl, argv: Argv) -> None:
    """Run a command on the host that ``handle`` names.

    Raises InfraError if it fails, does not end in time, or the host does not answer.
    """
    from ackproof.infra.backends.ssh.inventory import Host
    from ackproof.infra.backends.ssh.login import TrustedHosts, Unreachable, log_in

    assert handle.ssh is not None
    host = Host.model_validate({**handle.ssh.model_dump(by_alias=True)}, strict=False)
    try:
        client, opened = log_in(host, TrustedHosts(Path(handle.known_hosts).expanduser()))
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


def _ended(channel: "Channel", command: str) -> tuple[int, str]:
    """Return the status and the last output of a command as soon as it has ended itself.

    Its children may keep its output open for as long as they live. Raises TimeoutError.
    """
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


# --- in Docker --------------------------------------------------------------------------------


def _in_docker(handle: BrokerControl, action: Action) -> None:
    """Do an action to the container that ``handle`` names. Raises InfraError if that fails."""
    import docker
    from docker.errors import DockerException

    try:
        # The library takes an empty environment for that of this process.
        client = docker.from_env(timeout=_WITHIN_S, environment=dict(handle.engine) or None)
        with closing(client):
            getattr(_container(client, handle), _METHODS[action])()
    except DockerException as error:
        raise InfraError(f"{handle.words(action)}: {error}") from error


def _container(client: "DockerClient", handle: BrokerControl) -> "Container":
    if handle.container is not None:
        return client.containers.get(handle.container)
    project, _, service = (handle.compose or "").partition("/")
    labels = [f"{_PROJECT}={project}", f"{_SERVICE}={service}"]
    found = client.containers.list(all=True, filters={"label": labels})
    if len(found) != 1:
        raise InfraError(
            f"{handle.compose}: {len(found)} containers match, but exactly one is needed"
        )
    return found[0]
