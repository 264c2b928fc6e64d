"""Host keys: a host is who it was last time, or the user says that it is who it claims to be."""

import threading
from collections.abc import Set
from pathlib import Path

import paramiko

from ackproof.infra.interface import InfraError

_writing = threading.Lock()


class UnknownHost(InfraError):
    """A host whose key nobody has accepted yet. ``fingerprint``: of the key it has shown."""

    def __init__(self, host: str, fingerprint: str, known_hosts: Path) -> None:
        self.fingerprint = fingerprint
        super().__init__(
            f"{host}: unknown host, it shows the key {fingerprint}, which is not in {known_hosts}; "
            f"{host}: unknown host, it shows the key {fingerprint}, which is not in {known_hosts}. "
            "Compare it with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the host; "
            f"if this is the host you mean, add: --accept-host-key {fingerprint}"
        )


class Acceptance(paramiko.MissingHostKeyPolicy):
    """What is done with a host that is not in the known hosts: refused, unless its key's
    fingerprint was accepted beforehand; it is written down then.

    Args:
        accepted: ``SHA256:...``, as OpenSSH prints them.
    """

    def __init__(self, known_hosts: Path, accepted: Set[str]) -> None:
        self._known_hosts = known_hosts
        self._accepted = accepted

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        del client
        if key.fingerprint not in self._accepted:
            raise UnknownHost(hostname, key.fingerprint, self._known_hosts)
        with _writing:
            self._known_hosts.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._known_hosts.open("a", encoding="utf-8") as file:
                file.write(f"{hostname} {key.get_name()} {key.get_base64()}\n")


def changed(error: paramiko.BadHostKeyException, known_hosts: Path) -> InfraError:
    """What to say of a host that shows another key than last time."""
    return InfraError(
        f"{error.hostname}: THE HOST KEY HAS CHANGED: it was {error.expected_key.fingerprint} and "
        f"is {error.key.fingerprint}. Somebody may be listening in. Only if you know that the host "
        f"was installed anew: ssh-keygen -f {known_hosts} -R '{error.hostname}'"
    )
