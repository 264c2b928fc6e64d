"""The campaign file as a model: what to deploy, what to send, what to break, what must hold.

Every key is known and every value has one type: an unknown key or a string where a number belongs
is refused, never guessed at. In a file, Kafka's names stay Kafka's, dots and all. What needs more
than one field to judge is in :mod:`harness.campaign.validation`; the cells are expanded in
:mod:`harness.campaign.cells`.
"""

from collections.abc import Mapping
from typing import Annotated, Self

import yaml
from pydantic import BeforeValidator, Field, field_validator

from harness.campaign.durations import Duration
from harness.campaign.schedule import FaultEntry, Schedule
from harness.campaign.section import Section

TIMING_DEFAULTS_MS = {"zookeeper.session.timeout.ms": 18_000, "replica.lag.time.max.ms": 30_000}
"""The settings that waits are derived from, with Apache Kafka's defaults."""

PropertyValue = str | int | float | bool
"""Value of a Kafka or librdkafka property."""


def _acks(value: object) -> object:
    """YAML reads ``acks: [0, 1, all]`` as two numbers and a word; -1 is Kafka's number of all."""
    if isinstance(value, bool) or str(value) not in ("0", "1", "all", "-1"):
        raise ValueError(f"acks is 0, 1 or all (-1), not {value!r}")
    return "all" if str(value) == "-1" else str(value)


def _several(value: object) -> object:
    """A value alone is a list of one."""
    return tuple(value) if isinstance(value, list) else (value,)


Acks = Annotated[str, BeforeValidator(_acks)]
Count = Annotated[int, Field(ge=1)]


class ClusterSpec(Section):
    """What to deploy and where. ``inventory``: a file, the hosts of the backend ssh;
    ``properties``: of every broker, Kafka's names."""

    backend: str = "local"
    inventory: str | None = None
    system: str = "bundled"
    brokers: Annotated[int, Field(ge=1, le=99)] = 3
    zookeepers: Annotated[int, Field(ge=1, le=9)] = 1
    properties: Mapping[str, PropertyValue] = Field(default_factory=dict)

    @field_validator("properties")
    @classmethod
    def _timings_are_numbers(
        cls, value: Mapping[str, PropertyValue]
    ) -> Mapping[str, PropertyValue]:
        for name in TIMING_DEFAULTS_MS.keys() & value.keys():
            if type(value[name]) is not int or int(value[name]) < 1:
                raise ValueError(f"{name} is a number of milliseconds, not {value[name]!r}")
        return value


class Cells(Section):
    """The sweep: the cross product of all lists, those under ``topic`` and ``producer`` too.

    Every combination is a cell and has a topic of its own; all live in the same cluster, through
    the same faults. ``topic``: further topic properties; ``producer``: librdkafka properties.
    """

    acks: Annotated[tuple[Acks, ...], BeforeValidator(_several), Field(min_length=1)]
    min_insync_replicas: Annotated[
        tuple[Count, ...], BeforeValidator(_several), Field(min_length=1)
    ] = (1,)
    replication_factor: Annotated[
        tuple[Count, ...], BeforeValidator(_several), Field(min_length=1)
    ] = (3,)
    partitions: Annotated[tuple[Count, ...], BeforeValidator(_several), Field(min_length=1)] = (1,)
    unclean_leader_election_enable: Annotated[
        tuple[bool, ...], BeforeValidator(_several), Field(min_length=1)
    ] = (False,)
    topic: Mapping[str, PropertyValue | tuple[PropertyValue, ...]] = Field(default_factory=dict)
    producer: Mapping[str, PropertyValue | tuple[PropertyValue, ...]] = Field(default_factory=dict)


class WorkloadSpec(Section):
    """What the clients of every cell do. ``rate``: records a second and cell; ``record.bytes``:
    size of a value."""

    kind: str = "produce"
    rate: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    record_bytes: Annotated[int, Field(ge=1)] = 100


class EvidenceSpec(Section):
    """How much a ``pass`` rests on: fewer acked records in a cell make it inconclusive."""

    acked_min: Annotated[int, Field(ge=1)] = 1


class Limits(Section):
    """How long the steps may take. A step over its limit is a finding that names the step."""

    deploy: Duration = 90_000
    ready: Duration = 60_000
    fault: Duration | None = None
    """To prove that a fault bit, and again that it is healed. Without it, what the cluster's
    timeouts ask for (:func:`harness.campaign.timings.fault_limit_ms`)."""
    recover: Duration = 60_000
    final_read: Duration = 60_000
    collect: Duration = 60_000
    teardown: Duration = 30_000


class Campaign(Section):
    """A campaign file. ``seed`` is written into the resolved copy that a run leaves behind; in a
    file it fixes the seed unless the command line gives another."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
    seed: Annotated[int, Field(ge=0)] | None = None
    runs: Annotated[int, Field(ge=1)] = 1
    cluster: ClusterSpec = ClusterSpec()
    cells: Cells
    workload: WorkloadSpec
    evidence: EvidenceSpec = EvidenceSpec()
    schedule: Schedule = Schedule()
    faults: tuple[FaultEntry, ...] = ()
    limits: Limits = Limits()

    def resolved(
        self,
        *,
        seed: int,
        backend: str | None = None,
        system: str | None = None,
        inventory: str | None = None,
    ) -> Self:
        """This campaign with the seed drawn and the command line's choices in place."""
        chosen = {"backend": backend, "system": system, "inventory": inventory}
        cluster = self.cluster.model_copy(update={k: v for k, v in chosen.items() if v})
        return self.model_copy(update={"seed": seed, "cluster": cluster})

    def to_yaml(self) -> str:
        """The campaign as a file that reads back as this very campaign."""
        data = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return yaml.safe_dump(data, sort_keys=False, width=100)
