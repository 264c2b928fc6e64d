"""The part of ``verdict.json`` about each cell and its consumers; see
:mod:`harness.report.document`."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from ackproof.checkers.guarantees.table import NO_LOSS
from ackproof.checkers.thresholds import Unit
from ackproof.checkers.verdict import WORST_FIRST, Verdict, counted_as, is_broken
from ackproof.history.cell import Value

# --- parts ----------------------------------------------------------------------------------------


class DocumentPart(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        use_attribute_docstrings=True,
        json_schema_serialization_defaults_required=True,
    )


# --- cells ----------------------------------------------------------------------------------------


class GuaranteeDocument(DocumentPart):
    """A guarantee that a cell's configuration may give, and its result."""

    name: str
    """The short name."""
    promise: str
    """The guarantee in words, with its conditions."""
    promised: bool
    """Whether it was promised for everything in the cell, by the configuration and by what
    happened, or was broken for a part for which it was promised."""
    held: bool | None
    """Whether it held, promised or not; null if the evidence does not show it."""
    broken: int = 0
    """The number of violations where it was promised."""
    undecided: int = 0
    """The number of anomalies of which it is unknown whether it was promised there."""
    found: int = 0
    """The number of all anomalies of its kind, also where it was not promised; 0 in results of
    former versions."""
    checked: bool = True
    """Whether everything was checked that could have shown a violation. A guarantee that was not
    checked neither held nor was broken."""
    lacking: str = ""
    """The evidence that is missing to say whether it held; empty if that is known."""
    anomaly: str | None = None
    """The anomaly that violates it, as in `anomalies`; null if no anomaly of its kind is
    counted."""
    plugin: str | None = None
    """The plug-in whose checker judges it, with its version; null for a built-in one."""
    reason: str
    """The reason why it is (not) promised, and the observations."""


class OutagesDocument(DocumentPart):
    """The unavailability of a cell that began within the reach of a fault."""

    fault: str | None
    """The fault, as `kill#1`; several, comma-separated; null: no fault was active."""
    longest_ms: int
    """The longest outage of any partition."""
    total_ms: int
    """The sum of the outages of all partitions."""
    partition: str | None = None
    """The partition with the longest outage, as `t-0`."""


class OutagePeriodDocument(DocumentPart):
    """One outage of a partition."""

    partition: str
    """The partition, as `t-0`."""
    start: int
    """Its start by the client's clock, in nanoseconds since 1970."""
    end: int
    """Its end."""
    length_ms: int
    """The time from start to end in which requests were waiting."""
    acked: bool
    """Whether an ack ended it. Otherwise nothing was acknowledged any more."""
    fault: str | None
    """The faults that were active when it began, as `kill#1`, comma-separated; null: none was."""


class UnavailabilityDocument(DocumentPart):
    """The time in which a cell had requests waiting and acknowledged nothing."""

    longest_ms: int
    """The longest outage of any partition."""
    total_ms: int
    """The sum of all outages of all partitions, in partition-milliseconds."""
    traffic_ms: int | None = None
    """The sum over its partitions of the time with traffic, from the first send to the last
    outcome. The unavailable share is `total_ms` divided by it."""
    by_fault: tuple[OutagesDocument, ...] = ()
    """The same by cause."""
    periods: tuple[OutagePeriodDocument, ...] = ()
    """The longest outages, at most 20, in the order of time."""


class LatencyDocument(DocumentPart):
    """The latency of all records of a cell. Percentiles are at most 1 % too high."""

    records: int
    """The number of records. A record that two tail readers read counts twice."""
    since_due: bool
    """Whether times begin when records were due by their producer's schedule. A producer without
    one counts from the hand-over to the client."""
    p50_ms: float
    """The time that 50 % of the records do not exceed."""
    p90_ms: float
    """The time that 90 % do not exceed."""
    p99_ms: float
    """The time that 99 % do not exceed."""
    p999_ms: float
    """The time that 99.9 % do not exceed."""
    longest_ms: float
    """The longest time."""


class TransactionsDocument(DocumentPart):
    """The number of transactions of a cell by outcome, as far as its clients know."""

    committed: int | None
    """Transactions whose commit was confirmed. Null, like the others, if none were found and not
    everything could be checked."""
    not_committed: int | None
    """Transactions that were aborted, were never asked to commit, or whose producer had been
    fenced."""
    unknown: int | None
    """Transactions of unknown outcome."""
    found: dict[str, int | None] = {}
    """Anomalies of transactions by name: the rows of `anomalies.parquet`, counted."""


class ThresholdDocument(DocumentPart):
    """A threshold that the campaign sets on a figure of a cell, with the measured value."""

    measure: str
    """The measure: its key in `expect` of the campaign file."""
    operator: Literal["<=", "<", ">=", ">"]
    """The required relation of the measured value to the limit."""
    limit: float
    """The limit, in `unit`."""
    unit: Unit
    """The unit of `limit` and `measured`."""
    measured: float | None
    """The measured value; null if it was not measured."""
    met: bool | None
    """Whether the threshold is met; null if that is unknown."""
    reason: str
    """The reason why it is unknown; empty if it is known."""


class CellDocument(DocumentPart):
    """A cell of a run. Further names are all its settings and the swept settings of its cluster,
    under Kafka's names. A count is null if nothing was found and not everything could be checked:
    unknown is not 0."""

    model_config = ConfigDict(extra="allow")  # the settings, as the docstring says
    __pydantic_extra__: dict[str, Value]

    run: int = 1
    """The run's number, from 1."""
    cell: str
    """The cell's name."""
    topic: str
    """The cell's topic."""
    sent: int
    """Records that were handed to the client: acked, failed and indeterminate ones."""
    acked: int
    """Records that were acknowledged; with acks=0 by the client itself."""
    failed: int
    """Records that are certainly not in the log."""
    indeterminate: int
    """Records of which it is unknown whether they were appended."""
    lost: int | None
    """Acknowledged records that are absent from the final log, except forgotten ones."""
    forgotten: int | None = None
    """Acknowledged records that the topic's retention or compaction has removed: neither lost nor
    kept. Null if it has neither."""
    duplicated: int | None
    """Records at two or more offsets."""
    reordered: int | None
    """Records behind a record that their producer sent later."""
    guarantees: tuple[GuaranteeDocument, ...]
    """The guarantees, promised or not, and their results."""
    verdict: Verdict
    """The verdict of the cell."""
    expected: Verdict | tuple[Verdict, ...] | None = None
    """The verdict that the campaign expects of it: null, one verdict, or a list of accepted
    ones."""
    unavailable: UnavailabilityDocument | None = None
    """The unavailability; null if not all sends are known, and with acks=0."""
    acks_per_second: float | None = None
    """The rate from the first ack to the last; null if not all sends are known."""
    ack_latency: LatencyDocument | None = None
    """The time until the ack, of acknowledged records; null if not all sends are known. With acks=0
    the rate and the latency are those of the client's own acknowledgements."""
    shown_latency: LatencyDocument | None = None
    """The time until a tail reader first read the record; null without tail readers, or if not all
    of their reads are known."""
    transactions: TransactionsDocument | None = None
    """The transactions; null for a cell without any."""
    thresholds: tuple[ThresholdDocument, ...] = ()
    """The campaign's thresholds on these figures, and whether they are met. A threshold that is not
    met fails the campaign. An undecided one leaves it inconclusive."""
    reasons: tuple[str, ...] = ()
    """The reasons for the verdict, the decisive ones first."""

    @property
    def counts_as(self) -> Verdict:
        """Return the verdict that the campaign counts, as
        :attr:`checkers.verdict.CellResult.counts_as`."""
        return counted_as(self.verdict, self._expected, [one.met for one in self.thresholds])

    @property
    def promises_no_loss(self) -> bool:
        """Return whether it guarantees that no acknowledged record is lost."""
        return any(one.name == NO_LOSS and one.promised for one in self.guarantees)

    @property
    def is_broken(self) -> bool:
        """Return whether a guarantee was broken that the campaign does not expect to be broken."""
        return is_broken(self.verdict, self._expected)

    @property
    def kind(self) -> Verdict:
        """Return the verdict that decides the colour, as
        :attr:`harness.report.rows.CellRow.kind`."""
        return min(self.verdict, self.counts_as, key=WORST_FIRST.index)

    @property
    def _expected(self) -> tuple[Verdict, ...]:
        if self.expected is None:
            return ()
        return (self.expected,) if isinstance(self.expected, Verdict) else self.expected


# --- consumers ------------------------------------------------------------------------------------


class ClientDocument(DocumentPart):
    """The reads of a consumer of a cell, over all its partitions. A count is null if nothing was
    found and not everything could be checked."""

    run: int
    """The run's number."""
    cell: str
    """The cell's name."""
    client: str
    """The consumer's name."""
    member: bool
    """Whether it is a member of a group; otherwise it is a tail reader."""
    group: str | None
    """Kafka's `group.id`; null for a tail reader, or if it is unknown."""
    shown: int | None
    """Records that it read, each as often as it was read."""
    distinct: int | None
    """The number of offsets that it read."""
    again: int | None
    """Offsets that it read in several assignments."""
    nonmonotonic: int | None
    """Steps back within one assignment."""
    skipped: int | None
    """Offsets of the log that it skipped."""
    foreign: int | None
    """Offsets whose payload was not sent by any client of the run, or was damaged."""
    inconsistent: int | None
    """Offsets at which its read disagrees with the log or an ack."""
    vanished: int | None
    """Records that it read, and that the final log does not have at that offset."""
    unseen: int | None
    """For a tail reader: acked records of the log that it passed without reading them."""
    unread: int | None
    """For a tail reader: offsets of the final log above the highest that it read."""


class GroupDocument(DocumentPart):
    """The commits of a consumer group's members, over all partitions of its cell; null as for the
    reads of consumers."""

    run: int
    """The run's number."""
    cell: str
    """The cell's name."""
    group: str
    """Kafka's `group.id`."""
    committed: int | None
    """Commits of a partition that were answered without an error."""
    commit_errors: int | None
    """Commits that ended with an error, so that it is unknown whether they were kept."""
    commits_lost: int | None
    """The number of times that a committed offset was no longer known."""
    commits_regressed: int | None
    """The number of times that an older offset was read back than was committed."""
    skipped_by_commit: int | None
    """Records that an at-least-once group committed past, and that none of its members read."""


class ConsumptionDocument(DocumentPart):
    """The reads and commits of consumers."""

    clients: tuple[ClientDocument, ...] = ()
    """Each consumer of each cell."""
    groups: tuple[GroupDocument, ...] = ()
    """Each group of each cell."""
