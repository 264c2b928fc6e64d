"""The facts of a history that a picture shows.

A picture shows a few offsets of one partition. Of the tables and raw logs of the partition, only
the records at these offsets are kept.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.checks.catalogue import (
    INCONSISTENT,
    NONMONOTONIC,
    SKIPPED,
    SKIPPED_BY_COMMIT,
    UNSEEN,
    VANISHED,
)
from ackproof.checkers.checks.planned_consumers import consumers_of
from ackproof.checkers.checks.read_counts import Consumer
from ackproof.checkers.checks.replicas import high_watermark
from ackproof.checkers.context.faults import Partition
from ackproof.checkers.context.run import RunEvidence
from ackproof.checkers.index import columns
from ackproof.checkers.index.raw_logs import OtherFormat, RawBatch, RawLog, Undecodable, contents
from ackproof.checkers.pictures.log_picture import (
    ClientFacts,
    Facts,
    Held,
    LogFacts,
    LogPicture,
    RecordName,
    Subject,
    columns_of,
    log_picture,
)
from ackproof.checkers.pictures.subjects import shown_offsets
from ackproof.checkers.root_cause.missing_records import LOST
from ackproof.checkers.root_cause.partition_context import context_sources, partition_context
from ackproof.history.cell import Cell
from ackproof.history.payload import Identity
from ackproof.history.storage import AnyPath

OF_CONSUMERS = frozenset({VANISHED, INCONSISTENT, SKIPPED, NONMONOTONIC, UNSEEN, SKIPPED_BY_COMMIT})
"""The anomalies of which a picture shows what consumers were given."""

CLIENTS_MAX = 6
"""The most consumers of a picture."""

_EVERYTHING = ((0, (1 << 62) - 1),)


def picture(run: RunEvidence, subject: Subject, anomalies: pa.Table) -> LogPicture:
    """Return the picture of a subject from the evidence of its run. ``anomalies`` are the rows of
    ``anomalies.parquet``.

    Raises LookupError if the manifest plans no such partition.
    """
    return log_picture(subject, facts_of(run, subject, anomalies))


def facts_of(run: RunEvidence, subject: Subject, anomalies: pa.Table) -> Facts:
    """Return the facts of the partition of a subject. The arguments and errors are those of
    :func:`picture`."""
    cell, partition = _cell(run, subject), (subject.topic, subject.partition)
    shown = shown_offsets(columns_of(subject))
    context = partition_context(context_sources(run, cell, partition))
    lost = _lost(anomalies, subject, shown)
    if not shown:
        return Facts(final_log=LogFacts(), context=context)
    named = lost.filter(pc.is_in(lost["offset"], pa.array(shown, pa.int64())))
    acks, count, unobserved = _acks(run, cell, partition, shown)
    final_log = _final_log(run, cell, partition, shown)
    names = subject.names if subject.is_gone else {}
    # A batch of the final log's epoch is the final log's batch, which lacks the record.
    stands = {offset: one.epoch for offset, one in final_log.held.items()}
    drawn = _Drawn(cell, shown, {offset: stands.get(offset) for offset in names})
    return Facts(
        final_log=final_log,
        replicas=dict(_replicas(run, partition, drawn)),
        acks=acks,
        lost=frozenset(
            zip(named["producer"].to_pylist(), named["sequence"].to_pylist(), strict=True)
        ),
        acked_count=count,
        lost_count=len(lost),
        acks_unobserved=unobserved,
        clients=_clients(run, cell, subject, partition, shown),
        context=context,
    )


def _cell(run: RunEvidence, subject: Subject) -> Cell:
    for planned in run.planned.cells:
        if (subject.topic, subject.partition) in planned.cell.topic_partitions:
            return planned.cell
    raise LookupError(f"the manifest plans no partition {subject.topic}-{subject.partition}")


def _lost(anomalies: pa.Table, subject: Subject, shown: Sequence[int]) -> pa.Table:
    """Return the lost records that were acked from the first to the last offset."""
    if not shown:
        return anomalies.slice(0, 0)
    within = pc.and_(
        pc.greater_equal(anomalies["offset"], shown[0]),
        pc.less_equal(anomalies["offset"], shown[-1]),
    )
    for name, value in (
        ("anomaly", LOST),
        ("run", subject.run),
        ("topic", subject.topic),
        ("partition", subject.partition),
    ):
        within = pc.and_(within, pc.equal(anomalies[name], value))
    return anomalies.filter(within)


# --- tables ---------------------------------------------------------------------------------------

_NAMES = ("cell", "producer", "sequence")


def _final_log(
    run: RunEvidence, cell: Cell, partition: Partition, shown: Sequence[int]
) -> LogFacts:
    files = list(map(str, run.writers.files("log", partition)))
    read = run.final_read(partition)
    if not files and not read.complete:
        return LogFacts(unobserved="the final read has no rows of this partition")
    rows, problems = columns.read("log", files, ("offset", "leader_epoch", *_NAMES))
    rows = rows.filter(pc.is_in(rows["offset"], pa.array(shown, pa.int64())))
    held = {
        offset: Held(epoch=epoch, name=name)
        for offset, epoch, name in zip(
            rows["offset"].to_pylist(),
            rows["leader_epoch"].to_pylist(),
            _names(rows, cell),
            strict=True,
        )
    }
    is_whole = read.complete and run.writers.whole("log", partition) and not problems
    return LogFacts(held=held, unknown=() if is_whole else _EVERYTHING)


def _names(rows: pa.Table, cell: Cell) -> list[RecordName | None]:
    """Return the name of each row's record, or None if no client of the cell wrote it."""
    values = (rows[name].to_pylist() for name in _NAMES)
    return [
        (producer, sequence) if whose == cell.name else None
        for whose, producer, sequence in zip(*values, strict=True)
    ]


def _acks(
    run: RunEvidence, cell: Cell, partition: Partition, shown: Sequence[int]
) -> tuple[Mapping[int, Sequence[RecordName]], int, str]:
    """Return the records that were acked at each offset, the number of all that were acked from the
    first to the last offset, and the reason why some may be missing."""
    files = list(map(str, run.writers.files("sends", partition)))
    rows, problems = columns.read(
        "sends", files, ("offset", *_NAMES), run.expected("sends", partition, cell.name)
    )
    # Only an ack has an offset.
    offsets = rows["offset"]
    within = pc.and_(pc.greater_equal(offsets, shown[0]), pc.less_equal(offsets, shown[-1]))
    drawn = rows.filter(pc.is_in(offsets, pa.array(shown, pa.int64())))
    found: dict[int, list[RecordName]] = {}
    for offset, name in zip(drawn["offset"].to_pylist(), _names(drawn, cell), strict=True):
        if name is not None:
            found.setdefault(offset, []).append(name)
    count = int(pc.sum(within).as_py() or 0)
    return found, count, _acks_unobserved(run, cell, partition, offsets, problems)


def _acks_unobserved(
    run: RunEvidence,
    cell: Cell,
    partition: Partition,
    offsets: pa.ChunkedArray,
    problems: Sequence[str],
) -> str:
    if problems or not (run.flushed and run.writers.whole("sends", partition)):
        return "not all sends to the partition are recorded"
    if cell.acks == "0" and offsets.null_count == len(offsets):
        return "the clients received no offsets (acks=0)"
    return ""


def _clients(
    run: RunEvidence, cell: Cell, subject: Subject, partition: Partition, shown: Sequence[int]
) -> dict[str, ClientFacts]:
    """Return what consumers of the partition were given: first those that the subject names, then
    others that were given any of these offsets."""
    if subject.anomaly not in OF_CONSUMERS:
        return {}
    found = {
        consumer.client: _given(consumer, cell, shown) for consumer in consumers_of(run, partition)
    }
    named = [client for client in found if client in subject.detail]
    others = [client for client, given in found.items() if given.given or given.unobserved]
    chosen = list(dict.fromkeys((*named, *others)))[:CLIENTS_MAX]
    return {client: found[client] for client in chosen}


def _given(consumer: Consumer, cell: Cell, shown: Sequence[int]) -> ClientFacts:
    rows, problems = columns.read("polls", consumer.polls, ("offset", *_NAMES), consumer.expected)
    rows = rows.filter(pc.is_in(rows["offset"], pa.array(shown, pa.int64())))
    given: dict[int, frozenset[RecordName | None]] = {}
    for offset, name in zip(rows["offset"].to_pylist(), _names(rows, cell), strict=True):
        given[offset] = given.get(offset, frozenset()) | {name}
    is_whole = consumer.polls_whole and not problems
    return ClientFacts(
        given=given, unobserved="" if is_whole else "not all of its reads are recorded"
    )


# --- raw logs -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Drawn:
    """The offsets that are read from raw logs.

    Attributes:
        cell: The cell of the partition.
        shown: The offsets, in order.
        named: Those at which the record's name matters, with the epoch of the final log's record.
    """

    cell: Cell
    shown: Sequence[int]
    named: Mapping[int, int | None]


def _replicas(
    run: RunEvidence, partition: Partition, drawn: _Drawn
) -> Iterator[tuple[int, LogFacts]]:
    """Yield the log of each broker that was ever observed in the ISR or whose log was collected."""
    directories: dict[int, list[AnyPath]] = {}
    for broker, path in (run.logs or {}).get(f"{partition[0]}-{partition[1]}", ()):
        directories.setdefault(broker, []).append(path)
    for broker in sorted(run.observation.of(partition).brokers | directories.keys()):
        paths = directories.get(broker, [])
        if len(paths) == 1:
            yield broker, _raw_log(paths[0], partition, drawn)
        else:
            yield broker, LogFacts(unobserved=_not_collected(run, len(paths)))


def _not_collected(run: RunEvidence, directories: int) -> str:
    if (reason := run.planned.unchecked.get("replicas-agree")) is not None:
        return reason
    if directories:
        return "its log was collected from several log directories"
    return "its raw log was not collected"


def _raw_log(directory: AnyPath, partition: Partition, drawn: _Drawn) -> LogFacts:
    log = RawLog(directory)
    held: dict[int, Held] = {}
    offsets = np.array(drawn.shown, dtype=np.int64)
    try:
        if log.start is None:
            return LogFacts(unobserved="no segment of its log was collected")
        for batch in log.batches(drawn.shown[0], drawn.shown[-1] + 1):
            first, last = np.searchsorted(offsets, [batch.base_offset, batch.last_offset + 1])
            if first < last:
                held |= _held(batch, offsets[first:last].tolist(), drawn)
    except (OtherFormat, OSError) as error:
        return LogFacts(unobserved=f"its raw log cannot be read: {error}")
    return LogFacts(
        held=held,
        unknown=tuple((first, end - 1) for first, end in log.unread),
        watermark=high_watermark(directory, partition),
    )


def _held(batch: RawBatch, offsets: Sequence[int], drawn: _Drawn) -> dict[int, Held]:
    """Return the records of a batch at these offsets. It is decoded only if a name matters, or if
    it may lack one of its offsets."""
    epoch = batch.leader_epoch
    is_named = any(drawn.named.get(offset, epoch) != epoch for offset in offsets)
    if not is_named and batch.count == batch.last_offset - batch.base_offset + 1:
        return dict.fromkeys(offsets, Held(epoch=epoch))
    try:
        records = contents(batch)
    except Undecodable:
        return dict.fromkeys(offsets, Held(epoch=epoch))
    return {
        offset: Held(epoch=epoch, name=_own(records[offset].identity, drawn.cell))
        for offset in offsets
        if offset in records
    }


def _own(identity: Identity | None, cell: Cell) -> RecordName | None:
    own = identity is not None and identity.cell == cell.name
    return (identity.producer, identity.sequence) if identity and own else None
