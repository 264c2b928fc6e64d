"""What checking a campaign yields: plain data, for the report and for scripts."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from ackproof.checkers.thresholds import Threshold
from ackproof.history.cell import Cell, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperWork:
    """What a run asked of ZooKeeper; None for what is not known.

    Attributes:
        writes_to_create: Transactions while the topics of the cells were made.
        writes_under_faults: Transactions from the first fault until the cluster had recovered.
        watches: That the brokers held when every topic was whole.
    """

    writes_to_create: int | None = None
    writes_under_faults: int | None = None
    watches: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failover:
    """A broker was killed (kill -9) while a topic had so many ``partitions``; None for what is not
    known.

    Attributes:
        moved: How many of them it led.
        led_ms: From the kill until a client's metadata named another leader of the last of them.
        acked_ms: From the kill until the last of them acknowledged a record (acks=all).
        writes: ZooKeeper's transactions meanwhile.
        watches: That the brokers held before.
    """

    partitions: int
    moved: int | None = None
    led_ms: int | None = None
    acked_ms: int | None = None
    writes: int | None = None
    watches: int | None = None


# --- verdicts -------------------------------------------------------------------------------------
#
# What checking a campaign yields: plain data, for the report and for scripts.


class Verdict(StrEnum):
    """See ``checkers.guarantees.decisions`` for how they are reached."""

    PASS = "pass"
    """The guarantee held, on enough evidence."""
    FAIL = "fail"
    """A guarantee was broken."""
    NOT_GUARANTEED = "not-guaranteed"
    """Not all that was acked was promised to be kept; loss was measured."""
    INCONCLUSIVE = "inconclusive"
    """Too little evidence."""


WORST_FIRST = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.NOT_GUARANTEED, Verdict.PASS)


ANOMALIES = pa.schema(
    [
        pa.field("run", pa.int32(), nullable=False),
        pa.field("cell", pa.string(), nullable=False),
        pa.field("anomaly", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64()),
        pa.field("producer", pa.int32()),
        pa.field("sequence", pa.int64()),
        pa.field("time", pa.int64()),
        pa.field("fault", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("seen", pa.bool_()),
    ]
)
"""One row an anomaly. ``partition``: -1 of what is about no single one. ``time``: of the ack where
there was one, else of the invoke, nanoseconds of the Unix epoch; of what consumers were shown, or
read back, when that was; of a transaction, of its commit. ``fault``: the faults of its cause
(``kill#1``, comma-separated), else those within whose reach (``checkers.context.fault_windows``)
that is, or null. ``seen``: of a lost record, whether a consumer was shown it before; null where
nobody knows, and of other anomalies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """One promise of a cell's configuration and what became of it.

    Attributes:
        name: Short name, e.g. ``no-acked-record-lost``.
        promise: In words, with its conditions.
        promised: Whether it was promised, by this cell's configuration and by what happened, of
            everything in the cell; or broken where it was.
        held: Whether it held; None where the evidence does not tell. False: broken, if promised.
        broken: How often it was broken where it was promised.
        checked: Whether nothing was left out that could have shown that it was broken. What was not
            checked neither held nor was broken.
        anomaly: Whose rows of ``anomalies.parquet`` break it; None where there are none.
        plugin: The plug-in whose checker looks after it, with its version; None of a built-in one.
        reason: Why it is (not) promised, and what was seen.
    """

    name: str
    promise: str
    promised: bool
    held: bool | None
    broken: int = 0
    checked: bool = True
    anomaly: str | None = None
    plugin: str | None = None
    reason: str

    @property
    def is_broken(self) -> bool:
        """Whether it was promised, and did not hold."""
        return self.broken > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outages:
    """The outages that began within the reach of a fault (``kill#1``; several, comma-separated;
    None: of none). As in :class:`Unavailable`. ``partition``: ``t-0``, which had the longest."""

    fault: str | None
    longest_ms: int
    total_ms: int
    partition: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """For how long a cell was asked and acknowledged nothing (``checkers.checks.outages``).

    Attributes:
        longest_ms: The longest outage of any of its partitions.
        total_ms: All outages of all its partitions, added up: partition-milliseconds.
        traffic_ms: Likewise, how long its partitions had traffic, from the first send to the last
            outcome: total_ms is a part of it. None in a result of a former version.
        by_fault: The same by cause.
    """

    longest_ms: int
    total_ms: int
    traffic_ms: int | None = None
    by_fault: tuple[Outages, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How long records of a cell took (:mod:`checkers.checks.latency`).

    Attributes:
        records: How many are in it: a record that two readers were shown is two.
        since_due: Whether since they were due; else, without a schedule, since they were sent.
        p50_ms, p90_ms, p99_ms, p999_ms: Within which half of them did, 90 %, 99 % and 99.9 %, at
            most 1 % too much.
        longest_ms: The longest.
    """

    records: int
    since_due: bool
    p50_ms: float
    p90_ms: float
    p99_ms: float
    p999_ms: float
    longest_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCounts:
    """How many transactions of a cell came to what (``checkers.checks.transaction_history``).
    ``found``: by anomaly, how many rows of it; those that are about transactions alone. None where
    there are none, and not everything could be looked at."""

    committed: int | None
    not_committed: int | None
    unknown: int | None
    found: Mapping[str, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellResult:
    """One cell of one run: its configuration, its numbers, its verdict.

    sent = acked + failed + indeterminate, as far as it was recorded. lost: distinct acked records
    absent from the final log; duplicated: distinct records at two or more offsets; reordered:
    records that stand in the log behind one that its producer sent later. These are what was found;
    None where nothing was found and not everything could be looked at: unknown is not 0.

    Attributes:
        settings: The cell itself; its views are Kafka's settings.
        expected: The verdicts that the campaign expects, each of them right; none where it holds no
            such opinion.
        unavailable: None where not all sends are known, and with acks=0, whose acks are the
            client's own word.
        acks_per_second: From the first ack to the last; None where not all sends are known.
        ack_latency: Until the ack; likewise. With acks=0 both are the client's own word.
        shown_latency: Until a tail reader was shown the record; None where there are none, or not
            all is known that they were shown.
        transactions: None of a cell that is written without any.
        thresholds: What the campaign expects of these figures, and whether that is met.
        reasons: What the verdict follows from, the decisive ones first; never empty.
    """

    run: int
    settings: Cell
    sent: int
    acked: int
    failed: int
    indeterminate: int
    lost: int | None
    duplicated: int | None
    reordered: int | None
    guarantees: tuple[Guarantee, ...]
    verdict: Verdict
    expected: tuple[Verdict, ...] = ()
    unavailable: Unavailable | None = None
    acks_per_second: float | None = None
    ack_latency: Latency | None = None
    shown_latency: Latency | None = None
    transactions: TransactionCounts | None = None
    thresholds: tuple[Threshold, ...] = ()
    reasons: tuple[str, ...]

    @property
    def cell(self) -> str:
        """The cell's name."""
        return self.settings.name

    @property
    def counts_as(self) -> Verdict:
        """What it is for the campaign: an expected verdict that came is a pass, one that did not
        is a failure; too little evidence is never either. A threshold that is not met is a failure,
        too; one that cannot be decided leaves the cell inconclusive."""
        return counted_as(self.verdict, self.expected, [one.met for one in self.thresholds])

    @property
    def is_broken(self) -> bool:
        """Whether a guarantee was broken that the campaign does not expect to be broken."""
        return is_broken(self.verdict, self.expected)


def counted_as(
    verdict: Verdict, expected: Collection[Verdict], met: Collection[bool | None] = ()
) -> Verdict:
    """Return what a cell is for the campaign; see :attr:`CellResult.counts_as`. ``met``: whether
    each of its thresholds is."""
    came = verdict
    if expected and verdict is not Verdict.INCONCLUSIVE:
        came = Verdict.PASS if verdict in expected else Verdict.FAIL
    if came is Verdict.FAIL or False in met:
        return Verdict.FAIL
    return Verdict.INCONCLUSIVE if None in met else came


def is_broken(verdict: Verdict, expected: Collection[Verdict]) -> bool:
    """Return whether a cell broke a guarantee; see :attr:`CellResult.is_broken`."""
    return verdict is Verdict.FAIL and Verdict.FAIL not in expected


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A checked run.

    Attributes:
        clock_bound_ns: How far the clock of whoever sent may be from the harness's at the most:
            what is said of times and faults is within that; None where it is not known.
        infrastructure_failed: Whether it did not come to its end, or a step failed that does
            nothing to the system under test.
        cluster: What of the cluster's settings is swept, with this run's values.
    """

    number: int
    clock_bound_ns: int | None
    infrastructure_failed: bool
    cluster: Mapping[str, Value] = field(default_factory=dict)
    zookeeper: ZooKeeperWork = field(default_factory=ZooKeeperWork)
    failovers: tuple[Failover, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCounts:
    """What a consumer of a cell was shown, over all its partitions: each count as
    :mod:`checkers.checks.read_counts` has it.

    Attributes:
        member: Whether it is of a group; else it is a tail reader.
        group: Kafka's ``group.id``; None for a tail reader, and where nothing tells it.
    """

    run: int
    cell: str
    client: str
    member: bool
    group: str | None
    shown: int | None
    distinct: int | None
    again: int | None
    nonmonotonic: int | None
    skipped: int | None
    foreign: int | None
    inconsistent: int | None
    vanished: int | None
    unseen: int | None
    unread: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCounts:
    """What the members of a group of a cell committed, over all its partitions: each count as
    :mod:`checkers.checks.read_counts` has it."""

    run: int
    cell: str
    group: str
    committed: int | None
    commit_errors: int | None
    commits_lost: int | None
    commits_regressed: int | None
    skipped_by_commit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumption:
    """Counts of what consumers were shown and committed, client by client and group by group. A
    count is what was found; None where that is nothing and not everything could be looked at."""

    clients: tuple[ClientCounts, ...] = ()
    groups: tuple[GroupCounts, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One explanation (``checkers.root_cause``), of all anomalies of a kind and a partition that it
    holds for.

    Attributes:
        anomaly: ``lost``, ``duplicated``, ``vanished-read``, ``inconsistent-read`` or
            ``divergent-replicas``.
        number: Of this anomaly in the partition, from 1; as in the column ``cause`` of
            ``autopsies.parquet``. 0 of the line that stands for those that are not told.
        kind: :class:`checkers.root_cause.kinds.Kind`; ``more`` of that line.
        sentence: It, in words.
        records: Of how many; of replicas: offsets.
        promised: How many of them break a promise.
        first_offset, last_offset: Of the acks; of what stands in the log more than once, the first
            ones there; of what consumers were shown, or replicas hold, there. None where the
            clients were told none.
        first_time, last_time: Of the acks, or when they were shown, in Unix ns; None: unknown.
        leaders, epochs: Who may have acked or appended them, in which leader epoch; of records that
            are gone one each where that is known, none where it is not.
        next_leader, next_epoch, next_offset: Who led next without them, and where its log ended
            then; None where nobody is known to have, or where that is not told.
        faults: Those that have to do with it.
    """

    run: int
    cell: str
    anomaly: str
    topic: str
    partition: int
    number: int
    kind: str
    sentence: str
    records: int
    promised: int
    first_offset: int | None = None
    last_offset: int | None = None
    first_time: int | None = None
    last_time: int | None = None
    leaders: tuple[int, ...] = ()
    epochs: tuple[int, ...] = ()
    next_leader: int | None = None
    next_epoch: int | None = None
    next_offset: int | None = None
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignResult:
    """A checked campaign.

    Attributes:
        verdict: The worst of the cells: fail, then inconclusive, then pass; a cell that is
            not-guaranteed never makes it worse.
        anomalies: Rows of ``anomalies.parquet`` by name, every known name present. Whether all that
            might have them was looked at, the guarantees tell.
        findings: What else a reader must know, one sentence each: a fault did not bite, say.
        baseline: Whether it says that it breaks nothing, and did not: faults were not tried.
        skipped: What the campaign would have broken besides and the place refuses, and why: of
            that the verdict says nothing.
        plugins: The plug-ins whose objects its runs used, each with its version.
        runs: Those of the manifest, in its order.
        consumption: Of the consumers, where there are any.
        causes: Why records were lost, duplicated or vanished and why replicas differ, the most
            damning first; of each anomaly of a partition at most
            :data:`checkers.root_cause.causes.TOLD_MAX`.
    """

    verdict: Verdict
    cells: tuple[CellResult, ...]
    anomalies: Mapping[str, int]
    findings: tuple[str, ...]
    baseline: bool = False
    skipped: tuple[str, ...] = ()
    plugins: Mapping[str, str] = field(default_factory=dict)
    runs: tuple[RunResult, ...] = ()
    consumption: Consumption = Consumption()
    causes: tuple[Cause, ...] = ()

    @property
    def broken(self) -> Iterator[tuple[CellResult, Guarantee]]:
        """Every guarantee that was broken, in cells of which the campaign does not expect that."""
        for cell in self.cells:
            if cell.is_broken:
                yield from ((cell, one) for one in cell.guarantees if one.is_broken)

    @property
    def infrastructure_failed(self) -> bool:
        """Whether a run's infrastructure did, or there was no run at all."""
        return not self.runs or any(run.infrastructure_failed for run in self.runs)
