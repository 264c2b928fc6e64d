"""The description of an external cluster in a campaign: its connection, and control of its
brokers."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NoReturn

from pydantic import BaseModel, ConfigDict

from ackproof.infra.api.interface import InfraError
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
    ssh: Login | None = None
    directory: str = ""
    engine: Mapping[str, str] = {}
    known_hosts: str = "~/.ssh/known_hosts"

    @property
    def actions(self) -> frozenset[Action]:
        """Return the actions that it has."""
        return frozenset(self.commands) if self.commands else frozenset(Action)

    def words(self, action: Action) -> str:
        """Return a description of an action for people."""
        if not self.commands:
            host = f"-H {address} " if (address := self.engine.get(DOCKER_HOST)) else ""
            return f"docker {host}{_DOCKER[action]} {self.container or self.compose}"
        where = "" if self.ssh is None else f"{self.ssh.user}@{self.ssh}: "
        return where + "; ".join(" ".join(argv) for argv in self.commands[action])


_DOCKER = {
    Action.STOP: "stop",
    Action.START: "start",
    Action.KILL: "kill",
    Action.PAUSE: "pause",
    Action.RESUME: "unpause",
}


class DescribedCluster(_DescriptionPart):
    """A cluster.

    Attributes:
        client: librdkafka's properties for a connection, without the secrets.
        secrets: The place of each secret, by property.
        brokers: The ``broker.id`` of each.
        handles: The handles by ``broker.id``, of all brokers or of none.
        agent: Whether the agent is put beside each broker. Each handle has ``ssh`` then.
    """

    bootstrap_servers: str
    client: Mapping[str, str] = {}
    secrets: Mapping[str, Secret] = {}
    brokers: tuple[int, ...]
    handles: Mapping[int, BrokerControl] = {}
    agent: bool = False

    @property
    def hosts(self) -> Mapping[str, BrokerHost]:
        """Return the host of each broker beside which the agent is put, by the broker's name."""
        if not self.agent:
            return {}
        return {
            server_name(broker): BrokerHost(one.ssh, Path(one.known_hosts).expanduser())
            for broker, one in self.handles.items()
            if one.ssh is not None
        }

    def connection(self) -> Mapping[str, str]:
        """Return librdkafka's properties for a connection, with the secrets. Raises InfraError."""
        return {**self.client, **read_all(self.secrets)}

    def handed(self) -> Mapping[str, Handed]:
        """Return the same properties for the environment of a child process. Raises InfraError."""
        return {**self.client, **handed(self.secrets)}


def server_name(broker: int) -> str:
    """Return the name of a broker by its ``broker.id``, from 0 or any number."""
    return f"broker-{broker}"


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
