"""The result of checking a campaign, as plain data for the report and for scripts."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ackproof.checkers.thresholds import Threshold
from ackproof.history.cell import Cell, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperWork:
    """The load of a run on ZooKeeper. A figure that is unknown is None.

    Attributes:
        writes_to_create: The transactions while the topics of the cells were created.
        writes_under_faults: The transactions from the first fault until the cluster had recovered.
        watches: The watches that the brokers held when every topic was complete.
    """

    writes_to_create: int | None = None
    writes_under_faults: int | None = None
    watches: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failover:
    """One kill (kill -9) of a broker. A figure that is unknown is None.

    Attributes:
        partitions: The number of partitions that the topic had.
        moved: The number of partitions that the broker led.
        led_ms: The time from the kill until a client's metadata named another leader for the last
            of these partitions.
        acked_ms: The time from the kill until the last of them acknowledged a record (acks=all).
        writes: ZooKeeper's transactions in that time.
        watches: The watches that the brokers held before.
    """

    partitions: int
    moved: int | None = None
    led_ms: int | None = None
    acked_ms: int | None = None
    writes: int | None = None
    watches: int | None = None


# --- verdicts -------------------------------------------------------------------------------------
#
# The verdicts, the schema of the anomalies, and the results of cells, runs and campaigns.


class Verdict(StrEnum):
    """The verdict on a cell or a campaign; ``checkers.guarantees.decisions`` says how it is
    reached."""

    PASS = "pass"
    """Every guarantee held, on enough evidence."""
    FAIL = "fail"
    """A guarantee was violated."""
    NOT_GUARANTEED = "not-guaranteed"
    """The settings do not promise that all acknowledged records are kept. Loss was measured."""
    INCONCLUSIVE = "inconclusive"
    """There was too little evidence."""


WORST_FIRST = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.NOT_GUARANTEED, Verdict.PASS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """One guarantee of a cell's configuration, and whether it held.

    Attributes:
        name: The short name, for example ``no-acked-record-lost``.
        promise: The guarantee as a sentence, with its conditions.
        promised: Whether this cell's configuration and the events of the run promised it for
            everything in the cell, or it was violated where it was promised.
        held: Whether it held, or None if the evidence does not show that. False means violated, if
            it was promised.
        broken: The number of violations where it was promised.
        undecided: The number of anomalies of which it is unknown whether it was promised there.
        found: The number of all anomalies of its kind, also where it was not promised. 0 in a
            result of a former version.
        checked: Whether nothing was left out that could have shown a violation. A guarantee that
            was not checked neither held nor was violated.
        lacking: The evidence that is missing to say whether it held; empty if that is known, and in
            a result of a former version.
        anomaly: The anomaly whose rows of ``anomalies.parquet`` violate it, or None.
        plugin: The plug-in that provides its checker, with its version, or None for a built-in
            checker.
        reason: The reason why it is or is not promised, and what was observed.
    """

    name: str
    promise: str
    promised: bool
    held: bool | None
    broken: int = 0
    undecided: int = 0
    found: int = 0
    checked: bool = True
    lacking: str = ""
    anomaly: str | None = None
    plugin: str | None = None
    reason: str

    @property
    def is_broken(self) -> bool:
        """Whether it was promised and did not hold."""
        return self.broken > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outages:
    """The outages that began in the window of one fault, as in :class:`Unavailable`.

    Attributes:
        fault: The fault (``kill#1``; several are comma-separated), or None if no fault was active.
        longest_ms: The longest outage.
        total_ms: The sum of all outages.
        partition: The partition with the longest outage, as ``t-0``.
    """

    fault: str | None
    longest_ms: int
    total_ms: int
    partition: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutagePeriod:
    """One outage of a partition.

    Attributes:
        partition: The partition, as ``t-0``.
        start, end: Nanoseconds of the Unix epoch by the client's clock.
        length_ms: The time from ``start`` to ``end`` in which requests were waiting.
        acked: Whether an ack ended it. Otherwise nothing was acknowledged any more.
        fault: The faults that were active when it began, comma-separated, or None.
    """

    partition: str
    start: int
    end: int
    length_ms: int
    acked: bool
    fault: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """The time in which a cell had requests waiting and acknowledged nothing
    (``checkers.checks.outages``).

    Attributes:
        longest_ms: The longest outage of any of its partitions.
        total_ms: The sum of all outages of all its partitions, in partition-milliseconds.
        traffic_ms: The sum of the times in which its partitions had traffic, from the first send to
            the last outcome. It includes total_ms. None in a result of a former version.
        by_fault: The outages by fault.
        periods: The longest outages, each by itself, in the order of time. There are none in a
            result of a former version.
    """

    longest_ms: int
    total_ms: int
    traffic_ms: int | None = None
    by_fault: tuple[Outages, ...] = ()
    periods: tuple[OutagePeriod, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """The latencies of the records of a cell (:mod:`checkers.checks.latency`).

    Attributes:
        records: The number of records. A record that two readers read counts twice.
        since_due: Whether latencies are measured from the scheduled time of each record. Without a
            schedule they are measured from the time of the send.
        p50_ms, p90_ms, p99_ms, p999_ms: The percentiles, at most 1 % too high.
        longest_ms: The longest latency.
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
    """The number of transactions of a cell by outcome (``checkers.checks.transaction_history``).

    Attributes:
        committed: The number of committed transactions; None, here and below, if there are none and
            not everything could be examined.
        not_committed: The number of transactions that were aborted or fenced.
        unknown: The number of transactions with an unknown outcome.
        found: The number of rows of each anomaly that only concerns transactions.
    """

    committed: int | None
    not_committed: int | None
    unknown: int | None
    found: Mapping[str, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellResult:
    """One cell of one run, with its configuration, its figures and its verdict.

    sent = acked + failed + indeterminate, as far as sends were recorded. lost: distinct acked
    records absent from the final log. duplicated: distinct records at two or more offsets.
    reordered: records that follow in the log a record that their producer sent later. The last
    three are None, not 0, if nothing was found and not everything could be examined.

    Attributes:
        settings: The cell itself. Its properties are Kafka's settings.
        expected: The verdicts that the campaign expects, any of which is right. Empty if the
            campaign expects none.
        forgotten: The number of acked records that the topic's cleanup policy has removed; None if
            it removes none. None of them counts as lost, or as kept.
        unavailable: The outages; None if not all sends are known, and with acks=0, whose acks are
            only the client's own claim.
        acks_per_second: The throughput from the first ack to the last; None if not all sends are
            known.
        ack_latency: The latency until the ack; None if not all sends are known. With acks=0 this
            and the throughput are only the client's own claim.
        shown_latency: The latency until a tail reader read the record; None if there is no tail
            reader, or not all of their reads are known.
        transactions: The transactions; None for a cell that is written without transactions.
        thresholds: The thresholds that the campaign sets on these figures, and whether they are
            met.
        reasons: The reasons for the verdict, the decisive ones first. Never empty.
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
    forgotten: int | None = None
    unavailable: Unavailable | None = None
    acks_per_second: float | None = None
    ack_latency: Latency | None = None
    shown_latency: Latency | None = None
    transactions: TransactionCounts | None = None
    thresholds: tuple[Threshold, ...] = ()
    reasons: tuple[str, ...]

    @property
    def cell(self) -> str:
        """The name of the cell."""
        return self.settings.name

    @property
    def counts_as(self) -> Verdict:
        """The verdict that counts for the campaign. An expected verdict counts as a pass and
        another one as a failure; too little evidence is neither. A threshold that is not met also
        makes it a failure, and one that is undecided makes it inconclusive."""
        return counted_as(self.verdict, self.expected, [one.met for one in self.thresholds])

    @property
    def is_broken(self) -> bool:
        """Whether a guarantee was violated although the campaign does not expect that."""
        return is_broken(self.verdict, self.expected)


def counted_as(
    verdict: Verdict, expected: Collection[Verdict], met: Collection[bool | None] = ()
) -> Verdict:
    """Return the verdict of a cell that counts for the campaign, as :attr:`CellResult.counts_as`.
    ``met`` says of each of its thresholds whether it is met."""
    came = verdict
    if expected and verdict is not Verdict.INCONCLUSIVE:
        came = Verdict.PASS if verdict in expected else Verdict.FAIL
    if came is Verdict.FAIL or False in met:
        return Verdict.FAIL
    return Verdict.INCONCLUSIVE if None in met else came


def is_broken(verdict: Verdict, expected: Collection[Verdict]) -> bool:
    """Return whether a cell violated a guarantee unexpectedly, as :attr:`CellResult.is_broken`."""
    return verdict is Verdict.FAIL and Verdict.FAIL not in expected


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A checked run.

    Attributes:
        clock_bound_ns: The largest possible difference between a producer's clock and the
            harness's. Statements about times and faults have this error. None if it is unknown.
        infrastructure_failed: Whether the run did not complete, or a step failed that does not
            touch the system under test.
        cluster: The cluster settings that vary over the runs, with this run's values.
    """

    number: int
    clock_bound_ns: int | None
    infrastructure_failed: bool
    cluster: Mapping[str, Value] = field(default_factory=dict)
    zookeeper: ZooKeeperWork = field(default_factory=ZooKeeperWork)
    failovers: tuple[Failover, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCounts:
    """The reads of one consumer of a cell over all partitions, counted as
    :mod:`checkers.checks.read_counts` defines.

    Attributes:
        member: Whether it is a member of a group. Otherwise it is a tail reader.
        group: Kafka's ``group.id``; None for a tail reader, or if it is unknown.
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
    """The commits of the members of one group of a cell over all partitions, counted as
    :mod:`checkers.checks.read_counts` defines."""

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
    """The counts of reads and commits, by client and by group. A count is None if it would be 0 and
    not everything could be examined."""

    clients: tuple[ClientCounts, ...] = ()
    groups: tuple[GroupCounts, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One root cause (``checkers.root_cause``) of anomalies of one kind in one partition.

    Attributes:
        anomaly: ``lost``, ``duplicated``, ``vanished-read``, ``inconsistent-read`` or
            ``divergent-replicas``.
        number: The number of the cause for this anomaly in the partition, from 1, as in the column
            ``cause`` of ``root-causes.parquet``. The line that stands for the causes that are not
            reported has 0.
        kind: A :class:`checkers.root_cause.kinds.CauseKind`, or ``more`` for that line.
        sentence: The root cause as a sentence.
        records: The number of records that it explains. For replicas it is the number of offsets.
        promised: The number of these that violate a guarantee.
        first_offset, last_offset: The lowest and highest offset of the acks. For repeated records
            they are those of the first copies; for reads and replicas those of the records read or
            held. None if the clients received no offset.
        first_time, last_time: The first and last time of the acks or reads, in Unix ns; None if
            unknown.
        leaders, epochs: The brokers that may have acked or appended the records, and their leader
            epochs. For missing records there is exactly one of each if they are known, and none
            otherwise.
        next_leader, next_epoch, next_offset: The next leader that lacked the records, its epoch,
            and the log end offset with which it began; None if unknown.
        isr_before: The last ISR that was observed before that leader; empty if unknown.
        faults: The faults that contributed to it.
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
    isr_before: tuple[int, ...] = ()
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignResult:
    """A checked campaign.

    Attributes:
        verdict: The worst verdict of the cells, in the order fail, inconclusive, pass. A cell that
            is not-guaranteed never makes it worse.
        anomalies: The number of rows of ``anomalies.parquet`` by name, with every known name. The
            guarantees say whether everything was examined.
        findings: Further facts that a reader must know, one sentence each, for example that a fault
            had no effect.
        baseline: Whether it is declared as a baseline and injected no faults.
        skipped: The faults that the environment did not allow, and why. The verdict says nothing
            about them.
        plugins: The plug-ins that its runs used, each with its version.
        runs: The runs of the manifest, in its order.
        consumption: The counts of the consumers, if there are any.
        causes: The root causes of lost, duplicated and vanished records and of divergent replicas,
            the most severe first. For each anomaly of a partition there are at most
            :data:`checkers.root_cause.causes.REPORTED_MAX`.
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
        """The guarantees that were violated in cells for which the campaign does not expect
        that."""
        for cell in self.cells:
            if cell.is_broken:
                yield from ((cell, one) for one in cell.guarantees if one.is_broken)

    @property
    def infrastructure_failed(self) -> bool:
        """Whether the infrastructure of a run failed, or there was no run at all."""
        return not self.runs or any(run.infrastructure_failed for run in self.runs)
