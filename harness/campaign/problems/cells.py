"""What is wrong with a campaign's cells: settings that contradict each other, producers that
librdkafka would not make, names that would not differ."""

from collections import Counter
from collections.abc import Iterator, Sequence

from ackproof.harness.campaign.clients import producers
from ackproof.harness.campaign.model import expectations
from ackproof.harness.campaign.model.cells import combinations, expand
from ackproof.harness.campaign.model.clusters import ClusterSweep
from ackproof.harness.campaign.model.values.where import where_problems
from ackproof.harness.campaign.problems.draft import Draft
from ackproof.history.cell import Cell
from ackproof.infra.documents import Problem
from ackproof.infra.systems import properties
from ackproof.workloads.spec import SpecificationError

NAME_MAX = 200
"""Characters of a cell's name: it is a topic's, of which Kafka allows 249, and in file names."""


def cell_problems(draft: Draft) -> Iterator[Problem]:
    """Everything that is wrong with cells that are right one by one."""
    if draft.cells is None:
        return
    everything = [cell.settings for cell in combinations(draft.cells)]
    for index, excluded in enumerate(draft.cells.exclude):
        yield from where_problems(f"cells.exclude[{index}]", excluded, everything)
    cells = expand(draft.cells)
    if not cells:
        yield Problem(field="cells.exclude", reason="no cell is left")
    yield from _floor_problems(cells)
    yield from _name_problems(cells)
    if draft.workload is not None:
        yield from _producer_problems(cells, draft.workload.record_bytes)
    if draft.cluster is not None:
        yield from _replica_problems(cells, min(draft.cluster.brokers))
        yield from _unclean_problems(cells, draft.cluster)
        points = [swept for _, swept in draft.cluster.points()]
        settings = [{**swept, **cell.settings} for swept in points for cell in cells]
        yield from expectations.problems(draft.expect or (), settings)


def _replica_problems(cells: Sequence[Cell], fewest: int) -> Iterator[Problem]:
    for factor in sorted({cell.replication_factor for cell in cells}):
        if factor > fewest:
            reason = f"{factor} replicas need as many brokers; there are {fewest}"
            yield Problem(field="cells.replication.factor", reason=reason)


def _unclean_problems(cells: Sequence[Cell], clusters: ClusterSweep) -> Iterator[Problem]:
    """Yield a problem where cells allow unclean elections that cannot happen: they would be judged
    by what such elections excuse."""
    known = properties.known(clusters.system, clusters.metadata_quorum)
    if known is None or not any(cell.unclean_leader_election for cell in cells):
        return
    if any(known.led_by_leaders(cluster.properties) for cluster, _ in clusters.points()):
        yield Problem(field=f"cells.{properties.UNCLEAN}", reason=properties.NO_UNCLEAN)


def _floor_problems(cells: Sequence[Cell]) -> Iterator[Problem]:
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
        elif len(name) > NAME_MAX:
            reason = f"the topic {name} has more than {NAME_MAX} characters: sweep less"
            yield Problem(field="cells", reason=reason)


def _producer_problems(cells: Sequence[Cell], record_bytes: tuple[int, int]) -> Iterator[Problem]:
    refused: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        try:
            for size in dict.fromkeys(record_bytes):
                producers.try_out(cell, size)
        except producers.RecordRefused as refusal:
            refused.setdefault(("workload.record.bytes", str(refusal)), []).append(cell.name)
        except SpecificationError as refusal:
            refused.setdefault(("cells", str(refusal)), []).append(cell.name)
    for (field, reason), names in refused.items():
        yield Problem(field=field, reason=f"{reason} (in {', '.join(names)})")
