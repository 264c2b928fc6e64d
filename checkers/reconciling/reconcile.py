"""Reconciling partition by partition.

A record belongs to one partition, and ``sends`` and ``log`` files hold one partition each, so a
partition is a work item of its own: listed by the driver, reconciled in a task of Spark's
(``checkers.reconciling.task``), without a shuffle; small ones some at a time.

Each item yields its anomalies (FOUND), and its totals.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, zip_longest

import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.autopsy.partings import Partings
from ackproof.checkers.autopsy.performing import LOST, Autopsies, perform, perform_shown
from ackproof.checkers.autopsy.repeats.performing import DUPLICATED, perform_repeated
from ackproof.checkers.autopsy.rows import AUTOPSY
from ackproof.checkers.catalogue import CHECKERS
from ackproof.checkers.measures import latency, outages
from ackproof.checkers.partition.indexes import PartitionHistory
from ackproof.checkers.partition.sequences import sequences_of
from ackproof.checkers.plugin_checks.examination import examined
from ackproof.checkers.plugin_checks.totals import PluginTotals
from ackproof.checkers.promises import standing
from ackproof.checkers.raw_logs.segments import OtherFormat
from ackproof.checkers.raw_logs.sessions import UNTOLD, Written, written
from ackproof.checkers.reads.anomalies import Found
from ackproof.checkers.reads.consumers import Counted
from ackproof.checkers.reads.looking import Consumed, consumed
from ackproof.checkers.reconciling import tally
from ackproof.checkers.reconciling.doubts import (
    AUTOPSY_DOUBT,
    CONSUMPTION,
    HISTORY,
    REPLICAS,
    Doubt,
)
from ackproof.checkers.reconciling.loading import Loaded, load
from ackproof.checkers.reconciling.partition_totals import PartitionTotals, few
from ackproof.checkers.reconciling.parts import (
    CAUSES_EACH,
    RARE_MAX,
    REPEATED_MAX,
    parts,
    renumbered,
)
from ackproof.checkers.reconciling.work_item import WorkItem
from ackproof.checkers.replicas.divergence import DIVERGENT, Divergence
from ackproof.checkers.verdict import ANOMALIES, Cause
from ackproof.history.storage import located

FOUND = pa.schema([*ANOMALIES, pa.field("autopsy", AUTOPSY)])
"""Anomalies. ``autopsy``: of one that has one."""


def reconcile(items: Sequence[WorkItem], told: list[PartitionTotals]) -> Iterator[pa.Table]:
    """The anomalies of some partitions, one partition's after the other's, each rule by rule; their
    totals go into ``told``.

    All of them are taken one step further in turn: what a step needs of the processor's caches is
    there for each but the first, which is a quarter of what a small partition takes. Of the first
    one rows are handed on as they come, of the others they are held back: one that is large is
    better alone.

    A rule that throws, and a history that cannot be read, become doubts about the partition and
    leave the others alone.
    """
    totals_of: list[list[PartitionTotals]] = [[] for _ in items]
    steps = [_steps(one, mine) for one, mine in zip(load(items), totals_of, strict=True)]
    held: list[list[pa.Table]] = [[] for _ in items]
    for first, *others in zip_longest(*steps, fillvalue=()):
        yield from first
        for tables, mine in zip(others, held[1:], strict=True):
            mine += tables
    yield from chain.from_iterable(held)
    told += chain.from_iterable(totals_of)


def _steps(loaded: Loaded, told: list[PartitionTotals]) -> Iterator[Iterable[pa.Table]]:
    """Reconciling one partition: what each step finds, to be taken before the next one; after the
    last one its totals are in ``told``."""
    item, history, doubts = loaded.item, loaded.history, loaded.doubts
    causes: list[Cause] = []
    counts = None if history is None else _counts(item, history, doubts)
    if history is None or counts is None:
        told.append(metrics(item, Counter(), doubts, [], []))
        return
    yield ()
    looked = consumption(item, history, counts, doubts)
    seen = None if looked is None else looked.seen
    history = replace(history, seen=seen, written=sessions(item, history))
    if looked is not None:
        for some in looked.found:
            yield (padded(item, _shown(item, history, some, looked.clients, causes, doubts)),)
    for name in CHECKERS:
        yield ruled(name, item, history, counts, causes, doubts)
    yield divergent(item, counts, causes, doubts)
    plugin_checks: dict[str, PluginTotals] = {}
    yield by_plugins(item, plugin_checks)
    totals = metrics(item, counts, doubts, looked.counted if looked else [], causes)
    told.append(
        replace(
            totals,
            sequences=sequences_of(history, item.sequence_range),
            plugin_checks=plugin_checks,
        )
    )


def _counts(item: WorkItem, history: PartitionHistory, doubts: list[Doubt]) -> Counter[str] | None:
    """What is counted whatever rules find; None, and a doubt, where that cannot be."""
    try:
        counts = tally.of_records(item, history)
        counts.update(tally.of_partition(item, history.begun))
        counts.update(outages.counts(outages.asked(history), history.faults))
        counts.update(latency.of_acks(history))
    except Exception as error:  # noqa: BLE001 - whatever it is, other partitions can be judged
        doubts.append(Doubt(checker=HISTORY, message=f"cannot be indexed: {error!r}"))
        return None
    return counts


def ruled(
    name: str,
    item: WorkItem,
    history: PartitionHistory,
    counts: Counter[str],
    causes: list[Cause],
    doubts: list[Doubt],
) -> Iterator[pa.Table]:
    """What one rule finds, with autopsies where it has them; what it counts, explains and lacks
    goes into ``counts``, ``causes`` and ``doubts``. Nothing more where it throws."""
    explained: list[Cause] = []
    try:
        for number, part in enumerate(_parts(name, history)):
            found = CHECKERS[name].rule(part)
            if not len(found):
                counts[name] += 0
                return
            counts.update(tally.of_rule(item, part, name, found))
            before = number * CAUSES_EACH
            if name in _PERFORMED:
                performed = partial(_PERFORMED[name], part, item.scene, item.terms, item.run)
                mine: list[Cause] = []
                found = _autopsied(found, performed, mine, doubts)
                explained += [replace(one, number=one.number + before) for one in mine]
            yield renumbered(padded(item, found), before)
    except Exception as error:  # noqa: BLE001 - one checker never takes down another
        doubts.append(failed(name, error))
    causes += few(explained)


def _parts(name: str, history: PartitionHistory) -> Iterator[PartitionHistory]:
    if name == LOST:
        return parts(history, history.lost, RARE_MAX)
    if name == DUPLICATED:
        return parts(history, history.repeated, REPEATED_MAX)
    return iter([history])


def failed(name: str, error: Exception) -> Doubt:
    """A rule that threw."""
    return Doubt(checker=name, message=f"the checker {name} failed: {error!r}")


_PERFORMED = {LOST: perform, DUPLICATED: perform_repeated}
"""The rules whose rows have autopsies, and who performs them."""


def _shown(
    item: WorkItem,
    history: PartitionHistory,
    found: Found,
    clients: Sequence[str],
    causes: list[Cause],
    doubts: list[Doubt],
) -> pa.Table:
    if found.shown is None:
        return found.rows
    performed = partial(perform_shown, history, item.scene, found, clients, item.run)
    return _autopsied(found.rows, performed, causes, doubts)


def _autopsied(
    rows: pa.Table,
    perform: Callable[[], Autopsies],
    causes: list[Cause],
    doubts: list[Doubt],
) -> pa.Table:
    """The rows of an anomaly, with the autopsy of each; what they have in common goes into
    ``causes``. A row is laid to the faults of its cause, so that a record is laid to the same ones
    wherever it is counted; to those within whose reach it is where its cause has none."""
    if not len(rows):
        return rows
    try:
        performed = perform()
        if performed.faults is not None:
            place = rows.schema.get_field_index("fault")
            faults = pc.coalesce(performed.faults, rows["fault"].combine_chunks())
            rows = rows.set_column(place, rows.schema.field(place), faults)
        told = rows.append_column("autopsy", performed.of_records)
    except Exception as error:  # noqa: BLE001 - what was lost is lost, explained or not
        message = f"no autopsies: {error!r}"
        doubts.append(Doubt(checker=AUTOPSY_DOUBT, message=message))
        return rows
    causes += performed.causes
    return told


def sessions(item: WorkItem, history: PartitionHistory) -> Mapping[int, Written]:
    if not item.copies:
        return UNTOLD
    offsets = sorted(offset for found in history.copies.values() for offset in found)
    epochs = history.epoch_at(offsets).tolist()
    return written(list(map(located, item.copies)), dict(zip(offsets, epochs, strict=True)))


def consumption(
    item: WorkItem, history: PartitionHistory, counts: Counter[str], doubts: list[Doubt]
) -> Consumed | None:
    """What came of looking at the consumers; what was found and what could not be read goes into
    ``counts`` and ``doubts``. None where they could not be looked at."""
    counts.update(item.promises.counts(history))
    try:
        looked = consumed(item.consumers, history, item.promises)
    except Exception as error:  # noqa: BLE001 - one checker never takes down another
        message = f"what consumers were shown cannot be looked at: {error!r}"
        doubts.append(Doubt(checker=CONSUMPTION, message=message))
        return None
    counts.update(looked.latencies)
    for found in looked.found:
        counts[found.anomaly] += len(found.rows)
        counts.update(found.standing)
    counts.update(standing.looked(name) for name in looked.looked)
    counts.update({standing.examined(name): many for name, many in looked.examined.items()})
    doubts += (Doubt(checker=CONSUMPTION, message=problem) for problem in looked.problems)
    return looked


def divergent(
    item: WorkItem, counts: Counter[str], causes: list[Cause], doubts: list[Doubt]
) -> Iterator[pa.Table]:
    """The rows of the checker divergent-replicas; what it finds and lacks goes into ``counts``,
    ``causes`` and ``doubts``."""
    promised = standing.Standing(item.agreement)
    counts[standing.name(standing.REPLICAS, promised)] += 1
    copies = Divergence(
        cell=item.cell,
        topic=item.topic,
        partition=item.partition,
        brokers=item.brokers,
        directories=list(map(located, item.copies)),
        end=item.compared_to,
        deleted_before=item.deleted_before,
        untold=list(item.uncompared),
    )
    autopsies = Partings(
        scene=item.scene,
        cell=item.cell,
        topic=item.topic,
        partition=item.partition,
        run=item.run,
        promised=promised is standing.Standing.PROMISED,
    )
    try:
        for some in copies.partings():
            counts[DIVERGENT] += len(some)
            counts[standing.name(DIVERGENT, promised)] += len(some)
            performed = partial(autopsies.performed, some)
            yield padded(item, _autopsied(copies.rows(some), performed, [], doubts))
    except (OtherFormat, OSError) as error:
        copies.untold.append(f"replicas not compared: {error}")
    except Exception as error:  # noqa: BLE001 - one checker never takes down another
        message = f"the checker {DIVERGENT} failed: {error!r}"
        doubts.append(Doubt(checker=DIVERGENT, message=message))
    causes += autopsies.causes()
    counts[standing.examined(DIVERGENT)] += copies.compared
    counts[standing.COMPARED] += int(bool(item.brokers) and not copies.untold)
    doubts.extend(Doubt(checker=REPLICAS, message=words) for words in copies.untold)


def by_plugins(item: WorkItem, totals: dict[str, PluginTotals]) -> Iterator[pa.Table]:
    """The rows of plug-ins' checkers; what each counts goes into ``totals``."""
    for work in item.plugin_work:
        examination = examined(work)
        totals[work.checker] = examination.totals
        yield padded(item, examination.rows)


def padded(item: WorkItem, rows: pa.Table) -> pa.Table:
    """Rows of a rule in the shape of FOUND."""
    given = {name: rows[name] for name in rows.column_names}
    given["run"] = pa.repeat(pa.scalar(item.run, pa.int32()), len(rows))
    if "autopsy" not in given:
        given["autopsy"] = pa.nulls(len(rows), AUTOPSY)
    return pa.Table.from_arrays([given[name] for name in FOUND.names], schema=FOUND)


def metrics(
    item: WorkItem,
    counts: Counter[str],
    doubts: Sequence[Doubt],
    consumption: Sequence[Counted],
    causes: Sequence[Cause],
) -> PartitionTotals:
    """What of a partition is no anomaly; numbers become Python's own."""
    where = f"{item.topic}-{item.partition}"
    return PartitionTotals(
        counts=Counter({str(name): int(count) for name, count in counts.items()}),
        doubts=tuple(replace(doubt, message=f"{where}: {doubt.message}") for doubt in doubts),
        consumption=tuple(one.plain() for one in consumption),
        causes=tuple(causes),
    )
