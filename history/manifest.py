"""The manifest: the plan of a campaign, written before its first send.

Evidence is the comparison of the manifest with the history. A history alone cannot show what it
lacks. Suppose that two producers write to a partition and the file of one of them is missing. The
sends of the other one and the log agree, and every lost record of the missing one is lost twice.
Every writer is therefore planned here by name, and records in the table ``closings`` how much it
wrote.

The manifest is one JSON file, ``manifest.json``, beside ``runs/``.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    FiniteFloat,
    ValidationError,
    field_validator,
    model_validator,
)

from ackproof.history.cell import SETTINGS, Cell, Value
from ackproof.history.errors import DamagedFiles
from ackproof.history.messages import in_words
from ackproof.history.storage import AnyPath, write_text

FILE = "manifest.json"

PARTITIONS_MAX = 1_000_000
"""The greatest number of partitions of a cell. It is more than any cluster has, and few enough to
be listed in memory."""


class _Planned(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class PlannedGroup(_Planned):
    """A consumer group.

    Attributes:
        name: Kafka's ``group.id``.
        delivery: The time at which its members commit: ``at-least-once``, ``at-most-once`` or
            ``auto-commit``.
        recovery_ms: The time after the recovery of the cluster within which its members must read
            what is acked. None in a manifest from before that was measured.
        client: The client library or program of its members. None in an older manifest.
    """

    name: str
    delivery: str
    recovery_ms: int | None = None
    client: str | None = None


class PlannedShareGroup(_Planned):
    """A share group (KIP-932).

    Attributes:
        name: Kafka's ``group.id``.
        deliveries: The number of deliveries of a record after which it is archived
            (``group.share.delivery.count.limit``).
        lock_ms: The time after which a record that is not acknowledged is delivered again, in
            milliseconds (``group.share.record.lock.duration.ms``).
        members: The names of its members and of their replacements.
    """

    name: str
    deliveries: int
    lock_ms: int
    members: tuple[str, ...]


class PlannedThreshold(_Planned):
    """A limit that a campaign sets on a figure of a cell.

    Attributes:
        measure: The key of the figure in the campaign file, for example ``unavailable.longest``.
        operator: The required relation of the measured value to ``limit``: ``<=``, ``<``, ``>=`` or
            ``>``.
        limit: The limit, in records, milliseconds, percent or records a second, as for the figure.
    """

    measure: str
    operator: str
    limit: FiniteFloat


class PlannedCell(_Planned):
    """A cell and what is expected of it.

    Attributes:
        cell: The cell.
        groups: The groups that read it.
        share_groups: The share groups that read it.
        transactional: Whether it is written in transactions only.
        acked_min: The number of acked records without which nothing is claimed.
        removed_min: The number of acked records that the cleanup policy of a topic must have
            removed, or nothing is claimed. It does not concern a topic that removes none.
        expect: The verdicts that the campaign expects, any of which is right. Empty if every
            guarantee must hold. An older manifest has one verdict, or null.
        thresholds: The limits that the campaign sets on its figures.
        checkers: The checkers of plug-ins that apply to it, each with its plug-in and version.
        record_bytes, record_bytes_min: The sizes of the largest and of the smallest value of a
            record. None in an older manifest.
        tombstones: Whether tombstones are sent to it.
    """

    cell: Cell
    groups: tuple[PlannedGroup, ...] = ()
    share_groups: tuple[PlannedShareGroup, ...] = ()
    transactional: bool = False
    acked_min: int = 1
    removed_min: int = 0
    expect: tuple[str, ...] = ()
    thresholds: tuple[PlannedThreshold, ...] = ()
    checkers: Mapping[str, str] = {}
    record_bytes: int | None = None
    record_bytes_min: int | None = None
    tombstones: bool = False

    @property
    def value_bytes(self) -> tuple[int, int] | None:
        """The sizes of the smallest and of the largest value, or None if unknown. A tombstone has
        none."""
        if self.record_bytes is None or self.record_bytes_min is None:
            return None
        return 0 if self.tombstones else self.record_bytes_min, self.record_bytes

    @field_validator("expect", mode="before")
    @classmethod
    def _several(cls, expect: object) -> object:
        if expect is None:
            return ()
        return (expect,) if isinstance(expect, str) else expect

    @field_validator("cell")
    @classmethod
    def _settings_can_be_read(cls, cell: Cell) -> Cell:
        """Check that every setting can be parsed. A property of a cell parses its value only when
        it is read, so an error would otherwise appear late."""
        for name, setting in SETTINGS.items():
            try:
                setting.__get__(cell, Cell)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        if cell.partitions > PARTITIONS_MAX:
            raise ValueError(f"{cell.name} has more than {PARTITIONS_MAX:,} partitions")
        return cell


UNORDERED = "unordered-restart"
"""The name of a fault that no campaign orders: something else replaced the pod of a broker, such as
Strimzi's operator. The harness records it as it records its own faults."""


class PlannedFault(_Planned):
    """A fault of the schedule.

    Attributes:
        fault_id: The number of the fault, from 1, in the order of the plan.
        fault: The kind of the fault.
        target: The expression that chooses its target.
        parameters: Its own parameters by name.
        start_ms: The planned time since the workload began.
        hold_ms: The planned time from injection to heal.
        story: The scenario of which it is a step, and the step: ``crash-loop#1 bounce-2``.
        partition: The topic and number of the partition that its scenario concerns, or None.
    """

    fault_id: int
    fault: str
    target: str
    parameters: Mapping[str, Any] = {}
    start_ms: int
    hold_ms: int
    story: str | None = None
    partition: tuple[str, int] | None = None


class PlannedFailover(_Planned):
    """A failover to measure, of a topic with ``partitions`` partitions. ``target`` is the
    expression for the broker to kill, and ``seed`` decides what it leaves open."""

    partitions: int
    target: str
    seed: int


class PlannedWriter(_Planned):
    """The writer of a table of a run. It writes ``<table>.<writer>.parquet``, or such a file for
    each of ``partitions`` (topic and number).

    Attributes:
        node: The node where it runs, whose clock its rows have.
        cell: The cell that it writes about, or None for all cells.
        client: The client of the workload that writes it, or None if it is another program.
        instead_of: The client that this one replaces if a fault crashes it; otherwise it never
            starts and writes nothing. None for a client that runs from the beginning.
    """

    table: str
    writer: str
    node: str
    cell: str | None = None
    client: str | None = None
    instead_of: str | None = None
    partitions: tuple[tuple[str, int], ...] = ()


_UNSEEN_BY_CLIENTS: Mapping[str, str] = {
    "replicas-agree": "the logs of an external cluster are not read",
    **dict.fromkeys(
        (
            *("committed-stays", "deposed-leaders-stop", "min-isr-kept", "one-leader-an-epoch"),
            "epochs-rise",
        ),
        "clients receive neither leader epochs nor versions of the ISR",
    ),
    "servers-stay-up": "the processes of an external cluster are not observed",
}


class PlannedRun(_Planned):
    """One run.

    Attributes:
        number: The number of the run, from 1. Its history is in ``runs/<number>/history``.
        cluster: The cluster settings that vary over the runs, with this run's values. For clusters
            that are compared by name, it has the name as ``cluster``.
        zookeeper: Whether ZooKeeper keeps the metadata, and not KRaft's controllers.
        combined: The names of the brokers that are also KRaft controllers; empty if the controllers
            are separate servers.
        session_timeout_ms: ``zookeeper.session.timeout.ms`` in force; with KRaft
            ``broker.session.timeout.ms``.
        replica_lag_ms: ``replica.lag.time.max.ms`` in force.
        recovery_ms: The time after the last heal within which every partition must have a leader
            and a full ISR.
        replicas: Whether every broker's logs must be collected into ``runs/<number>/replicas``.
        external: Whether the cluster existed before.
        unchecked: The guarantees that the run cannot check, because of what it observes of an
            external cluster, each with the reason.
        skipped: The faults that the environment did not allow, and why.
        plugins: The plug-ins that it uses, each with its version.
    """

    number: int
    seed: int
    cluster: Mapping[str, Value] = {}
    zookeeper: bool = True
    combined: tuple[str, ...] = ()
    session_timeout_ms: int
    replica_lag_ms: int
    recovery_ms: int
    cells: tuple[PlannedCell, ...]
    faults: tuple[PlannedFault, ...]
    failovers: tuple[PlannedFailover, ...] = ()
    replicas: bool = False
    external: bool = False
    unchecked: Mapping[str, str] = {}
    skipped: tuple[str, ...] = ()
    plugins: Mapping[str, str] = {}
    writers: tuple[PlannedWriter, ...]

    @model_validator(mode="before")
    @classmethod
    def _name_what_clients_did_not_see(cls, run: Any) -> Any:
        """Add the unchecked guarantees to a run from before manifests named them. Of an external
        cluster, only what clients received was observed then."""
        if isinstance(run, dict) and run.get("external") is True and "unchecked" not in run:
            return {**run, "unchecked": _UNSEEN_BY_CLIENTS}
        return run

    @model_validator(mode="after")
    def _names_are_told_apart(self) -> "PlannedRun":
        """Check that names are unique. With two cells of one topic, the owner of a record would be
        unknown, and records of a cell that is left out would not be judged."""
        where = f"run {self.number}"
        _refuse_twice(where, "cell", (one.cell.name for one in self.cells))
        _refuse_twice(where, "topic", (one.cell.topic for one in self.cells))
        _refuse_twice(where, "fault", (one.fault_id for one in self.faults))
        names = {one.cell.name for one in self.cells}
        for writer in self.writers:
            if writer.cell is not None and writer.cell not in names:
                raise ValueError(
                    f"{where} has no cell {writer.cell}, but {writer.writer} belongs to it"
                )
        return self


class Manifest(_Planned):
    """The plan of a campaign.

    Attributes:
        campaign: The name of the campaign.
        system: The system under test, as the campaign names it: ``bundled``, ``kafka:3.9.1``. A
            container image has its digest, ``kafka:image:apache/kafka:4.1.1@sha256:...``; its jars
            are tested, on the harness's nodes and Java.
        metadata_quorum: The servers that keep its metadata: ``zookeeper``, ``isolated-kraft``,
            ``combined-kraft`` or ``dynamic-kraft``; None if unknown, as in an older manifest.
        seed: The seed of the campaign.
        baseline: Whether the campaign says that it injects no faults (``faults: []``).
        runs: The runs.
    """

    campaign: str
    system: str = "bundled"
    metadata_quorum: str | None = None
    seed: int
    baseline: bool
    runs: tuple[PlannedRun, ...]

    @field_validator("runs")
    @classmethod
    def _runs_are_told_apart(cls, runs: tuple[PlannedRun, ...]) -> tuple[PlannedRun, ...]:
        _refuse_twice("the campaign", "run", (run.number for run in runs))
        return runs

    def write(self, directory: AnyPath) -> None:
        """Write the manifest into a campaign's results. The file appears only when it is
        complete."""
        write_text(directory / FILE, self.model_dump_json(indent=1) + "\n")


def identity_of(number: int, seed: int) -> str:
    """Return the identity that the start of a run's first step records, so that the history of one
    run is not taken for that of another."""
    return f"run {number}, seed {seed}"


def _refuse_twice(where: str, what: str, names: Iterable[Hashable]) -> None:
    """Raise ValueError for a name that occurs more than once."""
    for name, times in Counter(names).items():
        if times > 1:
            raise ValueError(f"{where} has the {what} {name} {times} times")


def read(directory: AnyPath) -> Manifest:
    """Return the manifest of a campaign's results. Raises DamagedFiles if there is none or it is
    not as :meth:`Manifest.write` writes it."""
    path = directory / FILE
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except OSError as error:
        raise DamagedFiles({path: error.strerror or str(error)}) from error
    except ValidationError as error:
        raise DamagedFiles({path: in_words(error)}) from None
