"""The subjects of pictures (rows of ``anomalies.parquet`` and ``root-causes.parquet``), and the
facts of a history that a picture shows.

A picture shows a few offsets of one partition. Of the tables and raw logs of the partition, only
the records at these offsets are kept.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.checks.catalogue import (
    DIVERGENT,
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
    Column,
    Facts,
    Held,
    LogFacts,
    LogPicture,
    RecordName,
    Subject,
    columns_of,
    log_picture,
    merged,
)
from ackproof.checkers.root_cause.duplicates import DUPLICATED
from ackproof.checkers.root_cause.missing_records import LOST
from ackproof.checkers.root_cause.partition_context import context_sources, partition_context
from ackproof.history.cell import Cell
from ackproof.history.payload import Identity
from ackproof.history.storage import AnyPath

# --- subjects -------------------------------------------------------------------------------------

_PLACE = ("run", "cell", "anomaly", "topic", "partition")
_NAME = ("offset", "producer", "sequence")

Row = Mapping[str, Any]


def subject_of_row(anomalies: pa.Table, root_causes: pa.Table, number: int) -> Subject:
    """Return the subject of a row of ``anomalies.parquet``: all records of its cause, or, without a
    cause, the neighbouring records with the same words.

    Args:
        anomalies: The rows of ``anomalies.parquet``.
        root_causes: The rows of ``root-causes.parquet``.
        number: The number of the row, from 1.
    """
    (row,) = anomalies.slice(number - 1, 1).to_pylist()
    mine = _where(root_causes, {name: row[name] for name in _PLACE})
    same = _where(mine, {name: row[name] for name in _NAME})
    if len(same):
        found = same.slice(0, 1).to_pylist()[0]
        return _subject(_where(mine, {"cause": found["cause"]}), found, row, number)
    alike = _where(anomalies, {name: row[name] for name in (*_PLACE, "detail")})
    return _subject(_neighbours(alike, row), row, row, number)


def subject_of_cause(
    anomalies: pa.Table, root_causes: pa.Table, place: Row, cause: int
) -> Subject | None:
    """Return the subject of a cause, with its first record as the representative. Return None if it
    has no row, as the line that stands for causes that are not listed.

    Args:
        anomalies, root_causes: As in :func:`subject_of_row`.
        place: The run, cell, anomaly, topic and partition.
        cause: The number of the cause there.
    """
    mine = _where(root_causes, {**{name: place[name] for name in _PLACE}, "cause": cause})
    if not len(mine):
        return None
    first = mine.slice(0, 1).to_pylist()[0]
    number = number_of(anomalies, first)
    if number is None:
        return None
    return _subject(mine, first, anomalies.slice(number - 1, 1).to_pylist()[0], number)


def number_of(anomalies: pa.Table, row: Row) -> int | None:
    """Return the number of the first row of ``anomalies.parquet``, from 1, with the anomaly and the
    record of ``row``, or None if there is none."""
    is_it = _matches(anomalies, {name: row[name] for name in (*_PLACE, *_NAME)})
    found = pc.index(is_it, True).as_py()
    return None if found < 0 else found + 1


def _where(rows: pa.Table, values: Row) -> pa.Table:
    return rows.filter(_matches(rows, values))


def _matches(rows: pa.Table, values: Row) -> pa.ChunkedArray:
    found = pa.chunked_array([pa.repeat(pa.scalar(True), len(rows))])
    for name, value in values.items():
        column = rows[name]
        same = pc.is_null(column) if value is None else pc.equal(column, value)
        found = pc.and_(found, pc.fill_null(same, False))
    return found


def _neighbours(alike: pa.Table, row: Row) -> pa.Table:
    """Return those of the rows whose offsets form an unbroken run with that of ``row``."""
    if row["offset"] is None:
        return _where(alike, {name: row[name] for name in _NAME})
    runs = merged(_ranges(alike, row["anomaly"]))
    first, last = next(one for one in runs if one[0] <= row["offset"] <= one[1])
    return alike.filter(
        pc.and_(pc.greater_equal(alike["offset"], first), pc.less_equal(alike["offset"], last))
    )


def _subject(mine: pa.Table, cause: Row, row: Row, number: int) -> Subject:
    """Return the subject of some rows. ``cause`` is one of them, ``row`` its row of anomalies, with
    this number."""
    is_copy, has_cause = row["anomaly"] == DUPLICATED, "cause" in mine.column_names
    times = pc.min_max(mine["time"]).as_py()
    offsets = merged(_ranges(mine, row["anomaly"]))
    in_ranges = sum(last - first + 1 for first, last in offsets)
    made = Subject(
        **{name: row[name] for name in _PLACE},
        row=number,
        kind=cause["kind"] if has_cause else None,
        detail=row["detail"] or "",
        name=None if row["producer"] is None else (row["producer"], row["sequence"]),
        at=None if is_copy else row["offset"],
        records=in_ranges if row["anomaly"] == DIVERGENT else len(mine),
        offsets=offsets,
        times=None if times["min"] is None else (times["min"], times["max"]),
        faults=tuple(filter(None, (row["fault"] or "").split(","))),
    )
    if has_cause:
        made = _with_cause(made, cause, mine, is_copy=is_copy)
    return _with_names(made, mine)


def _ranges(mine: pa.Table, anomaly: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges of offsets that the rows of one cause, or of none, are about."""
    if anomaly == DIVERGENT and "last_offset" in mine.column_names:
        yield from zip(mine["offset"].to_pylist(), mine["last_offset"].to_pylist(), strict=True)
        return
    is_copy = anomaly == DUPLICATED and "offsets" in mine.column_names
    found = pc.list_flatten(mine["offsets"]) if is_copy else mine["offset"]
    offsets = np.unique(found.drop_null().to_numpy())
    runs = np.split(offsets, np.flatnonzero(np.diff(offsets) > 1) + 1)
    yield from ((int(run[0]), int(run[-1])) for run in runs if len(run))


def _with_cause(subject: Subject, cause: Row, mine: pa.Table, *, is_copy: bool) -> Subject:
    return replace(
        subject,
        epochs=_known(cause["epochs"]),
        leaders=_known(cause["leaders"]),
        next_epoch=cause["next_epoch"],
        next_leader=cause["next_leader"],
        next_offset=cause["next_offset"],
        cut_by=tuple(sorted(pc.list_flatten(mine["cut_by"]).unique().to_pylist())),
        copies=tuple(cause["offsets"] or ()) if is_copy else (),
        brokers=_known(cause["brokers"]),
    )


def _known(numbers: Sequence[int | None] | None) -> tuple[int, ...]:
    """Return the distinct known numbers of a list, in its order."""
    return tuple(dict.fromkeys(one for one in numbers or () if one is not None))


def _with_names(subject: Subject, mine: pa.Table) -> Subject:
    """Return the subject with the name of each record at an offset that has a column."""
    shown = shown_offsets(columns_of(subject))
    drawn = mine.filter(pc.is_in(mine["offset"], pa.array(shown, pa.int64())))
    columns_ = (drawn[name].to_pylist() for name in _NAME)
    names = {
        offset: (producer, sequence)
        for offset, producer, sequence in zip(*columns_, strict=True)
        if producer is not None
    }
    return replace(subject, names=names)


def shown_offsets(columns: Sequence[Column]) -> list[int]:
    """Return the offsets that have a column."""
    return [column.first for column in columns if not column.is_elided]


# --- facts ----------------------------------------------------------------------------------------

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
