"""From a campaign's sweep to its cells."""

import itertools
import re
from collections.abc import Iterator, Mapping

from harness.campaign.model import Cells, PropertyValue
from workloads.interface import Cell

_SHORT_NAMES = {"min.insync.replicas": "minisr", "replication.factor": "rf"}
_ALWAYS_NAMED = ("acks", "min.insync.replicas")
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9-]+")

Point = Mapping[tuple[str, str], PropertyValue]
"""One combination: value by (section, property)."""


def expand(cells: Cells) -> tuple[Cell, ...]:
    """Every combination of ``cells``, in the order of the file's lists.

    A cell is called after its acks and min.insync.replicas, and after whatever else is swept:
    ``acks-all.minisr-2.rf-3``; its topic likewise, with dashes.
    """
    dimensions = dict(_dimensions(cells))
    swept = {key for key, values in dimensions.items() if len(values) > 1}
    return tuple(
        _cell(dict(zip(dimensions, values, strict=True)), swept)
        for values in itertools.product(*dimensions.values())
    )


def _dimensions(
    cells: Cells,
) -> Iterator[tuple[tuple[str, str], tuple[PropertyValue, ...]]]:
    yield ("cell", "acks"), cells.acks
    yield ("cell", "min.insync.replicas"), cells.min_insync_replicas
    yield ("cell", "replication.factor"), cells.replication_factor
    yield ("cell", "partitions"), cells.partitions
    yield ("cell", "unclean.leader.election.enable"), cells.unclean_leader_election_enable
    sections: dict[str, Mapping[str, PropertyValue | tuple[PropertyValue, ...]]] = {
        "topic": cells.topic,
        "producer": cells.producer,
    }
    for section, properties in sections.items():
        for name, value in properties.items():
            yield (section, name), value if isinstance(value, tuple) else (value,)


def _cell(point: Point, swept: set[tuple[str, str]]) -> Cell:
    name = ".".join(
        _named(property_name, value)
        for (section, property_name), value in point.items()
        if (section, property_name) in swept or property_name in _ALWAYS_NAMED
    )
    return Cell(
        name=name,
        topic=name.replace(".", "-"),
        acks=str(point["cell", "acks"]),
        min_insync_replicas=int(point["cell", "min.insync.replicas"]),
        replication_factor=int(point["cell", "replication.factor"]),
        partitions=int(point["cell", "partitions"]),
        unclean_leader_election=bool(point["cell", "unclean.leader.election.enable"]),
        topic_config={name: as_text(value) for name, value in _of(point, "topic")},
        producer_config=dict(_of(point, "producer")),
    )


def _of(point: Point, section: str) -> Iterator[tuple[str, PropertyValue]]:
    return ((name, value) for (where, name), value in point.items() if where == section)


def _named(property_name: str, value: PropertyValue) -> str:
    short = _SHORT_NAMES.get(property_name, property_name)
    return _NOT_IN_A_NAME.sub("-", f"{short}-{as_text(value)}")


def as_text(value: PropertyValue) -> str:
    """A property's value as Kafka writes it: ``true``, not ``True``."""
    return str(value).lower() if isinstance(value, bool) else str(value)
