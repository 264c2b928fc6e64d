"""The section ``cluster`` of a campaign file, and the clusters that it stands for."""

import itertools
import math
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from ackproof.config.documents import PatternDescription
from ackproof.harness.campaign.model import external
from ackproof.harness.campaign.model.external import ExternalSpec, RackName
from ackproof.harness.campaign.model.values import AsWritten, OneOrSeveral, Scalar, Section, Several
from ackproof.history.cell import Value
from ackproof.infra import systems
from ackproof.infra.systems.product import MetadataQuorum
from ackproof.infra.systems.properties import needs_tier, racks_of
from ackproof.infra.systems.security import OAUTHBEARER, PLAIN, ClusterSecurity, TlsKind

RUNS_MAX = 500
"""The largest number of runs of one campaign. At a few minutes each, they take more than a day."""

COMPARED = "cluster"
"""The key for the name of a compared cluster among the settings of a cell."""

_Brokers = Annotated[int, Field(ge=1, le=99)]
_ZooKeepers = Annotated[int, Field(ge=1, le=9)]
_ClientNodes = Annotated[int, Field(ge=1, le=99)]
_Name = Annotated[
    str,
    PatternDescription(
        r"^[a-z0-9][a-z0-9._-]*$", "small letters, digits, dots, _ and -, a letter or digit first"
    ),
    Field(max_length=40),
]


SystemName = Annotated[str, BeforeValidator(systems.as_name)]
"""A pydantic field type: the name of a system, or the two releases of an upgrade."""


class DisksSpec(Section):
    """Disks of servers, which faults can affect: of brokers, and one of each KRaft controller that
    is no broker. Default: if a planned fault needs them."""

    per_broker: Annotated[int, Field(ge=1, le=8)] = 1
    """Disks of each broker, each with a log directory."""
    megabytes: Annotated[int, Field(ge=32, le=1 << 20)] = 4096
    """The size of each. Only written data takes space."""


class LoginMechanism(StrEnum):
    """SASL's mechanisms by which clients can log in."""

    PLAIN = PLAIN
    SCRAM_256 = "SCRAM-SHA-256"
    SCRAM_512 = "SCRAM-SHA-512"
    OAUTHBEARER = OAUTHBEARER


class SecuritySpec(Section):
    """The security of a deployed cluster: `tls`, `sasl`, or both. Certificates and passwords are
    made for each run ([kafka.md](kafka.md#security))."""

    tls: TlsKind | None = None
    """TLS. `server`: brokers show certificates. `mutual`: clients, too."""
    sasl: LoginMechanism | None = None
    """The login of clients. SCRAM needs Kafka 3.5, OAUTHBEARER 3.9."""
    acls: bool = False
    """Whether brokers let clients do only what they need (StandardAuthorizer)."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.tls is None and self.sasl is None:
            raise ValueError("give tls, sasl, or both; leave security out for plain connections")
        if self.acls and self.sasl is None and self.tls is not TlsKind.MUTUAL:
            raise ValueError("acls need clients with a name: give sasl, or tls: mutual")
        return self

    @property
    def requested(self) -> ClusterSecurity:
        """Return it as the infrastructure takes it."""
        return ClusterSecurity(tls=self.tls, mechanism=self.sasl, acls=self.acls)


class ClusterSpec(Section):
    """One cluster, with the servers to deploy and their place; see :class:`ClusterSweep`."""

    backend: str = "local"
    inventory: str | None = None
    system: str = "bundled"
    metadata_quorum: MetadataQuorum | None = None
    security: SecuritySpec | None = None
    external: ExternalSpec | None = None
    brokers: _Brokers = 3
    zookeepers: _ZooKeepers = 1
    racks: tuple[RackName, ...] = ()
    clients: _ClientNodes = 1
    disks: DisksSpec | None = None
    clocks: bool = False
    """Whether the servers are started under fake clocks. These cost speed, and are used only if a
    planned fault needs them."""
    properties: Mapping[str, Value] = Field(default_factory=dict)

    @property
    def quorum(self) -> MetadataQuorum | None:
        """Return the kind of servers that keep the metadata, or None if it is unknown, as of an
        external cluster. Raises ValueError if the system does not support the chosen kind."""
        return systems.quorum_of(self.system, self.metadata_quorum)

    @property
    def kraft(self) -> bool:
        """Return whether the metadata quorum is KRaft."""
        return self.quorum is not None and self.quorum.kraft

    @property
    def tiered(self) -> bool:
        """Return whether its brokers get the remote tier that Ackproof supplies."""
        return needs_tier(self.properties)

    @property
    def keepers(self) -> tuple[str, ...]:
        """Return the names of the servers that keep the metadata. With combined KRaft these are the
        first brokers."""
        return () if self.quorum is None else self.quorum.keepers(self.zookeepers)

    @property
    def keepers_with_disks(self) -> tuple[str, ...]:
        """Return those that have a disk of their own where a fault needs it: KRaft's controllers
        that are no brokers."""
        apart = self.quorum is not None and self.quorum.kraft and not self.quorum.combined
        return tuple(one for one in self.keepers if apart and not one.startswith("zookeeper-"))

    @property
    def broker_names(self) -> tuple[str, ...]:
        """Return the names of the brokers that are deployed."""
        return tuple(f"broker-{number}" for number in range(1, self.brokers + 1))

    @property
    def rack_of(self) -> Mapping[str, str]:
        """Return the rack of each broker that is in one."""
        if self.external is not None:
            return external.racks(self.external)
        return racks_of(self.broker_names, self.properties, self.racks)

    @property
    def servers(self) -> tuple[str, ...]:
        """Return the names of all servers that are deployed, each once."""
        return tuple(dict.fromkeys((*self.keepers, *self.broker_names)))


class ClusterSweep(Section):
    """The cluster to deploy. Values may be lists; each combination is a run."""

    backend: str = "local"
    """The place of the nodes. `local`: namespaces on this machine. `here`: this machine, for
    clients of an external cluster."""
    inventory: str | None = None
    """The file with the hosts of the backend `ssh`."""
    system: SystemName = "bundled"
    """The system under test. `bundled`: the bundled broker. `kafka:4.4.0`, `kafka:/DIRECTORY`,
    `kafka:image:NAME`: Apache Kafka, from 2.4 on ([kafka.md](kafka.md)).
    `{from: kafka:3.9.2, to: kafka:4.4.0}`, or `kafka:3.9.2..kafka:4.4.0`: the first is deployed,
    and the fault `upgrade` changes servers to the second
    ([upgrade-rehearsal.md](upgrade-rehearsal.md)). `external`: [your own cluster](your-cluster.md).
    `ackproof systems` lists all, with plug-ins' ([extend.md](extend.md))."""
    metadata_quorum: MetadataQuorum | None = None
    """The metadata servers. `isolated-kraft`: separate controllers. `combined-kraft`: the first
    brokers are controllers. `dynamic-kraft`: separate controllers that `remove-voter` can change,
    from Kafka 3.9 on. `zookeeper-to-kraft`: ZooKeeper and separate controllers, for `migrate`.
    Default: `zookeeper`, from Kafka 4.0 on `isolated-kraft`. KRaft needs Kafka 3.3
    ([kafka.md](kafka.md))."""
    security: SecuritySpec | None = None
    """Encryption and logins. Needs Apache Kafka with KRaft. Default: connections in the clear."""
    external: ExternalSpec | None = None
    """The external cluster."""
    brokers: Annotated[tuple[_Brokers, ...], Field(min_length=1), Several, AsWritten] = (3,)
    """Brokers, named `broker-1`, `broker-2`, ..."""
    zookeepers: Annotated[tuple[_ZooKeepers, ...], Field(min_length=1), Several, AsWritten] = (1,)
    """Metadata servers: `zookeeper-1`, ..., or with isolated KRaft `controller-1`, ..., or as many
    of both."""
    racks: tuple[RackName, ...] = ()
    """Racks that brokers take in turn (`broker.rack`): of `[a, b, c]`, `broker-1` and `broker-4`
    take `a`."""
    clients: _ClientNodes = 1
    """Client nodes, `client-1`, ..., over which the clients of each cell are spread."""
    disks: DisksSpec | None = None
    """Disks of the brokers' own."""
    properties: Mapping[str, OneOrSeveral] = {}
    """Properties of every broker, by Kafka's names:
    [broker-properties.md](broker-properties.md)."""
    compare: Mapping[_Name, Mapping[str, Scalar]] = {}
    """Named clusters, each with the properties in which it differs. Each is a run for every
    combination of the lists."""

    @property
    def dimensions(self) -> Mapping[str, tuple[Value, ...]]:
        """Return the values of everything that can be swept by a list, by name."""
        return {"brokers": self.brokers, "zookeepers": self.zookeepers, **self.properties}

    @property
    def size(self) -> int:
        """Return the number of clusters."""
        return math.prod(map(len, self.dimensions.values())) * max(1, len(self.compare))

    @property
    def largest(self) -> ClusterSpec:
        """Return a cluster with the largest number of servers of each kind."""
        return self._spec({name: max(v) for name, v in self.dimensions.items() if name in _SERVERS})

    @property
    def smallest(self) -> ClusterSpec:
        """Return a cluster with the smallest number of servers of each kind: servers that every
        cluster of the sweep has."""
        return self._spec({name: min(v) for name, v in self.dimensions.items() if name in _SERVERS})

    def points(self) -> Iterator[tuple[ClusterSpec, Mapping[str, Value]]]:
        """Yield every cluster, in the order of the file, with its values of the swept settings. A
        compared cluster has its name among them, as :data:`COMPARED`."""
        dimensions = self.dimensions
        swept = {name for name, values in dimensions.items() if len(values) > 1}
        named = [({COMPARED: name}, own) for name, own in self.compare.items()] or [({}, {})]
        for (label, own), values in itertools.product(
            named, itertools.product(*dimensions.values())
        ):
            point = dict(zip(dimensions, values, strict=True))
            differs = {name: value for name, value in point.items() if name in swept}
            yield self._spec({**point, **own}), {**label, **differs}

    def _spec(self, point: Mapping[str, Value]) -> ClusterSpec:
        place = {
            "backend": self.backend,
            "inventory": self.inventory,
            "system": self.system,
            "metadata.quorum": self.metadata_quorum,
            "security": self.security,
            "external": self.external,
            "racks": self.racks,
            "clients": self.clients,
        }
        servers = {name: value for name, value in point.items() if name in _SERVERS}
        properties = {name: value for name, value in point.items() if name not in _SERVERS}
        return ClusterSpec.model_validate(
            {**place, **servers, "disks": self.disks, "properties": properties}
        )


_SERVERS = ("brokers", "zookeepers")
