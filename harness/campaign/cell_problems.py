"""What is wrong with a campaign's cells: settings in the wrong place, settings that contradict each
other, producers that librdkafka would not make, and what would delete records."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from harness.campaign import expectations, producers
from harness.campaign.cells import CELLS_MAX, Sweep, expand
from harness.campaign.clusters import RUNS_MAX
from harness.campaign.model import Campaign
from history.cell import SETTINGS, Cell, Value
from infra.documents import Problem
from workloads.configuration import canonical
from workloads.spec import SpecificationError

_NAME_MAX = 200
"""Characters of a cell's name: it is a topic's, of which Kafka allows 249, and in file names."""

_DELETES = re.compile(
    r"(log\.)?(retention\.(ms|bytes|minutes|hours)|cleaner\..*|(cleaner\.)?delete\.retention\.ms"
    r"|(cleaner\.)?(min|max)\.compaction\.lag\.ms)"
)
_CLEANUP = re.compile(r"(log\.)?cleanup\.policy")


def size_problems(campaign: Campaign) -> Iterator[Problem]:
    """Whether there are more cells or runs than anybody can mean."""
    cells, runs = campaign.cells.size, campaign.cluster.size * campaign.runs
    if cells > CELLS_MAX:
        reason = f"{cells} combinations; at most {CELLS_MAX} cells can share a cluster"
        yield Problem(field="cells", reason=reason)
    if runs > RUNS_MAX:
        reason = f"{campaign.cluster.size} clusters, {campaign.runs} times each: at most {RUNS_MAX}"
        yield Problem(field="runs", reason=reason)


def cell_problems(campaign: Campaign) -> Iterator[Problem]:
    """Everything that is wrong with the cells of ``campaign``."""
    yield from _misplaced(campaign.cells)
    cells = expand(campaign.cells)
    yield from _replica_problems(campaign, cells)
    yield from _name_problems(cells)
    yield from deleting(campaign.cells.topic, "cells.topic")
    yield from _producer_problems(cells, campaign.workload.record_bytes)
    settings = [
        {**swept, **cell.settings} for _, swept in campaign.cluster.points() for cell in cells
    ]
    yield from expectations.problems(campaign.expect, settings)


def deleting(properties: Mapping[str, Sequence[Value]], field: str) -> Iterator[Problem]:
    """Of properties and their values, those by which brokers delete records on purpose.

    What retention deletes was acked, and is absent from the final log: it would be called lost,
    and a guarantee broken that nobody gave.
    """
    for name, values in properties.items():
        compacts = _CLEANUP.fullmatch(name) and any("compact" in str(value) for value in values)
        if compacts or (_DELETES.fullmatch(name) and set(values) != {-1}):
            reason = "retention and compaction delete records, which would be taken for loss"
            yield Problem(field=f"{field}.{name}", reason=reason)


def _misplaced(cells: Sweep) -> Iterator[Problem]:
    for section in ("topic", "producer"):
        for name in getattr(cells, section):
            if canonical(name) in SETTINGS:
                reason = f"belongs to cells.{canonical(name)}"
                yield Problem(field=f"cells.{section}.{name}", reason=reason)


def _replica_problems(campaign: Campaign, cells: Sequence[Cell]) -> Iterator[Problem]:
    fewest = min(campaign.cluster.brokers)
    for factor in sorted({cell.replication_factor for cell in cells}):
        if factor > fewest:
            reason = f"{factor} replicas need as many brokers; there are {fewest}"
            yield Problem(field="cells.replication.factor", reason=reason)
    pairs = {(cell.min_insync_replicas, cell.replication_factor) for cell in cells}
    for floor, factor in sorted(pairs):
        if floor > factor:
            reason = f"{floor} is above the replication factor {factor}: no acks=all can succeed"
            yield Problem(field="cells.min.insync.replicas", reason=reason)


def _name_problems(cells: Sequence[Cell]) -> Iterator[Problem]:
    for name, many in Counter(cell.topic for cell in cells).items():
        if many > 1:
            reason = f"{many} cells would share the topic {name}: give values that differ"
            yield Problem(field="cells", reason=reason)
        elif len(name) > _NAME_MAX:
            reason = f"the topic {name} has more than {_NAME_MAX} characters: sweep less"
            yield Problem(field="cells", reason=reason)


def _producer_problems(cells: Sequence[Cell], record_bytes: int) -> Iterator[Problem]:
    refused: dict[str, list[str]] = {}
    for cell in cells:
        try:
            producers.try_out(cell, record_bytes)
        except SpecificationError as refusal:
            refused.setdefault(str(refusal), []).append(cell.name)
    for reason, names in refused.items():
        yield Problem(field="cells", reason=f"{reason} (in {', '.join(names)})")
