"""Logging in at a host, by way of its jump host if it has one."""

import os
from collections.abc import Set
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import paramiko
from paramiko.pkey import UnknownKeyType

from ackproof.infra.interface import InfraError
from ackproof.infra.ssh.hostkeys import Acceptance, changed
from ackproof.infra.ssh.inventory import Host, Login

_CONNECT_TIMEOUT_S = 5.0
_KEEPALIVE_S = 15
_AGENT = "SSH_AUTH_SOCK"


class Unreachable(Exception):
    """The host does not answer, for now."""


@dataclass(frozen=True, slots=True)
class Trust:
    """Which hosts are believed: those in the file ``known_hosts``, and those whose key has a
    fingerprint among ``accepted``."""

    known_hosts: Path
    accepted: Set[str] = frozenset()


def log_in(host: Host, trust: Trust) -> tuple[paramiko.SSHClient, ExitStack]:
    """A client that is logged in, and what closes it and its way there.

    Raises Unreachable where it may help to try again, InfraError where it does not.
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
    login: Login, trust: Trust, opened: ExitStack, sock: paramiko.Channel | None
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
            f"{login}: user {login.user} is not let in with {login.key or 'any of your keys'} "
            f"({error})"
        ) from None
    except (OSError, EOFError, paramiko.SSHException) as error:
        raise Unreachable(f"{login}: {error or type(error).__name__}") from error
    transport = client.get_transport()
    assert transport is not None
    transport.set_keepalive(_KEEPALIVE_S)
    return client


def _key(login: Login) -> paramiko.PKey | None:
    """The key that the inventory names. None without one, or when it is left to ssh-agent."""
    if login.key is None:
        return None
    secret = login.passphrase
    try:
        # Bytes are what it takes, whatever its signature says.
        return paramiko.PKey.from_path(
            login.key.expanduser(),
            None if secret is None else secret.encode(),  # type: ignore[arg-type]
        )
    except (TypeError, paramiko.PasswordRequiredException):
        if _AGENT in os.environ:
            return None
        raise InfraError(
            f"{login}: the key {login.key} has a passphrase: put it into an environment variable "
            "and that one's name into passphrase.env, or give the key to ssh-agent"
        ) from None
    except ValueError:
        reason = "it is no private key" if secret is None else "the passphrase is not its own"
        raise InfraError(f"{login}: the key {login.key} cannot be used: {reason}") from None
    except (OSError, paramiko.SSHException, UnknownKeyType) as error:
        raise InfraError(f"{login}: the key {login.key} cannot be used: {error}") from None
