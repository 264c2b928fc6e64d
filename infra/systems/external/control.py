"""Laying hands on a broker of somebody else's cluster: commands here or over SSH, or the Docker
Engine. Nothing is done that the description does not name."""

import shlex
import subprocess
import tempfile

from ackproof.infra.api.interface import InfraError
from ackproof.infra.systems.external.description import Action, Argv, Handle

_WITHIN_S = 60
"""For a command. A broker that is stopped in order hands over its leaders first."""
_SHOWN = 500


def lay(handle: Handle, action: Action) -> None:
    """Do it, and wait until the commands have ended, or the engine has answered. Raises InfraError
    when that failed, or when it is no command's business."""
    if action not in handle.actions:
        raise InfraError(f"nothing says how to {action} it")
    # The libraries of both take their time to import, and few have such brokers.
    if not handle.commands:
        from ackproof.infra.systems.external.docker_control import by_engine

        by_engine(handle, action, _WITHIN_S)
        return
    for argv in handle.commands[action]:
        if handle.ssh is None:
            _run_here(argv, handle.directory or None)
        else:
            from ackproof.infra.systems.external.ssh_control import run_there

            _require(argv, *run_there(handle, argv, _WITHIN_S))


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


def _require(argv: Argv, status: int, said: str) -> None:
    if status != 0:
        raise InfraError(f"{shlex.join(argv)} ended with {status}: {said.strip()[-_SHOWN:]}")
