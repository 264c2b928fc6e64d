"""Hosts made ready to carry nodes, and what is found out about them on the way."""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ackproof.infra.artifacts import Artifact
from ackproof.infra.interface import Capability, InfraError
from ackproof.infra.nodes import capabilities, lacking, limits
from ackproof.infra.ssh.bringing import Report
from ackproof.infra.ssh.connection import Connection
from ackproof.infra.ssh.inventory import Host, Inventory, place
from ackproof.infra.ssh.login import Trust
from ackproof.infra.ssh.preparation import Prepared, bring_agent, prepare
from ackproof.infra.together import on_all

_NOTHING: Mapping[Capability, str] = {}
_TRIAL_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyHost:
    """A host with everything on it that a node needs.

    Attributes:
        addresses: Every address that it may send from. The first is IPv4, and it is reached there.
    """

    connection: Connection
    prepared: Prepared
    addresses: Sequence[str]


def make_ready(
    host: Host, directory: str, trust: Trust, report: Report, artifacts: Sequence[Artifact]
) -> ReadyHost:
    """Connect and prepare. ``directory``: as in the inventory; ``artifacts``: to bring besides.
    Raises InfraError."""
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


def held(host: Host, directory: str, trust: Trust, run: str) -> bool:
    """Whether the host is that run's. Raises InfraError when it does not answer."""
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
    """Make the hosts of the nodes ``names`` ready, and say what can be done on all of them;
    nothing runs there afterwards.

    Args:
        trials: What shall be tried, and the verb that does.
        further: Nodes that may be asked for besides, while the others are there.
        artifacts: To bring to all of them.

    Raises InfraError naming every host that cannot be had, and why.
    """
    trust = Trust(inventory.known_hosts, accepted)
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
            f"{', '.join(addresses)}): give the one that the other hosts reach it at"
        )
    return address
