"""Agents beside brokers that run already, on hosts or in pods of their operator.

Nothing is installed there, and nothing stays: the agent has a directory of its own, which is
removed with it. It runs as root. A host that hears nothing of a run for its lease removes the agent
itself, and undoes what the agent did.

A pod that is deleted takes its agent along. The pod in its place gets an agent of its own.
"""

import socket
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NoReturn, TypeVar

from ackproof.infra.agent.wire import Wire
from ackproof.infra.api.interface import Capability, InfraError
from ackproof.infra.backends.kubernetes import manifests
from ackproof.infra.backends.kubernetes.broker_pods import BrokerPod
from ackproof.infra.backends.ssh.connection import Connection, HostConnection
from ackproof.infra.backends.ssh.hosts import LEASE_S, claim, to_agent
from ackproof.infra.backends.ssh.inventory import DIRECTORY, BrokerHost, Host
from ackproof.infra.backends.ssh.login import TrustedHosts
from ackproof.infra.backends.ssh.preparation import DeliveredAgent, bring_agent
from ackproof.infra.machine.parallel import on_all
from ackproof.infra.node.agent_client import AgentClient, AgentConnection
from ackproof.infra.node.copying import CopiedShares, Keeper
from ackproof.infra.node.node import AgentNode, NodeParts
from ackproof.infra.node.nodes import LIMITS, Obstacles, capabilities, lacking

T = TypeVar("T")
BrokerPlace = BrokerHost | BrokerPod
"""The host or the pod of a broker."""

_AS_ROOT = ("sudo", "-n", "--preserve-env=SSH_CONNECTION", "--")
_REMOVED_WITHIN_S = 60.0
_TRIED_WITHIN_S = 60.0
_ENDED_BY = "ackproof clean --all on {}"
"""The command that ends a run with such agents, on the machine of the run."""


class Attachments:
    """The agents of one run beside brokers.

    Args:
        hosts: The place of each broker, by the broker's name.
        run: The name of the run in the claims of the hosts.
    """

    def __init__(self, hosts: Mapping[str, BrokerPlace], run: str) -> None:
        self.hosts = hosts
        self._run = run
        self._keepers: dict[str, Keeper] = {}
        self._found: dict[str, _Abilities] = {}

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Return the capabilities that all present agents have."""
        return _common(self._found.values())

    def attach(self, name: str) -> AgentNode:
        """Bring the agent to the place of a broker, claim it, and return its node.

        Raises InfraError, also while another run has the place.
        """
        claimed = _ClaimedPlace(name, self.hosts[name], self._run)
        try:
            node = claimed.node()
            self._found[name] = _Abilities.of(node.agent, self.hosts[name])
        except BaseException:
            claimed.close()
            raise
        self._keepers[name] = Keeper(name, claimed.renew)
        return node

    def release(self, name: str) -> None:
        """Let the claim of a host run out, before its node is closed. Idempotent."""
        if (keeper := self._keepers.pop(name, None)) is not None:
            keeper.close()


def survey(
    hosts: Mapping[str, BrokerPlace], tell: Callable[[str], object]
) -> frozenset[Capability]:
    """Return the capabilities that an agent has beside every broker. Nothing is left on hosts. The
    containers that are put into pods wait for a run, and end by themselves.

    Args:
        hosts: The place of each broker, by the broker's name.
        tell: Gets a line for each capability that a place lacks.

    Raises InfraError with every place that cannot be used, and why.
    """

    def ask(name: str) -> _Abilities:
        connection = _connection(hosts[name])
        try:
            brought = _bring(hosts[name], connection)
            found = _Abilities.of(brought.agent, hosts[name])
            if isinstance(hosts[name], BrokerHost):
                _purge(brought, run="")
        finally:
            connection.close()
        for line in (*lacking(found.links), *lacking(found.limits)):
            tell(f"{name}: {line}")
        return found

    return _common(on_all(ask, sorted(hosts)))


@dataclass(frozen=True, slots=True)
class _Abilities:
    """The reasons why a place lacks capabilities: of links, and to limit resources; and whether the
    disk of its logs may be filled."""

    links: Obstacles
    limits: Obstacles
    fills: bool

    @classmethod
    def of(cls, agent: AgentClient, place: BrokerPlace) -> "_Abilities":
        links = agent.ask("obstacles", timeout=_TRIED_WITHIN_S)
        if isinstance(place, BrokerPod):
            return cls(links, {str(one): manifests.NEVER[one] for one in LIMITS}, fills=False)
        limits: Obstacles = {
            one: agent.ask("can_limit_server", what=what) for one, what in LIMITS.items()
        }
        return cls(links, limits, fills=True)


def _common(found: Collection[_Abilities]) -> frozenset[Capability]:
    lacking_links = [one.links for one in found]
    limited = [
        {Capability(name) for name, why in one.limits.items() if why is None} for one in found
    ]
    able = capabilities(lacking_links, limited, further=False)
    return able | {Capability.FILL_DISKS} if all(one.fills for one in found) else able


def detach(place: BrokerPlace, run: str) -> bool:
    """Undo what the agent of a dead run did at a place, and remove it. Return whether it was there.

    Raises InfraError if the place does not answer, or something remains.
    """
    if isinstance(place, BrokerPod):
        from ackproof.infra.backends.kubernetes.agent_pods import had_agent

        if not had_agent(place):
            return False
    connection = _connection(place)
    try:
        return _purge(_bring(place, connection), run, rules=isinstance(place, BrokerPod))
    finally:
        connection.close()


def _connection(place: BrokerPlace) -> HostConnection:
    if isinstance(place, BrokerPod):
        from ackproof.infra.backends.kubernetes.agent_pods import AgentPod

        return AgentPod(place)
    login = Host.model_validate(place.login.model_dump(by_alias=True), strict=False)
    return Connection(login, TrustedHosts(place.known_hosts))


def _bring(place: BrokerPlace, connection: HostConnection) -> DeliveredAgent:
    if isinstance(place, BrokerPod):
        from ackproof.infra.backends.kubernetes import agent_pods

        return bring_agent(connection, agent_pods.DIRECTORY, installs=False)
    before = () if place.login.user == "root" else _AS_ROOT
    return bring_agent(connection, DIRECTORY, before, installs=False)


def _purge(brought: DeliveredAgent, run: str, *, rules: bool = False) -> bool:
    """Remove the agent, unless another run has the host by now. Return whether the run had it.

    ``rules`` says that rules may be left of an agent that died with its container.
    """
    base = str(brought.base)
    tenant = brought.agent.ask("tenant", base=base)
    if tenant is not None and tenant["run"] != run:
        return False
    if rules:
        brought.agent.ask("remove_rules")
    brought.agent.ask("purge", base=base, timeout=_REMOVED_WITHIN_S)
    return tenant is not None


@dataclass(frozen=True, slots=True)
class _Stay:
    """The agent of a run at one place, while that lasts."""

    connection: HostConnection
    brought: DeliveredAgent
    way: AgentConnection


class _ClaimedPlace:
    """The claim of a run to the place of a broker: an ``infra.node.agent_client.AgentConnection``
    to the run's agent there. If the broker's pod is another one by now, it is claimed, too.
    """

    def __init__(self, name: str, place: BrokerPlace, run: str) -> None:
        self._name, self._place, self._run = name, place, run
        self._moving = threading.Lock()
        self._node: AgentNode | None = None
        self._stay = self._settle()

    def node(self) -> AgentNode:
        """Return the node, which is made at the first call."""
        stay, directory = self._stay, self._directory(self._stay.brought)
        agent = AgentClient(str(stay.connection.host), self)

        def software() -> NoReturn:
            raise InfraError(f"{self._name} belongs to its operator: no software was brought there")

        self._node = AgentNode(
            NodeParts(
                name=self._name,
                addresses=stay.brought.agent.ask("addresses"),
                directory=directory,
                agent=agent,
                software=software,
                shares=CopiedShares(agent, directory / "shared"),
                artifacts={},
                remove=self._remove,
            )
        )
        return self._node

    def use(self, act: Callable[[Wire], T], timeout: float) -> T:
        stay = self._stay
        try:
            return stay.way.use(act, timeout)
        except InfraError:
            if not stay.connection.is_elsewhere():
                raise
        return self._follow(stay).way.use(act, timeout)

    def renew(self) -> None:
        """Renew the claim. Raises InfraError."""
        assert self._node is not None
        self._node.agent.ask("renew", base=str(self._stay.brought.base), run=self._run)

    def close(self) -> None:
        self._stay.connection.close()

    def _settle(self) -> _Stay:
        connection = _connection(self._place)
        try:
            brought = _bring(self._place, connection)
            claim(connection, brought, self._run, {}, _ENDED_BY.format(socket.gethostname()))
            if isinstance(self._place, BrokerPod):
                # An agent that died with the broker's container has left its rules in the pod.
                brought.agent.ask("remove_rules")
            brought.agent.ask("mkdir", path=str(self._directory(brought) / "logs"))
            return _Stay(connection, brought, to_agent(connection, brought))
        except BaseException:
            connection.close()
            raise

    def _follow(self, former: _Stay) -> _Stay:
        """Claim the pod that has taken the place of the former one."""
        with self._moving:
            if self._stay is former:
                self._stay = self._settle()
                former.connection.close()
                if self._node is not None:
                    self._node.addresses = self._stay.brought.agent.ask("addresses")
            return self._stay

    def _directory(self, brought: DeliveredAgent) -> PurePosixPath:
        return brought.base / "run" / self._name

    def _remove(self) -> None:
        try:
            if not self._stay.connection.is_gone():
                _purge(self._stay.brought, self._run)
        except InfraError as error:
            raise InfraError(
                f"{error}\nleft on the host until {LEASE_S / 60:.0f} minutes have passed "
                "without a message of this run, or until: ackproof clean"
            ) from error
        finally:
            self.close()
