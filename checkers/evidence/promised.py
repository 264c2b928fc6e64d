"""What is promised of each partition of a run, and to the groups that read it: from what the run's
tables tell."""

from dataclasses import replace

from ackproof.checkers.cluster.faults import FOREVER, Partition
from ackproof.checkers.cluster.observed import OBSERVATION_LAG_NS
from ackproof.checkers.cluster.reach import settle_ns
from ackproof.checkers.evidence.run import RunEvidence
from ackproof.checkers.promises.agreement import Agreement, agreement
from ackproof.checkers.promises.surroundings import Surroundings
from ackproof.checkers.promises.terms import Terms, shown_terms, terms
from ackproof.history.cell import Cell
from ackproof.history.manifest import PlannedGroup

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
_OFFSETS = Cell(name=OFFSETS_TOPIC, topic=OFFSETS_TOPIC, settings={"acks": "all"})
"""What groups commit is written with acks=all (``offsets.commit.required.acks``)."""


def terms_of(run: RunEvidence, cell: Cell, partition: Partition) -> Terms:
    """From when on a partition's acked records are promised to be kept."""
    return terms(cell, partition, _until_read(run, around(run, partition)))


def shown_terms_of(run: RunEvidence, cell: Cell, partition: Partition) -> Terms:
    """From when on what consumers were shown of a partition is promised to stay."""
    bound = run.clock_bound_ns(partition, "sends", "polls")
    befell = _until_read(run, around(run, partition))
    return shown_terms(cell, partition, replace(befell, clock_bound_ns=bound))


def committed_terms_of(run: RunEvidence, group: PlannedGroup, partition: Partition) -> Terms:
    """From when on what a group committed of a partition is promised to be kept."""
    kept_in = offsets_partition(run, group)
    if kept_in is None:
        why = f"nobody watched who coordinated {group.name}"
        return Terms(unknown_before=FOREVER, why=(why,))
    return terms(_OFFSETS, kept_in, _until_read(run, around_group(run, kept_in, partition)))


def transactional_terms_of(run: RunEvidence, cell: Cell) -> Terms:
    """From when on what transactions of a cell committed is promised to stand, and what they
    aborted not to: they go over all its partitions, and rest on those that keep their coordinators'
    state and the groups' offsets (both written with acks=all)."""
    bound = run.clock_bound_ns(cell.topic_partitions[0], "sends", "polls")
    found = []
    for topic, many in _rests_on(run, cell).items():
        if not many:
            why = f"nobody watched who led {topic}"
            found.append(Terms(unknown_before=FOREVER, why=(why,)))
        for partition in [(topic, number) for number in range(many)]:
            befell = _until_read(run, replace(around(run, partition), clock_bound_ns=bound))
            found.append(terms(cell if topic == cell.topic else _OFFSETS, partition, befell))
    return Terms(
        unpromised_before=max(one.unpromised_before for one in found),
        unknown_before=max(one.unknown_before for one in found),
        unknown_in=tuple(span for one in found for span in one.unknown_in),
        why=tuple(dict.fromkeys(why for one in found for why in one.why)),
    )


def _rests_on(run: RunEvidence, cell: Cell) -> dict[str, int]:
    """How many partitions of each topic."""
    internal = (TRANSACTIONS_TOPIC, OFFSETS_TOPIC)
    seen = run.observation
    counts = {topic: seen.partitions(topic) if seen.whole else 0 for topic in internal}
    return {cell.topic: cell.partitions, **counts}


def agreement_of(run: RunEvidence, cell: Cell, partition: Partition) -> Agreement:
    """Whether a partition's replicas are promised to hold the same log."""
    return agreement(cell, partition, around(run, partition))


def within_int64(time: int) -> int:
    """A history may hold any time; what lies beyond all of them is as good as the last."""
    return max(0, min(time, FOREVER))


def around(run: RunEvidence, partition: Partition) -> Surroundings:
    """What befell a partition; its clocks are those of who sent to it."""
    return Surroundings(
        observed=run.observation.of(partition),
        faults=(*run.faults, *run.unrecorded),
        settle_ns=settle_ns(run.planned),
        clock_bound_ns=run.clock_bound_ns(partition),
        tenures=run.observation.tenures,
        combined=frozenset(run.planned.combined),
        pace=run.pace,
    )


def _until_read(run: RunEvidence, befell: Surroundings) -> Surroundings:
    """Return what came before the final read had ended: what came later excuses nothing that the
    read did not find. A change is seen up to a moment after it took place."""
    if run.read_over is None:
        return befell
    end = min(run.read_over + OBSERVATION_LAG_NS, FOREVER)
    faults = tuple(fault for fault in befell.faults if fault.start < end)
    return replace(befell, observed=befell.observed.until(end), faults=faults)


def around_group(run: RunEvidence, kept_in: Partition, read: Partition) -> Surroundings:
    """Times of commits are of the clocks of those who read."""
    return replace(around(run, kept_in), clock_bound_ns=run.clock_bound_ns(read, "polls"))


def offsets_partition(run: RunEvidence, group: PlannedGroup) -> Partition | None:
    """The partition that keeps what a group commits, as Kafka's *GroupMetadataManager* chooses it
    (``partitionFor``); None where none was seen."""
    count = run.observation.partitions(OFFSETS_TOPIC) if run.observation.whole else 0
    return (OFFSETS_TOPIC, abs(_java_hash(group.name)) % count) if count else None


def _java_hash(text: str) -> int:
    """Java's ``String.hashCode``, of what Kafka takes the absolute value of: 0 for the one number
    that has none."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFF_FFFF
    signed = code - 2**32 if code >= 2**31 else code
    return 0 if signed == -(2**31) else signed
