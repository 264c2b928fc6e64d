"""Logins to hosts by SSH, with the host keys that are known or accepted."""

import os
import threading
from collections.abc import Set
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import paramiko
from paramiko.pkey import UnknownKeyType

from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.ssh.inventory import Host, Login

_writing = threading.Lock()


class UnknownHostKey(InfraError):
    """A host whose key is not accepted yet. ``fingerprint`` is that of the key it has shown."""

    def __init__(self, host: str, fingerprint: str, known_hosts: Path) -> None:
        self.fingerprint = fingerprint
        super().__init__(
            f"{host}: unknown host, it shows the key {fingerprint}, which is not in {known_hosts}. "
            "Compare it with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the host; "
            f"if this is the host you mean, add: --accept-host-key {fingerprint}"
        )


class Acceptance(paramiko.MissingHostKeyPolicy):
    """A policy for hosts that are not in the known hosts.

    Such a host is refused unless its key's fingerprint was accepted beforehand. Then it is added to
    the file.

    Args:
        accepted: Fingerprints ``SHA256:...``, as OpenSSH prints them.
    """

    def __init__(self, known_hosts: Path, accepted: Set[str]) -> None:
        self._known_hosts = known_hosts
        self._accepted = accepted

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        del client
        if key.fingerprint not in self._accepted:
            raise UnknownHostKey(hostname, key.fingerprint, self._known_hosts)
        with _writing:
            self._known_hosts.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._known_hosts.open("a", encoding="utf-8") as file:
                file.write(f"{hostname} {key.get_name()} {key.get_base64()}\n")


def changed(error: paramiko.BadHostKeyException, known_hosts: Path) -> InfraError:
    """Return the error for a host that shows another key than last time."""
    return InfraError(
        f"{error.hostname}: THE HOST KEY HAS CHANGED: it was {error.expected_key.fingerprint} "
        f"and is {error.key.fingerprint}. The connection may be intercepted. Only if you know "
        f"that the host was reinstalled: ssh-keygen -f {known_hosts} -R '{error.hostname}'"
    )


# --- logging in -------------------------------------------------------------------------------


_CONNECT_TIMEOUT_S = 5.0
_KEEPALIVE_S = 15
_AGENT = "SSH_AUTH_SOCK"


class Unreachable(Exception):
    """The host does not answer, for now."""


@dataclass(frozen=True, slots=True)
class TrustedHosts:
    """The hosts that are trusted.

    They are in the file ``known_hosts``, or their key has a fingerprint among ``accepted``.
    """

    known_hosts: Path
    accepted: Set[str] = frozenset()


def log_in(host: Host, trust: TrustedHosts) -> tuple[paramiko.SSHClient, ExitStack]:
    """Return a client that is logged in, and a stack that closes it and the connections on the way.

    Raises Unreachable if it may help to try again, InfraError if it does not.
    """
    with ExitStack() as opened:
        sock = None
        if host.jump is not None:
            way = _client(host.jump, trust, opened, None).get_transport()
            assert way is not None
            sock = _through(way, host)
        client = _client(host, trust, opened, sock)
        return client, opened.pop_all()


def _through(way: paramiko.Transport, host: Host) -> paramiko.Channel:
    try:
        return way.open_channel(
            "direct-tcpip", (host.address, host.port), ("", 0), timeout=_CONNECT_TIMEOUT_S
        )
    except (OSError, EOFError, paramiko.SSHException) as error:
        raise Unreachable(f"{host}: not reached through {host.jump}: {error}") from error


def _client(
    login: Login, trust: TrustedHosts, opened: ExitStack, sock: paramiko.Channel | None
) -> paramiko.SSHClient:
    key = _key(login)
    client = paramiko.SSHClient()
    opened.callback(client.close)
    client.set_missing_host_key_policy(Acceptance(trust.known_hosts, trust.accepted))
    if trust.known_hosts.exists():
        client.load_host_keys(str(trust.known_hosts))
    try:
        client.connect(
            login.address,
            login.port,
            login.user,
            pkey=key,
            look_for_keys=login.key is None,
            allow_agent=key is None,
            sock=sock,
            timeout=_CONNECT_TIMEOUT_S,
            banner_timeout=_CONNECT_TIMEOUT_S,
            auth_timeout=2 * _CONNECT_TIMEOUT_S,
            channel_timeout=_CONNECT_TIMEOUT_S,
        )
    except paramiko.BadHostKeyException as error:
        raise changed(error, trust.known_hosts) from None
    except paramiko.AuthenticationException as error:
        raise InfraError(
            f"{login}: user {login.user} was refused with {login.key or 'any of your keys'} "
            f"({error})"
        ) from None
    except (OSError, EOFError, paramiko.SSHException) as error:
        raise Unreachable(f"{login}: {error or type(error).__name__}") from error
    transport = client.get_transport()
    assert transport is not None
    transport.set_keepalive(_KEEPALIVE_S)
    return client


def _key(login: Login) -> paramiko.PKey | None:
    """Return the key that the inventory names; None without one, or if it is left to ssh-agent."""
    if login.key is None:
        return None
    secret = login.passphrase
    try:
        # The function takes bytes, whatever its signature says.
        return paramiko.PKey.from_path(
            login.key.expanduser(),
            None if secret is None else secret.encode(),  # type: ignore[arg-type]
        )
    except (TypeError, paramiko.PasswordRequiredException):
        if _AGENT in os.environ:
            return None
        raise InfraError(
            f"{login}: the key {login.key} has a passphrase: put it into an environment "
            "variable and give the variable's name under passphrase.env, or give the key to "
            "ssh-agent"
        ) from None
    except ValueError:
        reason = "it is not a private key" if secret is None else "the passphrase does not match"
        raise InfraError(f"{login}: the key {login.key} cannot be used: {reason}") from None
    except (OSError, paramiko.SSHException, UnknownKeyType) as error:
        raise InfraError(f"{login}: the key {login.key} cannot be used: {error}") from None
