"""The section ``cluster`` of a campaign file, and the clusters that it stands for."""

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import Field, field_validator

from harness.campaign.section import Section
from harness.campaign.sweep import AsWritten, OneOrSeveral, Several
from history.cell import Value

TIMING_DEFAULTS_MS = {"zookeeper.session.timeout.ms": 18_000, "replica.lag.time.max.ms": 30_000}
"""The settings that waits are derived from, with Apache Kafka's defaults."""

RUNS_MAX = 500
"""Of one campaign: at a few minutes each, more than a day."""

COMPARED = "cluster"
"""What the name of a cluster that is compared with others is called where settings stand."""

_Brokers = Annotated[int, Field(ge=1, le=99)]
_ZooKeepers = Annotated[int, Field(ge=1, le=9)]
_Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=40)]


def _check_timing(name: str, value: Value) -> None:
    if name in TIMING_DEFAULTS_MS and (type(value) is not int or value < 1):
        raise ValueError(f"{name} is a number of milliseconds, not {value!r}")


class ClusterSpec(Section):
    """One cluster: what to deploy and where. ``inventory``: a file, the hosts of the backend ssh;
    ``properties``: of every broker, Kafka's names."""

    backend: str = "local"
    inventory: str | None = None
    system: str = "bundled"
    brokers: _Brokers = 3
    zookeepers: _ZooKeepers = 1
    properties: Mapping[str, Value] = Field(default_factory=dict)

    @field_validator("properties")
    @classmethod
    def _timings_are_numbers(cls, given: Mapping[str, Value]) -> Mapping[str, Value]:
        for name, value in given.items():
            _check_timing(name, value)
        return given


class ClusterSweep(Section):
    """As :class:`ClusterSpec`; where several values are given, each combination is a run.

    ``compare``: clusters by name, each with the properties by which it differs from the others.
    Every one of them is a run, of every combination of the lists. It is for what belongs together:
    of two properties with two values each, lists make four clusters, whether or not they can be.
    """

    backend: str = "local"
    inventory: str | None = None
    system: str = "bundled"
    brokers: Annotated[tuple[_Brokers, ...], Several, AsWritten, Field(min_length=1)] = (3,)
    zookeepers: Annotated[tuple[_ZooKeepers, ...], Several, AsWritten, Field(min_length=1)] = (1,)
    properties: Mapping[str, OneOrSeveral] = Field(default_factory=dict)
    compare: Mapping[_Name, Mapping[str, Value]] = Field(default_factory=dict)

    @field_validator("properties")
    @classmethod
    def _timings_are_numbers(
        cls, given: Mapping[str, tuple[Value, ...]]
    ) -> Mapping[str, tuple[Value, ...]]:
        for name, values in given.items():
            for value in values:
                _check_timing(name, value)
        return given

    @field_validator("compare")
    @classmethod
    def _theirs_are_numbers_too(
        cls, given: Mapping[str, Mapping[str, Value]]
    ) -> Mapping[str, Mapping[str, Value]]:
        for properties in given.values():
            for name, value in properties.items():
                _check_timing(name, value)
        return given

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
        place = {"backend": self.backend, "inventory": self.inventory, "system": self.system}
        servers = {name: value for name, value in point.items() if name in _SERVERS}
        properties = {name: value for name, value in point.items() if name not in _SERVERS}
        return ClusterSpec.model_validate({**place, **servers, "properties": properties})


_SERVERS = ("brokers", "zookeepers")
