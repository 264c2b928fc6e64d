"""Problems of a campaign's cells: contradictory settings, producers that librdkafka refuses, and
names that no topic can have or that collide.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from ackproof.config.documents import Problem
from ackproof.config.suggestions import unknown
from ackproof.harness.campaign import clients
from ackproof.harness.campaign.model import expectations
from ackproof.harness.campaign.model.cells import (
    CellName,
    combinations,
    entry_for,
    expand,
    filled_in,
    settings_in,
)
from ackproof.harness.campaign.model.clusters import ClusterSweep
from ackproof.harness.campaign.model.values import several, where_problems
from ackproof.harness.campaign.problems.draft import Draft
from ackproof.history.cell import Cell, as_text, library_of, unknown_client
from ackproof.infra import systems
from ackproof.infra.clients.programs import CLIENTS, is_client
from ackproof.infra.systems import properties
from ackproof.nemesis.targets.expressions import ANY
from ackproof.workloads.spec import SpecificationError

NAME_MAX = 200
"""The most characters of a cell's name. The name is used in file names, and for a topic, for which
Kafka allows 249."""

_LEGAL = re.compile(r"[a-zA-Z0-9_]+([.-]+[a-zA-Z0-9_]+)*")
"""A name that Kafka accepts for a topic and that a target can hold."""
_INTERNAL = "__"
"""The prefix of Kafka's internal topics."""


def cell_problems(draft: Draft) -> Iterator[Problem]:
    """Yield every problem of cells whose settings are valid one by one."""
    if draft.cells is None:
        return
    everything = [cell.settings for cell in combinations(draft.cells)]
    for index, excluded in enumerate(draft.cells.exclude):
        yield from where_problems(f"cells.exclude[{index}]", excluded, everything)
    cells = expand(draft.cells)
    if not cells:
        yield Problem(field="cells.exclude", reason="no cell is left")
    yield from _floor_problems(cells)
    wrong = list(_given_name_problems(draft.cells.name, cells)) if cells else []
    yield from wrong or _name_problems(cells)
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
            reason = f"{factor} replicas need as many brokers, but there are {fewest}"
            yield Problem(field="cells.replication.factor", reason=reason)


def own_client_problems(content: Mapping[str, object]) -> Iterator[Problem]:
    """Yield a problem for each client whose name belongs to no library or plug-in."""
    cells = content.get("cells")
    written = cells.get("client") if isinstance(cells, dict) else None
    for client in () if written is None else several(written):
        if (reason := unknown_library(client)) is not None:
            yield Problem(field="cells.client", reason=reason)


def unknown_library(client: object) -> str | None:
    """Return why the name belongs to no library or plug-in, and is no program's path; None if it
    does, or is no text, which the model refuses."""
    if not isinstance(client, str) or is_client(client):
        return None
    if library_of(client) in CLIENTS:
        return f"only java has releases (java:4.1.1), not {client!r}"
    return CLIENTS.refusal(client) or unknown_client(client, CLIENTS)


def _unclean_problems(cells: Sequence[Cell], clusters: ClusterSweep) -> Iterator[Problem]:
    """Yield a problem if cells allow unclean elections that cannot happen. Such cells would be
    excused for losses that only unclean elections excuse."""
    known = systems.known(clusters.system, clusters.metadata_quorum)
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


def _given_name_problems(names: Sequence[CellName], cells: Sequence[Cell]) -> Iterator[Problem]:
    """Yield the problems of the names that the file gives to ``cells``."""
    everything = [cell.settings for cell in cells]
    known = sorted({name for settings in everything for name in settings})
    for index, one in enumerate(names):
        field = f"cells.name[{index}]"
        yield from where_problems(f"{field}.where", one.where, everything)
        strange = [name for name in settings_in(one.name) if name not in known]
        for name in dict.fromkeys(strange):
            yield Problem(field=f"{field}.name", reason=unknown("setting", name, known))
        own = [settings for settings in everything if entry_for(names, settings) == index]
        for name in dict.fromkeys(filled_in(one.name, settings) for settings in own):
            if not strange and (reason := _illegal(name)) is not None:
                yield Problem(field=f"{field}.name", reason=reason)


def _illegal(name: str) -> str | None:
    """Return the reason why cells and topics cannot have this name, or None if they can."""
    if not _LEGAL.fullmatch(name):
        return f"{name!r} cannot be a topic in a target: begin and end with a letter, a digit or _"
    if name == ANY:
        return f"{name!r} means any topic in a target: choose another name"
    if name.startswith(_INTERNAL):
        return f"{name!r} begins like Kafka's internal topics: choose another name"
    return None


def _name_problems(cells: Sequence[Cell]) -> Iterator[Problem]:
    """Yield a problem for cells that would share a topic or a name, and for names that are too
    long."""
    alike: dict[str, list[Cell]] = {}
    topics_by_name: dict[str, set[str]] = {}
    for cell in cells:
        alike.setdefault(_as_kafka_compares(cell.topic), []).append(cell)
        topics_by_name.setdefault(cell.name, set()).add(cell.topic)
    for same in alike.values():
        first, *others = dict.fromkeys(cell.topic for cell in same)
        if others:
            reason = (
                f"Kafka treats the topics {first} and {others[0]} as the same, because . is like _"
            )
            yield Problem(
                field="cells.name", reason=f"{reason}; choose names that differ in another way"
            )
        elif len(same) > 1:
            reason = f"{len(same)} cells would share the topic {first}: {_instead(same)}"
            yield Problem(field="cells", reason=reason)
        elif len(first) > NAME_MAX:
            reason = f"the topic {first} has more than {NAME_MAX} characters: sweep fewer settings"
            yield Problem(field="cells", reason=f"{reason}, or give a shorter cells.name")
    for name, topics in topics_by_name.items():
        if len(topics) > 1:
            reason = f"{len(topics)} cells would be called {name}: give names that differ"
            yield Problem(field="cells.name", reason=reason)


def _as_kafka_compares(topic: str) -> str:
    """Return the name as Kafka compares it. Names of metrics have ``_`` for ``.``, so Kafka refuses
    a topic whose metrics would collide with another's (``Topic.hasCollision``)."""
    return topic.replace(".", "_")


def _instead(cells: Sequence[Cell]) -> str:
    """Return the remedy for cells of the same topic."""
    differing = (
        name
        for name in cells[0].settings
        if len({as_text(cell.settings.get(name, "")) for cell in cells}) > 1
    )
    name = next(differing, None)
    hint = "" if name is None else f", or a cells.name in which they do, as by {{{name}}}"
    return f"give values that differ{hint}"


def _producer_problems(cells: Sequence[Cell], record_bytes: tuple[int, int]) -> Iterator[Problem]:
    refused: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        try:
            for size in dict.fromkeys(record_bytes):
                clients.try_out_producer(cell, size)
        except clients.RecordRefused as refusal:
            refused.setdefault(("workload.record.bytes", str(refusal)), []).append(cell.name)
        except SpecificationError as refusal:
            refused.setdefault(("cells", str(refusal)), []).append(cell.name)
    for (field, reason), names in refused.items():
        yield Problem(field=field, reason=f"{reason} (in {', '.join(names)})")
