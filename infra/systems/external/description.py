"""The description of an external cluster in a campaign: its connection, and control of its
brokers."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NoReturn

from pydantic import BaseModel, ConfigDict

from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.kubernetes.broker_pods import FINALIZER, BrokerPod
from ackproof.infra.backends.ssh.inventory import BrokerHost, Login
from ackproof.infra.machine.secrets import Handed, Secret, handed, read_all
from ackproof.infra.systems.product import (
    EXTERNAL,
    ONLY_CLIENTS,
    Build,
    Layout,
    MetadataQuorum,
    Product,
)
from ackproof.infra.systems.security import ClusterSecurity


class Action(StrEnum):
    """An action on a broker."""

    STOP = "stop"
    """Ask it to end, as an administrator would."""
    START = "start"
    KILL = "kill"
    PAUSE = "pause"
    RESUME = "resume"


Argv = tuple[str, ...]

DOCKER_HOST = "DOCKER_HOST"
ENGINE = (DOCKER_HOST, "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")
"""The environment variables that choose the Docker Engine."""


class _DescriptionPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class BrokerControl(_DescriptionPart):
    """The way to stop and start a broker.

    Attributes:
        commands: Commands by action, which are run one after the other.
        container: The name of a container of the Docker Engine, instead of commands.
        compose: ``PROJECT/SERVICE`` of Docker Compose, which names one.
        pod: The pod in Kubernetes, instead of commands.
        ssh: The host where commands are run; None for this machine.
        directory: The working directory on this machine, so that a later process that undoes
            something runs the same command. Empty for that process's own.
        engine: The environment variables that choose the Docker Engine, for the same reason. Empty
            for those of the caller.
        known_hosts: The file of known hosts for SSH.
    """

    commands: Mapping[Action, tuple[Argv, ...]] = {}
    container: str | None = None
    compose: str | None = None
    pod: BrokerPod | None = None
    ssh: Login | None = None
    directory: str = ""
    engine: Mapping[str, str] = {}
    known_hosts: str = "~/.ssh/known_hosts"

    @property
    def actions(self) -> frozenset[Action]:
        """Return the actions that it has."""
        if self.pod is not None:
            return frozenset(_KUBERNETES)
        return frozenset(self.commands) if self.commands else frozenset(Action)

    def words(self, action: Action) -> str:
        """Return a description of an action for people."""
        if self.pod is not None:
            return f"{self.pod.pods}: {_KUBERNETES[action].format(pod=self.pod)}"
        if not self.commands:
            host = f"-H {address} " if (address := self.engine.get(DOCKER_HOST)) else ""
            return f"docker {host}{_DOCKER[action]} {self.container or self.compose}"
        where = "" if self.ssh is None else f"{self.ssh.user}@{self.ssh}: "
        return where + "; ".join(" ".join(argv) for argv in self.commands[action])


def by_agent(control: BrokerControl) -> frozenset[Action]:
    """Return the actions that the agent beside a broker does, because nothing else is named."""
    return frozenset({Action.PAUSE, Action.RESUME}) - control.actions


_DOCKER = {
    Action.STOP: "stop",
    Action.START: "start",
    Action.KILL: "kill",
    Action.PAUSE: "pause",
    Action.RESUME: "unpause",
}
_KUBERNETES = {
    Action.STOP: f"delete {{pod}}, which the finalizer {FINALIZER} keeps down",
    Action.KILL: f"delete {{pod}} without grace; the finalizer {FINALIZER} keeps it down",
    Action.START: f"remove the finalizer {FINALIZER} from {{pod}}, and await the new pod",
}
"""Each action on a pod, in words. Pods have no others."""


class Connection(_DescriptionPart):
    """The way to connect to servers.

    Attributes:
        client: librdkafka's properties for a connection, without the secrets.
        secrets: The place of each secret, by property.
    """

    client: Mapping[str, str] = {}
    secrets: Mapping[str, Secret] = {}

    def connection(self) -> Mapping[str, str]:
        """Return librdkafka's properties for a connection, with the secrets. Raises InfraError."""
        return {**self.client, **read_all(self.secrets)}


class DescribedControllers(Connection):
    """The controllers of a cluster with KRaft, by their own listener.

    Attributes:
        voters: The host and port of each, by ``node.id``.
        release: The version of Apache Kafka that writes the metadata log; None if its records are
            read as those of the newest known release.
    """

    voters: Mapping[int, tuple[str, int]]
    release: str | None = None


class DescribedCluster(Connection):
    """A cluster.

    Attributes:
        brokers: The ``broker.id`` of each.
        handles: The handles by ``broker.id``, of all brokers or of none, and by ``node.id`` of
            controllers that are no brokers.
        agent: Whether the agent is put beside each broker, whose handle has ``ssh`` then, and
            beside each controller with a host of its own.
        controllers: The controllers whose metadata log is read; None if clients alone observe the
            cluster.
    """

    bootstrap_servers: str
    brokers: tuple[int, ...]
    handles: Mapping[int, BrokerControl] = {}
    agent: bool = False
    controllers: DescribedControllers | None = None

    @property
    def hosts(self) -> Mapping[str, BrokerHost | BrokerPod]:
        """Return the place of each server beside which the agent is put, by the server's name."""
        places: dict[str, BrokerHost | BrokerPod] = {}
        for number, one in self.handles.items():
            if not self.has_agent(number):
                continue
            if one.pod is not None:
                places[self.name_of(number)] = one.pod
            elif one.ssh is not None:
                known_hosts = Path(one.known_hosts).expanduser()
                places[self.name_of(number)] = BrokerHost(one.ssh, known_hosts)
        return places

    def has_agent(self, number: int) -> bool:
        """Return whether the agent is put beside a server. It treats links by the addresses of its
        host, so a controller must not share that with another server."""
        if not self.agent or number in self.brokers:
            return self.agent
        places = {n: _place(one.ssh) for n, one in self.handles.items() if one.ssh is not None}
        return number in places and list(places.values()).count(places[number]) == 1

    @property
    def controllers_have_agents(self) -> bool:
        """Return whether the agent is put beside each controller, as far as they are known."""
        return bool(self.quorum) and all(self.has_agent(n) for n, _ in self.quorum.values())

    def name_of(self, number: int) -> str:
        """Return the name of a server by its ``broker.id`` or ``node.id``."""
        return server_name(number) if number in self.brokers else controller_name(number)

    @property
    def quorum(self) -> Mapping[str, tuple[int, tuple[str, int]]]:
        """Return the ``node.id`` and address of each controller by its name. One that is also a
        broker has the broker's name."""
        voters = {} if self.controllers is None else self.controllers.voters
        return {self.name_of(number): (number, address) for number, address in voters.items()}

    @property
    def all_secrets(self) -> frozenset[str]:
        """Return the value of each secret. Raises InfraError."""
        further = {} if self.controllers is None else self.controllers.secrets
        return frozenset([*read_all(self.secrets).values(), *read_all(further).values()])

    def handed(self) -> Mapping[str, Handed]:
        """Return the same properties for the environment of a child process. Raises InfraError."""
        return {**self.client, **handed(self.secrets)}


def _place(login: Login) -> tuple[str, int]:
    return login.address, login.port


def server_name(broker: int) -> str:
    """Return the name of a broker by its ``broker.id``, from 0 or any number."""
    return f"broker-{broker}"


def controller_name(number: int) -> str:
    """Return the name of a controller that is no broker, by its ``node.id``."""
    return f"controller-{number}"


# --- the product ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ExternalBuild(Build):
    """A cluster that exists already.

    It is made of ``cluster.external`` of the campaign (:mod:`infra.systems.external.system`), and
    not of a layout.
    """

    def quorum(self, asked: str | None = None) -> MetadataQuorum | None:
        if asked is not None:
            raise ValueError(f"is for systems that Ackproof deploys, but {EXTERNAL} already runs")
        return None

    def obstacle(self, backend: str) -> str | None:
        reason = f"{EXTERNAL} is not deployed: its clients run on the backend {ONLY_CLIENTS}"
        return None if backend == ONLY_CLIENTS else f"{reason}, not on {backend}"

    def insecurity(
        self,
        asked: ClusterSecurity,  # noqa: ARG002
        quorum: MetadataQuorum | None,  # noqa: ARG002
    ) -> str | None:
        return f"{EXTERNAL} is not deployed: say under cluster.external how to connect"

    def configured(self, layout: Layout) -> NoReturn:  # noqa: ARG002
        raise InfraError(f"{EXTERNAL} is not deployed: see infra.systems.external.system")


def _build(version: str | None) -> ExternalBuild:
    del version  # it has none
    return ExternalBuild(
        text=EXTERNAL,
        quorums=(),
        needs="an external cluster",
    )


EXTERNAL_CLUSTER = Product(
    name=EXTERNAL,
    summary="an external cluster, which already runs (docs/your-cluster.md)",
    build=_build,
    forms=(EXTERNAL,),
)
