"""Hosts: their preparation for nodes, the facts that it finds, and the claims of runs to them."""

import getpass
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.interface import Capability, InfraError
from ackproof.infra.backends.ssh.connection import Connection, HostConnection
from ackproof.infra.backends.ssh.inventory import Host, Inventory, place
from ackproof.infra.backends.ssh.login import TrustedHosts
from ackproof.infra.backends.ssh.preparation import (
    DeliveredAgent,
    PreparedHost,
    Report,
    bring_agent,
    prepare,
)
from ackproof.infra.machine.parallel import on_all
from ackproof.infra.node.agent_client import AgentClient, AgentConnection
from ackproof.infra.node.nodes import capabilities, lacking, limits

_NOTHING: Mapping[Capability, str] = {}
_TRIAL_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyHost:
    """A host with everything on it that a node needs.

    Attributes:
        addresses: Every address that it may send from. The first is the IPv4 address at which it is
            reached.
    """

    connection: Connection
    prepared: PreparedHost
    addresses: Sequence[str]


def make_ready(
    host: Host, directory: str, trust: TrustedHosts, report: Report, artifacts: Sequence[Artifact]
) -> ReadyHost:
    """Connect to a host and prepare it. Raises InfraError.

    ``directory`` is that of the inventory, and ``artifacts`` are copied in addition.
    """
    connection = Connection(host, trust)
    try:
        prepared = prepare(connection, directory, report, artifacts)
        addresses: list[str] = prepared.agent.ask("addresses")
        own = _own_address(host, addresses)
        return ReadyHost(
            connection=connection,
            prepared=prepared,
            addresses=[own, *(address for address in addresses if address != own)],
        )
    except BaseException:
        connection.close()
        raise


def held(host: Host, directory: str, trust: TrustedHosts, run: str) -> bool:
    """Return whether the run holds the host. Raises InfraError if the host does not answer."""
    connection = Connection(host, trust)
    try:
        brought = bring_agent(connection, directory)
        tenant = brought.agent.ask("tenant", base=str(brought.base))
    finally:
        connection.close()
    return tenant is not None and bool(tenant["run"] == run)


def survey(
    inventory: Inventory,
    names: Sequence[str],
    accepted: frozenset[str],
    report: Report,
    trials: Mapping[Capability, str] = _NOTHING,
    further: Sequence[str] = (),
    artifacts: Sequence[Artifact] = (),
) -> frozenset[Capability]:
    """Prepare the hosts of the nodes ``names``, and return the capabilities that all of them have.

    Nothing runs there afterwards.

    Args:
        trials: The capabilities to try, and the verb of each.
        further: Nodes that may be requested while the others exist.
        artifacts: Files to copy to all of them.

    Raises InfraError with every host that cannot be used, and why.
    """
    trust = TrustedHosts(inventory.known_hosts, accepted)
    wanted = list(place(names, inventory.hosts).values())
    try:
        wanted = list(place([*names, *further], inventory.hosts).values())
    except LookupError as lacking_host:
        report(f"no {Capability.FURTHER_NODES}: {lacking_host}")
        further = ()
    ready = on_all(
        lambda host: make_ready(host, inventory.directory, trust, report, artifacts), wanted
    )
    tried = {one: on_all(partial(_try, verb), ready) for one, verb in trials.items()}
    limited = []
    for number, host in enumerate(ready):
        tell = partial(_of_host, report, str(host.connection.host))
        for line in lacking(host.prepared.obstacles):
            tell(line)
        limited.append(limits(host.prepared.unlimited.get, tell))
        for line in lacking({one: obstacles[number] for one, obstacles in tried.items()}):
            tell(line)
        host.connection.close()
    obstacles = [host.prepared.obstacles for host in ready]
    return capabilities(obstacles, limited, tried, further=bool(further))


def _try(verb: str, host: ReadyHost) -> str | None:
    obstacle: str | None = host.prepared.agent.ask(verb, timeout=_TRIAL_TIMEOUT_S)
    return obstacle


def _of_host(report: Report, name: str, line: str) -> None:
    report(f"{name}: {line}")


def _own_address(host: Host, addresses: Sequence[str]) -> str:
    try:
        found = socket.getaddrinfo(host.address, None, socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        raise InfraError(f"{host}: no IPv4 address of that name: {error}") from error
    address = str(found[0][4][0])
    if address not in addresses:
        raise InfraError(
            f"{host}: {address} is not an address of the host itself (it has "
            f"{', '.join(addresses)}): give the address that the other hosts use"
        )
    return address


# --- the claim of a run ----------------------------------------------------------------------


LEASE_S = 600.0
"""The time in seconds that a host keeps a run without a request of the harness."""

_CHANNELS = 4
_ACQUIRE_TIMEOUT_S = 60.0


def claim(
    connection: HostConnection,
    brought: DeliveredAgent,
    run: str,
    env: Mapping[str, str],
    ended_by: str = "ackproof clean --inventory FILE --all",
) -> AgentClient:
    """Claim a host for a run, and return the client of the run's agent there.

    ``env`` has variables for the run's processes, and ``ended_by`` says how others can end the run.
    Raises InfraError while another living run has the host.
    """
    brought.agent.ask(
        "acquire",
        timeout=_ACQUIRE_TIMEOUT_S,
        base=str(brought.base),
        run=run,
        holder=f"{getpass.getuser()}@{socket.gethostname()}",
        lease_s=LEASE_S,
        env=dict(env),
        ended_by=ended_by,
    )
    return AgentClient(str(connection.host), to_agent(connection, brought))


def to_agent(connection: HostConnection, brought: DeliveredAgent) -> AgentConnection:
    """Return a connection to the agent of the run that has the host."""
    argv = [*brought.program, "connect", str(brought.base / "run" / "agent.sock")]
    return connection.channels(argv, at_once=_CHANNELS)


# --- removing what hosts hold -----------------------------------------------------------------


_REMOVED_WITHIN_S = 120.0


def clean_hosts(
    inventory: Inventory,
    report: Callable[[str], None],
    *,
    accepted: frozenset[str] = frozenset(),
    everything: bool = False,
    keep_software: bool = False,
) -> bool:
    """End dead runs on every host and remove the harness's directory, cached software too.

    With ``everything``, living runs are ended first. Packages of the distribution stay.

    Args:
        keep_software: Remove what runs left, and keep what the next run would have to copy again.
        report: Gets a line for each host with what was done or could not be done.

    Return whether everything that must go is gone.
    """
    trust = TrustedHosts(inventory.known_hosts, accepted)

    def clean_one(host: Host) -> bool:
        connection = Connection(host, trust)
        try:
            report(f"{host}: {_clean(connection, inventory.directory, everything, keep_software)}")
        except InfraError as error:
            report(str(error))
            return False
        finally:
            connection.close()
        return True

    return all(on_all(clean_one, list(inventory.hosts)))


def _clean(connection: Connection, directory: str, everything: bool, keep_software: bool) -> str:
    """Clean one host, and return a line about it."""
    brought = bring_agent(connection, directory)
    base = str(brought.base)
    tenant = brought.agent.ask("tenant", base=base)
    if tenant is not None and tenant["alive"] and not everything:
        return f"a run of {tenant['holder']} is active and was not changed"
    if keep_software:
        brought.agent.ask("release", base=base, timeout=_REMOVED_WITHIN_S)
        return "no run was left" if tenant is None else f"removed a run of {tenant['holder']}"
    brought.agent.ask("purge", base=base, timeout=_REMOVED_WITHIN_S)
    return f"removed {base}" + ("" if tenant is None else f", with a run of {tenant['holder']}")
