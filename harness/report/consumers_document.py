"""What ``verdict.json`` says of consumers (``harness.report.document``)."""

from ackproof.harness.report.part import Part


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
