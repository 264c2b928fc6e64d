"""The section ``cluster.external`` of a campaign file: how to connect to an external cluster, and
how its brokers may be stopped and started.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ackproof.config.documents import VARIABLE, PatternDescription
from ackproof.harness.campaign.model.values import Scalar, Section
from ackproof.history.cell import as_text
from ackproof.infra.backends.kubernetes.broker_pods import BrokerPod, BrokerPods
from ackproof.infra.backends.kubernetes.cluster import IMAGE, kubeconfig_files
from ackproof.infra.backends.ssh.inventory import Address, Login, User
from ackproof.infra.machine.secrets import Secret
from ackproof.infra.systems.external.description import (
    DOCKER_HOST,
    ENGINE,
    Action,
    Argv,
    BrokerControl,
    DescribedCluster,
    DescribedControllers,
    controller_name,
    server_name,
)
from ackproof.infra.systems.security import PROBE
from ackproof.nemesis.targets.expressions import ANY, RACK_NAME

Word = Annotated[str, Field(min_length=1)]
Command = Annotated[tuple[Word, ...], Field(min_length=1)]


RackName = Annotated[
    str,
    PatternDescription(
        rf"^(?!{ANY}$){RACK_NAME}$", f"letters, digits, and . - _ within; {ANY} is no name"
    ),
]
"""A pydantic field type: the name of a rack, as targets can write it."""


class SecretSpec(Section):
    """The place of a secret, which is in no stored file: `env` or `file`."""

    env: Annotated[str, VARIABLE] | None = None
    """The environment variable with the secret."""
    file: Word | None = None
    """The file with the secret; a line break at its end is dropped."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.env is None) == (self.file is None):
            raise ValueError(
                "a secret comes from the environment (env) or from a file (file): "
                "give exactly one of them"
            )
        return self


class SshSpec(Section):
    """The host on which commands are run."""

    address: Address
    """A name or an IPv4 address."""
    user: User
    """The user who logs in."""
    port: Annotated[int, Field(ge=1, le=65535)] = 22
    """The port of its sshd."""
    key: Word | None = None
    """The file with the private key. Default: the SSH agent's keys and the usual files."""
    passphrase_env: Annotated[str, VARIABLE] | None = None
    """The variable with the key's passphrase."""
    known_hosts: Word = "~/.ssh/known_hosts"
    """The file that must already hold its host key."""


class CommandsSpec(Section):
    """Commands as lists of words, without a shell. Faults that need a missing one are refused."""

    stop: Command | None = None
    """Ask the broker to end; return when it has, or will within seconds."""
    start: Command | None = None
    """Start the broker and return; the broker keeps running."""
    kill: Command | None = None
    """Kill the broker and prevent its supervisor from restarting it."""
    pause: Command | None = None
    """Stop its process with SIGSTOP."""
    resume: Command | None = None
    """Continue its process with SIGCONT."""


class HandSpec(Section):
    """The way to stop and start a broker: one of `systemd`, `container`, `compose` and
    `commands`."""

    systemd: Word | None = None
    """A unit for `systemctl` (with `sudo -n`, unless you are root)."""
    container: Word | None = None
    """A container of the Docker Engine (`DOCKER_HOST`, or this machine's)."""
    compose: Annotated[str, PatternDescription(r"^[^/]+/[^/]+$", "PROJECT/SERVICE")] | None = None
    """`PROJECT/SERVICE` of Docker Compose, with one container."""
    commands: CommandsSpec | None = None
    """Commands of your own."""
    ssh: SshSpec | None = None
    """The host for `systemctl` or the commands. Default: this machine."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        ways = (self.systemd, self.container, self.compose, self.commands)
        if sum(way is not None for way in ways) != 1:
            raise ValueError("give exactly one of systemd, container, compose and commands")
        if self.ssh is not None and (self.container or self.compose):
            raise ValueError("containers are reached through the engine (DOCKER_HOST), not ssh")
        return self


class KubernetesSpec(Section):
    """The pods of the brokers in Kubernetes, in place of `servers`. The kubeconfig (`KUBECONFIG`)
    names the cluster."""

    namespace: Word
    """The namespace of the pods."""
    strimzi: Word | None = None
    """The name of Strimzi's resource `Kafka`, in place of `selector`, `id` and `container`."""
    selector: Word | None = None
    """The labels of the brokers' pods, as for `kubectl get pods --selector`: `app=kafka`."""
    id: Annotated[
        str,
        PatternDescription(
            r"^(ordinal(\+[0-9]{1,9})?|([A-Za-z0-9.-]+/)?[A-Za-z0-9][A-Za-z0-9._-]*)$",
            "ordinal, ordinal+N, or the name of a label",
        ),
    ] = "ordinal"
    """The place of a pod's `broker.id`: the number at the end of its name (`ordinal`), that number
    and N (`ordinal+N`), or a label of that name."""
    container: Word | None = None
    """The broker's container. Default: the first one."""
    context: Word | None = None
    """The context of the kubeconfig. Default: the current one."""
    image: Word | None = None
    """The image of the agent's container. Default: `ACKPROOF_KUBERNETES_IMAGE`."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.strimzi is None) == (self.selector is None):
            raise ValueError("give exactly one of strimzi and selector")
        # The campaign that a run stores names every field.
        if self.strimzi is not None and (self.id, self.container) != ("ordinal", None):
            raise ValueError("strimzi says where the id is and which container: leave them out")
        return self

    @property
    def pods(self) -> BrokerPods:
        """Return the pods, of the kubeconfig of this process."""
        strimzi = self.strimzi
        return BrokerPods(
            namespace=self.namespace,
            selector=self.selector or _OF_STRIMZI.format(name=strimzi),
            id=self.id,
            container=self.container if strimzi is None else _STRIMZI_CONTAINER,
            context=self.context,
            image=self.image or os.environ.get(IMAGE) or None,
            kubeconfig=kubeconfig_files(),
        )


_OF_STRIMZI = "strimzi.io/cluster={name},strimzi.io/broker-role=true"
_STRIMZI_CONTAINER = "kafka"
"""The labels and the container of the pods that Strimzi makes. Their names end with the id."""


class ControllersSpec(Section):
    """The controllers of a cluster with KRaft. Their metadata log is read as brokers read it, with
    the ACL ClusterAction on the cluster. It shows leader epochs and every change of the ISR."""

    quorum_voters: Annotated[
        str,
        PatternDescription(
            r"^\s*[0-9]{1,9}@\S+:[0-9]{1,5}\s*(,\s*[0-9]{1,9}@\S+:[0-9]{1,5}\s*)*$",
            "NODE.ID@HOST:PORT of each controller, as Kafka's controller.quorum.voters",
        ),
    ]
    """Every controller, as in Kafka's `controller.quorum.voters`: `1@kafka-1:9093,2@kafka-2:9093`.
    """
    client: Mapping[str, Scalar] | None = None
    """Connection properties of the controllers' listener. Default: `client` and `secrets` of the
    brokers."""
    secrets: Mapping[str, SecretSpec] = {}
    """Places of its secret properties."""
    release: (
        Annotated[str, PatternDescription(r"^[0-9]+(\.[0-9]+)+$", "a version: 4.4.0")] | None
    ) = None
    """The controllers' version of Apache Kafka, needed if it is newer than 4.4.0. It is then
    fetched once, by Maven, for the encoding of its records."""


class ExternalSpec(Section):
    """A cluster that Ackproof did not start ([your-cluster.md](your-cluster.md)). Faults affect
    only the servers that are named here."""

    bootstrap_servers: Word
    """Kafka's `bootstrap.servers`."""
    client: Mapping[str, Scalar] = {}
    """librdkafka properties without secrets: `security.protocol`, `sasl.*`, `ssl.*`."""
    secrets: Mapping[str, SecretSpec] = {}
    """Places of secret properties such as `sasl.password`."""
    broker_ids: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    """Each `broker.id`. Default: those of `servers`, else 1 to `brokers`; with `kubernetes` from
    0."""
    racks: Mapping[
        RackName, Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
    ] = {}
    """Each `broker.id` of a rack that targets name: `{a: [1, 4]}`. The cluster must agree."""
    agent: bool = False
    """Whether the agent runs beside each broker, and controllers with hosts of their own."""
    kubernetes: KubernetesSpec | None = None
    """The brokers' pods, in place of `servers`."""
    controllers: ControllersSpec | None = None
    """The KRaft controllers. Without them, clients alone observe the cluster."""
    servers: Mapping[
        Annotated[
            str,
            PatternDescription(
                r"^(broker|controller)-[0-9]{1,9}$",
                "broker-ID with its broker.id, such as broker-1, or controller-ID with its node.id",
            ),
        ],
        HandSpec,
    ] = {}
    """The ways to stop and start servers: of all brokers (`broker-` and `broker.id`) or none, and
    of isolated controllers (`controller-` and `node.id`)."""

    @model_validator(mode="after")
    def _one_control(self) -> Self:
        if self.kubernetes is not None and self.servers:
            raise ValueError("kubernetes takes the place of servers: give one of them")
        return self


def ids(spec: ExternalSpec, brokers: int) -> tuple[int, ...]:
    """Return the ``broker.id`` of each broker."""
    if spec.broker_ids is not None:
        return spec.broker_ids
    if spec.servers:
        return tuple(sorted(map(_number, filter(is_broker, spec.servers))))
    first = 1 if spec.kubernetes is None else 0
    return tuple(range(first, first + brokers))


def is_broker(server: str) -> bool:
    """Return whether a key of ``servers`` names a broker, and not a controller."""
    return server == server_name(_number(server))


def _number(server: str) -> int:
    return int(server.rpartition("-")[2])


def controllers_apart(spec: ExternalSpec, brokers: int) -> Mapping[str, int]:
    """Return the ``node.id`` of each known controller that is no broker, by its name."""
    return {name: number for name, number in keepers(spec, brokers).items() if not is_broker(name)}


def keepers(spec: ExternalSpec, brokers: int) -> Mapping[str, int]:
    """Return the ``node.id`` of each known controller, by its name."""
    numbers = () if spec.controllers is None else voters(spec.controllers)
    there = ids(spec, brokers)
    return {server_name(n) if n in there else controller_name(n): n for n in numbers}


def names(spec: ExternalSpec, brokers: int) -> tuple[str, ...]:
    """Return the names of the brokers."""
    return tuple(map(server_name, ids(spec, brokers)))


def racks(spec: ExternalSpec) -> Mapping[str, str]:
    """Return the rack of each broker of which the file names it."""
    return {server_name(one): rack for rack, brokers in spec.racks.items() for one in brokers}


def described(spec: ExternalSpec, brokers: int) -> DescribedCluster:
    """Return the description of the cluster for the infrastructure. Raises ValueError if an SSH
    login is invalid."""
    return DescribedCluster(
        bootstrap_servers=spec.bootstrap_servers,
        client={name: _anywhere(name, as_text(value)) for name, value in spec.client.items()},
        secrets={name: _secret(one) for name, one in spec.secrets.items()},
        brokers=ids(spec, brokers),
        handles=controls(spec, brokers),
        agent=spec.agent,
        controllers=None if spec.controllers is None else _controllers(spec, spec.controllers),
    )


def controls(spec: ExternalSpec, brokers: int) -> Mapping[int, BrokerControl]:
    """Return the control of each server by ``broker.id`` or ``node.id``; empty if none may be
    stopped. Raises ValueError if an SSH login is invalid."""
    if spec.kubernetes is not None:
        pods = spec.kubernetes.pods
        return {
            broker: BrokerControl(pod=BrokerPod(pods=pods, broker=broker))
            for broker in ids(spec, brokers)
        }
    return {_number(name): handle(one) for name, one in spec.servers.items()}


def controllers_connection(
    spec: ExternalSpec, controllers: ControllersSpec
) -> tuple[Mapping[str, Scalar], Mapping[str, SecretSpec]]:
    """Return the properties for connections to the controllers, and the places of secrets."""
    if controllers.client is None and not controllers.secrets:
        return spec.client, spec.secrets
    return controllers.client or {}, controllers.secrets


def _controllers(spec: ExternalSpec, controllers: ControllersSpec) -> DescribedControllers:
    client, secrets = controllers_connection(spec, controllers)
    return DescribedControllers(
        voters=voters(controllers),
        client={name: _anywhere(name, as_text(value)) for name, value in client.items()},
        secrets={name: _secret(one) for name, one in secrets.items()},
        release=controllers.release,
    )


def voters(spec: ControllersSpec) -> Mapping[int, tuple[str, int]]:
    """Return the host and port of each controller, by ``node.id``."""
    found = {}
    for voter in spec.quorum_voters.split(","):
        number, _, address = voter.strip().partition("@")
        host, _, port = address.rpartition(":")
        found[int(number)] = (host.strip("[]"), int(port))
    return found


_BY_METADATA = (
    "committed-stays",
    "deposed-leaders-stop",
    "min-isr-kept",
    "one-leader-an-epoch",
    "epochs-rise",
)
"""The guarantees that need leader epochs and versions of the ISR."""
_BY_AGENTS = ("replicas-agree", "one-leader-an-epoch", "servers-stay-up")
"""The guarantees that need the brokers' files and processes."""
_WITHOUT_AGENTS = "no agent is beside the brokers: set cluster.external.agent"
_OF_CLIENTS = (
    "clients receive neither leader epochs nor versions of the ISR: name the controllers under "
    "cluster.external.controllers"
)


def unchecked(spec: ExternalSpec) -> Mapping[str, str]:
    """Return the guarantees that a run on the cluster cannot check, each with the reason."""
    of_metadata = {} if spec.controllers else dict.fromkeys(_BY_METADATA, _OF_CLIENTS)
    of_agents = {} if spec.agent else dict.fromkeys(_BY_AGENTS, _WITHOUT_AGENTS)
    return {**of_agents, **of_metadata}


def handle(spec: HandSpec) -> BrokerControl:
    """Return the commands or the container by which a broker is stopped and started. Raises
    ValueError if an SSH login is invalid."""
    if spec.container is not None or spec.compose is not None:
        engine = {name: os.environ[name] for name in ENGINE if name in os.environ}
        return BrokerControl(
            container=spec.container,
            compose=spec.compose,
            engine={DOCKER_HOST: "", **engine},
        )
    login = None if spec.ssh is None else _login(spec.ssh)
    if spec.systemd is not None:
        commands = _systemd(spec.systemd, login)
    else:
        given = spec.commands.model_dump(exclude_none=True) if spec.commands else {}
        commands = {Action(name): (tuple(argv),) for name, argv in given.items()}
    known_hosts = BrokerControl().known_hosts if spec.ssh is None else spec.ssh.known_hosts
    here = "" if login is not None else str(Path.cwd())
    return BrokerControl(
        commands=commands, ssh=login, known_hosts=_absolute(known_hosts), directory=here
    )


def _login(spec: SshSpec) -> Login:
    there = spec if spec.key is None else spec.model_copy(update={"key": _absolute(spec.key)})
    document = there.model_dump_json(by_alias=True, exclude={"known_hosts"}, exclude_none=True)
    return Login.model_validate_json(document)


def _secret(spec: SecretSpec) -> Secret:
    found = Secret(env=spec.env, file=spec.file)
    return found if spec.file is None else Secret(file=str(found.path))


def _anywhere(name: str, value: str) -> str:
    """Return the value of a librdkafka property so that it has the same meaning in any working
    directory.

    Each client has a working directory of its own, and leftovers may be removed from another one.
    """
    of_file = name.endswith(".location") and value != PROBE
    return _absolute(value) if of_file or name == "sasl.kerberos.keytab" else value


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())


def _systemd(unit: str, login: Login | None) -> Mapping[Action, tuple[Argv, ...]]:
    root = os.geteuid() == 0 if login is None else login.user == "root"
    systemctl = ("systemctl",) if root else ("sudo", "-n", "systemctl")

    def sent(signal: Literal["KILL", "STOP", "CONT"]) -> Argv:
        return (*systemctl, "kill", f"--signal=SIG{signal}", unit)

    return {
        Action.STOP: ((*systemctl, "stop", unit),),
        Action.START: ((*systemctl, "start", unit),),
        # systemd would restart a unit with Restart= while the fault is active.
        Action.KILL: (sent("KILL"), (*systemctl, "stop", unit)),
        Action.PAUSE: (sent("STOP"),),
        Action.RESUME: (sent("CONT"),),
    }
