"""The section ``cluster`` of a campaign file, and the clusters that it stands for."""

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import Field

from ackproof.config.documents import Worded
from ackproof.harness.campaign.model.external import ExternalSpec
from ackproof.harness.campaign.model.values import AsWritten, OneOrSeveral, Scalar, Section, Several
from ackproof.history.cell import Value
from ackproof.infra import systems
from ackproof.infra.systems.product import MetadataQuorum

RUNS_MAX = 500
"""Of one campaign: at a few minutes each, more than a day."""

COMPARED = "cluster"
"""What the name of a cluster that is compared with others is called where settings stand."""

_Brokers = Annotated[int, Field(ge=1, le=99)]
_ZooKeepers = Annotated[int, Field(ge=1, le=9)]
_ClientNodes = Annotated[int, Field(ge=1, le=99)]
_Name = Annotated[
    str,
    Worded(
        r"^[a-z0-9][a-z0-9._-]*$", "small letters, digits, dots, _ and -, a letter or digit first"
    ),
    Field(max_length=40),
]


class DisksSpec(Section):
    """Disks of the brokers' own, that can fail. Without it, brokers have them where a planned fault
    needs them."""

    per_broker: Annotated[int, Field(ge=1, le=8)] = 1
    """How many each broker has, with a log directory on each."""
    megabytes: Annotated[int, Field(ge=32, le=1 << 20)] = 4096
    """The size of each. Only what is written takes room on this machine."""


class ClusterSpec(Section):
    """One cluster: what to deploy and where; see :class:`ClusterSweep`."""

    backend: str = "local"
    inventory: str | None = None
    system: str = "bundled"
    metadata_quorum: MetadataQuorum | None = None
    external: ExternalSpec | None = None
    brokers: _Brokers = 3
    zookeepers: _ZooKeepers = 1
    clients: _ClientNodes = 1
    disks: DisksSpec | None = None
    clocks: bool = False
    """Whether its servers are started under fake clocks, which costs speed: where a planned fault
    needs them."""
    properties: Mapping[str, Value] = Field(default_factory=dict)

    @property
    def quorum(self) -> MetadataQuorum | None:
        """Who keeps the metadata; None where that is not told, of a cluster that was there
        before. Raises ValueError where it cannot be."""
        return systems.quorum_of(self.system, self.metadata_quorum)

    @property
    def kraft(self) -> bool:
        """Whether that is KRaft."""
        return self.quorum is not None and self.quorum.kraft

    @property
    def keepers(self) -> tuple[str, ...]:
        """The servers that keep it, by name: with combined KRaft the first of the brokers."""
        return () if self.quorum is None else self.quorum.keepers(self.zookeepers)

    @property
    def broker_names(self) -> tuple[str, ...]:
        """The brokers that are deployed."""
        return tuple(f"broker-{number}" for number in range(1, self.brokers + 1))

    @property
    def servers(self) -> tuple[str, ...]:
        """Of what is deployed, all by name, each once."""
        return tuple(dict.fromkeys((*self.keepers, *self.broker_names)))


class ClusterSweep(Section):
    """What to deploy, and where. Where several values are given, as a list, each combination is a
    run."""

    backend: str = "local"
    """Where the nodes are: `local` (namespaces on this machine), `docker` or `ssh`; `here`, this
    machine as it is, for the clients of a cluster of your own."""
    inventory: str | None = None
    """The file with the hosts of the backend `ssh`."""
    system: str = "bundled"
    """What is put to the test. `bundled`: the bundled broker. `kafka:VERSION`, for example
    `kafka:4.1.1`: that release of Apache Kafka, 2.4 or newer, from Maven Central, on Apache
    ZooKeeper or, from 4.0 on, with KRaft. `kafka:/DIRECTORY`: Apache Kafka as it is unpacked there,
    with `libs/`; `kafka:image:NAME`: that of a container
    image ([kafka.md](kafka.md)). `external`: a cluster of your own
    ([your-cluster.md](your-cluster.md)). `ackproof systems` lists all, plug-ins' too
    ([extend.md](extend.md))."""
    metadata_quorum: MetadataQuorum | None = None
    """Who keeps the metadata: `zookeeper`; `isolated-kraft`, controllers of their own; or
    `combined-kraft`, the first of the brokers, which are controllers, too. Without it: ZooKeeper,
    and of Apache Kafka from 4.0 on, which has none, `isolated-kraft`. KRaft is for Apache Kafka
    from 3.3 on ([kafka.md](kafka.md))."""
    external: ExternalSpec | None = None
    """The cluster of your own."""
    brokers: Annotated[tuple[_Brokers, ...], Field(min_length=1), Several, AsWritten] = (3,)
    """How many; they are called `broker-1`, `broker-2`, ..."""
    zookeepers: Annotated[tuple[_ZooKeepers, ...], Field(min_length=1), Several, AsWritten] = (1,)
    """How many servers keep the metadata: ZooKeeper's, `zookeeper-1`, ..., or with KRaft the
    controllers, `controller-1`, ..., or `broker-1`, ..., where they are brokers, too."""
    clients: _ClientNodes = 1
    """On how many nodes the workload's clients run: `client-1`, `client-2`, ... Those of each cell
    take turns, in the same order in every cell, so that all cells have the same there when a node
    is cut off."""
    disks: DisksSpec | None = None
    """Disks of the brokers' own, that can fail. Without it, brokers have them where a planned fault
    needs them."""
    properties: Mapping[str, OneOrSeveral] = {}
    """Of every broker, by Kafka's names: [broker-properties.md](broker-properties.md)."""
    compare: Mapping[_Name, Mapping[str, Scalar]] = {}
    """Clusters by name, each with the properties by which it differs from the others. Every one of
    them is a run, of every combination of the lists. For what belongs together: of two properties
    with two values each, lists make four clusters, whether or not they can be."""

    @property
    def dimensions(self) -> Mapping[str, tuple[Value, ...]]:
        """The values of everything that can be swept by a list, by name."""
        return {"brokers": self.brokers, "zookeepers": self.zookeepers, **self.properties}

    @property
    def size(self) -> int:
        """How many clusters there are."""
        return math.prod(map(len, self.dimensions.values())) * max(1, len(self.compare))

    @property
    def largest(self) -> ClusterSpec:
        """One with as many servers as any of them has."""
        return self._spec({name: max(v) for name, v in self.dimensions.items() if name in _SERVERS})

    @property
    def smallest(self) -> ClusterSpec:
        """One with the servers that every one of them has."""
        return self._spec({name: min(v) for name, v in self.dimensions.items() if name in _SERVERS})

    def points(self) -> Iterator[tuple[ClusterSpec, Mapping[str, Value]]]:
        """Every cluster, in the order of the file, and its values of what is swept: its name, where
        it has one, as :data:`COMPARED`."""
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
            "external": self.external,
            "clients": self.clients,
        }
        servers = {name: value for name, value in point.items() if name in _SERVERS}
        properties = {name: value for name, value in point.items() if name not in _SERVERS}
        return ClusterSpec.model_validate(
            {**place, **servers, "disks": self.disks, "properties": properties}
        )


_SERVERS = ("brokers", "zookeepers")
