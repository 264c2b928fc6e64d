"""What ``verdict.json`` says of each cell and its consumers; see :mod:`harness.report.document`."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from ackproof.checkers.thresholds import Unit
from ackproof.checkers.verdict import WORST_FIRST, Verdict, counted_as, is_broken
from ackproof.history.cell import Value

# --- parts ----------------------------------------------------------------------------------------


class Part(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        use_attribute_docstrings=True,
        json_schema_serialization_defaults_required=True,
    )


# --- cells ----------------------------------------------------------------------------------------


class Guarantee(Part):
    """A promise of a cell's configuration, and what became of it."""

    name: str
    """Its short name."""
    promise: str
    """In words, with its conditions."""
    promised: bool
    """Whether it was promised, by the configuration and by what happened, of everything in the
    cell; or broken where it was."""
    held: bool | None
    """Whether it held, promised or not; null where the evidence does not tell."""
    broken: int = 0
    """How often it was broken where it was promised."""
    checked: bool = True
    """Whether nothing was left out that could have shown that it was broken. What was not checked
    neither held nor was broken."""
    anomaly: str | None = None
    """The anomaly that breaks it, as in `anomalies`; null where nothing of its kind is counted."""
    plugin: str | None = None
    """The plug-in whose checker looks after it, with its version; null of a built-in one."""
    reason: str
    """Why it is (not) promised, and what was seen."""


class Outages(Part):
    """What of a cell's unavailability began within the reach of a fault."""

    fault: str | None
    """The fault, as `kill#1`; several, comma-separated; null: no fault was on."""
    longest_ms: int
    """The longest of any partition."""
    total_ms: int
    """All of all partitions, added up."""
    partition: str | None = None
    """The partition with the longest, as `t-0`."""


class Unavailable(Part):
    """For how long a cell was asked and acknowledged nothing."""

    longest_ms: int
    """The longest outage of any of its partitions."""
    total_ms: int
    """All outages of all its partitions, added up: partition-milliseconds."""
    traffic_ms: int | None = None
    """How long its partitions had traffic, each from its first send to its last outcome, added up
    likewise: the share that was unavailable is `total_ms` of it."""
    by_fault: tuple[Outages, ...] = ()
    """The same by cause."""


class Latency(Part):
    """How long records of a cell took, every one of them; percentiles are at most 1 % too much."""

    records: int
    """How many are in it; a record that two tail readers were shown is two."""
    since_due: bool
    """Whether since they were due by their producer's schedule; else, where it has none, since they
    were handed to the client."""
    p50_ms: float
    """Within which half of them did."""
    p90_ms: float
    """Likewise 90 %."""
    p99_ms: float
    """Likewise 99 %."""
    p999_ms: float
    """Likewise 99.9 %."""
    longest_ms: float
    """The longest."""


class TransactionsDocument(Part):
    """How many transactions of a cell came to what, as far as its clients know."""

    committed: int | None
    """Their commit was answered. Null, as the others, where none were found and not everything
    could be looked at."""
    not_committed: int | None
    """They were aborted, or nobody asked for their commit, or whoever did had been fenced."""
    unknown: int | None
    """Nobody knows."""
    found: dict[str, int | None] = {}
    """Anomalies of transactions, by name; those of `anomalies.parquet`, counted."""


class ThresholdDocument(Part):
    """A threshold that the campaign sets on a figure of a cell, with what was measured."""

    measure: str
    """What it is set on: its key in `expect` of the campaign file."""
    operator: Literal["<=", "<", ">=", ">"]
    """How what was measured must compare with the limit."""
    limit: float
    """The limit, in `unit`."""
    unit: Unit
    """What `limit` and `measured` count."""
    measured: float | None
    """What was measured; null where it was not measured."""
    met: bool | None
    """Whether the threshold is met; null where that cannot be told."""
    reason: str
    """Why it cannot be told; empty where it can."""


class CellDocument(Part):
    """A cell of a run. Beside these names stand all its settings and what is swept of its cluster,
    under Kafka's names. A count is null where nothing was found and not everything could be looked
    at: unknown is not 0."""

    model_config = ConfigDict(extra="allow")  # besides what is said above
    __pydantic_extra__: dict[str, Value]

    run: int = 1
    """The run's number, from 1."""
    cell: str
    """The cell's name."""
    topic: str
    """Its topic."""
    sent: int
    """Records that were handed to the client: acked, failed and indeterminate ones."""
    acked: int
    """Records that were acknowledged; with acks=0 that is the client's own word."""
    failed: int
    """Records that are certainly not in the log."""
    indeterminate: int
    """Records of which nobody knows whether they were appended."""
    lost: int | None
    """Acked records that are absent from the final log."""
    duplicated: int | None
    """Records that stand at two or more offsets."""
    reordered: int | None
    """Records that stand behind one that their producer sent later."""
    guarantees: tuple[Guarantee, ...]
    """What was promised, or not, and what became of it."""
    verdict: Verdict
    """What the cell came to."""
    expected: Verdict | tuple[Verdict, ...] | None = None
    """What the campaign expects of it: null, a verdict, or all those that are right."""
    unavailable: Unavailable | None = None
    """Null where not all sends are known, and with acks=0."""
    acks_per_second: float | None = None
    """From the first ack to the last; null where not all sends are known."""
    ack_latency: Latency | None = None
    """Until the ack, of the records that were acknowledged; null likewise. With acks=0 both are the
    client's own word."""
    shown_latency: Latency | None = None
    """Until a tail reader was first shown the record; null where there are none, or not all is
    known that they were shown."""
    transactions: TransactionsDocument | None = None
    """Null of a cell that is written without any."""
    thresholds: tuple[ThresholdDocument, ...] = ()
    """What the campaign expects of these figures, and whether that is met. One that is not met
    fails the campaign, one that cannot be told leaves it inconclusive."""
    reasons: tuple[str, ...] = ()
    """What the verdict follows from, the decisive ones first."""

    @property
    def counts_as(self) -> Verdict:
        """What it is for the campaign, as :attr:`checkers.verdict.CellResult.counts_as`."""
        return counted_as(self.verdict, self._expected, [one.met for one in self.thresholds])

    @property
    def is_broken(self) -> bool:
        """Whether a guarantee was broken that the campaign does not expect to be broken."""
        return is_broken(self.verdict, self._expected)

    @property
    def kind(self) -> Verdict:
        """The verdict whose colours it has, as :attr:`harness.report.rows.CellRow.kind`."""
        return min(self.verdict, self.counts_as, key=WORST_FIRST.index)

    @property
    def _expected(self) -> tuple[Verdict, ...]:
        if self.expected is None:
            return ()
        return (self.expected,) if isinstance(self.expected, Verdict) else self.expected


# --- consumers ------------------------------------------------------------------------------------


class ClientDocument(Part):
    """What a consumer of a cell was shown, over all its partitions. A count is what was found; null
    where that is nothing and not everything could be looked at."""

    run: int
    """The run's number."""
    cell: str
    """The cell's name."""
    client: str
    """The consumer's name."""
    member: bool
    """Whether it is of a group; else it is a tail reader."""
    group: str | None
    """Kafka's `group.id`; null for a tail reader, and where nothing tells it."""
    shown: int | None
    """Records, each as often as it was shown."""
    distinct: int | None
    """At how many offsets."""
    again: int | None
    """Offsets that were shown in several assignments."""
    nonmonotonic: int | None
    """Steps back within one assignment."""
    skipped: int | None
    """Offsets of the log that were passed over."""
    foreign: int | None
    """Offsets at which the payload shown was none of ours, or damaged."""
    inconsistent: int | None
    """Offsets at which what was shown and the log, or an ack, disagree."""
    vanished: int | None
    """Records shown that the final log does not have at that offset."""
    unseen: int | None
    """Of a tail reader: acked records of the log that it read past and was not shown."""
    unread: int | None
    """Of a tail reader: offsets of the final log above the highest that it was shown."""


class GroupDocument(Part):
    """What the members of a consumer group committed, over all partitions of its cell; null as in
    what consumers were shown."""

    run: int
    """The run's number."""
    cell: str
    """The cell's name."""
    group: str
    """Kafka's `group.id`."""
    committed: int | None
    """Commits of a partition that were answered without an error."""
    commit_errors: int | None
    """Commits of which nobody knows whether they were kept."""
    commits_lost: int | None
    """How often what was committed was not known any more."""
    commits_regressed: int | None
    """How often an older offset was read back than was committed."""
    skipped_by_commit: int | None
    """Records that an at-least-once group committed past, and of which none of its members was
    shown any."""


class ConsumptionDocument(Part):
    """What consumers were shown and committed."""

    clients: tuple[ClientDocument, ...] = ()
    """Each consumer of each cell."""
    groups: tuple[GroupDocument, ...] = ()
    """Each group of each cell."""
