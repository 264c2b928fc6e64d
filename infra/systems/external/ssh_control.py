"""Commands on the host of a broker of somebody else's cluster."""

import shlex
from contextlib import closing
from pathlib import Path

from paramiko import Channel

from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.ssh.inventory import Host
from ackproof.infra.backends.ssh.login import Trust, Unreachable, log_in
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.systems.external.description import Argv, Handle

_PIECE = 1 << 16


def run_there(handle: Handle, argv: Argv, within_s: float) -> tuple[int, str]:
    """Run a command on the host that ``handle`` names; its status and its last words. Raises
    InfraError where it does not end in time, or nobody answers."""
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
            with closing(transport.open_session(timeout=within_s)) as channel:
                return _ended(channel, shlex.join(argv), within_s)
        except Exception as error:
            raise InfraError(f"{shlex.join(argv)} on {host}: {error}") from error


def _ended(channel: Channel, command: str, within_s: float) -> tuple[int, str]:
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
    wait_until(over, within_s, "its end")
    return channel.recv_exit_status(), said.decode(errors="replace")
