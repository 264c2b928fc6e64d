"""Agents beside brokers that run already, on hosts of their operator.

Nothing is installed there, and nothing stays: the agent has a directory of its own, which is
removed with it. It runs as root. A host that hears nothing of a run for its lease removes the agent
itself, and undoes what the agent did.
"""

import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from ackproof.infra.api.interface import Capability, InfraError
from ackproof.infra.backends.ssh.connection import Connection
from ackproof.infra.backends.ssh.hosts import LEASE_S, claim
from ackproof.infra.backends.ssh.inventory import DIRECTORY, BrokerHost, Host
from ackproof.infra.backends.ssh.login import TrustedHosts
from ackproof.infra.backends.ssh.preparation import DeliveredAgent, bring_agent
from ackproof.infra.machine.parallel import on_all
from ackproof.infra.node.agent_client import AgentClient
from ackproof.infra.node.copying import CopiedShares, Keeper
from ackproof.infra.node.node import AgentNode, NodeParts
from ackproof.infra.node.nodes import LIMITS, Obstacles, capabilities, lacking

_AS_ROOT = ("sudo", "-n", "--preserve-env=SSH_CONNECTION", "--")
_REMOVED_WITHIN_S = 60.0
_TRIED_WITHIN_S = 60.0


class Attachments:
    """The agents of one run beside brokers.

    Args:
        hosts: The host of each broker, by the broker's name.
        run: The name of the run in the claims of the hosts.
    """

    def __init__(self, hosts: Mapping[str, BrokerHost], run: str) -> None:
        self.hosts = hosts
        self._run = run
        self._keepers: dict[str, Keeper] = {}
        self._found: dict[str, _Abilities] = {}

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Return the capabilities that all present agents have."""
        return _common(self._found.values())

    def attach(self, name: str) -> AgentNode:
        """Bring the agent to the host of a broker, claim the host, and return its node.

        Raises InfraError, also while another run has the host.
        """
        connection = _connection(self.hosts[name])
        try:
            brought = _bring(self.hosts[name], connection)
            node = _node(name, connection, brought, self._run)
            self._found[name] = _Abilities.of(brought.agent)
        except BaseException:
            connection.close()
            raise
        base = str(brought.base)
        self._keepers[name] = Keeper(
            name, lambda: node.agent.ask("renew", base=base, run=self._run)
        )
        return node

    def release(self, name: str) -> None:
        """Let the claim of a host run out, before its node is closed. Idempotent."""
        if (keeper := self._keepers.pop(name, None)) is not None:
            keeper.close()


def survey(hosts: Mapping[str, BrokerHost], tell: Callable[[str], object]) -> frozenset[Capability]:
    """Return the capabilities that an agent has beside every broker. Nothing is left there.

    Args:
        hosts: The host of each broker, by the broker's name.
        tell: Gets a line for each capability that a host lacks.

    Raises InfraError with every host that cannot be used, and why.
    """

    def ask(name: str) -> _Abilities:
        connection = _connection(hosts[name])
        try:
            brought = _bring(hosts[name], connection)
            found = _Abilities.of(brought.agent)
            _purge(brought, run="")
        finally:
            connection.close()
        for line in (*lacking(found.links), *lacking(found.limits)):
            tell(f"{name}: {line}")
        return found

    return _common(on_all(ask, sorted(hosts)))


@dataclass(frozen=True, slots=True)
class _Abilities:
    """The reasons why a host lacks capabilities: of links, and to limit resources."""

    links: Obstacles
    limits: Obstacles

    @classmethod
    def of(cls, agent: AgentClient) -> "_Abilities":
        return cls(
            links=agent.ask("obstacles", timeout=_TRIED_WITHIN_S),
            limits={one: agent.ask("can_limit_server", what=what) for one, what in LIMITS.items()},
        )


def _common(found: Collection[_Abilities]) -> frozenset[Capability]:
    lacking_links = [one.links for one in found]
    limited = [
        {Capability(name) for name, why in one.limits.items() if why is None} for one in found
    ]
    able = capabilities(lacking_links, limited, further=False)
    return able | {Capability.FILL_DISKS}


def detach(host: BrokerHost, run: str) -> bool:
    """Undo what the agent of a dead run did on a host, and remove it. Return whether it was there.

    Raises InfraError if the host does not answer, or something remains.
    """
    connection = _connection(host)
    try:
        return _purge(_bring(host, connection), run)
    finally:
        connection.close()


def _connection(host: BrokerHost) -> Connection:
    login = Host.model_validate(host.login.model_dump(by_alias=True), strict=False)
    return Connection(login, TrustedHosts(host.known_hosts))


def _bring(host: BrokerHost, connection: Connection) -> DeliveredAgent:
    before = () if host.login.user == "root" else _AS_ROOT
    return bring_agent(connection, DIRECTORY, before, installs=False)


def _purge(brought: DeliveredAgent, run: str) -> bool:
    """Remove the agent, unless another run has the host by now. Return whether the run had it."""
    base = str(brought.base)
    tenant = brought.agent.ask("tenant", base=base)
    if tenant is not None and tenant["run"] != run:
        return False
    brought.agent.ask("purge", base=base, timeout=_REMOVED_WITHIN_S)
    return tenant is not None


def _node(name: str, connection: Connection, brought: DeliveredAgent, run: str) -> AgentNode:
    addresses: Sequence[str] = brought.agent.ask("addresses")
    agent = claim(connection, brought, run, {}, f"ackproof clean --all on {socket.gethostname()}")
    directory = brought.base / "run" / name
    agent.ask("mkdir", path=str(directory / "logs"))

    def software() -> NoReturn:
        raise InfraError(f"{name} is a host of its operator: no software was brought there")

    def remove() -> None:
        try:
            _purge(brought, run)
        except InfraError as error:
            raise InfraError(
                f"{error}\nleft on the host until {LEASE_S / 60:.0f} minutes have passed "
                "without a message of this run, or until: ackproof clean"
            ) from error
        finally:
            connection.close()

    return AgentNode(
        NodeParts(
            name=name,
            addresses=addresses,
            directory=directory,
            agent=agent,
            software=software,
            shares=CopiedShares(agent, directory / "shared"),
            artifacts={},
            remove=remove,
        )
    )
