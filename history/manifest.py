"""The manifest: what a campaign set out to do, written before its first send.

Evidence is the difference between manifest and history. A history alone cannot tell that it lacks
something: with two producers on a partition and the file of one of them gone, what the other one
sent and what the log holds agree with each other, and every record of the missing one that was
lost is lost twice. So whoever writes is planned here by name, and says in the table ``closings``
how much it wrote.

One JSON file, ``manifest.json``, beside ``runs/``.
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
"""Of a cell: more than any cluster has, and few enough to be listed in memory."""


class _Planned(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PlannedGroup(_Planned):
    """A consumer group. ``name``: Kafka's ``group.id``; ``delivery``: when its members commit,
    ``at-least-once``, ``at-most-once`` or ``auto-commit``. ``recovery_ms``: within this time after
    the cluster has recovered its members are to be shown what is acked; None in a manifest from
    before anybody waited for that."""

    name: str
    delivery: str
    recovery_ms: int | None = None


class PlannedThreshold(_Planned):
    """A limit that a campaign sets on what is measured of a cell. ``measure``: its key in the
    campaign file, ``unavailable.longest``; ``operator``: how the measured value must compare with
    ``limit``, ``<=``, ``<``, ``>=`` or ``>``; ``limit``: records, milliseconds, percent or records
    a second, as the measure has it."""

    measure: str
    operator: str
    limit: FiniteFloat


class PlannedCell(_Planned):
    """A cell, and what is asked of it. ``acked_min``: with fewer acked records nothing is claimed.
    ``expect``: the verdicts that the campaign expects, each of them right; none for one that
    holds. A manifest of former days has one verdict, or null. ``thresholds``: what the campaign
    expects of its figures. ``groups``: that read it. ``transactional``: whether it is written in
    transactions alone. ``checkers``: those of plug-ins that concern it, each with its plug-in and
    version."""

    cell: Cell
    groups: tuple[PlannedGroup, ...] = ()
    transactional: bool = False
    acked_min: int = 1
    expect: tuple[str, ...] = ()
    thresholds: tuple[PlannedThreshold, ...] = ()
    checkers: Mapping[str, str] = {}

    @field_validator("expect", mode="before")
    @classmethod
    def _several(cls, expect: object) -> object:
        if expect is None:
            return ()
        return (expect,) if isinstance(expect, str) else expect

    @field_validator("cell")
    @classmethod
    def _settings_can_be_read(cls, cell: Cell) -> Cell:
        """A view of a cell parses when it is asked; what it cannot parse is said here, once."""
        for name, setting in SETTINGS.items():
            try:
                setting.__get__(cell, Cell)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        if cell.partitions > PARTITIONS_MAX:
            raise ValueError(f"{cell.name} has more than {PARTITIONS_MAX:,} partitions")
        return cell


class PlannedFault(_Planned):
    """A fault of the schedule.

    Attributes:
        fault_id: From 1, in the order of the plan.
        target: The expression it will be aimed at.
        parameters: Its own, by name.
        start_ms: Planned, since the workload began.
        hold_ms: From injection to heal, planned.
        story: The story that it is a step of, and which: ``crash-loop#1 bounce-2``.
        partition: Topic and number of the one that its story is about; None where it is about none.
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
    """A failover to be measured, of a topic with so many ``partitions``. ``target``: the expression
    for the broker to be killed; ``seed``: for what it leaves open."""

    partitions: int
    target: str
    seed: int


class PlannedWriter(_Planned):
    """Who will write a table of a run: ``<table>.<writer>.parquet``, or a file of that kind for
    each of ``partitions`` (topic and number).

    Attributes:
        node: Where it runs, whose clock its rows carry.
        cell: The cell that it writes of; None where it is all of them.
        client: The client of the workload that writes it; None where it is none of these.
        instead_of: The client in whose place that one comes, should a fault crash it; else it never
            does, and writes nothing. None for a client that is there from the beginning.
    """

    table: str
    writer: str
    node: str
    cell: str | None = None
    client: str | None = None
    instead_of: str | None = None
    partitions: tuple[tuple[str, int], ...] = ()


class PlannedRun(_Planned):
    """One run.

    Attributes:
        number: From 1; its history is in ``runs/<number>/history``.
        cluster: What of the cluster's settings is swept, with this run's values; of clusters that
            are compared by name, the name as ``cluster``.
        zookeeper: Whether ZooKeeper keeps the metadata, and not KRaft's controllers.
        combined: The brokers that are KRaft's controllers, too, by name; none where these are
            servers of their own.
        session_timeout_ms: ``zookeeper.session.timeout.ms`` in force; with KRaft
            ``broker.session.timeout.ms``.
        replica_lag_ms: ``replica.lag.time.max.ms`` in force.
        recovery_ms: Within this time after the last fault is healed, every partition is to be led
            and its ISR full.
        replicas: Whether every broker's logs are to be collected, into ``runs/<number>/replicas``.
        external: Whether the cluster was there before. Then nobody watches its servers' processes,
            and what clients are not told (leader epochs, say) is not in the history.
        skipped: What the campaign would have broken besides and the place refuses, and why.
        plugins: The plug-ins whose objects it uses, each with its version.
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
    skipped: tuple[str, ...] = ()
    plugins: Mapping[str, str] = {}
    writers: tuple[PlannedWriter, ...]

    @model_validator(mode="after")
    def _names_are_told_apart(self) -> "PlannedRun":
        """Of two cells with one topic nobody could tell whose its records are; and records of a
        cell that was left out would be judged by nobody."""
        where = f"run {self.number}"
        _refuse_twice(where, "cell", (one.cell.name for one in self.cells))
        _refuse_twice(where, "topic", (one.cell.topic for one in self.cells))
        _refuse_twice(where, "fault", (one.fault_id for one in self.faults))
        names = {one.cell.name for one in self.cells}
        for writer in self.writers:
            if writer.cell is not None and writer.cell not in names:
                raise ValueError(f"{where} has no cell {writer.cell}, of which {writer.writer} is")
        return self


class Manifest(_Planned):
    """A campaign's.

    Attributes:
        system: What is put to the test, as the campaign names it: ``bundled``, ``kafka:3.9.1``;
            of a container image with its digest, ``kafka:image:apache/kafka:4.1.1@sha256:...``: its
            jars are what is put to the test, on nodes and a Java of ours.
        metadata_quorum: Who keeps its metadata: ``zookeeper``, ``isolated-kraft``,
            ``combined-kraft``; None where nobody tells, as in a manifest of former days.
        baseline: The campaign says that it breaks nothing (``faults: []``).
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
        """Write it into a campaign's results, aside and renamed."""
        write_text(directory / FILE, self.model_dump_json(indent=1) + "\n")


def identity_of(number: int, seed: int) -> str:
    """Return what the start of a run's first step says of it, so that the history of one run is not
    taken for that of another."""
    return f"run {number}, seed {seed}"


def _refuse_twice(where: str, what: str, names: Iterable[Hashable]) -> None:
    """Raise ValueError for a name that stands there more than once."""
    for name, times in Counter(names).items():
        if times > 1:
            raise ValueError(f"{where} has the {what} {name} {times} times")


def read(directory: AnyPath) -> Manifest:
    """The manifest of a campaign's results. Raises DamagedFiles when there is none, or it is not
    what :meth:`Manifest.write` writes."""
    path = directory / FILE
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except OSError as error:
        raise DamagedFiles({path: error.strerror or str(error)}) from error
    except ValidationError as error:
        raise DamagedFiles({path: in_words(error)}) from None
